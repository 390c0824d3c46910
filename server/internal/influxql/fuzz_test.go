package influxql_test

import (
	"context"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/influxql"
)

// No statement takes the server down, and each has an answer in a second or two.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{
		"SELECT * FROM m", "SELECT mean(f) FROM m WHERE time > 0 GROUP BY time(1s), host fill(linear)", "SELECT top(f, host, 3), bottom(f, 2) FROM /m/ WHERE host =~ /h[1-3]/ ORDER BY time DESC LIMIT 3 OFFSET 2 SLIMIT 1",
		"SELECT derivative(mean(f), 1m) FROM (SELECT f FROM m WHERE f > 3) WHERE time >= '2020-01-01' AND time < now() GROUP BY time(7m, -1s) tz('UTC')", "SHOW TAG VALUES FROM m WITH KEY IN (host, run) WHERE host != '' LIMIT 1",
		"SELECT percentile(f, 99.9), mode(f), stddev(f), spread(f) FROM m GROUP BY *", "SELECT count(distinct(f)) FROM m; SHOW SERIES; SHOW FIELD KEYS ON p FROM m", "SELECT sample(f, 3), integral(f) FROM m", "SELECT f::integer, host::tag FROM m",
		"SELECT moving_average(f, 5), exponential_moving_average(f, 3, 2, 'simple') FROM m", "SELECT relative_strength_index(f, 3), kaufmans_efficiency_ratio(f, 2), chande_momentum_oscillator(f, 2) FROM m", "SELECT -f * pow(f, 2) % 3 AS x FROM m WHERE NOT f",
		"EXPLAIN ANALYZE SELECT f FROM m", "SELECT elapsed(f, 1u), cumulative_sum(f), difference(f), non_negative_difference(f) FROM m", "SELECT f INTO x FROM m", "CREATE DATABASE x WITH DURATION 1h", "SELECT time FROM m", "SELECT f FROM m WHERE time = 1 OR time = 2",
	} {
		f.Add(q)
	}
	n := newNaive(5, 30)
	h := influxql.New(n, influxql.Options{
		Workspace: "w", Memory: 4 << 20, Now: time.Now, Time: time.Second, Points: 100_000,
		Reserve: func(context.Context, int64) (func(), error) { return func() {}, nil },
	})
	f.Fuzz(func(t *testing.T, q string) {
		began := time.Now()
		w := httptest.NewRecorder()
		h.Handlers()["GET /query"].ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), "GET", "/query?"+url.Values{"db": {"p"}, "q": {q}}.Encode(), nil))
		if strings.Contains(w.Body.String(), "its log says why") || time.Since(began) > 5*time.Second {
			t.Errorf("%s after %s: %.300s", q, time.Since(began), w.Body.String())
		}
	})
}
