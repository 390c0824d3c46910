package importer

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// sound checks what every reader promises whatever it reads.
func sound(t *testing.T, run *Run) {
	t.Helper()
	for _, s := range run.Series {
		values := len(s.Floats) + len(s.Ints) + len(s.Docs)
		if len(s.Steps) == 0 || len(s.Steps) != len(s.TimeNs) || len(s.Steps) != values {
			t.Fatalf("%q has %d steps, %d times and %d values", s.Key.Metric, len(s.Steps), len(s.TimeNs), values)
		}
		if !model.IsClean(s.Key.Metric) || s.Key.Metric == "" || len(s.Key.Metric) > maxMetric {
			t.Fatalf("the name %q is none", s.Key.Metric)
		}
		for i, step := range s.Steps {
			if step < 0 || step > maxStep {
				t.Fatalf("step %d", step)
			}
			if s.Kind == model.KindHistogram && model.CheckDocument(s.Kind, s.Docs[i]) != nil {
				t.Fatalf("the histogram %s", s.Docs[i])
			}
		}
	}
	for path, value := range run.Attributes {
		if path == "" || !model.IsClean(path) || len(path) > maxPath || len(value.Str) > maxText {
			t.Fatalf("the attribute %q", path)
		}
	}
	_ = run.Digest()
}

func seeds(f *testing.F, pattern string) {
	f.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		f.Fatalf("no fixture %s: %v", pattern, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data[:min(len(data), 3000)]) // small seeds: more runs a second
	}
}

func FuzzEvents(f *testing.F) {
	seeds(f, "testdata/tensorboard/second/*tfevents*")
	seeds(f, "testdata/tensorboard/restarted/*tfevents*")
	f.Fuzz(func(t *testing.T, data []byte) {
		e := &events{builder: newBuilder(), plugins: map[string]string{}}
		err := tfRecords(bytes.NewReader(data), func(b []byte) { _ = e.event(b) }, func(d damaged) { e.damage("f", d.offset, "%s", d.text) })
		if err != nil {
			t.Fatal(err)
		}
		_ = e.event(data) // past the checksums
		sound(t, e.done())
	})
}

func FuzzWandb(f *testing.F) {
	seeds(f, "testdata/wandb/*/*.wandb")
	f.Fuzz(func(t *testing.T, data []byte) {
		w := &wandbRun{builder: newBuilder(), config: map[string]any{}, summary: map[string]any{}}
		_ = wandbLog(data, func(b []byte) { _ = w.record(b) }, func(d damaged) { w.damage("f", d.offset, "%s", d.text) })
		_ = w.record(data)
		w.tree("config", w.config, 0)
		sound(t, w.done())
	})
}

func FuzzCSV(f *testing.F) {
	f.Add([]byte("step,loss\n1,2\n"))
	f.Add([]byte("Name,State,Created,Runtime,Tags,lr\na,failed,2024-05-01T12:00:00Z,3,\"x,y\",1\n"))
	f.Add([]byte("Step,r - a,r - a__MIN,r - a__MAX,r - _step,r - _step__MIN,r - _step__MAX\n0,1,1,2,3,3,3\n"))
	f.Add([]byte("run_id,attribute_path,attribute_type,step,timestamp,float_value,string_value\nr,a,float_series,1,2,3,\nr,b,string,,,,x\n"))
	f.Add([]byte("metric,value,labels,kind,step\na,1,{},int64,2\nh,\"{}\",{},histogram,1\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := readCSV(t.Context(), bytes.NewReader(data), "f", time.Unix(1, 0), CSVOptions{}, false)
		if err != nil {
			return
		}
		sound(t, s.only())
		for _, name := range s.order {
			sound(t, s.run(name))
		}
	})
}

func FuzzMetricLine(f *testing.F) {
	f.Add("1 2 3")
	f.Fuzz(func(t *testing.T, text string) {
		b := newBuilder()
		if when, value, step, ok := metricLine(text); ok {
			b.float("m", step, milliseconds(when), value)
		}
		sound(t, b.done())
	})
}
