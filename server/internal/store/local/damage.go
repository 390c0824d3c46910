package local

import (
	"errors"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// damageList is what could not be read, a place in a file once.
type damageList struct {
	seen map[filePlace]bool
	runs map[model.RunID][]lostPoints
}

// lostPoints are points that a damaged block takes with it. Those of a row group
// whose index is whole are among the stored ones of their series.
type lostPoints struct {
	model.Damage
	indexed bool
}

// filePlace is a place in a segment.
type filePlace struct {
	segment uint64
	off     int64
}

// first notes damage and reports whether it is news.
func (e *Engine) first(at *blockError, run model.RunID) bool {
	e.badMu.Lock()
	defer e.badMu.Unlock()
	key := filePlace{at.segment, at.off}
	if e.bad.seen[key] {
		return false
	}
	e.bad.seen[key] = true
	if at.lost.Points > 0 && !run.IsZero() {
		e.bad.runs[run] = append(e.bad.runs[run], at.lost)
	}
	return true
}

// damageOf lists what is known to be lost of a run.
func (e *Engine) damageOf(run model.RunID) []lostPoints {
	e.badMu.Lock()
	defer e.badMu.Unlock()
	return slices.Clone(e.bad.runs[run])
}

// lose says how many points an unreadable block takes with it.
func (s *segment) lose(err error, points uint64, tlo, thi int64) error {
	var at *blockError
	if errors.As(err, &at) {
		at.lost.Damage = model.Damage{File: filepath.Join("segments", segmentName(s.id)), Points: points, MinTimeNs: tlo, MaxTimeNs: thi}
	}
	return err
}

// bad is damage to a block of the group that columns values share, or to one of
// them.
func (g *segmentGroup) bad(ref blockRef, columns int, err error) error {
	var at *blockError
	if !errors.As(err, &at) {
		at = &blockError{segment: g.segment.id, off: ref.off, err: err}
		err = at
	}
	at.lost.indexed = true
	return g.segment.lose(err, uint64(g.ext.Rows*columns), g.ext.MinTime, g.ext.MaxTime)
}

// unread is an error for a file that the disk does not give, nil for one that it
// gives with wrong bytes. Those can be left out for good; a file that comes back
// with the next start must not, as what was stored meanwhile would contradict it.
func unread(err error, file string) error {
	if err == nil || errors.Is(err, errDamaged) || errors.Is(err, record.ErrShort) {
		return nil
	}
	return model.Errorf(model.CodeUnavailable, "cannot read %s: %v", file, err).
		WithHint("check the disk and start again; to start without the points in it for good, move the file elsewhere")
}
