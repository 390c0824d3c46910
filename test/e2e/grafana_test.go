//go:build e2e

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/test/rig"
)

// grafana is a dashboard, as far as its queries go.
type grafana struct {
	Panels []struct {
		Title   string
		Targets []struct {
			Expr    string
			Instant bool
		}
	}
}

// answer is one of Prometheus' API.
type answer struct {
	Data struct {
		Result []struct {
			Metric map[string]string
			Value  [2]any
			Values [][2]any
		}
	}
}

// Every query of Grafana's dashboards gives what a naive computation over the generated points
// gives for the panel of the same name in the views.
func TestGrafanaDashboardsShowWhatTheSubnetSent(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	printed := simulate(t, r, "--print")
	all := series(t, printed)
	simulate(t, r, "--url", server.Address, "--token", server.Key(t))
	logNaN(t, r, server, printed, all)
	first, last := int64(math.MaxInt64), int64(0)
	for _, s := range all {
		for _, p := range s.points {
			first, last = min(first, p.timeNs), max(last, p.timeNs)
		}
	}
	c := server.Client(t)
	files, err := filepath.Glob(filepath.Join(r.Root, "deploy/grafana/*.json"))
	files = slices.DeleteFunc(files, func(name string) bool { return filepath.Base(name) == "cluster.json" }) // it is about servers, and has no view
	if err != nil || len(files) != 4 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		var board grafana
		readJSON(t, file, &board)
		var view struct{ Panels []panel }
		readJSON(t, filepath.Join(r.Root, "examples/subnet/views", filepath.Base(file)), &view)
		for _, p := range board.Panels {
			t.Run(filepath.Base(file)+"/"+p.Title, func(t *testing.T) {
				i := slices.IndexFunc(view.Panels, func(v panel) bool { return v.Title == p.Title })
				if i < 0 {
					t.Fatal("no view has this panel")
				}
				var got []float64
				for _, q := range p.Targets {
					expr := strings.ReplaceAll(q.Expr, "$__range", strconv.FormatInt((last-first)/1e9+10, 10)+"s")
					got = append(got, values(t, c, expr, q.Instant, first, last)...)
				}
				sameValues(t, view.Panels[i].ends(all), got, view.Panels[i].Reduce == "time")
			})
		}
	}
}

// logNaN logs the losses that InfluxDB's client left out, and two more behind each of them.
func logNaN(t *testing.T, r *rig.Rig, server *rig.Server, printed []byte, all []*naive) {
	t.Helper()
	var lines strings.Builder
	for line := range bytes.Lines(printed) {
		var s sample
		nan := bytes.ReplaceAll(line, []byte(": NaN"), []byte(`: "NaN"`))
		if err := json.Unmarshal(nan, &s); err != nil {
			t.Fatal(err)
		}
		for field, value := range s.Fields {
			if value != "NaN" {
				continue
			}
			run := s.Tags["role"] + "-" + s.Tags["uid"]
			i := slices.IndexFunc(all, func(n *naive) bool { return n.run == run && n.metric == s.Measurement+"/"+field })
			for k := range int64(3) {
				at := s.TimeNs + k*100e9
				lines.WriteString(s.Measurement)
				for _, tag := range slices.Sorted(maps.Keys(s.Tags)) {
					lines.WriteString("," + tag + "=" + strings.ReplaceAll(s.Tags[tag], " ", `\ `))
				}
				fmt.Fprintf(&lines, " %s=NaN %d\n", field, at)
				all[i].points = append(all[i].points, naivePoint{at, math.NaN()})
			}
		}
	}
	if lines.Len() == 0 {
		t.Fatal("no loss is NaN")
	}
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.Address+"/api/v2/write?bucket=tplr&org=templar", strings.NewReader(lines.String()))
	if err != nil {
		t.Fatal(err)
	}
	q.Header.Set("Authorization", "Token "+server.Key(t))
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(answer.Body)
		t.Fatalf("%d %s", answer.StatusCode, text)
	}
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// values are those of the series of an answer; of a range the last ones.
func values(t *testing.T, c *rig.Client, expr string, instant bool, first, last int64) (out []float64) {
	t.Helper()
	const step = 300
	end := last/1e9 + 1
	start := end - ((end-first/1e9)/step+1)*step // so that the last step is the end
	second := func(s int64) string { return strconv.FormatInt(s, 10) }
	var a answer
	if instant {
		c.Get(t, "/prometheus/templar/tplr/api/v1/query", url.Values{"query": {expr}, "time": {second(end)}}, &a)
	} else {
		c.Get(t, "/prometheus/templar/tplr/api/v1/query_range", url.Values{"query": {expr}, "start": {second(start)}, "end": {second(end)}, "step": {second(step)}}, &a)
	}
	for _, s := range a.Data.Result {
		at := s.Value
		if !instant {
			at = s.Values[len(s.Values)-1]
		}
		value, err := strconv.ParseFloat(at[1].(string), 64)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, value)
	}
	return out
}

// ends are the numbers that a panel shows: of a line its last one.
func (p *panel) ends(all []*naive) (out []float64) {
	var mine []*naive
	for _, s := range all {
		if p.takes(s) {
			mine = append(mine, s)
		}
	}
	if p.Kind == "line" {
		for _, s := range p.firstLines(mine) {
			out = append(out, reduceAll(s.points, "last"))
		}
		return out
	}
	for _, value := range p.cells(mine) {
		out = append(out, value)
	}
	return out
}

func sameValues(t *testing.T, want, got []float64, times bool) {
	t.Helper()
	slices.Sort(want)
	slices.Sort(got)
	if len(want) != len(got) || len(want) == 0 {
		t.Fatalf("%d values, want %d\n%v\n%v", len(got), len(want), got, want)
	}
	for i := range want {
		near := 1e-9 * math.Abs(want[i])
		if times { // milliseconds of nanoseconds
			want[i], near = want[i]/1e6, 1
		}
		if math.Abs(want[i]-got[i]) > near {
			t.Errorf("%v, want %v", got[i], want[i])
		}
	}
}
