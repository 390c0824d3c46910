package live

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/kymogram/kymogram/internal/model"
)

// counted answers with how often a run was published, which the tests know.
type counted map[model.RunID]uint64

func (c counted) Totals(_ context.Context, run model.RunID) (Summary, error) {
	return Summary{Points: c[run], Status: model.StatusRunning}, nil
}

func run(n byte) model.RunID { return model.RunID{15: n} }

// inBubble runs f with a hub that is being run, on a virtual clock.
func inBubble(t *testing.T, options Options, totals Totals, f func(h *Hub)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := New(totals, options)
		go func() { _ = h.Run(ctx) }()
		f(h)
		cancel()
		synctest.Wait()
	})
}

// settle lets every pending beat pass.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

func drained(events <-chan model.LiveEvent) []model.LiveEvent {
	var out []model.LiveEvent
	for {
		select {
		case e, ok := <-events:
			if !ok {
				return out
			}
			out = append(out, e)
		default:
			return out
		}
	}
}

func ofRun(n byte) model.RunChange {
	return model.RunChange{Run: run(n), Workspace: "w", Project: "p"}
}

func TestEventsAreCoalescedByRunAndFiltered(t *testing.T) {
	totals := counted{run(1): 7, run(2): 9}
	inBubble(t, Options{}, totals, func(h *Hub) {
		one, cancel := h.Subscribe(model.LiveFilter{Runs: []model.RunID{run(1)}}, 0)
		defer cancel()
		project, cancelProject := h.Subscribe(model.LiveFilter{Workspace: "w", Project: "p"}, 0)
		defer cancelProject()
		for range 100 {
			h.Publish(ofRun(1))
			h.Publish(ofRun(2))
		}
		h.Publish(model.RunChange{Run: run(3), Workspace: "w", Project: "other"})
		settle()
		got := drained(one)
		if len(got) == 0 || len(got) > 3 || got[len(got)-1].Points != 7 || got[0].Run != run(1) {
			t.Errorf("one run's events: %+v", got)
		}
		seen := map[model.RunID]uint64{}
		for _, e := range drained(project) {
			seen[e.Run] = e.Points
		}
		if diff := cmp.Diff(map[model.RunID]uint64{run(1): 7, run(2): 9}, seen); diff != "" {
			t.Errorf("the project's events (-want +got):\n%s", diff)
		}
	})
}

func TestAReaderContinuesBehindItsLastEvent(t *testing.T) {
	inBubble(t, Options{}, counted{}, func(h *Hub) {
		filter := model.LiveFilter{Workspace: "w", Project: "p"}
		events, cancel := h.Subscribe(filter, 0)
		h.Publish(ofRun(1))
		settle()
		first := drained(events)
		cancel()
		cancel()
		h.Publish(ofRun(2))
		h.Publish(ofRun(3))
		events, cancel = h.Subscribe(filter, first[len(first)-1].ID)
		defer cancel()
		settle()
		var runs []model.RunID
		for _, e := range drained(events) {
			runs = append(runs, e.Run)
		}
		if diff := cmp.Diff([]model.RunID{run(2), run(3)}, runs); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	})
}

func TestLostEventsAreAReset(t *testing.T) {
	filter := model.LiveFilter{Workspace: "w", Project: "p"}
	check := func(name string, options Options, after func(h *Hub) uint64) {
		t.Run(name, func(t *testing.T) {
			inBubble(t, options, counted{}, func(h *Hub) {
				events, cancel := h.Subscribe(filter, after(h))
				defer cancel()
				settle()
				got := drained(events)
				if len(got) == 0 || !got[0].Reset {
					t.Errorf("got %+v, want a reset first", got)
				}
				h.Publish(ofRun(9))
				settle()
				if got := drained(events); len(got) != 1 || got[0].Run != run(9) {
					t.Errorf("after the reset: %+v", got)
				}
			})
		})
	}
	check("before a restart", Options{}, func(*Hub) uint64 { return 1 })
	check("from the future", Options{}, func(*Hub) uint64 { return ^uint64(0) })
	check("out of the log", Options{Kept: 2}, func(h *Hub) uint64 {
		h.Publish(ofRun(1))
		id := h.last
		for i := range byte(5) {
			h.Publish(ofRun(i))
		}
		return id
	})
}

func TestASlowReaderGetsAReset(t *testing.T) {
	inBubble(t, Options{Kept: 4, Buffer: 2}, counted{}, func(h *Hub) {
		events, cancel := h.Subscribe(model.LiveFilter{Workspace: "w", Project: "p"}, 0)
		defer cancel()
		for i := range byte(20) {
			h.Publish(ofRun(i))
			settle()
		}
		drained(events)
		settle()
		if got := drained(events); len(got) != 1 || !got[0].Reset {
			t.Errorf("got %+v, want one reset", got)
		}
	})
}

func TestTheEndClosesChannels(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		h := New(counted{}, Options{})
		events, _ := h.Subscribe(model.LiveFilter{}, 0)
		done := make(chan error)
		go func() { done <- h.Run(ctx) }()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
		if _, open := <-events; open {
			t.Error("the channel is open after the end")
		}
		late, stop := h.Subscribe(model.LiveFilter{}, 0)
		defer stop()
		if _, open := <-late; open {
			t.Error("a late channel is open")
		}
	})
}

// Whatever is published, slept and read: a reader that always continues behind
// its last event either saw a run's last change or a reset after it.
func TestNothingIsLostUnnoticed(t *testing.T) {
	filter := model.LiveFilter{Workspace: "w", Project: "p"}
	rapid.Check(t, func(r *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 9), 1, 60).Draw(r, "steps")
		inBubble(t, Options{Kept: 4, Buffer: 2}, counted{}, func(h *Hub) {
			stale := map[model.RunID]bool{} // published and not seen since
			last := uint64(0)
			events, cancel := h.Subscribe(filter, 0)
			read := func() {
				for _, e := range drained(events) {
					last = e.ID
					if e.Reset {
						clear(stale)
					}
					delete(stale, e.Run)
				}
			}
			for _, step := range steps {
				switch {
				case step < 7:
					stale[run(byte(step))] = true
					h.Publish(ofRun(byte(step)))
				case step == 7:
					settle()
				case step == 8:
					settle()
					read()
				case last > 0: // reconnect
					cancel()
					events, cancel = h.Subscribe(filter, last)
				}
			}
			for range 10 {
				settle()
				read()
			}
			cancel()
			if len(stale) > 0 {
				r.Fatalf("unseen changes of %v", stale)
			}
		})
	})
}

// TestResetOfAll: whoever reads, or comes back from before, reads everything again; then events
// go on.
func TestResetOfAll(t *testing.T) {
	inBubble(t, Options{}, counted{}, func(h *Hub) {
		events, cancel := h.Subscribe(model.LiveFilter{Workspace: "w", Project: "p"}, 0)
		defer cancel()
		h.Publish(ofRun(1))
		settle()
		before := drained(events)
		if len(before) != 1 || before[0].Reset {
			t.Fatalf("%+v", before)
		}
		h.Publish(ofRun(2))
		h.Reset()
		settle()
		if got := drained(events); len(got) != 1 || !got[0].Reset {
			t.Errorf("%+v", got)
		}
		back, cancelBack := h.Subscribe(model.LiveFilter{Workspace: "w", Project: "p"}, before[0].ID)
		defer cancelBack()
		settle()
		if got := drained(back); len(got) != 1 || !got[0].Reset {
			t.Errorf("who comes back gets %+v", got)
		}
		h.Publish(ofRun(3))
		settle()
		for _, e := range [][]model.LiveEvent{drained(events), drained(back)} {
			if len(e) != 1 || e[0].Reset || e[0].Run != run(3) {
				t.Errorf("then %+v", e)
			}
		}
	})
}

// TestIDsOfAnotherHub: an id of a hub that started at the same moment means nothing to this one.
func TestIDsOfAnotherHub(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		last := uint64(0)
		hubs := []*Hub{New(counted{}, Options{}), New(counted{}, Options{})}
		for _, h := range hubs {
			go func() { _ = h.Run(ctx) }()
			events, end := h.Subscribe(model.LiveFilter{Workspace: "w", Project: "p"}, last)
			defer end()
			for n := range byte(9) {
				h.Publish(ofRun(n))
			}
			settle()
			got := drained(events)
			if reset := got[0].Reset; reset != (last > 0) {
				t.Errorf("the first of a reader at %d is %+v", last, got[0])
			}
			last = got[len(got)/2].ID
		}
		cancel()
		synctest.Wait()
	})
}
