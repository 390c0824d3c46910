//go:build e2e

package crash

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/test/rig"
)

// editor opens runs and renames them until its server is gone, and remembers what
// was acknowledged.
type editor struct {
	number int
	server *rig.Server
	key    string
	opened map[string]string // run name → display name
	ids    map[string]string
}

func (e *editor) work(ctx context.Context, round int) {
	for i := 0; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("run-%d-%d-%d", e.number, round, i)
		var opened struct {
			Run string `json:"run"`
		}
		open := map[string]any{
			"writer": fmt.Sprintf("%08x%08x%016x", e.number+1, round, i+1), "workspace": "w", "project": "catalog", "run_name": name,
		}
		if !e.send(ctx, http.MethodPost, "/api/v1/open", open, &opened) {
			return
		}
		e.opened[name], e.ids[name] = "", opened.Run
		display := fmt.Sprintf("display %d", i)
		if !e.send(ctx, http.MethodPatch, "/api/v1/runs/"+opened.Run, map[string]any{"display_name": display, "tags": []string{display}}, nil) {
			return
		}
		e.opened[name] = display
	}
}

// send is false when it was not acknowledged.
func (e *editor) send(ctx context.Context, method, path string, body, into any) bool {
	text, err := json.Marshal(body)
	if err != nil {
		return false
	}
	r, err := http.NewRequestWithContext(ctx, method, e.server.Address+path, bytes.NewReader(text))
	if err != nil {
		return false
	}
	r.Header.Set("Authorization", "Bearer "+e.key)
	r.Header.Set("Content-Type", "application/json")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return false
	}
	return into == nil || json.NewDecoder(answer.Body).Decode(into) == nil
}

// The server is killed between the catalog and its mirror too: what was acknowledged
// is in both, and they agree.
func TestServerKilledBetweenCatalogAndMirror(t *testing.T) {
	r := rig.New(t)
	server := r.Serve(t)
	editors := make([]*editor, 8)
	for i := range editors {
		editors[i] = &editor{number: i, server: server, key: server.Key(t), opened: map[string]string{}, ids: map[string]string{}}
	}
	caught := 0.0
	for round := range max(5, *kills/4) {
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for _, e := range editors {
			all.Go(func() { e.work(ctx, round) })
		}
		time.Sleep(between(100*time.Millisecond, 900*time.Millisecond))
		server.Kill(t)
		stop()
		all.Wait()
		server.Restart(t)
		c := server.Client(t)
		caught += c.Metric(t, "kymogram_catalog_caught_up_total")
		if n := c.Metric(t, "kymogram_catalog_repairs_total"); n > 0 {
			t.Logf("round %d: made anew", round)
		}
		r.CLI(t, "data", "verify", "--data", server.Data) // fails the test when they disagree
	}
	total := 0
	for _, e := range editors {
		total += len(e.opened)
		e.mustHold(t, server.Client(t))
	}
	t.Logf("%d runs were acknowledged; %v starts caught up with the mirror", total, caught)
	if total == 0 {
		t.Error("nothing was acknowledged")
	}
}

func (e *editor) mustHold(t *testing.T, c *rig.Client) {
	t.Helper()
	for name, display := range e.opened {
		var got struct {
			Name    string `json:"name"`
			Display string `json:"display_name"`
		}
		c.Get(t, "/api/v1/runs/"+e.ids[name], url.Values{}, &got)
		if got.Name != name || display != "" && got.Display != display {
			t.Errorf("run %s is %+v, and %q was acknowledged", name, got, display)
		}
	}
}
