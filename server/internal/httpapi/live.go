package httpapi

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// Live is where events come from; package live implements it.
type Live interface {
	// Subscribe delivers the events behind the one with the id after; 0 means new
	// ones only. The first is a Reset when those between are gone. A slow reader
	// gets a Reset instead of what it missed. The channel is closed when the
	// server drains; cancel ends the subscription and may be called twice.
	Subscribe(f model.LiveFilter, after uint64) (events <-chan model.LiveEvent, cancel func())
}

const (
	// maxLiveRuns bounds the runs of one stream: a page compares a few dozen.
	maxLiveRuns = 1_000
	// retryMs is how long a browser waits before it connects again.
	retryMs = 2_000
	// eventDeadline is how long one event may take to leave; a client slower than
	// that comes back with Last-Event-ID.
	eventDeadline = 30 * time.Second
	// mostWaits is how many streams and waiting requests there may be where nobody says less.
	mostWaits = 4_096
)

// stream answers GET /api/v1/live until the client leaves or the server ends the
// request's context: it does when it drains and when the caller's key ends.
func (a *API) stream(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "run*", "project", inheritedParam)
	inherited := p.inherited()
	if p.err != nil {
		return p.err
	}
	filter, err := a.liveFilter(r, p)
	if err != nil {
		return err
	}
	end, err := a.waits.Try(r.Context(), 1)
	if err != nil {
		return err
	}
	defer end()
	f := &family{query: a.query, inherited: inherited, known: map[model.RunID]bool{}}
	filter.Runs = f.with(r.Context(), filter.Runs)
	events, cancel := a.live.Subscribe(filter, lastEvent(r))
	defer func() { cancel() }()
	s := &eventStream{w: w, control: http.NewResponseController(w)}
	s.begin()
	beat := time.NewTicker(a.options.Heartbeat)
	defer beat.Stop()
	for s.err == nil {
		select {
		case event, open := <-events:
			if !open {
				return nil
			}
			s.send(event)
			if runs := f.with(r.Context(), filter.Runs); !event.Reset && len(runs) > len(filter.Runs) {
				cancel()
				filter.Runs = runs
				events, cancel = a.live.Subscribe(filter, event.ID)
			}
		case <-beat.C:
			s.write([]byte(":\n\n"))
		case <-r.Context().Done():
			return nil
		}
	}
	return nil
}

// lastEvent reads Last-Event-ID. One that this server never gave is answered as
// the newest possible, which makes Subscribe begin with a reset.
func lastEvent(r *http.Request) uint64 {
	text := r.Header.Get("Last-Event-ID")
	if text == "" {
		return 0
	}
	id, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return ^uint64(0)
	}
	return id
}

func (a *API) liveFilter(r *http.Request, p *params) (model.LiveFilter, error) {
	names, project := p.values["run"], p.text("project")
	if (len(names) == 0) == (project == "") {
		return model.LiveFilter{}, model.Errorf(model.CodeInvalid, "a stream is of runs or of one project").
			WithHint("run=ID, as often as needed, or project=WORKSPACE/PROJECT")
	}
	if project != "" {
		workspace, name, ok := strings.Cut(project, "/")
		if !ok || workspace == "" || name == "" {
			return model.LiveFilter{}, model.Errorf(model.CodeInvalid, "project is %q", project).WithHint("project=WORKSPACE/PROJECT")
		}
		return model.LiveFilter{Workspace: workspace, Project: name}, a.query.Allow(r.Context(), workspace, name)
	}
	return a.liveRuns(r, names)
}

func (a *API) liveRuns(r *http.Request, names []string) (model.LiveFilter, error) {
	var f model.LiveFilter
	if len(names) > maxLiveRuns {
		return f, model.Errorf(model.CodeInvalid, "%d runs in one stream, there may be %d", len(names), maxLiveRuns).WithHint("use project=WORKSPACE/PROJECT")
	}
	for _, name := range names {
		id, err := model.ParseRunID(name)
		if err != nil {
			return f, model.Errorf(model.CodeInvalid, "%q is not the id of a run: %v", name, err)
		}
		run, err := a.query.Locate(r.Context(), id)
		if err != nil {
			return f, err
		}
		if !slices.Contains(f.Runs, run.ID) {
			f.Runs = append(f.Runs, run.ID)
		}
	}
	return f, nil
}

// family are the runs of a stream with those whose points some of them inherit.
type family struct {
	query     *query.Service
	inherited bool
	known     map[model.RunID]bool
	open      []model.RunID // to ask for their parents
}

// with adds the ancestors of runs. One that cannot be read now is no reason to say nothing
// of the others; it is asked for again: a fork may come before its parent, or its parent
// back from the trash.
func (f *family) with(ctx context.Context, runs []model.RunID) []model.RunID {
	if !f.inherited {
		return runs
	}
	if len(f.known) == 0 {
		for _, id := range runs {
			f.known[id] = true
		}
		f.open = runs
	}
	before := len(f.known)
	if f.open = f.query.Ancestors(ctx, f.known, f.open); len(f.known) > before {
		return slices.Collect(maps.Keys(f.known))
	}
	return runs
}

// eventStream writes server-sent events and keeps the first error.
type eventStream struct {
	w       http.ResponseWriter
	control *http.ResponseController
	err     error
}

func (s *eventStream) begin() {
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.w.WriteHeader(http.StatusOK)
	s.write(fmt.Appendf(nil, "retry: %d\n\n", retryMs))
}

func (s *eventStream) send(e model.LiveEvent) {
	if e.Reset {
		s.write(fmt.Appendf(nil, "event: reset\nid: %d\ndata: {}\n\n", e.ID))
		return
	}
	s.write(fmt.Appendf(nil, "event: run\nid: %d\ndata: {\"run\":%q,\"points\":%d,\"series\":%d,\"last_ns\":%d,\"status\":%q}\n\n",
		e.ID, e.Run.String(), e.Points, e.Series, e.LastNs, string(e.Status)))
}

func (s *eventStream) write(text []byte) {
	deadline := s.control.SetWriteDeadline(time.Now().Add(eventDeadline))
	if deadline != nil && !errors.Is(deadline, http.ErrNotSupported) {
		s.err = deadline
		return
	}
	if _, s.err = s.w.Write(text); s.err == nil {
		s.err = s.control.Flush()
	}
}
