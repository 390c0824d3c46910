package spool

import (
	"bytes"
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
		doc, err := os.ReadFile(filepath.Join(dir, openFile))
		if err != nil || !mayName(doc, r.RunName) && !mayName(doc, r.OrchestrationID) {
			continue
		}
		if alive, err := held(filepath.Join(dir, "lock")); err != nil || alive {
			continue
		}
		if open, err := parseOpen(dir, doc); err == nil && sameWork(&open.Open, r) {
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

// mayName reports whether a document may hold a text. Most writers are of other work,
// and decoding what each said of its run would be most of an Init.
func mayName(doc []byte, text string) bool {
	escaped := func(c rune) bool { return c < ' ' || c > '~' || strings.ContainsRune(`"\\/<>&'`, c) }
	return strings.ContainsFunc(text, escaped) || bytes.Contains(doc, []byte(text))
}

func sameWork(a, b *model.OpenRequest) bool {
	if a.Workspace != b.Workspace || a.Project != b.Project {
		return false
	}
	return a.RunName == b.RunName || a.OrchestrationID == b.OrchestrationID
}
