package catalogtest

import (
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

func (h *harness) recover(kept ...model.KeptRun) []model.RunID {
	h.t.Helper()
	back, err := h.c.Recover(h.ctx(), slices.Values(kept), at(1500))
	h.check("Recover", err)
	return back
}

func (h *harness) nameless(want int) {
	h.t.Helper()
	n, err := h.c.Nameless(h.ctx())
	h.check("Nameless", err)
	equal(h.t, "nameless runs", want, n)
}

// testRecovery gives a catalog runs that it does not know.
func testRecovery(t *testing.T, open Opener) {
	h := newHarness(t, open)
	listed, trashed, purged := h.must(request(1)), h.must(request(2, named("trashed"), job("t"))), h.must(request(3, named("purged"), job("p")))
	h.must(request(4)) // its ULID is an alias of the first
	h.check("Trash", h.c.Trash(h.ctx(), trashed.Run, at(1100)))
	h.check("Purge", h.c.Purge(h.ctx(), purged.Run))
	step, logger := int64(7), uint64(1<<63+5)
	lost := model.KeptRun{
		ID: local(50),
		Attempts: []model.Attempt{
			{Number: 1, Precedence: atNs(50), OpenedNs: atNs(50)},
			{Number: 2, Precedence: atNs(60), OpenedNs: atNs(60), ResumeFrom: &step},
		},
		Writers: []model.KeptWriter{{ID: writer(50), Attempt: 1}, {ID: writer(60), Attempt: 2, LoggerID: &logger}},
	}
	known := []model.KeptRun{{ID: listed.Run}, {ID: trashed.Run}, {ID: purged.Run}, {ID: local(4)}}
	bare := model.KeptRun{ID: local(51), Writers: []model.KeptWriter{{ID: writer(51), Attempt: 3}}}
	equal(t, "back", []model.RunID{local(50), local(51)}, h.recover(append(known, bare, lost)...))
	if again := h.recover(append(known, bare, lost)...); len(again) > 0 {
		t.Errorf("recovered twice: %v", again)
	}
	h.nameless(2)
	d := h.detail(lost.ID)
	if d.Workspace != catalog.Recovered || d.Project != catalog.Recovered || d.Name != lost.ID.String() || d.Status != model.StatusLost || d.CreatedNs != atNs(50) || d.Attempt != 2 {
		t.Errorf("the recovered run: %+v", d.Run)
	}
	if d.Description == "" || len(d.Events) != 1 || d.Events[0].Name != "recovered" {
		t.Errorf("it does not say why: %q, %+v", d.Description, d.Events)
	}
	equal(t, "attempts", lost.Attempts, d.Attempts)
	if len(d.Writers) != 2 || d.Writers[0].ID != writer(50) || !d.Writers[0].Silent || d.Writers[1].Attempt != 2 || *d.Writers[1].LoggerID != logger {
		t.Errorf("writers: %+v", d.Writers)
	}
	if b := h.detail(bare.ID); b.Status != model.StatusLost || len(b.Attempts) != 1 || b.Attempts[0].Number != 3 {
		t.Errorf("a run whose attempts are lost: %+v, %+v", b.Run, b.Attempts)
	}
	h.check("Apply", h.c.Apply(h.ctx(), bare.ID, model.WriterID{}, 0, []model.Update{{Op: model.OpSetDisplayName, Text: "mine"}}, at(1600)))
	h.nameless(1)
	h.check("Trash", h.c.Trash(h.ctx(), bare.ID, at(1700)))
	h.nameless(1)
}

// testReturn opens recovered runs again: they move to the places that their
// clients name.
func testReturn(t *testing.T, open Opener) {
	h := newHarness(t, open)
	for n := 50; n < 54; n++ {
		a := model.Attempt{Number: 1, Precedence: atNs(n), OpenedNs: atNs(n)}
		h.recover(model.KeptRun{ID: local(n), Attempts: []model.Attempt{a}, Writers: []model.KeptWriter{{ID: writer(n), Attempt: 1}}})
	}
	tag := func(r *model.OpenRequest) { r.Initial = []model.Update{{Op: model.OpAddTags, Tags: []string{"x"}}} }
	other := func(r *model.OpenRequest) { r.LocalRun = local(99) }
	back := h.must(request(50, tag, other)) // by its writer
	if back.Run != local(50) || back.Project != "project" || back.RunName != "r" || back.Attempt != 1 || back.Created {
		t.Errorf("the writer's run: %+v", back)
	}
	d := h.detail(local(50))
	if d.Project != "project" || d.Name != "r" || d.Description != "" || d.Status != model.StatusRunning || d.OrchestrationID != "job" {
		t.Errorf("in its place: %+v", d.Run)
	}
	equal(t, "tags", []string{"x"}, d.Tags)
	if w := d.Writers[0]; w.Host != "host" || w.PID != 50 || w.State != model.WriterOpen {
		t.Errorf("its writer: %+v", w)
	}
	if o := h.must(request(50, tag)); o.Run != local(50) || o.RunName != "r" {
		t.Errorf("once more: %+v", o)
	}
	if o := h.must(request(70)); o.Run != local(50) {
		t.Errorf("another writer of the job: %+v", o)
	}
	byULID := h.must(request(71, named("second"), job("second"), func(r *model.OpenRequest) { r.LocalRun = local(51) }))
	if byULID.Run != local(51) || byULID.RunName != "second" || byULID.Attempt != 2 {
		t.Errorf("by its ULID: %+v", byULID)
	}
	if o := h.must(request(52, job("elsewhere"))); o.Run != local(52) || o.RunName != "r-2" || o.LinkedFrom != "r" {
		t.Errorf("its name is taken: %+v", o)
	}
	h.nameless(1)
	h.check("Trash", h.c.Trash(h.ctx(), local(53), at(1700)))
	if o := h.must(request(72, named("third"), func(r *model.OpenRequest) { r.LocalRun = local(53) })); o.Run == local(53) {
		t.Errorf("a deleted run came back: %+v", o)
	}
}
