package scrape

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const exposition = `# TYPE jobs_total counter
jobs_total{kind="a"} 3
jobs_total{kind="b"} 4
# TYPE heat gauge
heat 1.5
# TYPE wait_seconds histogram
wait_seconds_bucket{le="0.5"} 1
wait_seconds_bucket{le="+Inf"} 2
wait_seconds_sum 1.25
wait_seconds_count 2
`

// A stranger's answer never ends the scraper.
func FuzzParseFamilies(f *testing.F) {
	f.Add(exposition)
	f.Add("{}")
	f.Add("# TYPE a histogram\na_bucket{le=\"x\"} 1\na 1 1\n{\"b\"} 2\n")
	f.Fuzz(func(t *testing.T, text string) {
		families, err := parseFamilies(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, family := range families {
			eachSample(family, func(string, float64, map[string]string) {})
		}
	})
}

// What a target may cost is bounded, whatever it answers.
func TestAnswersOfStrangers(t *testing.T) {
	answers := map[string]func(w http.ResponseWriter){
		"ok":       func(w http.ResponseWriter) { fmt.Fprint(w, exposition) },
		"teapot":   func(w http.ResponseWriter) { w.WriteHeader(http.StatusTeapot) },
		"redirect": func(w http.ResponseWriter) { w.Header().Set("Location", "/ok"); w.WriteHeader(http.StatusFound) },
		"panic":    func(w http.ResponseWriter) { fmt.Fprint(w, "{}") },
		"endless":  func(w http.ResponseWriter) { fmt.Fprint(w, strings.Repeat("# x\n", maxBytes/4+1)) },
		"many": func(w http.ResponseWriter) {
			for i := range maxSamples + 1 {
				fmt.Fprintf(w, "a{i=\"%d\"} 1\n", i)
			}
		},
	}
	for name, want := range map[string]string{
		"ok": "", "teapot": "it answers 418", "redirect": "it answers 302", "panic": "the parser failed", "endless": "larger than 8 MiB",
		"many": "it exposes 20001 values, 20000 are taken at most",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answers[name](w) }))
		families, err := New(Options{}).read(t.Context(), strings.TrimPrefix(s.URL, "http://"))
		if s.Close(); want == "" && (err != nil || len(families) != 3) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %d families, %v", name, len(families), err)
		}
	}
}

func TestSamplesAreThoseOfPrometheus(t *testing.T) {
	families, err := parseFamilies(strings.NewReader(exposition + "# TYPE rpc summary\nrpc{quantile=\"0.5\"} 3\nrpc_sum 4\nrpc_count 5\nplain 6\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		eachSample(f, func(name string, value float64, labels map[string]string) { got[name+fmt.Sprint(labels)] = value })
	}
	want := map[string]float64{
		"jobs_totalmap[kind:a]": 3, "jobs_totalmap[kind:b]": 4, "heatmap[]": 1.5, "wait_seconds_bucketmap[le:0.5]": 1, "wait_seconds_bucketmap[le:+Inf]": 2,
		"wait_seconds_summap[]": 1.25, "wait_seconds_countmap[]": 2, "rpcmap[quantile:0.5]": 3, "rpc_summap[]": 4, "rpc_countmap[]": 5, "plainmap[]": 6,
	}
	if !maps.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
