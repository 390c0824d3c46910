package clickhouse

import (
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
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
	tops     []top // of series, by number
	number   uint64
	// change is what the group adds that is not committed, nil for nothing.
	change *ledger.Change
	// deferred: a write of the run waits for the next group, and so do those after it.
	deferred bool

	steps   map[record.StartKey]int64 // what NextStep answers
	missing []record.StartKey         // what it could not
}

var _ decision.Run = (*lease)(nil)

// top is the highest step of a plain series, or a bound of it.
type top struct {
	step int64
	has  bool
}

func newLease(r *ledger.Run) *lease {
	l := &lease{Run: r, writerAt: make(map[model.WriterID]uint32, len(r.Writers)), seriesAt: make(map[string]uint32, len(r.Series))}
	for i := range r.Writers {
		l.writerAt[r.Writers[i].ID] = uint32(i)
	}
	l.tops = make([]top, len(r.Series))
	for i := range r.Series {
		l.seriesAt[r.Series[i].Text] = uint32(i)
		if r.Top != nil { // the step of the series itself is not known: it is at most that
			l.tops[i] = top{*r.Top, true}
		}
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
	c.Last, c.Arrivals, c.Top = l.number, l.Arrivals, l.Top
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
		s := ledger.Series{Series: def, Plain: true, Writer: rec.WriterPlace, Attempt: rec.Attempt}
		l.seriesAt[def.Text] = def.ID
		l.Run.Series, l.tops = append(l.Run.Series, s), append(l.tops, top{})
		c.Series = append(c.Series, s)
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

// observe keeps the highest step of the run, and finds series that are not plain any more.
func (l *lease) observe(rec *record.Batch, g *record.Group) {
	steps := g.Rows.Axes[column.Step]
	if len(steps) > 0 {
		if most := slices.Max(steps); l.Top == nil || *l.Top < most {
			l.Top = &most
		}
	}
	plain := g.Rows.Mask == 1<<column.Step && g.Rows.Mode != model.UniqueTime && rises(steps)
	for _, id := range g.Series {
		s, t := &l.Run.Series[id], &l.tops[id]
		if !s.Plain || len(g.Rows.Time) == 0 {
			continue
		}
		if !plain || s.Writer != rec.WriterPlace || s.Attempt != rec.Attempt || t.has && steps[0] <= t.step {
			s.Plain = false
			l.change.Mixed = append(l.change.Mixed, id)
			continue
		}
		*t = top{steps[len(steps)-1], true}
	}
}

func rises(steps []int64) bool {
	for i := 1; i < len(steps); i++ {
		if steps[i] <= steps[i-1] {
			return false
		}
	}
	return true
}

// settle is the change as the ledger takes it: new series as they are at the end.
func (l *lease) settle() *ledger.Change {
	c := l.change
	for i := range c.Series {
		c.Series[i] = l.Run.Series[c.Series[i].ID]
	}
	if len(c.Series) > 0 {
		first := c.Series[0].ID
		c.Mixed = slices.DeleteFunc(c.Mixed, func(id uint32) bool { return id >= first })
	}
	return c
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
	l.Attempts, l.Run.Series, l.tops = nil, nil, nil
	clear(l.seriesAt)
	clear(l.Starts)
}

func deleted(run model.RunID) error {
	return model.Errorf(model.CodeRunDeleted, "run %s is deleted", run)
}

func unknownAttempt(run model.RunID, n uint32) error {
	return model.Errorf(model.CodeNotFound, "run %s has no attempt %d", run, n).WithHint("open the run before sending points")
}
