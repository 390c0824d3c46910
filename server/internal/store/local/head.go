package local

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
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
	writer
}

type placedSource struct {
	place uint32
	source
}

func (e *encoder) head(h *head) {
	e.runRef(&h.runRef)
	e.flag(h.deleted)
	e.int(h.nextOrd)
	e.uint(uint64(h.made))
	e.writersAndSources(h)
}

func (e *encoder) writersAndSources(h *head) {
	e.uint(uint64(len(h.attempts)))
	for _, a := range h.attempts {
		e.attemptBody(a)
	}
	e.uint(uint64(len(h.writers)))
	for i := range h.writers {
		e.placedWriter(&h.writers[i])
	}
	e.uint(uint64(len(h.sources)))
	for _, p := range h.sources {
		e.uint(uint64(p.place))
		e.uint(uint64(p.writer))
		e.uint(uint64(p.attempt))
	}
}

func (e *encoder) flag(v bool) {
	if v {
		e.u8(1)
	} else {
		e.u8(0)
	}
}

func (e *encoder) placedWriter(w *placedWriter) {
	e.uint(uint64(w.place))
	e.id(w.id)
	e.uint(uint64(w.attempt))
	e.optional(w.logger)
	e.uint(w.mark)
	e.uint(w.lsn)
	e.uint(w.refused)
	e.skipped(w.skipped)
}

// head reads an entry of a directory; version 1 has the reference alone there.
func (d *decoder) head(version uint16) head {
	h := head{runRef: d.runRef(version)}
	if version > 1 {
		h.deleted, h.nextOrd, h.made = d.u8() == 1, d.int(), uint32(d.uint())
		d.writersAndSources(&h)
	}
	return h
}

func (d *decoder) writersAndSources(h *head) {
	for range d.count(4) {
		h.attempts = append(h.attempts, d.attemptBody())
	}
	if n := d.count(20); n > 0 {
		h.writers = make([]placedWriter, 0, n)
		for range n {
			h.writers = append(h.writers, placedWriter{uint32(d.uint()), writer{id: d.id(), attempt: uint32(d.uint()), logger: d.optional(), mark: d.uint(), lsn: d.uint(), refused: d.uint(), skipped: d.skipped()}})
		}
	}
	if n := d.count(3); n > 0 {
		h.sources = make([]placedSource, 0, n)
		for range n {
			h.sources = append(h.sources, placedSource{uint32(d.uint()), source{uint32(d.uint()), uint32(d.uint())}})
		}
	}
}

// merge takes in what another segment says of the same run.
func (h *head) merge(o *head) {
	h.deleted = h.deleted || o.deleted
	h.flushed, h.nextOrd, h.made = max(h.flushed, o.flushed), max(h.nextOrd, o.nextOrd), max(h.made, o.made)
	tmp := &run{attempts: h.attempts}
	for _, a := range o.attempts {
		tmp.putAttempt(a)
	}
	h.attempts = tmp.attempts
	h.writers = mergeBy(h.writers, o.writers, func(a, b placedWriter) int {
		return cmp.Or(cmp.Compare(a.place, b.place), cmp.Compare(b.lsn, a.lsn))
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
		if !r.setWriter(w.place, w.id, w.attempt) {
			ok = false
		} else if w.lsn >= r.writers[w.place].lsn {
			r.writers[w.place] = w.writer
		}
	}
	for _, p := range h.sources {
		ok = r.setSource(p.place, p.source) && ok
	}
	return ok
}
