package record

import (
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Series gives a series its place in the run.
type Series struct {
	ID   uint32
	Kind model.Kind
	Text string
}

// Start fixes where relative steps start.
type Start struct {
	Key StartKey
	At  int64
}

// StartKey is what a start is fixed for: a series of a writer, or an episode of it.
type StartKey struct {
	Writer, Series uint32
	Episode        int64
	Episodic       bool
}

// Writer is what is kept of a writer for ever.
type Writer struct {
	ID      model.WriterID
	Attempt uint32
	Logger  *uint64
	Mark    uint64
	LSN     uint64 // of its last record
	Refused uint64
	Skipped []model.Skipped
}

// Source is a writer in an attempt.
type Source struct {
	Writer  uint32 // place in the run's writers
	Attempt uint32 // number
}

// PutAttempt adds an attempt to a list by rising number, or lowers its
// ResumeFrom; false when nothing changed.
func PutAttempt(list []model.Attempt, a model.Attempt) ([]model.Attempt, bool) {
	at, ok := FindAttempt(list, a.Number)
	switch {
	case !ok:
		return slices.Insert(list, at, a), true
	case a.ResumeFrom != nil && (list[at].ResumeFrom == nil || *a.ResumeFrom < *list[at].ResumeFrom):
		list[at].ResumeFrom = a.ResumeFrom
		return list, true
	}
	return list, false
}

// FindAttempt is the place of an attempt in a list, or where it belongs.
func FindAttempt(list []model.Attempt, number uint32) (at int, ok bool) {
	return slices.BinarySearchFunc(list, number, func(a model.Attempt, n uint32) int { return int(a.Number) - int(n) })
}

// SeriesDefs reads definitions; their names share one piece of memory, in their
// order, which is what searching them reads.
func (d *Decoder) SeriesDefs() []Series {
	n := d.Count(3)
	if n == 0 {
		return nil
	}
	out, ends := make([]Series, n), make([]int, n)
	var names []byte
	for i := range out {
		out[i].ID, out[i].Kind = uint32(d.Uint()), model.Kind(d.U8())
		names = append(names, d.Bytes()...)
		ends[i] = len(names)
	}
	text, from := string(names), 0
	for i, to := range ends {
		out[i].Text, from = text[from:to], to
	}
	return out
}

// Start writes a start.
func (e *Encoder) Start(s Start) {
	e.Uint(uint64(s.Key.Writer))
	e.Uint(uint64(s.Key.Series))
	if s.Key.Episodic {
		e.U8(1)
		e.Int(s.Key.Episode)
	} else {
		e.U8(0)
	}
	e.Int(s.At)
}

// Start reads a start.
func (d *Decoder) Start() Start {
	s := Start{Key: StartKey{Writer: uint32(d.Uint()), Series: uint32(d.Uint())}}
	if d.U8() == 1 {
		s.Key.Episodic, s.Key.Episode = true, d.Int()
	}
	s.At = d.Int()
	return s
}

// Skipped writes ranges that are lost.
func (e *Encoder) Skipped(list []model.Skipped) {
	e.Uint(uint64(len(list)))
	for _, s := range list {
		e.Uint(s.First)
		e.Uint(s.Last)
		e.Text(s.Reason)
		e.Uint(s.Points)
	}
}

// Skipped reads ranges that are lost.
func (d *Decoder) Skipped() []model.Skipped {
	var out []model.Skipped
	for range d.Count(4) {
		out = append(out, model.Skipped{First: d.Uint(), Last: d.Uint(), Reason: d.Text(), Points: d.Uint()})
	}
	return out
}

// AttemptBody writes what is known of an attempt.
func (e *Encoder) AttemptBody(a model.Attempt) {
	e.Uint(uint64(a.Number))
	e.Int(a.Precedence)
	e.Int(a.OpenedNs)
	if a.ResumeFrom == nil {
		e.U8(0)
		return
	}
	e.U8(1)
	e.Int(*a.ResumeFrom)
}

// AttemptBody reads what is known of an attempt.
func (d *Decoder) AttemptBody() model.Attempt {
	a := model.Attempt{Number: uint32(d.Uint()), Precedence: d.Int(), OpenedNs: d.Int()}
	if d.U8() == 1 {
		s := d.Int()
		a.ResumeFrom = &s
	}
	return a
}
