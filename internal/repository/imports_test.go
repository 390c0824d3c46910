package repository

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kymogram/kymogram"

// importTable reads the tables of ARCHITECTURE.md: a package (or everything under
// it) and what of this repository it may import. The longest row that matches a
// package counts. model, platform and what lies under the same row are open to all;
// "*" means anything; "=" before a name leaves out what lies under it, so that the
// contracts of store and catalog are open where their back ends are not. A package
// without a row fails the test, so a new one needs a decision there.
func importTable(t *testing.T) map[string][]string {
	t.Helper()
	trackedFiles(t)
	data, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tree, found := strings.Cut(string(data), "\n## The tree\n")
	tree, _, ended := strings.Cut(tree, "\n### What is not Go\n")
	if !found || !ended {
		t.Fatal("ARCHITECTURE.md has no part `## The tree` with `### What is not Go` at its end")
	}
	table := map[string][]string{}
	folder := regexp.MustCompile("^\\| `([^`]+)` \\|.*\\| ([^|]*) \\|$")
	target := regexp.MustCompile("`([^`]+)`( \\(contract\\))?|(the SDK)|(anything)")
	for _, line := range strings.Split(tree, "\n") {
		row := folder.FindStringSubmatch(line)
		if row == nil {
			continue
		}
		name := strings.TrimPrefix(row[1], "/")
		table[name] = []string{}
		for _, m := range target.FindAllStringSubmatch(row[2], -1) {
			switch {
			case m[3] != "":
				table[name] = append(table[name], "")
			case m[4] != "":
				table[name] = append(table[name], "*")
			case m[2] != "":
				table[name] = append(table[name], "="+fullName(t, m[1]))
			default:
				table[name] = append(table[name], fullName(t, m[1]))
			}
		}
	}
	return table
}

// fullName finds the folder of a package that the tables name by its last part.
func fullName(t *testing.T, short string) string {
	t.Helper()
	var found []string
	for _, parent := range []string{"internal", "server/internal", ""} {
		name := path.Join(parent, short)
		if info, err := os.Stat(name); err == nil && info.IsDir() && (parent != "" || len(found) == 0) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		t.Fatalf("ARCHITECTURE.md lets a row import %q, which is %v", short, found)
	}
	return found[0]
}

// goPackage is what the tests read of `go list -json`.
type goPackage struct {
	ImportPath string
	Doc        string
	Standard   bool
	GoFiles    []string
	Imports    []string
	Deps       []string
}

func goList(t *testing.T, args ...string) []goPackage {
	t.Helper()
	trackedFiles(t) // go reads them, so the answer holds until one changes
	out, err := exec.CommandContext(t.Context(), "go", append([]string{"list", "-json"}, args...)...).Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			t.Fatalf("go list %v: %s", args, exit.Stderr)
		}
		t.Fatalf("go list %v: %v", args, err)
	}
	var list []goPackage
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p goPackage
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return list
		} else if err != nil {
			t.Fatalf("read go list's answer: %v", err)
		}
		list = append(list, p)
	}
}

// inModule is the path below the module's root; "" is the SDK itself.
func inModule(importPath string) (string, bool) {
	if importPath == module {
		return "", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

// within reports whether pkg is folder or lies below it; "" is only the root.
func within(pkg, folder string) bool {
	return pkg == folder || folder != "" && strings.HasPrefix(pkg, folder+"/")
}

func rowOf(table map[string][]string, pkg string) (row string, ok bool) {
	for candidate := range table {
		if within(pkg, candidate) && (!ok || len(candidate) > len(row)) {
			row, ok = candidate, true
		}
	}
	return row, ok
}

func mayImport(table map[string][]string, pkg, target string) bool {
	row, _ := rowOf(table, pkg)
	if target == "internal/model" || target == "internal/platform" || slices.Contains(table[row], "*") {
		return true
	}
	// Receivers never import one another.
	if within(pkg, "server/internal/receiver") && within(target, "server/internal/receiver") {
		return strings.HasPrefix(target, path.Join("server/internal/receiver", strings.Split(pkg, "/")[3]))
	}
	return within(target, row) || slices.ContainsFunc(table[row], func(entry string) bool {
		contract, exact := strings.CutPrefix(entry, "=")
		return target == contract || !exact && within(target, entry)
	})
}

func TestImportsFollowTheTable(t *testing.T) {
	table := importTable(t)
	for _, p := range goList(t, "-deps", "work") {
		pkg, ours := inModule(p.ImportPath)
		if !ours {
			continue
		}
		if _, ok := rowOf(table, pkg); !ok {
			t.Errorf("%s has no row in the tree of ARCHITECTURE.md", pkg)
			continue
		}
		for _, imp := range p.Imports {
			if target, ours := inModule(imp); ours && !mayImport(table, pkg, target) {
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			}
		}
	}
}

func TestEveryRowHasAPackage(t *testing.T) {
	table := importTable(t)
	unused := maps.Clone(table)
	for _, p := range goList(t, "work") {
		pkg, _ := inModule(p.ImportPath)
		row, _ := rowOf(table, pkg)
		delete(unused, row)
	}
	for row := range unused {
		t.Errorf("the row `%s` in the tree of ARCHITECTURE.md is of no package", row)
	}
}

func TestModelNeedsOnlyTheStandardLibrary(t *testing.T) {
	for _, p := range goList(t, "-deps", "./internal/model") {
		if !p.Standard && p.ImportPath != module+"/internal/model" {
			t.Errorf("model depends on %s", p.ImportPath)
		}
	}
}

// A training program that imports the SDK must not link the server.
func TestSDKStaysSmall(t *testing.T) {
	forbidden := []string{"store", "catalog", "server", "httpapi", "ingest", "query", "auth"}
	for _, p := range goList(t, "-deps", ".") {
		pkg, ours := inModule(p.ImportPath)
		for _, name := range forbidden {
			if ours && within(pkg, "server/internal/"+name) {
				t.Errorf("the SDK depends on %s", pkg)
			}
		}
		if strings.HasPrefix(p.ImportPath, "modernc.org/") || strings.HasPrefix(p.ImportPath, "github.com/apache/") {
			t.Errorf("the SDK depends on %s", p.ImportPath)
		}
	}
}

func TestEveryPackageHasADocComment(t *testing.T) {
	for _, p := range goList(t, "work") {
		pkg, _ := inModule(p.ImportPath)
		if len(p.GoFiles) > 0 && p.Doc == "" && !within(pkg, "gen") {
			t.Errorf("%s has no package comment", p.ImportPath)
		}
	}
}
