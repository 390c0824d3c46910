package clickhouse

import (
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
	"github.com/kymogram/kymogram/server/internal/store/local/decision"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// lease is a run that this server holds: what the ledger said of it, and what was decided since.
// Only the leader of a group uses it (queue.go). After a failure it is thrown away and taken
// again.
type lease struct {
	*ledger.Run
	writerAt map[model.WriterID]uint32
	seriesAt map[string]uint32
	number   uint64
	// change is what the group adds that is not committed, nil for nothing.
	change *ledger.Change
	// deferred: a write of the run waits for the next group, and so do those after it.
	deferred bool

	touched map[place]bool            // streams that the change adds to
	steps   map[record.StartKey]int64 // what NextStep answers
	missing []record.StartKey         // what it could not
}

var _ decision.Run = (*lease)(nil)

// place names a stream: the series, and its place in that.
type place struct{ series, stream uint32 }

func newLease(r *ledger.Run) *lease {
	l := &lease{Run: r, writerAt: make(map[model.WriterID]uint32, len(r.Writers)), seriesAt: make(map[string]uint32, len(r.Series)), touched: map[place]bool{}}
	for i := range r.Writers {
		l.writerAt[r.Writers[i].ID] = uint32(i)
	}
	for i := range r.Series {
		l.seriesAt[r.Series[i].Text] = uint32(i)
	}
	return l
}

// pending reports whether something is decided and not committed.
func (l *lease) pending() bool { return l.change != nil && l.change.Last > 0 }

// changing is the change of this group.
func (l *lease) changing() *ledger.Change {
	if l.change == nil {
		l.change = &ledger.Change{Run: l.ID, Epoch: l.Epoch, Writers: map[uint32]ledger.Writer{}, Marks: map[model.WriterID]uint64{}}
	}
	return l.change
}

// position begins a batch and gives its log position.
func (l *lease) position(w model.WriterID, doc []byte) uint64 {
	l.number++
	c := l.changing()
	lsn := ledger.LSN(l.Epoch, l.number)
	c.Last, c.Arrivals = l.number, l.Arrivals
	c.Batches = append(c.Batches, ledger.Batch{LSN: lsn, Writer: w, Doc: doc})
	return lsn
}

// Head implements [decision.Run].
func (l *lease) Head(w model.WriterID, _ uint32) decision.Head {
	place, ok := l.writerAt[w]
	if !ok {
		place = uint32(len(l.Writers))
	}
	return decision.Head{Gone: l.Deleted, Writer: place, NextSeries: uint32(len(l.Run.Series)), Made: len(l.Run.Series), Arrivals: l.Arrivals}
}

// Series implements [decision.Run].
func (l *lease) Series(id store.SeriesID) record.Series {
	if int(id) >= len(l.Run.Series) {
		return record.Series{}
	}
	return l.Run.Series[id].Series
}

// Named implements [decision.Run].
func (l *lease) Named(text string) record.Series {
	at, ok := l.seriesAt[text]
	if !ok {
		return record.Series{}
	}
	return l.Run.Series[at].Series
}

// Start implements [decision.Run].
func (l *lease) Start(key record.StartKey) (int64, bool) {
	at, ok := l.Starts[key]
	return at, ok
}

// NextStep implements [decision.Run]. ClickHouse knows it: what was not asked yet is noted as
// missing, and the decision is made again.
func (l *lease) NextStep(key record.StartKey) int64 {
	at, ok := l.steps[key]
	if !ok {
		l.missing = append(l.missing, key)
	}
	return at
}

func (l *lease) hasAttempt(number uint32) bool {
	_, ok := record.FindAttempt(l.Attempts, number)
	return ok
}

// mark is the last sequence of a writer that was taken, 0 for an unknown one.
func (l *lease) mark(w model.WriterID) uint64 {
	if at, ok := l.writerAt[w]; ok {
		return l.Writers[at].Mark
	}
	return 0
}

// apply takes in what was decided about a batch.
func (l *lease) apply(rec *record.Batch) {
	c := l.changing()
	l.applyWriter(rec)
	c.Skipped = append(c.Skipped, rec.Skipped...)
	if l.Deleted {
		return
	}
	l.Arrivals = rec.NextOrd
	c.Points += rec.Points()
	for _, def := range rec.Series {
		s := ledger.Series{Series: def, Known: true}
		l.seriesAt[def.Text] = def.ID
		l.Run.Series, c.Series = append(l.Run.Series, s), append(c.Series, s)
	}
	for _, s := range rec.Starts {
		l.Starts[s.Key] = s.At
	}
	c.Starts = append(c.Starts, rec.Starts...)
	for i := range rec.Groups {
		l.observe(rec, &rec.Groups[i])
	}
}

func (l *lease) applyWriter(rec *record.Batch) {
	place, known := l.writerAt[rec.Writer]
	if !known {
		place = uint32(len(l.Writers))
		l.writerAt[rec.Writer] = place
		l.Writers = append(l.Writers, ledger.Writer{ID: rec.Writer, Attempt: rec.Attempt})
	}
	w := &l.Writers[place]
	w.Refused += rec.Refused
	if !known || rec.Refused > 0 {
		l.change.Writers[place] = *w
	}
	if rec.Last > 0 {
		w.Mark = rec.Last
		l.change.Marks[rec.Writer] = rec.Last
	}
}

// observe keeps what the ledger tells of the points.
func (l *lease) observe(rec *record.Batch, g *record.Group) {
	if g.Rows.Len() == 0 {
		return
	}
	all, last := tallyOf(&g.Rows)
	for i, id := range g.Series {
		s := &l.Run.Series[id]
		if s.Known {
			all.End.Value, all.Values = bits(&g.Columns[i], last), valuesOf(&g.Columns[i])
			l.add(rec, id, &all)
		} else if s.Plain {
			s.Plain = false
			l.change.Mixed = append(l.change.Mixed, id)
		}
	}
}

// add adds to the stream of a batch in a series.
func (l *lease) add(rec *record.Batch, id uint32, points *curve.Tally) {
	s := &l.Run.Series[id]
	at := len(s.Streams) - 1 // the latest is it, as a rule
	for at >= 0 && (s.Streams[at].Writer != rec.WriterPlace || s.Streams[at].Attempt != rec.Attempt) {
		at--
	}
	if at < 0 {
		at = len(s.Streams)
		s.Streams = append(s.Streams, ledger.Stream{Writer: rec.WriterPlace, Attempt: rec.Attempt})
	}
	s.Streams[at].Add(points)
	l.touched[place{id, uint32(at)}] = true
}

// settle is the change as the ledger takes it: streams as they are at the end.
func (l *lease) settle() *ledger.Change {
	for at := range l.touched {
		l.change.Streams = append(l.change.Streams, ledger.StreamOf{Series: at.series, Stream: l.Run.Series[at.series].Streams[at.stream]})
	}
	clear(l.touched)
	return l.change
}

// putAttempt adds an attempt or lowers its ResumeFrom.
func (l *lease) putAttempt(a model.Attempt) error {
	if l.Deleted {
		return deleted(l.ID)
	}
	var changed bool
	if l.Attempts, changed = record.PutAttempt(l.Attempts, a); !changed {
		return nil
	}
	l.position(model.WriterID{}, nil)
	at, _ := record.FindAttempt(l.Attempts, a.Number)
	c := l.change
	c.Attempts = slices.DeleteFunc(c.Attempts, func(old model.Attempt) bool { return old.Number == a.Number })
	c.Attempts = append(c.Attempts, l.Attempts[at])
	return nil
}

// putWriter adds a writer, or changes its attempt and logger.
func (l *lease) putWriter(id model.WriterID, attempt uint32, logger *uint64) error {
	if l.Deleted {
		return deleted(l.ID)
	}
	if !l.hasAttempt(attempt) {
		return unknownAttempt(l.ID, attempt)
	}
	place, known := l.writerAt[id]
	if known && l.Writers[place].Attempt == attempt && equal(l.Writers[place].Logger, logger) {
		return nil
	}
	if !known {
		place = uint32(len(l.Writers))
		l.writerAt[id] = place
		l.Writers = append(l.Writers, ledger.Writer{ID: id})
	}
	w := &l.Writers[place]
	w.Repinned = w.Repinned || known && !equal(w.Logger, logger)
	w.Attempt, w.Logger = attempt, logger
	l.position(id, nil)
	l.change.Writers[place] = *w
	return nil
}

func equal(a, b *uint64) bool {
	return a == nil && b == nil || a != nil && b != nil && *a == *b
}

// remove deletes the run.
func (l *lease) remove() {
	if l.Deleted {
		return
	}
	l.position(model.WriterID{}, nil)
	l.Deleted = true
	c := l.change
	c.Delete, c.Points = true, 0
	c.Attempts, c.Series, c.Mixed, c.Starts = nil, nil, nil, nil
	l.Attempts, l.Run.Series = nil, nil
	clear(l.touched)
	clear(l.seriesAt)
	clear(l.Starts)
}

func deleted(run model.RunID) error {
	return model.Errorf(model.CodeRunDeleted, "run %s is deleted", run)
}

func unknownAttempt(run model.RunID, n uint32) error {
	return model.Errorf(model.CodeNotFound, "run %s has no attempt %d", run, n).WithHint("open the run before sending points")
}
