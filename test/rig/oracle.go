package rig

import (
	"bufio"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Logged is everything that trainings said they logged (examples/demo/oracle.py),
// by series. The steps in it were worked out by the training, not by Kymogram.
type Logged map[LoggedSeries][]LoggedPoint

// LoggedSeries names a series across runs.
type LoggedSeries struct {
	Run, Metric, Scale string
	Labels             string // k=v, sorted
}

// LoggedPoint is one point of an oracle file.
type LoggedPoint struct {
	Axes  map[string]int64
	Value any // json.Number, or a word for what JSON cannot say
}

// ReadLogged reads every *.jsonl of a folder.
func ReadLogged(t *testing.T, folder string) Logged {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no oracle files in %s: %v", folder, err)
	}
	all := Logged{}
	for _, file := range files {
		all.read(t, file)
	}
	return all
}

func (l Logged) read(t *testing.T, file string) {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	dec := json.NewDecoder(bufio.NewReader(f))
	dec.UseNumber()
	for dec.More() {
		var p struct {
			Run, Metric, Scale string
			Labels             map[string]string
			Axes               map[string]int64
			Value              any
		}
		if err := dec.Decode(&p); err != nil {
			t.Fatalf("read %s: %v", file, err)
		}
		series := LoggedSeries{p.Run, p.Metric, p.Scale, labelText(p.Labels)}
		l[series] = append(l[series], LoggedPoint{p.Axes, p.Value})
	}
}

// labelText is k=v, sorted, joined by commas.
func labelText(labels map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		out = append(out, k+"="+labels[k])
	}
	return strings.Join(out, ",")
}

// labelMap is the inverse of labelText.
func labelMap(text string) map[string]string {
	labels := map[string]string{}
	for pair := range strings.SplitSeq(text, ",") {
		if k, v, ok := strings.Cut(pair, "="); ok {
			labels[k] = v
		}
	}
	return labels
}

// MustEqual compares what was logged with what the server holds: the same
// series, and in each the same points, every one exactly once.
func (l Logged) MustEqual(t *testing.T, c *Client) {
	t.Helper()
	points := 0
	for _, run := range l.runs() {
		project, name := run[:strings.LastIndexByte(run, '/')], run[strings.LastIndexByte(run, '/')+1:]
		id := c.Run(t, project, name).ID
		for _, s := range c.Series(t, id) {
			key := LoggedSeries{run, s.Metric, s.Scale, labelText(s.Labels)}
			if _, ok := l[key]; !ok {
				t.Errorf("the server has a series that was never logged: %+v", key)
			}
		}
		for key, want := range l {
			if key.Run == run {
				points += len(want)
				comparePoints(t, key, want, c.Points(t, id, key.Metric, key.Scale, labelMap(key.Labels)))
			}
		}
	}
	t.Logf("%d points of %d series of %d runs compared", points, len(l), len(l.runs()))
}

func (l Logged) runs() []string {
	names := map[string]bool{}
	for key := range l {
		names[key.Run] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// comparePoints compares two multisets of points.
func comparePoints(t *testing.T, key LoggedSeries, want []LoggedPoint, got Points) {
	t.Helper()
	axes := slices.Sorted(maps.Keys(want[0].Axes))
	balance := map[string]int{}
	for _, p := range want {
		var b strings.Builder
		for _, axis := range axes {
			b.WriteString(axis + "=" + number(float64(p.Axes[axis])) + " ")
		}
		balance[b.String()+"value="+Text(p.Value)+" "]++
	}
	for i := range got["value"] {
		balance[got.Row(i, append(slices.Clone(axes), "value")...)]--
	}
	missing, extra := []string{}, []string{}
	for row, n := range balance {
		switch {
		case n > 0:
			missing = append(missing, row)
		case n < 0:
			extra = append(extra, row)
		}
	}
	if len(missing)+len(extra) > 0 {
		slices.Sort(missing)
		slices.Sort(extra)
		t.Errorf("%+v: of %d points %d are missing, such as %q; %d are too many, such as %q",
			key, len(want), len(missing), first(missing), len(extra), first(extra))
	}
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
