package importer

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

// oracleRun is what the tracker's own reader found in a fixture
// (testdata/make.py).
type oracleRun struct {
	Key         string                  `json:"key"`
	RunName     string                  `json:"run_name"`
	DisplayName string                  `json:"display_name"`
	Experiment  string                  `json:"experiment"`
	Status      string                  `json:"status"`
	Exit        *int                    `json:"exit"`
	Notes       string                  `json:"notes"`
	StartedNs   int64                   `json:"started_ns"`
	Tags        []string                `json:"tags"`
	Config      map[string]any          `json:"config"`
	Summary     map[string]any          `json:"summary"`
	Stats       []json.RawMessage       `json:"stats"`
	Series      map[string]oracleSeries `json:"series"`
}

type oracleSeries struct {
	Kind   string              `json:"kind"`
	Points [][]json.RawMessage `json:"points"` // step, time, value
}

func oracle(t *testing.T, part string) map[string]oracleRun {
	t.Helper()
	data, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var all map[string][]oracleRun
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	out := map[string]oracleRun{}
	for _, one := range all[part] {
		out[one.Key] = one
	}
	if len(out) == 0 {
		t.Fatalf("the oracle has no runs of %s", part)
	}
	return out
}

func source(t *testing.T, name string) Source {
	t.Helper()
	i := slices.IndexFunc(Sources(), func(s Source) bool { return s.Name == name })
	if i < 0 {
		t.Fatalf("no source %s", name)
	}
	return Sources()[i]
}

func find(t *testing.T, name, path string) map[string]Found {
	t.Helper()
	list, err := source(t, name).Find(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]Found{}
	for _, f := range list {
		out[f.Key] = f
	}
	return out
}

func read(t *testing.T, f Found) *Run {
	t.Helper()
	run, err := f.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// The files are the real tools', the expectation is their own readers'.
func TestRealFiles(t *testing.T) {
	t.Parallel()
	for part, name := range map[string]string{"tensorboard": "tensorboard", "wandb": "wandb-offline", "mlruns": "mlflow", "mlflow.db": "mlflow"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			want, found := oracle(t, part), find(t, name, filepath.Join("testdata", part))
			all := len(found)
			maps.DeleteFunc(found, func(_ string, f Found) bool { return f.Left != "" }) // nor does the reader list deleted runs
			if gone := all - len(found); name == "mlflow" && gone != 1 {
				t.Errorf("%d runs are left out, and one was deleted", gone)
			}
			if len(found) != len(want) {
				t.Errorf("found %d runs, the tracker's reader %d", len(found), len(want))
			}
			for key, w := range want {
				f, ok := found[key]
				if !ok {
					t.Errorf("the run %s was not found", key)
					continue
				}
				compare(t, key, read(t, f), w)
			}
		})
	}
}

func compare(t *testing.T, key string, got *Run, want oracleRun) {
	t.Helper()
	if len(got.Damage) > 0 {
		t.Errorf("%s: damage in a whole file: %v", key, got.Damage)
	}
	names := []string{}
	for _, s := range got.Series {
		if strings.HasPrefix(s.Key.Metric, "system/") {
			continue
		}
		names = append(names, s.Key.Metric)
		w, ok := want.Series[s.Key.Metric]
		if !ok {
			t.Errorf("%s: the series %s is not the tracker's", key, s.Key.Metric)
			continue
		}
		if s.Kind.String() != w.Kind {
			t.Errorf("%s: %s is of kind %s, want %s", key, s.Key.Metric, s.Kind, w.Kind)
			continue
		}
		compareSeries(t, key+": "+s.Key.Metric, s, w)
	}
	if len(names) != len(want.Series) {
		t.Errorf("%s: series %v, want %d", key, names, len(want.Series))
	}
	compareHead(t, key, got, want)
}

func compareHead(t *testing.T, key string, got *Run, want oracleRun) {
	t.Helper()
	check := func(what string, got, want any) {
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", key, what, diff)
		}
	}
	for prefix, tree := range map[string]map[string]any{"config": want.Config, "summary": want.Summary} {
		flat := map[string]string{}
		flatten(flat, prefix, tree)
		have := map[string]string{}
		for path, value := range got.Attributes {
			if strings.HasPrefix(path, prefix+"/") {
				have[path] = shown(value)
			}
		}
		check(prefix, have, flat)
	}
	if want.StartedNs != 0 {
		check("start", got.StartedNs, want.StartedNs)
	}
	if want.Notes != "" {
		check("notes", got.Description, want.Notes)
	}
	if want.Status != "" {
		check("failed", got.Failed, want.Status != "FINISHED")
		check("experiment", got.Experiment, want.Experiment)
		check("name", got.DisplayName, want.RunName)
	}
	if want.Exit != nil {
		check("failed", got.Failed, *want.Exit != 0)
		check("name", got.DisplayName, want.DisplayName)
		system := 0
		for _, s := range got.Series {
			if strings.HasPrefix(s.Key.Metric, "system/") {
				system = max(system, int(s.Steps[len(s.Steps)-1])+1)
			}
		}
		check("system metrics", system, len(want.Stats))
	}
	tags := append([]string{}, want.Tags...)
	slices.Sort(tags)
	check("tags", append([]string{}, got.Tags...), tags)
}

func flatten(into map[string]string, path string, value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, one := range v {
			flatten(into, path+"/"+name, one)
		}
	case []any:
		for i, one := range v {
			flatten(into, fmt.Sprintf("%s/%d", path, i), one)
		}
	default:
		into[path] = fmt.Sprint(v)
	}
}

func shown(v *model.Value) string {
	switch v.Type {
	case model.TypeInt:
		return fmt.Sprint(float64(v.Int)) // as the oracle's JSON was read
	case model.TypeFloat:
		return fmt.Sprint(v.Float)
	case model.TypeBool:
		return fmt.Sprint(v.Bool)
	}
	return v.Str
}

// compareSeries looks at the last point of each step: the server keeps that one.
func compareSeries(t *testing.T, what string, s *Series, want oracleSeries) {
	t.Helper()
	last := map[int64]int{}
	for i, step := range s.Steps {
		last[step] = i
	}
	if len(last) != len(want.Points) {
		t.Errorf("%s: %d steps, want %d", what, len(last), len(want.Points))
	}
	for _, p := range want.Points {
		var step, when int64
		if json.Unmarshal(p[0], &step) != nil || json.Unmarshal(p[1], &when) != nil {
			t.Fatalf("%s: the oracle's row %s", what, p)
		}
		i, ok := last[step]
		if !ok {
			t.Errorf("%s: no step %d", what, step)
			continue
		}
		if s.TimeNs[i] != when {
			t.Errorf("%s: step %d at %d, want %d", what, step, s.TimeNs[i], when)
		}
		compareValue(t, fmt.Sprintf("%s: step %d", what, step), s, i, p[2])
	}
}

func compareValue(t *testing.T, what string, s *Series, i int, want json.RawMessage) {
	t.Helper()
	switch s.Kind {
	case model.KindFloat:
		var w model.JSONFloat
		if err := w.UnmarshalJSON(want); err != nil {
			t.Fatal(err)
		}
		if got := s.Floats[i]; got != float64(w) && !(math.IsNaN(got) && math.IsNaN(float64(w))) {
			t.Errorf("%s is %v, want %v", what, got, w)
		}
	case model.KindText:
		var w string
		if err := json.Unmarshal(want, &w); err != nil || w != string(s.Docs[i]) {
			t.Errorf("%s is %q, want %q", what, s.Docs[i], w)
		}
	default:
		compareHistogram(t, what, s.Docs[i], want)
	}
}

func compareHistogram(t *testing.T, what string, doc []byte, want json.RawMessage) {
	t.Helper()
	var got model.Histogram
	var w struct {
		BinEdges []float64             `json:"bin_edges"`
		Counts   []float64             `json:"counts"`
		Sum      *float64              `json:"sum"`
		Stats    *model.HistogramStats `json:"stats"`
	}
	if json.Unmarshal(doc, &got) != nil || json.Unmarshal(want, &w) != nil || got.Check() != nil {
		t.Fatalf("%s: %s, want %s", what, doc, want)
	}
	sum := 0.0
	for _, c := range got.Counts {
		sum += c
	}
	if w.Sum != nil && sum != *w.Sum {
		t.Errorf("%s holds %v values, want %v", what, sum, *w.Sum)
	}
	if w.Stats != nil && (got.Stats == nil || *got.Stats != *w.Stats) {
		t.Errorf("%s has %v, want %v", what, got.Stats, w.Stats)
	}
	if w.Counts == nil {
		return
	}
	for len(w.Counts) > 1 && w.Counts[0] == 0 { // empty bins at the ends say nothing
		w.Counts, w.BinEdges = w.Counts[1:], w.BinEdges[1:]
	}
	for n := len(w.Counts); n > 1 && w.Counts[n-1] == 0; n-- {
		w.Counts, w.BinEdges = w.Counts[:n-1], w.BinEdges[:n]
	}
	if diff := cmp.Diff(w.BinEdges, got.BinEdges); diff != "" {
		t.Errorf("%s: edges (-want +got):\n%s", what, diff)
	}
	if diff := cmp.Diff(w.Counts, got.Counts); diff != "" {
		t.Errorf("%s: counts (-want +got):\n%s", what, diff)
	}
}
