package httpapi_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// countedStates counts what was read of the records.
type countedStates struct {
	*statelog.Log
	read atomic.Int64
}

func (c *countedStates) List(ctx context.Context, workspace, project string, f state.Filter) (*state.Page, error) {
	c.read.Add(1)
	return c.Log.List(ctx, workspace, project, f)
}

func (c *countedStates) Head(ctx context.Context, run model.RunID) (state.Newest, error) {
	c.read.Add(1)
	return c.Log.Head(ctx, run)
}

// A page of records is read when its caller's share allows it, not before: pages that
// wait would lie in memory. Other callers get theirs.
func TestPagesOfRecordsWaitUnread(t *testing.T) {
	log, err := statelog.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	states := &countedStates{Log: log}
	l := newLab(t, httpapi.Options{States: states, Stall: time.Hour, Memory: 48 << 20})
	payload := fmt.Sprintf(`{"a":"%s"}`, strings.Repeat("x", state.MaxPayload-100))
	const runs, readers = 6, 5
	var head string
	for i := range runs {
		name := fmt.Sprintf("r%d", i)
		head = "/api/v1/runs/" + l.writer(name, nil).run.String() + "/state"
		if a := l.do("POST", head, nil, asJSON(t, stateRecord(t, name, 5, state.Hash{}, payload))); a.status != 201 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	const list = "/api/v1/projects/lab/digits/state"
	for _, path := range []string{list, list + "?wait=1"} {
		for range readers {
			l.unread("greedy", path)
		}
	}
	eventually(t, "the greedy caller waits", func() bool { return l.api.Stats().Waiting == 2*readers-1 })
	for range readers {
		l.unread("greedy", head)
	}
	eventually(t, "newest records wait", func() bool { return l.api.Stats().Waiting == 3*readers-1 })
	eventually(t, "the first is read", func() bool { return states.read.Load() > 0 })
	if n := states.read.Load(); n != 1 {
		t.Errorf("%d answers were read for one share", n)
	}
	var page state.Page
	l.asOther(t, list, &page)
	if n := len(page.Entries); n < 4 || n > runs {
		t.Errorf("%d records of %d", n, runs)
	}
}
