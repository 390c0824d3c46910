package uplink

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

func TestPaceStaysWithinTheProtocol(t *testing.T) {
	for _, c := range []struct {
		given *spool.Pace
		want  pace
	}{
		{nil, pace{bytes: batchBytes, linger: linger, inFlight: inFlight, first: firstBackoff, last: lastBackoff, videos: videosAtOnce}},
		{
			&spool.Pace{MaxPending: 30, BatchAgeMs: 2000, MaxBytes: 65536, FirstBackoffMs: 10, LastBackoffMs: 500, RenderingUploads: 2},
			pace{bytes: 65536, linger: 2 * time.Second, inFlight: 30, first: 10 * time.Millisecond, last: 500 * time.Millisecond, videos: 2},
		},
		{
			&spool.Pace{MaxPending: 9999, MaxBytes: 1, FirstBackoffMs: 500, LastBackoffMs: 1, RenderingUploads: 999},
			pace{bytes: leastBytes, linger: linger, inFlight: mostInFlight, first: 500 * time.Millisecond, last: 500 * time.Millisecond, videos: mostVideos},
		},
		{&spool.Pace{MaxBytes: math.MaxInt}, pace{bytes: batchBytes, linger: linger, inFlight: inFlight, first: firstBackoff, last: lastBackoff, videos: videosAtOnce}},
	} {
		if diff := cmp.Diff(c.want, paceOf(c.given), cmp.AllowUnexported(pace{})); diff != "" {
			t.Errorf("%+v (-want +got)\n%s", c.given, diff)
		}
	}
}

// paced is a fixture whose writer has a pace of its own.
func paced(t *testing.T, s *server, p spool.Pace) *fixture {
	t.Helper()
	f := newFixture(t, s)
	_, err := f.w.Close()
	f.ok(err)
	f.ok(f.folder.Remove(f.w.ID))
	w, err := spool.Create(f.folder, s.addr, model.OpenRequest{Writer: model.WriterID{9}, RunName: "run"}, spool.WriterOptions{Cap: 1 << 30, Pace: &p})
	f.ok(err)
	f.w, f.series = w, map[string]*spool.Series{}
	t.Cleanup(func() { w.Close() })
	return f
}

// TestGiveUp: after its last try the oldest batch is dropped and counted, the
// server is told, and changes of the run arrive all the same.
func TestGiveUp(t *testing.T) {
	s := startServer(t)
	s.batch = func(n int) fault {
		if n <= 4 {
			return reset
		}
		return none
	}
	tries := uint64(3)
	f := paced(t, s, spool.Pace{MaxBytes: 4096, MaxPending: 1, FirstBackoffMs: 1, LastBackoffMs: 2, GiveUpAfter: &tries})
	status, err := spool.OpenStatus(f.folder.WriterPath(f.w.ID))
	f.ok(err)
	defer status.Close()
	f.ok(f.w.Updates([]model.Update{{Op: model.OpSetDescription, Text: "kept"}}))
	for i := range int64(1000) {
		f.point("loss", i, 0.5)
	}
	f.close()
	f.sync(Options{})
	page, err := status.Read()
	f.ok(err)
	var told uint64
	for _, skip := range s.skipped {
		if skip.Reason == "dropped" {
			told += skip.Points
		}
	}
	stored := uint64(len(s.stored()))
	if page.Dropped.Points == 0 || page.Dropped.Points > 200 || told != page.Dropped.Points || stored+told != 1000 {
		t.Errorf("dropped %d, told the server of %d, stored %d of 1000", page.Dropped.Points, told, stored)
	}
	if page.Sent.Points != stored || page.Acked != stored || page.Failures != 0 {
		t.Errorf("the page says sent %+v, acked %d, failures %d; stored %d", page.Sent, page.Acked, page.Failures, stored)
	}
	if len(s.updates) == 0 || s.updates[0].Text != "kept" {
		t.Errorf("updates %+v", s.updates)
	}
	f.checkEmpty()
}

// TestTallies: what the page says was sent, by kind, is what the server has,
// also when acks were lost.
func TestTallies(t *testing.T) {
	for name, harm := range map[string]fault{"none": none, "lost acks": loseAck, "resets": reset} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			s.batch = func(n int) fault {
				if n < 6 {
					return harm
				}
				return none
			}
			f := paced(t, s, spool.Pace{MaxBytes: 4096, FirstBackoffMs: 1, LastBackoffMs: 2})
			status, err := spool.OpenStatus(f.folder.WriterPath(f.w.ID))
			f.ok(err)
			defer status.Close()
			for i := range int64(400) {
				f.point("loss", i, 0.5)
			}
			a := f.of(model.KindFloat, "reward")
			for i := range int64(300) {
				constant := func(v int64) spool.Column { return spool.Column{Mode: spool.ModeConstant, Values: []int64{v}} }
				f.ok(f.w.Block([]*spool.Series{a}, &spool.Block{
					Kind: model.KindFloat, Rows: 1, Series: []uint32{a.ID}, Time: constant(1),
					Axes:   []spool.BlockAxis{{Axis: spool.AxisStep, Column: constant(i)}, {Axis: 2, Column: constant(0)}},
					Values: []uint64{math.Float64bits(1)},
				}))
			}
			f.ok(f.w.Updates([]model.Update{{Op: model.OpAddTags, Tags: []string{"a"}}, {Op: model.OpSetEnvAttribute, Env: "e", Path: "p"}}))
			f.close()
			f.sync(Options{})
			page, err := status.Read()
			f.ok(err)
			if want := (spool.Tally{Points: 400, RL: 300, Attributes: 1, Envs: 1}); page.Sent != want || len(s.stored()) != 700 {
				t.Errorf("sent %+v, want %+v; stored %d", page.Sent, want, len(s.stored()))
			}
		})
	}
}
