package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// grafanaRequest is one that test/grafana/requests.cjs recorded of Grafana's own data source.
type grafanaRequest struct {
	What, Method, Path, Type string
	Form                     map[string]string
	Target                   *struct { // what a panel asks of Grafana's server
		Expr           string
		Range, Instant bool
	}
}

type grafanaRequests struct {
	Package, Version string
	From, To         int64
	Requests         []grafanaRequest
}

const grafanaFolder = "../../../test/grafana"

// What Grafana's published data source asks is answered, each request by the data that a person
// reads off the five points below.
func TestGrafanasRequests(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(grafanaFolder, "requests.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all grafanaRequests
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	s := serveNode(t, false)
	s.addKeys()
	logLines(t, s, s.keys["ingest"], "w", "p",
		fmt.Sprintf("train,run=r1 loss=1 %d", all.From+60), fmt.Sprintf("train,run=r1 loss=4 %d", all.From+1800), fmt.Sprintf("train,run=r1 loss=2 %d", all.To-30),
		fmt.Sprintf("train,run=r2,a.b=x loss=8 %d", all.To-20), fmt.Sprintf("train,run=r3 late=8 %d", all.To+7200))
	const (
		names    = `["kymogram_run_info","train_loss"]`
		labels   = `["__name__","a_b","label_names","metric","project","run","run_id","scale","workspace"]`
		ofLoss   = `["__name__","a_b","label_names","metric","project","run","scale","workspace"]`
		metadata = `{"kymogram_run_info":[{"type":"gauge","help":"kymogram_run_info","unit":""}],"train_late":[{"type":"unknown","help":"train/late","unit":""}],"train_loss":[{"type":"unknown","help":"train/loss","unit":""}]}`
		r1       = `{"__name__":"train_loss","metric":"train/loss","project":"p","run":"r1","scale":"ML_STEP","workspace":"w"}`
		r2       = `{"__name__":"train_loss","a_b":"x","label_names":"a_b=a.b","metric":"train/loss","project":"p","run":"r2","scale":"ML_STEP","workspace":"w"}`
	)
	want := map[string]string{ // the data of each request, by what it is for and its path
		"a page opens /api/v1/label/__name__/values":                       names,
		"a page opens /api/v1/metadata":                                    metadata,
		"a page opens /api/v1/labels":                                      labels,
		"a page opens, GET /api/v1/label/__name__/values":                  names,
		"a page opens, GET /api/v1/metadata":                               metadata,
		"a page opens, GET /api/v1/labels":                                 labels,
		"a page opens, old server /api/v1/series":                          "[…" + r2 + "," + r1 + "]",
		"a page opens, old server /api/v1/metadata":                        metadata,
		"query builder: labels of a metric /api/v1/labels":                 ofLoss,
		"query builder: values of a label /api/v1/label/run/values":        `["r1","r2"]`,
		"query builder: values, old server /api/v1/series":                 "[" + r2 + "," + r1 + "]",
		"query builder: a label with a dot /api/v1/label/U__a_2e_b/values": `[]`, // it is a_b here
		"query builder: at most 2 values /api/v1/label/run/values":         `["r","r1"]`,
		"variable label_names() /api/v1/labels":                            labels,
		"variable label_names(metric) /api/v1/labels":                      ofLoss,
		"variable label_values(label) /api/v1/label/run/values":            `["r","r1","r2","r3"]`, // a run's info has no time; r is that of addKeys
		"variable label_values(metric, label) /api/v1/label/run/values":    `["r1","r2"]`,
		"variable metrics(pattern) /api/v1/label/__name__/values":          `["train_loss"]`,
		"variable query_result /api/v1/query":                              `4 r1, 8 r2`,
		"variable of series /api/v1/series":                                "[" + r1 + "]",
		"filter: keys /api/v1/labels":                                      ofLoss,
		"filter: values /api/v1/label/run/values":                          `["r1","r2"]`,
		"panel over time":   `2 r1, 8 r2`,
		"panel of one time": `4 r1, 8 r2`,
		"explore: both":     `2 r1, 8 r2`,
	}
	base, key := "http://"+s.address+"/prometheus/w/p", s.keys["read"]
	used := map[string]bool{}
	for _, r := range all.Requests {
		name := strings.TrimSpace(r.What + " " + r.Path)
		used[name] = true
		form := url.Values{}
		for k, v := range r.Form {
			form.Set(k, v)
		}
		if r.Target != nil { // Grafana's server makes this of it, and no other parameter
			r.Method, r.Path, form = http.MethodPost, "/api/v1/query", url.Values{"query": {r.Target.Expr}, "time": {strconv.FormatInt(all.To, 10)}}
			if !r.Target.Instant {
				r.Path, form = "/api/v1/query_range", url.Values{"query": {r.Target.Expr}, "start": {strconv.FormatInt(all.From, 10)}, "end": {strconv.FormatInt(all.To, 10)}, "step": {"15"}}
			}
		}
		if r.What == "feature checks" { // Grafana takes 404 for: there is none
			if code, text := s.getProm(key, "/prometheus/w/p"+r.Path, form); code != http.StatusNotFound {
				t.Errorf("%s: %d %s", r.Path, code, text)
			}
			continue
		}
		got := askProm(t, r.Method, base+r.Path, key, form)
		if got.code != http.StatusOK || got.Status != "success" || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("%s %v: %d %s", name, form, got.code, got.Error)
			continue
		}
		if text := lastValues(t, got.Data); text != want[name] && !isEnd(want[name], text) {
			t.Errorf("%s %v: %s\nwant %s", name, form, text, want[name])
		}
	}
	for name := range want {
		if !used[name] {
			t.Errorf("nothing recorded for %q", name)
		}
	}
}

// isEnd compares with a list whose first part is not told.
func isEnd(want, got string) bool {
	end, ok := strings.CutPrefix(want, "[…")
	return ok && strings.HasSuffix(got, end)
}

// lastValues is the text of data; of a vector or matrix the last value of each run.
func lastValues(t *testing.T, data json.RawMessage) string {
	t.Helper()
	var result struct{ Result []promResultSeries }
	if data[0] != '{' || json.Unmarshal(data, &result) != nil || result.Result == nil {
		return string(data)
	}
	var out []string
	for _, s := range result.Result {
		at := s.Value
		if len(s.Values) > 0 {
			at = s.Values[len(s.Values)-1]
		}
		out = append(out, fmt.Sprint(at[1], " ", s.Metric["run"]))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

// The recorded requests are those of the code that Grafana publishes.
func TestGrafanasRequestsAreGrafanas(t *testing.T) {
	const code = "../../../bin/tools/grafana"
	if _, err := os.Stat(filepath.Join(code, "node_modules")); err != nil {
		t.Skip("Grafana's data source is not here: make grafana installs it")
	}
	cmd := exec.CommandContext(t.Context(), "node", filepath.Join(grafanaFolder, "requests.cjs"), code)
	cmd.Stderr = os.Stderr
	got, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := os.ReadFile(filepath.Join(grafanaFolder, "requests.json"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, recorded) {
		t.Error("it sends other requests now: record them again, as test/grafana/requests.cjs says")
	}
}
