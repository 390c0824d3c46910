package spool

import (
	"cmp"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Ended lists the writers of the folder that are of r's run or job and whose
// processes are over, newest first, at most [model.MaxEnded]. What cannot be
// read is passed over: a new run begins all the same.
func (f *Folder) Ended(r *model.OpenRequest) []model.WriterID {
	ids, err := f.Writers()
	if err != nil {
		return nil
	}
	var over []model.OpenRequest
	for _, id := range ids {
		dir := f.WriterPath(id)
		open, err := ReadOpen(dir)
		if err != nil || !sameWork(&open.Open, r) {
			continue
		}
		if alive, err := held(filepath.Join(dir, "lock")); err == nil && !alive {
			over = append(over, open.Open)
		}
	}
	slices.SortFunc(over, func(a, b model.OpenRequest) int { return cmp.Compare(b.OpenedNs, a.OpenedNs) })
	var ended []model.WriterID
	for i := range over[:min(len(over), model.MaxEnded)] {
		ended = append(ended, over[i].Writer)
	}
	return ended
}

func sameWork(a, b *model.OpenRequest) bool {
	if a.Workspace != b.Workspace || a.Project != b.Project {
		return false
	}
	return a.RunName == b.RunName || a.OrchestrationID == b.OrchestrationID
}
