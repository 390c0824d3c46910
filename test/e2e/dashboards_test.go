//go:build e2e

package e2e

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/test/rig"
)

// sample is a point as examples/subnet hands it to the InfluxDB client.
type sample struct {
	Measurement string
	Tags        map[string]string
	Fields      map[string]any
	TimeNs      int64 `json:"time_ns"`
}

// naive is a series made from samples by the rules of docs/influx.md, written a second time.
type naive struct {
	run, metric string
	labels      map[string]string
	axes        map[string]bool
	points      []naivePoint
}

type naivePoint struct {
	timeNs int64
	value  float64
}

type panel struct {
	Title, Kind, Axis, Reduce, Columns, Order string
	Query                                     struct {
		Metrics []string
		Runs    string
		Labels  map[string]string
	}
	By  []string
	Top int
}

// shown is what page.mjs read of a panel.
type shown struct {
	Title, Axis, Note string
	Lines, Points     int
	Cells             map[string]string
	Order             []string
}

// Every panel of the four views shows what a naive computation over the generated points gives.
func TestDashboardsShowWhatTheSubnetSent(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	printed := simulate(t, r, "--print")
	all := series(t, printed)
	for range 2 { // the second time changes nothing
		t.Logf("%s", simulate(t, r, "--url", server.Address, "--token", server.Key(t)))
	}
	files, err := filepath.Glob(filepath.Join(r.Root, "examples/subnet/views/*.json"))
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	r.CLI(t, append([]string{"view", "apply", "--project", "templar/tplr", "--server", server.Address, "--key", server.Key(t)}, files...)...)
	var paths []string
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		paths = append(paths, "/p/templar/tplr/views/"+name+"=>view-"+name+"=>2000")
	}
	for i, v := range look(t, r, server, paths...) {
		text, err := os.ReadFile(files[i])
		if err != nil {
			t.Fatal(err)
		}
		var doc struct{ Panels []panel }
		if err := json.Unmarshal(text, &doc); err != nil {
			t.Fatal(err)
		}
		if len(v.Panels) != len(doc.Panels) {
			t.Fatalf("%s shows %d of %d panels", v.Path, len(v.Panels), len(doc.Panels))
		}
		for n, p := range doc.Panels {
			t.Run(filepath.Base(files[i])+"/"+p.Title, func(t *testing.T) { p.compare(t, all, v.Panels[n]) })
		}
	}
	var restarted struct{ Attempts []any }
	c := server.Client(t)
	c.Get(t, "/api/v1/runs/"+c.Run(t, "templar/tplr", "miner-1").ID, nil, &restarted)
	if lives := livesOf(t, printed, "miner-1"); len(restarted.Attempts) != lives || lives < 3 {
		t.Errorf("miner-1 has %d attempts, it was started %d times", len(restarted.Attempts), lives)
	}
}

// simulate runs examples/subnet.
func simulate(t *testing.T, r *rig.Rig, args ...string) []byte {
	t.Helper()
	cmd := r.Python(t, "examples/subnet/run", append([]string{"--nodes", "12", "--windows", "60", "--seed", "7"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// process are the tags that say nothing of a point; axes those that are its place.
var (
	process = []string{"uid", "role", "prefix", "version", "runtime_id", "group", "job_type"}
	axes    = []string{"window", "global_step"}
)

func series(t *testing.T, lines []byte) []*naive {
	t.Helper()
	out := map[string]*naive{}
	for line := range bytes.Lines(lines) {
		var s sample
		// A NaN is no JSON: the client leaves such a field out.
		if err := json.Unmarshal(bytes.ReplaceAll(line, []byte(": NaN"), []byte(": null")), &s); err != nil {
			t.Fatal(err)
		}
		labels := maps.Clone(s.Tags)
		maps.DeleteFunc(labels, func(tag, _ string) bool {
			return slices.Contains(process, tag) || slices.Contains(axes, tag) || strings.HasPrefix(tag, "config_")
		})
		for field, value := range s.Fields {
			number, ok := value.(float64)
			if !ok {
				continue
			}
			one := &naive{run: s.Tags["role"] + "-" + s.Tags["uid"], metric: s.Measurement + "/" + field, labels: labels, axes: map[string]bool{"time_ns": true}}
			key, _ := json.Marshal([]any{one.run, one.metric, labels})
			if out[string(key)] == nil {
				out[string(key)] = one
			}
			one = out[string(key)]
			for _, axis := range axes {
				one.axes[axis] = one.axes[axis] || s.Tags[axis] != ""
			}
			one.points = append(one.points, naivePoint{s.TimeNs, number})
		}
	}
	return slices.Collect(maps.Values(out))
}

// livesOf counts the processes that a node was.
func livesOf(t *testing.T, lines []byte, node string) int {
	t.Helper()
	lives := map[string]bool{}
	for line := range bytes.Lines(lines) {
		var s struct {
			Node string
			Tags map[string]string
		}
		if err := json.Unmarshal(bytes.ReplaceAll(line, []byte(": NaN"), []byte(": null")), &s); err != nil {
			t.Fatal(err)
		}
		if s.Node == node {
			lives[s.Tags["runtime_id"]] = true
		}
	}
	return len(lives)
}

// takes says whether a panel asks for a series. The patterns of the four views have stars only.
func (p *panel) takes(s *naive) bool {
	like := func(pattern, text string) bool { ok, err := path.Match(pattern, text); return ok && err == nil }
	for label, pattern := range p.Query.Labels {
		if !like(pattern, s.labels[label]) {
			return false
		}
	}
	return slices.ContainsFunc(p.Query.Metrics, func(m string) bool { return like(m, s.metric) }) && like(cmp.Or(p.Query.Runs, "*"), s.run)
}

func (p *panel) compare(t *testing.T, all []*naive, got shown) {
	var mine []*naive
	for _, s := range all {
		if p.takes(s) {
			mine = append(mine, s)
		}
	}
	if len(mine) == 0 || got.Title != p.Title {
		t.Fatalf("%d series are asked for; the panel is %q: %s", len(mine), got.Title, got.Note)
	}
	if p.Kind == "line" {
		p.compareLines(t, mine, got)
		return
	}
	want := p.cells(mine)
	for place, value := range want {
		text, ok := got.Cells[place]
		number, err := strconv.ParseFloat(text, 64)
		if p.Reduce == "time" { // a double holds a time to 256 ns
			value, number = math.Round(value/1e3), math.Round(number/1e3)
		}
		if !ok || err != nil || math.Abs(number-value) > 1e-9*math.Abs(value) {
			t.Errorf("%s is %q, want %v", place, text, value)
		}
	}
	for place, text := range got.Cells {
		if _, ok := want[place]; !ok && text != "" {
			t.Errorf("%s is %s, and nothing was logged for it", place, text)
		}
	}
	if p.Kind == "stat" && p.Order != "" {
		sign := map[string]float64{"asc": 1, "desc": -1}[p.Order]
		if !slices.IsSortedFunc(got.Order, func(a, b string) int { return cmp.Compare(sign*want[a], sign*want[b]) }) || len(got.Order) != len(want) {
			t.Errorf("the order is %v of %v", got.Order, want)
		}
	}
}

func (p *panel) compareLines(t *testing.T, mine []*naive, got shown) {
	mine = slices.DeleteFunc(mine, func(s *naive) bool { return !s.axes[p.Axis] })
	mine = p.firstLines(mine)
	points := 0
	for _, s := range mine {
		points += len(s.points)
	}
	if got.Lines != len(mine) || got.Points != points || got.Axis != p.Axis {
		t.Errorf("%d lines with %d points over %s are drawn, want %d with %d over %s", got.Lines, got.Points, got.Axis, len(mine), points, p.Axis)
	}
}

// firstLines are those that a panel keeps.
func (p *panel) firstLines(mine []*naive) []*naive {
	if p.Top == 0 || p.Top >= len(mine) {
		return mine
	}
	slices.SortFunc(mine, func(a, b *naive) int {
		return cmp.Compare(reduceAll(b.points, p.Reduce), reduceAll(a.points, p.Reduce))
	})
	return mine[:p.Top]
}

// cells are the values of a stat or a table by their place.
func (p *panel) cells(mine []*naive) map[string]float64 {
	by, column := p.By, ""
	if p.Kind == "table" {
		column = cmp.Or(p.Columns, "metric")
		if by == nil {
			by = []string{"run"}
		}
	}
	points := map[string][]naivePoint{}
	for _, s := range mine {
		var key []string
		for _, name := range by {
			key = append(key, s.part(name))
		}
		place := strings.Join(key, " · ")
		if column != "" {
			place += " | " + s.part(column)
		}
		points[place] = append(points[place], s.points...)
	}
	out := map[string]float64{}
	for place, all := range points {
		out[place] = reduceAll(all, p.Reduce)
	}
	return out
}

func (s *naive) part(name string) string {
	switch name {
	case "run":
		return s.run
	case "metric":
		return s.metric
	}
	return s.labels[strings.TrimPrefix(name, "label.")]
}

func reduceAll(points []naivePoint, how string) float64 {
	last := slices.MaxFunc(points, func(a, b naivePoint) int { return cmp.Compare(a.timeNs, b.timeNs) })
	least, most, sum, nan := math.Inf(1), math.Inf(-1), 0.0, 0
	for _, p := range points {
		if math.IsNaN(p.value) {
			nan++
			continue
		}
		least, most, sum = min(least, p.value), max(most, p.value), sum+p.value
	}
	finite := float64(len(points) - nan)
	return map[string]float64{
		"": last.value, "last": last.value, "time": float64(last.timeNs), "min": least, "max": most,
		"mean": sum / finite, "count": finite, "nan": float64(nan),
	}[how]
}
