package local_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// wordy is n series of a run with a name of 200 bytes, from a place on.
func wordy(run model.RunID, seq uint64, from, n int) *model.Batch {
	b := &model.Batch{Run: run, Writer: model.WriterID(run), Attempt: 1, First: seq, Last: seq}
	for i := from; i < from+n; i++ {
		key := model.NewSeriesKey(strings.Repeat("layer.", 32)+fmt.Sprint(i), "", nil)
		b.Groups = append(b.Groups, model.RowGroup{Seq: []uint64{seq}, TimeNs: []int64{int64(i)}, Columns: []model.Column{{Series: key, Kind: model.KindFloat, Floats: []float64{1}}}})
	}
	return b
}

func small(t *testing.T, dir string) *local.Engine {
	t.Helper()
	return must(local.Open(t.Context(), local.Config{Dir: dir, FS: hasty{wal.OS{}}, MemoryBytes: 2 << 20}))
}

// held fails where more is held than the limit, a quarter of it for what is being
// flushed, and a batch or two.
func held(t *testing.T, e *local.Engine) {
	t.Helper()
	if got := e.Stats().MemoryBytes; got > 3<<20 {
		t.Fatalf("%d bytes are held, the limit is %d", got, 2<<20)
	}
}

// TestRelieve writes to and reads many runs in turn that together take many times the
// memory: what is not in use makes room, and nothing is refused.
func TestRelieve(t *testing.T) {
	alone(t)
	e := small(t, t.TempDir())
	defer e.Close()
	const runs, series = 40, 1000
	for round := range 2 {
		for i := range runs {
			if round == 0 {
				if err := e.PutAttempt(t.Context(), runNumber(i), model.Attempt{Number: 1}); err != nil {
					t.Fatal(err)
				}
			}
			must(e.Append(t.Context(), wordy(runNumber(i), uint64(round+1), round*series/2, series/2)))
			held(t, e)
		}
	}
	for i := range runs {
		list(t, e, runNumber(i), series)
		must(e.Append(t.Context(), wordy(runNumber(i), 3, series-1, 1)))
		held(t, e)
	}
	if s := e.Stats(); s.MemoryRefused != 0 || s.Points != runs*(series+1) {
		t.Errorf("%d refused, %d points", s.MemoryRefused, s.Points)
	}
}

// TestNoMemoryForSeries sends a run ever more series. What does not fit is refused,
// what was acknowledged is there, also after another start.
func TestNoMemoryForSeries(t *testing.T) {
	alone(t)
	dir, run := t.TempDir(), model.RunID{1}
	e := small(t, dir)
	if err := e.PutAttempt(t.Context(), run, model.Attempt{Number: 1}); err != nil {
		t.Fatal(err)
	}
	acked := 0
	var refused error
	for seq := uint64(1); refused == nil && seq < 1000; seq++ {
		if _, refused = e.Append(t.Context(), wordy(run, seq, acked, 100)); refused == nil {
			acked += 100
			held(t, e)
		}
	}
	if model.CodeOf(refused) != model.CodeUnavailable || acked < 1000 {
		t.Fatal(acked, refused)
	}
	before := e.Stats().MemoryRefused
	for range 10 {
		if _, err := e.Append(t.Context(), wordy(run, uint64(acked/100+1), acked, 100)); model.CodeOf(err) != model.CodeUnavailable {
			t.Fatal(err)
		}
	}
	if got := e.Stats().MemoryRefused; got != before+10 {
		t.Errorf("%d refusals are counted", got-before)
	}
	list(t, e, run, acked)
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = small(t, dir)
	defer e.Close()
	list(t, e, run, acked)
	if mark, err := e.Mark(t.Context(), model.WriterID(run)); err != nil || mark != uint64(acked/100) {
		t.Error(mark, err)
	}
}

// TestNoMemoryForRuns makes runs until there may be no more: those there are go on.
func TestNoMemoryForRuns(t *testing.T) {
	alone(t)
	dir := t.TempDir()
	e := small(t, dir)
	made, refused := 0, error(nil)
	for ; refused == nil && made < 10_000; made++ {
		if refused = e.PutAttempt(t.Context(), runNumber(made), model.Attempt{Number: 1}); refused == nil {
			must(e.Append(t.Context(), wordy(runNumber(made), 1, 0, 1)))
			held(t, e)
		}
	}
	made--
	if model.CodeOf(refused) != model.CodeUnavailable || made < 1000 {
		t.Fatal(made, refused)
	}
	t.Logf("%d runs in 2 MiB", made)
	if err := e.PutWriter(t.Context(), runNumber(0), model.WriterID{9}, 1, nil); model.CodeOf(err) != model.CodeUnavailable {
		t.Error("another writer:", err)
	}
	for i := range made {
		must(e.Append(t.Context(), wordy(runNumber(i), 2, 0, 1)))
	}
	if err := e.Close(); err != nil {
		t.Fatal(err)
	}
	e = small(t, dir)
	defer e.Close()
	if s := e.Stats(); s.Runs != uint64(made) || s.Points != uint64(2*made) {
		t.Errorf("%d runs, %d points", s.Runs, s.Points)
	}
}
