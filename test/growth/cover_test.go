package growth

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"slices"
	"strconv"
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
