package growth

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// policy lists the routes and methods of the server's policy table, read from its
// source: the keys of the two maps in it.
func policy(t *testing.T) (calls []string) {
	t.Helper()
	const file = "../../server/internal/server/policy.go"
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(f, func(n ast.Node) bool {
		pair, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		if key, ok := pair.Key.(*ast.BasicLit); ok && key.Kind == token.STRING {
			name, err := strconv.Unquote(key.Value)
			if err != nil {
				t.Fatal(err)
			}
			calls = append(calls, name)
		}
		return true
	})
	if len(calls) < 40 {
		t.Fatalf("%s lists %d routes and methods", file, len(calls))
	}
	return calls
}

// covered fails for a call that has neither a row nor a reason, and for a row or
// a reason without a call.
func covered(t *testing.T, table string, calls, rows []string, reasons map[string]string) {
	t.Helper()
	known := slices.Concat(rows, slices.Sorted(maps.Keys(reasons)))
	for _, call := range calls {
		if !slices.Contains(known, call) {
			t.Errorf("%s has no row in %s, and no line there says why not", call, table)
		}
	}
	for _, name := range known {
		if !slices.Contains(calls, name) {
			t.Errorf("%s: there is no call %s", table, name)
		}
	}
	for _, name := range rows {
		if reasons[name] != "" {
			t.Errorf("%s: %s has a row, and a line that says why not", table, name)
		}
	}
}

func TestEveryRouteAndMethodHasARow(t *testing.T) {
	covered(t, "routes_test.go or methods_test.go", policy(t), slices.Concat(names(routes()), names(stateRoutes()), names(methods())), withoutRows())
}

// exported lists the exported functions and methods of a package, read from its
// source: Run.Log, or read.Run.Points with a prefix.
func exported(t *testing.T, folder, prefix string) (calls []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no Go files in %s: %v", folder, err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Name.IsExported() {
				if owner := receiver(fn); owner == "" || ast.IsExported(owner) {
					calls = append(calls, prefix+strings.TrimPrefix(owner+"."+fn.Name.Name, "."))
				}
			}
		}
	}
	slices.Sort(calls)
	return slices.Compact(calls)
}

// receiver is the type of a method, "" for a function.
func receiver(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return ""
	}
	of := fn.Recv.List[0].Type
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

func TestEveryCallOfTheGoSDKHasARow(t *testing.T) {
	calls := slices.Concat(exported(t, "../..", ""), exported(t, "../../read", "read."), exported(t, "../../read/record", "record."), exported(t, "../../metrics", "metrics."))
	covered(t, "sdk_test.go", calls, append(names(sdk()), names(readers())...), callsWithoutRows())
}
