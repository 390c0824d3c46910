package segment

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Head is the small part of what a segment says of a run: it is read at start
// for every run. What names series and places points is the body, read when the
// run is first used.
type Head struct {
	Entry
	Deleted  bool
	NextOrd  int64
	Made     uint32 // places of series that are taken: 1 + the largest
	Attempts []model.Attempt
	Writers  []PlacedWriter
	Sources  []PlacedSource
}

// PlacedWriter is a writer in its place.
type PlacedWriter struct {
	Place uint32
	record.Writer
}

// PlacedSource is a source in its place.
type PlacedSource struct {
	Place uint32
	record.Source
}

func (e *encoder) head(h *Head) {
	e.runRef(&h.Entry)
	e.Flag(h.Deleted)
	e.Int(h.NextOrd)
	e.Uint(uint64(h.Made))
	e.writersAndSources(h)
}

func (e *encoder) writersAndSources(h *Head) {
	e.Uint(uint64(len(h.Attempts)))
	for _, a := range h.Attempts {
		e.AttemptBody(a)
	}
	e.Uint(uint64(len(h.Writers)))
	for i := range h.Writers {
		e.placedWriter(&h.Writers[i])
	}
	e.Uint(uint64(len(h.Sources)))
	for _, p := range h.Sources {
		e.Uint(uint64(p.Place))
		e.Uint(uint64(p.Writer))
		e.Uint(uint64(p.Attempt))
	}
}

func (e *encoder) placedWriter(w *PlacedWriter) {
	e.Uint(uint64(w.Place))
	e.ID(w.ID)
	e.Uint(uint64(w.Attempt))
	e.Optional(w.Logger)
	e.Uint(w.Mark)
	e.Uint(w.LSN)
	e.Uint(w.Refused)
	e.Skipped(w.Skipped)
}

// head reads an entry of a directory; version 1 has the reference alone there.
func (d *decoder) head(version uint16) Head {
	h := Head{Entry: d.runRef(version)}
	if version > 1 {
		h.Deleted, h.NextOrd, h.Made = d.U8() == 1, d.Int(), uint32(d.Uint())
		d.writersAndSources(&h)
	}
	return h
}

func (d *decoder) writersAndSources(h *Head) {
	for range d.Count(4) {
		h.Attempts = append(h.Attempts, d.AttemptBody())
	}
	if n := d.Count(20); n > 0 {
		h.Writers = make([]PlacedWriter, 0, n)
		for range n {
			h.Writers = append(h.Writers, PlacedWriter{uint32(d.Uint()), record.Writer{ID: d.ID(), Attempt: uint32(d.Uint()), Logger: d.Optional(), Mark: d.Uint(), LSN: d.Uint(), Refused: d.Uint(), Skipped: d.Skipped()}})
		}
	}
	if n := d.Count(3); n > 0 {
		h.Sources = make([]PlacedSource, 0, n)
		for range n {
			h.Sources = append(h.Sources, PlacedSource{uint32(d.Uint()), record.Source{Writer: uint32(d.Uint()), Attempt: uint32(d.Uint())}})
		}
	}
}

// Merge takes in what another segment says of the same run.
func (h *Head) Merge(o *Head) {
	h.Deleted = h.Deleted || o.Deleted
	h.Flushed, h.NextOrd, h.Made = max(h.Flushed, o.Flushed), max(h.NextOrd, o.NextOrd), max(h.Made, o.Made)
	for _, a := range o.Attempts {
		h.Attempts, _ = record.PutAttempt(h.Attempts, a)
	}
	h.Writers = mergeBy(h.Writers, o.Writers, func(a, b PlacedWriter) int {
		return cmp.Or(cmp.Compare(a.Place, b.Place), cmp.Compare(b.LSN, a.LSN))
	}, func(a, b PlacedWriter) bool { return a.Place == b.Place })
	h.Sources = mergeBy(h.Sources, o.Sources, func(a, b PlacedSource) int { return cmp.Compare(a.Place, b.Place) }, func(a, b PlacedSource) bool { return a.Place == b.Place })
}

// mergeBy joins lists and keeps the first of equal items.
func mergeBy[T any](a, b []T, order func(T, T) int, same func(T, T) bool) []T {
	out := append(slices.Clone(a), b...)
	slices.SortStableFunc(out, order)
	return slices.CompactFunc(out, same)
}
