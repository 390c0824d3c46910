package httpapi_test

import (
	"context"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// withoutShare are the routes that read and take no share of the memory for answers.
func withoutShare() map[string]string {
	return map[string]string{
		"GET /api/v1/projects": "names and counts, at most 1,000",
		"GET /api/v1/resolve":  "one id",
		"GET /sd/bittensor":    "addresses that are in memory anyway",
		"GET /api/v1/live":     "has a place among the event streams instead",
		"GET /api/v1/projects/{workspace}/{project}/network": "drawn once for all readers",
		"GET /api/v1/runs/{id}/renderings/{rendering}/video": "a file, as it lies on disk",
		"GET /api/v1/runs/{id}/files/{name...}":              "likewise",
	}
}

// A route that reads waits for its caller's share: one key with many connections holds no
// more than its part. A route that takes none has its reason above.
func TestEveryReadTakesAShare(t *testing.T) {
	states, err := statelog.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = states.Close() })
	const all = 32 << 20
	l := newLab(t, httpapi.Options{States: states, Tree: noTree{}, Memory: all, Page: all})
	run := l.writer("run", nil).run.String()
	ctx := share.WithCaller(t.Context(), "greedy")
	for _, n := range slices.Concat([]int64{all}, slices.Repeat([]int64{all / 8 / 4 / 4}, 4)) { // all of both pools that one caller gets
		release, _, err := l.api.Reserve(ctx, n)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
	}
	reasons := withoutShare()
	for _, r := range l.api.Routes() {
		route := r.Method + " " + r.Pattern
		if r.Scope != "read" || reasons[route] != "" {
			delete(reasons, route)
			continue
		}
		path := strings.NewReplacer("{workspace}", "lab", "{project}", "digits", "{id}", run, "{name}", "v").Replace(r.Pattern)
		switch {
		case strings.HasSuffix(path, "points"), strings.HasSuffix(path, "/buckets") && r.Method == http.MethodGet:
			path += "?metric=m"
		case strings.HasSuffix(path, "consistency"):
			path += "?from=1&to=2"
		}
		body := ""
		if r.Method == http.MethodPost {
			body = `{"queries":[{"run":"` + run + `","metric":"m"}]}`
		}
		if strings.HasSuffix(path, "overviews") {
			body = `{"runs":["` + run + `"]}`
		}
		if strings.HasSuffix(path, "kymograph") {
			body = `{"run":"` + run + `","metric":"m","rows":[{}]}`
		}
		l.waits(t, r.Method, path, body)
	}
	if len(reasons) > 0 {
		t.Errorf("there are no such routes: %v", slices.Collect(maps.Keys(reasons)))
	}
}

// noTree is a log that nobody comes to read.
type noTree struct{ httpapi.TreeLog }

// waits checks that a request of the greedy caller waits for its share.
func (l *lab) waits(t *testing.T, method, path, body string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, l.http.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Caller", "greedy")
	answered := make(chan string, 1)
	go func() {
		response, err := l.http.Client().Do(r)
		if err != nil {
			answered <- err.Error()
			return
		}
		_ = response.Body.Close()
		answered <- response.Status
	}()
	for l.api.Stats().Waiting == 0 {
		select {
		case answer := <-answered:
			t.Errorf("%s %s waits for no share: %s", method, path, answer)
			return
		case <-time.After(time.Millisecond):
		}
	}
	cancel()
	<-answered
	eventually(t, "nobody waits", func() bool { return l.api.Stats().Waiting == 0 })
}
