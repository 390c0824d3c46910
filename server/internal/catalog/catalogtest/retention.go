package catalogtest

import (
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// testRetention has one run that is written to, one that is kept, one in the
// trash and two that ended, and asks which may be deleted.
func testRetention(t *testing.T, open Opener) {
	h := &harness{t: t, c: open(t, t.TempDir())}
	var ids []model.RunID
	for i, name := range []string{"running", "kept", "trashed", "early", "late"} {
		r := request(i+1, named(name), job(name))
		id := h.must(r).Run
		ids = append(ids, id)
		if name == "running" {
			continue
		}
		updates := []model.Update{{Op: model.OpClose, Text: string(model.StatusFinished)}}
		if name == "kept" {
			updates = append(updates, model.Update{Op: model.OpAddTags, Tags: []string{catalog.TagKeep}})
		}
		h.check("Apply", h.c.Apply(h.ctx(), id, r.Writer, uint64(i+1), updates, at(5000+100*i)))
	}
	h.check("Trash", h.c.Trash(h.ctx(), ids[2], at(9000)))
	names := func(before, limit int) (out []string) {
		runs, err := h.c.Idle(h.ctx(), at(before), limit)
		h.check("Idle", err)
		for _, r := range runs {
			if r.ID.IsZero() || r.Workspace != "team" || r.Project != "project" || r.LastNs == 0 {
				t.Errorf("an idle run: %+v", r)
			}
			out = append(out, r.Name)
		}
		return out
	}
	equal(t, "idle", []string{"trashed", "early", "late"}, names(99_999, 10))
	equal(t, "the first", []string{"trashed"}, names(99_999, 1))
	equal(t, "older than the last", []string{"trashed", "early"}, names(5400, 10))
	equal(t, "older than all", []string(nil), names(1, 10))

	video := strings.Repeat("ab", 32)
	h.lsn = 100
	h.apply(ids[3], 4, model.Update{Op: model.OpRendering, Rendering: &model.Rendering{ID: "v", Env: "e", SHA256: video}})
	file, replaced := strings.Repeat("ef", 32), strings.Repeat("01", 32)
	for i, hash := range []string{replaced, file} {
		h.apply(ids[3], 4, model.Update{Op: model.OpSetFile, Path: "f", File: &model.RunFile{SHA256: hash, Size: int64(i)}})
	}
	used := func(when string, want map[string]bool) {
		got, err := h.c.Referenced(h.ctx(), []string{video, file, replaced, strings.Repeat("cd", 32)})
		h.check("Referenced", err)
		equal(t, "referenced "+when, want, got)
	}
	used("by a run", map[string]bool{video: true, file: true})
	h.check("Trash", h.c.Trash(h.ctx(), ids[3], at(9000)))
	used("by a run in the trash", map[string]bool{video: true, file: true})
	h.check("Purge", h.c.Purge(h.ctx(), ids[3]))
	used("by nobody", map[string]bool{})
	gone := func(when string, want ...model.RunID) {
		got, err := h.c.Gone(h.ctx(), ids)
		h.check("Gone", err)
		equal(t, "gone "+when, want, got)
	}
	gone("in the trash, and purged", ids[2], ids[3])
	h.check("Restore", h.c.Restore(h.ctx(), ids[2]))
	gone("after the restore", ids[3])
}
