package uplink

import (
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// Whatever order the folder lists them in, an ended writer opens before the one
// that names it.
func TestEndedWritersOpenFirst(t *testing.T) {
	for round := range 8 {
		s := startServer(t)
		folder, err := spool.OpenFolder(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		const lives = 4
		var ids []model.WriterID
		for life := range lives {
			id := model.WriterID{byte(life * 64), 1}
			if round%2 == 0 {
				id[0] = 255 - id[0] // listed the other way round
			}
			f := &fixture{T: t, folder: folder, want: map[cell]int{}, series: map[string]*spool.Series{}}
			open := model.OpenRequest{Writer: id, RunName: "run", OrchestrationID: "job", Ended: append([]model.WriterID{}, ids...)}
			f.w, err = spool.Create(folder, s.addr, open, spool.WriterOptions{Cap: 1 << 30})
			f.ok(err)
			f.point("loss", int64(life), 1)
			f.close()
			ids = append(ids, id)
		}
		f := &fixture{T: t, folder: folder}
		f.sync(Options{})
		f.checkEmpty()
		for i, open := range s.opens {
			if open.Writer != ids[i] {
				t.Fatalf("round %d: open %d is of %s, want %s", round, i, open.Writer, ids[i])
			}
		}
	}
}

// A writer that the server refuses does not hold up the ones after it.
func TestARefusedWriterHoldsNobodyUp(t *testing.T) {
	s := startServer(t)
	folder, err := spool.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	old := model.WriterID{1}
	d := New(folder, Options{})
	w := &delivery{open: spool.Open{Server: s.addr, Open: model.OpenRequest{Writer: model.WriterID{2}, Ended: []model.WriterID{old, {9}}}}, opts: &d.opts}
	older := &delivery{open: spool.Open{Server: s.addr}, opts: &d.opts}
	d.writers[old] = older
	if _, wait := d.before(w); !wait {
		t.Error("an older writer that has not tried is passed")
	}
	older.answered.Store(true)
	if _, wait := d.before(w); wait {
		t.Error("one that was refused is waited for")
	}
	for _, err := range []error{model.Errorf(model.CodeUnavailable, "x"), errHungUp} {
		if !unanswered(err) {
			t.Errorf("%v counts as an answer", err)
		}
	}
	if unanswered(model.Errorf(model.CodePermission, "x")) {
		t.Error("a refusal counts as none")
	}
}
