package repository

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// written are the files that people write, with one of these endings.
func written(t *testing.T, endings ...string) []string {
	t.Helper()
	return slices.DeleteFunc(trackedFiles(t), func(name string) bool {
		made := strings.HasPrefix(name, "gen/") || strings.HasPrefix(name, "web/dist/") || strings.Contains(name, "testdata/") || strings.Contains(name, "_generated.")
		if _, err := os.Stat(name); err != nil { // deleted in the work tree
			return true
		}
		return made || !slices.Contains(endings, path.Ext(name))
	})
}

// goFiles are the Go files that people write, parsed.
func goFiles(t *testing.T) (files map[string]*ast.File, lines func(token.Pos) int) {
	t.Helper()
	set := token.NewFileSet()
	files = map[string]*ast.File{}
	for _, name := range written(t, ".go") {
		f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		if !ast.IsGenerated(f) {
			files[name] = f
		}
	}
	return files, func(p token.Pos) int { return set.Position(p).Line }
}

func TestFilesAreAtMost800Lines(t *testing.T) {
	for _, name := range written(t, ".go", ".py", ".pyi", ".ts", ".tsx", ".css", ".sql", ".proto") {
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(string(data), "\n"); n > 800 {
			t.Errorf("%s has %d lines", name, n)
		}
	}
}

// Python's functions are measured by python/tests/test_shape.py.
func TestFunctionsAreShort(t *testing.T) {
	files, line := goFiles(t)
	var lengths []int
	for name, f := range files {
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && !strings.HasSuffix(name, "_test.go") {
				lengths = append(lengths, max(line(fn.Body.Rbrace)-line(fn.Body.Lbrace)-1, 1))
			}
		}
	}
	slices.Sort(lengths)
	n := len(lengths)
	t.Logf("%d functions: p50 %d, p90 %d, p99 %d, longest %d lines", n, lengths[n/2], lengths[n*9/10], lengths[n*99/100], lengths[n-1])
	if p50, p90 := lengths[n/2], lengths[n*9/10]; p50 > 10 || p90 > 40 {
		t.Errorf("functions have %d lines at p50 and %d at p90; the house's limits are 10 and 40", p50, p90)
	}
}

func TestFoldersAreNouns(t *testing.T) {
	noun := regexp.MustCompile(`^[a-z][a-z0-9]*$`)
	vague := []string{"util", "utils", "common", "helper", "helpers", "manager", "base", "misc", "lib"}
	for _, name := range written(t, ".go") {
		folder := path.Base(path.Dir(name))
		if folder != "." && (!noun.MatchString(folder) || slices.Contains(vague, folder)) {
			t.Errorf("%s: a folder is one lower-case noun that says what lies in it", name)
		}
	}
}

// A package's variables are tables and errors: nothing assigns to them, changes
// what they hold, or takes their address, and none holds state of its own.
func TestPackagesKeepNoState(t *testing.T) {
	files, line := goFiles(t)
	variables := map[string]map[string]bool{} // by package's folder
	for name, f := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		for _, v := range packageVariables(f) {
			for i, n := range v.Names {
				folder := path.Dir(name)
				if variables[folder] == nil {
					variables[folder] = map[string]bool{}
				}
				variables[folder][n.Name] = n.Name != "_"
				if stateful(v.Type) || i < len(v.Values) && stateful(v.Values[i]) {
					t.Errorf("%s:%d: %s holds state", name, line(n.Pos()), n.Name)
				}
			}
		}
	}
	for name, f := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		own := map[*ast.ValueSpec]bool{}
		for _, v := range packageVariables(f) {
			own[v] = true
		}
		changes(f, func(id *ast.Ident) {
			local := id.Obj != nil
			if local {
				v, ok := id.Obj.Decl.(*ast.ValueSpec)
				local = !ok || !own[v]
			}
			if !local && variables[path.Dir(name)][id.Name] {
				t.Errorf("%s:%d: changes the package's variable %s", name, line(id.Pos()), id.Name)
			}
		})
	}
}

func packageVariables(f *ast.File) (all []*ast.ValueSpec) {
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.VAR {
			for _, s := range g.Specs {
				all = append(all, s.(*ast.ValueSpec))
			}
		}
	}
	return all
}

// stateful reports whether a type, or a value's type where it is written out, is
// one of those that exist to be changed.
func stateful(e ast.Expr) (found bool) {
	if e == nil {
		return false
	}
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ChanType:
			found = true
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			pkg, ok := n.X.(*ast.Ident)
			found = found || ok && (pkg.Name == "sync" || pkg.Name == "atomic")
		}
		return true
	})
	return found
}

// changes calls yield with each name that something in the file assigns to,
// increments, deletes from or takes the address of.
func changes(f *ast.File, yield func(*ast.Ident)) {
	root := func(e ast.Expr) {
		for {
			switch x := e.(type) {
			case *ast.Ident:
				yield(x)
				return
			case *ast.IndexExpr:
				e = x.X
			case *ast.SelectorExpr:
				e = x.X
			case *ast.StarExpr:
				e = x.X
			case *ast.ParenExpr:
				e = x.X
			default:
				return
			}
		}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, e := range n.Lhs {
					root(e)
				}
			}
		case *ast.IncDecStmt:
			root(n.X)
		case *ast.UnaryExpr:
			if n.Op == token.AND {
				root(n.X)
			}
		case *ast.CallExpr:
			if fn, ok := n.Fun.(*ast.Ident); ok && (fn.Name == "delete" || fn.Name == "clear") {
				root(n.Args[0])
			}
		}
		return true
	})
}
