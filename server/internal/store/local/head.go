package local

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// head is the small part of what a segment says of a run: it is read at start
// for every run. What names series and places points is the body, read when the
// run is first used.
type head struct {
	runRef
	deleted  bool
	nextOrd  int64
	made     uint32 // places of series that are taken: 1 + the largest
	attempts []model.Attempt
	writers  []placedWriter
	sources  []placedSource
}

type placedWriter struct {
	place uint32
	record.Writer
}

type placedSource struct {
	place uint32
	record.Source
}

func (e *encoder) head(h *head) {
	e.runRef(&h.runRef)
	e.Flag(h.deleted)
	e.Int(h.nextOrd)
	e.Uint(uint64(h.made))
	e.writersAndSources(h)
}

func (e *encoder) writersAndSources(h *head) {
	e.Uint(uint64(len(h.attempts)))
	for _, a := range h.attempts {
		e.AttemptBody(a)
	}
	e.Uint(uint64(len(h.writers)))
	for i := range h.writers {
		e.placedWriter(&h.writers[i])
	}
	e.Uint(uint64(len(h.sources)))
	for _, p := range h.sources {
		e.Uint(uint64(p.place))
		e.Uint(uint64(p.Writer))
		e.Uint(uint64(p.Attempt))
	}
}

func (e *encoder) placedWriter(w *placedWriter) {
	e.Uint(uint64(w.place))
	e.ID(w.ID)
	e.Uint(uint64(w.Attempt))
	e.Optional(w.Logger)
	e.Uint(w.Mark)
	e.Uint(w.LSN)
	e.Uint(w.Refused)
	e.Skipped(w.Skipped)
}

// head reads an entry of a directory; version 1 has the reference alone there.
func (d *decoder) head(version uint16) head {
	h := head{runRef: d.runRef(version)}
	if version > 1 {
		h.deleted, h.nextOrd, h.made = d.U8() == 1, d.Int(), uint32(d.Uint())
		d.writersAndSources(&h)
	}
	return h
}

func (d *decoder) writersAndSources(h *head) {
	for range d.Count(4) {
		h.attempts = append(h.attempts, d.AttemptBody())
	}
	if n := d.Count(20); n > 0 {
		h.writers = make([]placedWriter, 0, n)
		for range n {
			h.writers = append(h.writers, placedWriter{uint32(d.Uint()), record.Writer{ID: d.ID(), Attempt: uint32(d.Uint()), Logger: d.Optional(), Mark: d.Uint(), LSN: d.Uint(), Refused: d.Uint(), Skipped: d.Skipped()}})
		}
	}
	if n := d.Count(3); n > 0 {
		h.sources = make([]placedSource, 0, n)
		for range n {
			h.sources = append(h.sources, placedSource{uint32(d.Uint()), record.Source{Writer: uint32(d.Uint()), Attempt: uint32(d.Uint())}})
		}
	}
}

// merge takes in what another segment says of the same run.
func (h *head) merge(o *head) {
	h.deleted = h.deleted || o.deleted
	h.flushed, h.nextOrd, h.made = max(h.flushed, o.flushed), max(h.nextOrd, o.nextOrd), max(h.made, o.made)
	for _, a := range o.attempts {
		h.attempts, _ = record.PutAttempt(h.attempts, a)
	}
	h.writers = mergeBy(h.writers, o.writers, func(a, b placedWriter) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(b.LSN, a.LSN))
	}, func(a, b placedWriter) bool { return a.place == b.place })
	h.sources = mergeBy(h.sources, o.sources, func(a, b placedSource) int { return cmp.Compare(a.place, b.place) }, func(a, b placedSource) bool { return a.place == b.place })
}

// mergeBy joins lists and keeps the first of equal items.
func mergeBy[T any](a, b []T, order func(T, T) int, same func(T, T) bool) []T {
	out := append(slices.Clone(a), b...)
	slices.SortStableFunc(out, order)
	return slices.CompactFunc(out, same)
}

// absorb takes a head into the run at start; false when it contradicts another.
func (r *run) absorb(h *head) bool {
	ok := true
	r.deleted = r.deleted || h.deleted
	r.flushed, r.nextOrd, r.made = max(r.flushed, h.flushed), max(r.nextOrd, h.nextOrd), max(r.made, h.made)
	r.lastLSN = max(r.lastLSN, h.flushed)
	r.stored += h.points
	for _, a := range h.attempts {
		r.putAttempt(a)
	}
	for _, w := range h.writers {
		if !r.setWriter(w.place, w.ID, w.Attempt) {
			ok = false
		} else if w.LSN >= r.writers[w.place].LSN {
			r.writers[w.place] = w.Writer
		}
	}
	for _, p := range h.sources {
		ok = r.setSource(p.place, p.Source) && ok
	}
	return ok
}
