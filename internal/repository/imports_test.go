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
	"slices"
	"strings"
	"testing"
)

const module = "github.com/kymogram/kymogram"

// importTable is the table of ARCHITECTURE.md: a package (or everything under
// it) and what of this module it may import. The longest row that matches a
// package counts. model, platform and what lies under the same row are open to all; "*"
// means anything; "=" before a name leaves out what lies under it, so that the
// contracts of store and catalog are open where their back ends are not. A
// package without a row fails the test, so a new one needs a decision here.
var importTable = map[string][]string{
	"":                            {"internal/attribute", "internal/backpressure", "internal/clock", "internal/failure", "internal/job", "internal/machine", "internal/rule", "internal/series", "internal/video", "internal/spool", "internal/uplink", "gen"},
	"read":                        {"internal/remote"},
	"internal/remote":             {},
	"metrics":                     {"", "internal/collect"},
	"chain":                       {"internal/substrate", "internal/wallet"},
	"server/cmd":                  {"*"},
	"examples":                    {"", "metrics", "chain"},
	"gen":                         {},
	"web":                         {},
	"test":                        {"*"},
	"internal/testkit":            {"*"},
	"internal/repository":         {},
	"internal/model":              {},
	"internal/platform":           {},
	"internal/rule":               {},
	"internal/attribute":          {"internal/rule"},
	"internal/job":                {},
	"internal/machine":            {},
	"internal/clock":              {},
	"internal/series":             {"internal/rule"},
	"internal/backpressure":       {},
	"internal/failure":            {},
	"internal/video":              {"internal/spool"},
	"internal/codec":              {},
	"internal/wal":                {},
	"internal/collect":            {},
	"internal/substrate":          {},
	"internal/wallet":             {},
	"server/internal/table":       {},
	"server/internal/progress":    {},
	"server/internal/delivery":    {"internal/spool", "internal/uplink", "server/internal/progress", "server/internal/table"},
	"server/internal/transfer":    {"read", "internal/remote", "internal/spool", "internal/uplink", "server/internal/importer", "server/internal/delivery", "server/internal/table"},
	"server/internal/backup":      {"internal/wal", "server/internal/progress"},
	"server/internal/doctor":      {"internal/remote", "internal/spool", "internal/uplink", "server/internal/delivery", "server/internal/table"},
	"server/internal/expose":      {"metrics", "internal/spool", "internal/uplink"},
	"server/internal/scrape":      {"", "internal/spool", "internal/uplink"},
	"server/internal/discovery":   {"chain", "=server/internal/httpapi"},
	"server/internal/daemon":      {},
	"server/internal/data":        {"internal/wal", "server/internal/store/local", "server/internal/catalog/sqlite", "server/internal/blob/dir", "server/internal/progress", "server/internal/table"},
	"server/internal/keys":        {"internal/remote", "server/internal/auth", "server/internal/table"},
	"server/internal/subnet":      {"chain"},
	"server/internal/config":      {},
	"server/internal/selfmetrics": {},
	"internal/spool":              {"internal/codec", "internal/wal"},
	"internal/uplink":             {"internal/codec", "internal/spool", "internal/collect", "internal/wire", "gen"},
	"internal/wire":               {"gen"},
	"server/internal/store":       {"internal/codec", "internal/wal"},
	// The parts of the engine, from the bottom: each may import those above its row.
	"server/internal/store/local/column":   {"=server/internal/store"},
	"server/internal/store/local/record":   {"internal/wal", "server/internal/store/local/column"},
	"server/internal/store/local/segment":  {"internal/codec", "internal/wal", "server/internal/store/local/column", "server/internal/store/local/record"},
	"server/internal/store/local/curve":    {"=server/internal/store", "server/internal/store/local/column", "server/internal/store/local/record"},
	"server/internal/store/local/state":    {"=server/internal/store", "server/internal/store/local/column", "server/internal/store/local/record", "server/internal/store/local/segment", "server/internal/store/local/curve"},
	"server/internal/store/local/decision": {"=server/internal/store", "server/internal/store/local/column", "server/internal/store/local/record", "server/internal/store/local/state"},
	"server/internal/store/local/upkeep":   {"internal/wal", "server/internal/store/local/record", "server/internal/store/local/segment", "server/internal/store/local/state"},
	"server/internal/catalog":              {"internal/codec", "internal/wal"},
	"server/internal/blob":                 {"internal/codec", "internal/wal"},
	"server/internal/importer":             {},
	"server/internal/ingest":               {"internal/codec", "=server/internal/store", "=server/internal/catalog"},
	"server/internal/query":                {"internal/codec", "=server/internal/store", "=server/internal/catalog"},
	"server/internal/receiver":             {"server/internal/ingest", "server/internal/query", "internal/codec", "internal/wire", "gen"},
	"server/internal/httpapi":              {"server/internal/query", "server/internal/ingest"},
	"server/internal/live":                 {"server/internal/query"},
	"server/internal/auth":                 {"=server/internal/catalog"},
	"server/internal/server":               {"server/internal/receiver", "server/internal/httpapi", "server/internal/live", "server/internal/auth", "server/internal/selfmetrics", "web"},
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

func rowOf(pkg string) (row string, ok bool) {
	for candidate := range importTable {
		if within(pkg, candidate) && (!ok || len(candidate) > len(row)) {
			row, ok = candidate, true
		}
	}
	return row, ok
}

func mayImport(pkg, target string) bool {
	row, _ := rowOf(pkg)
	if target == "internal/model" || target == "internal/platform" || slices.Contains(importTable[row], "*") {
		return true
	}
	// Receivers never import one another.
	if within(pkg, "server/internal/receiver") && within(target, "server/internal/receiver") {
		return strings.HasPrefix(target, path.Join("server/internal/receiver", strings.Split(pkg, "/")[3]))
	}
	return within(target, row) || slices.ContainsFunc(importTable[row], func(entry string) bool {
		contract, exact := strings.CutPrefix(entry, "=")
		return target == contract || !exact && within(target, entry)
	})
}

func TestImportsFollowTheTable(t *testing.T) {
	for _, p := range goList(t, "-deps", "work") {
		pkg, ours := inModule(p.ImportPath)
		if !ours {
			continue
		}
		if _, ok := rowOf(pkg); !ok {
			t.Errorf("%s has no row in the import table", pkg)
			continue
		}
		for _, imp := range p.Imports {
			if target, ours := inModule(imp); ours && !mayImport(pkg, target) {
				t.Errorf("%s must not import %s", p.ImportPath, imp)
			}
		}
	}
}

func TestEveryRowHasAPackage(t *testing.T) {
	unused := maps.Clone(importTable)
	for _, p := range goList(t, "work") {
		pkg, _ := inModule(p.ImportPath)
		row, _ := rowOf(pkg)
		delete(unused, row)
	}
	for row := range unused {
		t.Errorf("the import table's row %q is of no package", row)
	}
	for row, targets := range importTable {
		for _, target := range targets {
			if _, err := os.Stat(path.Join(".", strings.TrimPrefix(target, "="))); err != nil && target != "*" {
				t.Errorf("the import table's row %q names %q, which there is not", row, target)
			}
		}
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
