package repository

import (
	"bytes"
	"flag"
	"go/ast"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "write testdata/api.txt")

const golden = "internal/repository/testdata/api.txt"

// What the public packages export changes on purpose only:
// `go test ./internal/repository -run TheGoAPI -update` writes the file.
func TestTheGoAPI(t *testing.T) {
	var got strings.Builder
	for _, folder := range []string{".", "bridge", "chain", "metrics", "netstate", "read", "read/record", "telemetry", "telemetry/influx"} {
		got.WriteString("# " + folder + "\n" + strings.Join(exported(t, folder), "\n") + "\n")
	}
	if *update {
		if err := os.WriteFile(golden, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.Split(string(want), "\n"), strings.Split(got.String(), "\n")); diff != "" {
		t.Errorf("the exported API changed; if that is meant, run go test ./internal/repository -run TheGoAPI -update (-want +got)\n%s", diff)
	}
}

// exported lists a package's exported declarations, without bodies and comments.
func exported(t *testing.T, folder string) (out []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.FileExports(file)
		for _, decl := range file.Decls {
			out = append(out, declared(t, decl)...)
		}
	}
	slices.Sort(out)
	return out
}

// declared spells out what a declaration declares, each name on its own.
func declared(t *testing.T, decl ast.Decl) (out []string) {
	t.Helper()
	one, ok := decl.(*ast.GenDecl)
	if !ok {
		f := *decl.(*ast.FuncDecl)
		if f.Recv != nil && !ast.IsExported(receiver(f.Recv.List[0].Type)) {
			return nil
		}
		f.Body = nil
		return []string{spelled(t, &f)}
	}
	for _, spec := range one.Specs {
		if one.Tok != token.IMPORT {
			out = append(out, spelled(t, &ast.GenDecl{Tok: one.Tok, Specs: []ast.Spec{spec}}))
		}
	}
	return out
}

// receiver is the name of a method's type.
func receiver(of ast.Expr) string {
	if pointer, ok := of.(*ast.StarExpr); ok {
		of = pointer.X
	}
	if name, ok := of.(*ast.Ident); ok {
		return name.Name
	}
	return ""
}

func spelled(t *testing.T, node any) string {
	t.Helper()
	var b bytes.Buffer
	if err := format.Node(&b, token.NewFileSet(), node); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
