package state

import (
	"errors"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Apply takes a stored record into memory. It cannot fail for a record that
// this engine resolved; one that is read back after damage may not fit.
// The caller holds the run's lock and the body is loaded.
func (r *Run) Apply(rec *record.Batch, lsn uint64) error {
	if err := r.applyHead(rec, lsn); err != nil {
		return err
	}
	return r.applyBody(rec, lsn)
}

// applyHead takes in what does not need the body: marks and counts.
//
// A mark is the last sequence of a writer that is durable or refused for good. The
// record that holds the rows sets it, so no crash can part the two:
//
//	sequence   1   2   3   4   5   6   7
//	record A   ├───────┤                    mark 3
//	record B               ├───┤            mark 5
//	B again                ├───┤            last ≤ mark: acked, nothing stored
//	record D                           ├┤   first ≠ mark+1: a gap, the answer carries 5
//
// The last two never get here: Append decides them. But when damage took a record,
// replay finds one whose first is beyond mark+1. The mark then moves on, and the
// ledger of the run names the range that is lost.
func (r *Run) applyHead(rec *record.Batch, lsn uint64) error {
	if !r.setWriter(rec.WriterPlace, rec.Writer, rec.Attempt) || !r.setSource(rec.SourcePlace, record.Source{Writer: rec.WriterPlace, Attempt: rec.Attempt}) {
		return fmt.Errorf("record %d: its writer's place is taken", lsn)
	}
	r.touch(lsn)
	if w := &r.writers[rec.WriterPlace]; lsn > w.LSN { // a segment may know the writer as of a later record
		r.advance(w, rec, lsn)
	}
	if r.deleted {
		return nil
	}
	r.nextOrd = max(r.nextOrd, rec.NextOrd)
	r.stored += rec.Points()
	return nil
}

func (r *Run) advance(w *record.Writer, rec *record.Batch, lsn uint64) {
	w.LSN = lsn
	if rec.First > w.Mark+1 { // records before this one are lost: say which
		r.skip(w, model.Skipped{First: w.Mark + 1, Last: rec.First - 1, Reason: reasonDamaged})
	}
	w.Mark = max(w.Mark, rec.Last)
	w.Refused += rec.Refused
	r.skip(w, rec.Skipped...)
}

// skip notes what a writer lost.
func (r *Run) skip(w *record.Writer, what ...model.Skipped) {
	w.Skipped = append(w.Skipped, what...)
	for _, s := range what {
		r.table.heads.Add(int64(skippedBytes + len(s.Reason)))
	}
}

// applyBody takes in the rest: series, starts and rows.
func (r *Run) applyBody(rec *record.Batch, lsn uint64) error {
	if r.deleted {
		return nil
	}
	var failed error
	for _, def := range r.setAllSeries(rec.Series) {
		failed = errors.Join(failed, fmt.Errorf("record %d: the place of series %d is taken", lsn, def.ID))
	}
	for _, s := range rec.Starts {
		r.setStart(s)
		r.freshStarts = append(r.freshStarts, s)
	}
	r.grow(freshBytes * len(rec.Starts))
	lost, memo := uint64(0), memory{lines: r.lines()}
	for i := range rec.Groups {
		if err := r.remember(&rec.Groups[i], rec.SourcePlace, &memo); err != nil {
			failed = errors.Join(failed, fmt.Errorf("record %d: %w", lsn, err))
			lost += rec.Groups[i].Points()
		}
	}
	if lost > 0 { // the definition of their series is lost
		w := &r.writers[rec.WriterPlace]
		r.skip(w, model.Skipped{First: max(rec.First, 1), Last: rec.Last, Reason: reasonDamaged, Points: lost})
	}
	return failed
}

// reasonDamaged marks records that were acknowledged and cannot be read any more.
const reasonDamaged = "damaged"

// touch notes that a record is in memory and in no segment.
func (r *Run) touch(lsn uint64) {
	if r.firstLSN == 0 {
		r.stir()
		r.firstLSN, r.memSince = lsn, r.table.now().UnixNano()
	}
	r.LastLSN = lsn
}

// memory is what the groups of one record have in common on their way into memory.
type memory struct {
	lines   *curve.Lineage
	sources []uint32 // one source again and again
	grown   curve.Growth
}

// remember takes a group into memory.
func (r *Run) remember(g *record.Group, src uint32, of *memory) error {
	if g.Rows.Len() == 0 {
		return nil
	}
	for i, id := range g.Series {
		s := r.Find(store.SeriesID(id))
		if s == nil || s.Kind != g.Columns[i].Kind {
			return fmt.Errorf("series %d is not defined", id)
		}
	}
	if isLoose(g) {
		r.hold(g, src)
	} else {
		r.take(g, src, of)
	}
	return nil
}

// take appends a group, all of whose series are known, to the one of its shape in memory.
func (r *Run) take(g *record.Group, src uint32, of *memory) {
	n := g.Rows.Len()
	for len(of.sources) < n {
		of.sources = append(of.sources, src)
	}
	g.Rows.Source = of.sources[:n:n]
	m := r.groupOf(g, src)
	r.grow(m.add(g, &r.table.limits, of.lines.Writers))
	r.memRows = max(r.memRows, m.count())
	of.grown = curve.Growth{Rows: &g.Rows, Lineage: of.lines}
	for i, id := range g.Series {
		l := r.series[id].live
		l.mask |= g.Rows.Mask
		l.version++
		l.Advance(l.version, r.epoch, &of.grown, &g.Columns[i])
	}
}

// groupOf finds or makes the group in memory that rows belong to.
func (r *Run) groupOf(g *record.Group, src uint32) *memGroup {
	m, sum := r.groupLike(g, src)
	if m != nil {
		return m
	}
	m = &memGroup{source: src, shape: sum}
	for i, id := range g.Series {
		if r.series[id].live == nil {
			r.grow(liveBytes)
		}
		l := r.series[id].alive()
		l.mem = append(l.mem, memRef{m, i})
	}
	r.addGroup(m)
	return m
}

// grow counts bytes that a run holds in memory until they are in a segment; the
// caller holds its lock.
func (r *Run) grow(n int) {
	r.memBytes += n
	r.table.memory.Add(int64(n))
}

// growBody counts bytes that a run holds as long as it is in use.
func (r *Run) growBody(n int) {
	r.bodyBytes += n
	r.table.resident.Add(int64(n))
}

// setStart fixes where relative steps start.
func (r *Run) setStart(s record.Start) {
	if _, known := r.starts[s.Key]; !known {
		r.growBody(startBytes)
	}
	if r.starts == nil {
		r.starts = map[record.StartKey]int64{}
	}
	r.starts[s.Key] = s.At
}

// ApplyAttempt takes in that an attempt is known.
func (r *Run) ApplyAttempt(a model.Attempt, lsn uint64) {
	r.touch(lsn)
	r.putAttempt(a)
}

// ApplyWriter takes in that a writer is known.
func (r *Run) ApplyWriter(place uint32, id model.WriterID, attempt uint32, logger *uint64, lsn uint64) error {
	if !r.setWriter(place, id, attempt) {
		return fmt.Errorf("record %d: the place of writer %s is taken", lsn, id)
	}
	r.touch(lsn)
	w := &r.writers[place]
	w.Attempt, w.Logger, w.LSN = attempt, logger, lsn
	r.rulesChanged()
	return nil
}

// ApplyDelete takes in that the run is deleted.
func (r *Run) ApplyDelete(lsn uint64) {
	r.touch(lsn)
	r.wipe()
	r.table.deleted.Add(1)
}
