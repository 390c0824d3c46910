package promapi

import (
	"maps"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// exactKey reads the labels of a series back, as a person does by the table of
// docs/prometheus.md.
func exactKey(t *testing.T, shown map[string]string) model.SeriesKey {
	t.Helper()
	exact := map[string]string{}
	for _, pair := range regexp.MustCompile(`(?:[^,\\]|\\.)+`).FindAllString(shown["label_names"], -1) {
		here, name, ok := strings.Cut(pair, "=")
		if !ok {
			t.Fatalf("label_names is %q", shown["label_names"])
		}
		exact[here] = regexp.MustCompile(`\\(.)`).ReplaceAllString(name, "$1")
	}
	user := map[string]string{}
	for name, value := range shown {
		switch name {
		case "__name__", "metric", "scale", "workspace", "project", "run", "label_names":
			continue
		}
		if known, ok := exact[name]; ok {
			name = known
		}
		user[name] = value
	}
	return model.NewSeriesKey(shown["metric"], shown["scale"], user)
}

// Whatever the names of labels are, no two series have the same labels here, and the exact names
// can be read from them.
func TestLabelsKeepSeriesApart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	names := []string{
		"a.b", "a_b", "a b", "a/b", "a,b", `a\b`, "a=b", "a_b_2", "a_b_3", "a.b_2", "é", "_", "7", "7x", "_x", "metric", "exported_metric",
		"exported.metric", "run", "scale", "label_names", "exported_label_names", "__name__", "..x", "__axis_step__",
	}
	plain := regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	run := &query.PlacedRun{Workspace: "w", Project: "p", Name: "r"}
	seen := map[string]string{} // shown labels to the exact key
	for range 50_000 {
		user := map[string]string{}
		for range r.IntN(6) {
			user[names[r.IntN(len(names))]] = string(rune('x' + r.IntN(2)))
		}
		key := model.NewSeriesKey([]string{"m/n", "m_n"}[r.IntN(2)], "", user)
		of := labelsOf(run, key)
		shown := of.Map()
		if other, known := seen[of.String()]; known && other != key.String() {
			t.Fatalf("%q and %q are both %s", other, key, of)
		}
		seen[of.String()] = key.String()
		if back := exactKey(t, shown); back.String() != key.String() {
			t.Fatalf("%s is read as %q, it is %q", of, back, key)
		}
		for name := range maps.Keys(shown) {
			if !plain.MatchString(name) {
				t.Fatalf("PromQL takes no label %q", name)
			}
		}
		for _, name := range []string{"a_b", "a_b_2", "exported_metric", "_x"} { // these stay as they are
			if user[name] != "" && shown[name] != user[name] {
				t.Fatalf("%s of %v is %q in %s", name, user, shown[name], of)
			}
		}
	}
	if len(seen) < 5_000 {
		t.Fatal("only", len(seen), "keys")
	}
}

// Names that all become one take linear time.
func TestManyNamesThatBecomeOne(t *testing.T) {
	names := make([]string, 20_000)
	for i := range names {
		names[i] = "a" + string(rune(0x4e00+i))
	}
	given := map[string]bool{}
	for _, name := range rename(names) {
		given[name] = true
	}
	if len(given) != len(names) || !given["a_"] || !given["a__2"] || !given["a__20000"] {
		t.Fatal(len(given))
	}
}
