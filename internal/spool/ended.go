package spool

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
)

// Ended lists the writers of the folder that are of r's run or job and whose
// processes are over, newest first, at most [model.MaxEnded]. What cannot be
// read is passed over: a new run begins all the same.
func (f *Folder) Ended(r *model.OpenRequest) (ended []model.WriterID) {
	_ = f.index() // what it could not list is passed over
	for _, name := range f.listed(r) {
		id, err := writerOf(name)
		if err == nil && f.isOver(id, r) {
			ended = append(ended, id)
		}
		if len(ended) == model.MaxEnded {
			break
		}
	}
	return ended
}

// isOver reports whether a writer is of r's run or job, and its process gone.
func (f *Folder) isOver(id model.WriterID, r *model.OpenRequest) bool {
	dir := f.WriterPath(id)
	if alive, err := held(filepath.Join(dir, "lock")); err != nil || alive {
		return false
	}
	doc, err := os.ReadFile(filepath.Join(dir, openFile))
	if err != nil {
		return false
	}
	var said work // of all that it says, which may be a whole configuration
	return json.Unmarshal(doc, &said) == nil && readable(said.Format) && said.same(r)
}

// work is the part of open.json that tells which run and job a writer is of.
type work struct {
	Format int `json:"format"`
	Open   struct {
		Workspace       string `json:"workspace"`
		Project         string `json:"project"`
		RunName         string `json:"run_name"`
		OrchestrationID string `json:"orchestration_id"`
	} `json:"open"`
}

func (w *work) same(r *model.OpenRequest) bool {
	o := &w.Open
	if o.Workspace != r.Workspace || o.Project != r.Project {
		return false
	}
	return o.RunName == r.RunName || o.OrchestrationID == r.OrchestrationID
}

// IsDelivered reports whether the server has all of a writer that is over: what the
// deliverer says last, before it removes the folder.
func (f *Folder) IsDelivered(id model.WriterID) bool {
	status, err := OpenStatus(f.WriterPath(id))
	if err != nil {
		return errors.Is(err, os.ErrNotExist)
	}
	defer status.Close()
	page, err := status.Read()
	return err == nil && page.State == StateDelivered
}
