package selfmetrics_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// scrape reads /metrics with Prometheus' own parser.
func scrape(t *testing.T, m *selfmetrics.Metrics) map[string]int {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]int{}
	for name, f := range families {
		series[name] = len(f.GetMetric())
	}
	return series
}

func TestPathsDoNotBecomeLabels(t *testing.T) {
	m := selfmetrics.New("test")
	route := m.Route("GET /runs/{id}")
	for _, status := range []int{200, 404, 200, 1000, 2000, -1} { // HTTP has no more than three digits
		route.Answered(status, time.Millisecond)
	}
	began := time.Now()
	for _, err := range []error{nil, errors.New("a"), errors.New("b")} {
		m.Call("/service/Method", began, &err)
	}
	got := scrape(t, m)
	for name, want := range map[string]int{
		"kymogram_http_requests_total": 3, "kymogram_http_request_duration_seconds": 1,
		"kymogram_grpc_calls_total": 2, "kymogram_build_info": 1, "go_goroutines": 1,
	} {
		if got[name] != want {
			t.Errorf("%s has %d series, want %d", name, got[name], want)
		}
	}
}

func TestGaugesAreReadWhenScraped(t *testing.T) {
	m := selfmetrics.New("test")
	reads := 0
	err := m.Gauges(func() []selfmetrics.Gauge {
		reads++
		return []selfmetrics.Gauge{{Name: "kymogram_a", Value: 1}, {Name: "kymogram_b_total", Counter: true, Value: 2}}
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := scrape(t, m); got["kymogram_a"] != 1 || got["kymogram_b_total"] != 1 || reads != 1 {
		t.Fatalf("%v after %d reads", got, reads)
	}
}
