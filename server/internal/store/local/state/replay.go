package state

import (
	"fmt"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Load takes in the state of all runs and where their bodies lie, and
// returns the first LSN that no segment covers.
func (t *Table) Load(live []segment.Opened) (nextLSN uint64) {
	nextLSN = 1
	for _, s := range live {
		for i := range s.Heads {
			nextLSN = max(nextLSN, t.adoptHead(s.File, i, &s.Heads[i]))
		}
	}
	t.forgetDeleted()
	return nextLSN
}

func (t *Table) adoptHead(s *segment.File, at int, h *segment.Head) (nextLSN uint64) {
	if err := s.Complete(h); err != nil {
		s.Keep.Store(true)
		t.damage.Report(h.Run, "segment index", s.Lose(err, h.Points, h.MinTime, h.MaxTime))
		return 0
	}
	r := t.Ensure(h.Run)
	if !r.absorb(h) {
		s.Keep.Store(true)
		t.damage.Report(h.Run, "segment index", fmt.Errorf("segment %s contradicts another: %w", segment.Name(s.ID), segment.ErrDamaged))
	}
	r.parts = append(r.parts, segment.Place{Segment: s, At: at})
	t.heads.Add(partBytes)
	return h.Flushed + 1
}

// ReplayTo applies a record unless the run's segments hold it already.
func (t *Table) ReplayTo(id model.RunID, lsn uint64, apply func(*Run) error) error {
	r := t.Ensure(id)
	if lsn <= r.flushed {
		return nil
	}
	t.dirty.add(r)
	return apply(r)
}

// ReplayBatch takes in the head of a batch and keeps the rest of it for the first
// use of the run.
func (t *Table) ReplayBatch(rec *record.Batch, lsn uint64, o record.Outline, payload []byte) error {
	return t.ReplayTo(rec.Run, lsn, func(r *Run) error {
		if err := r.applyHead(rec, lsn); err != nil || r.deleted {
			return err
		}
		if o.Made > 0 {
			if int(o.Made) > int(r.made)+maxGap {
				return fmt.Errorf("record %d names series %d of %d", lsn, o.Made-1, r.made)
			}
			r.made = max(r.made, o.Made)
		}
		// What it will take when it is taken in is about this.
		cost := 2*len(payload) + o.Fresh*(seriesBytes+liveBytes) + o.Groups*groupBytes
		r.keepLate(lateRecord{lsn, slices.Clone(payload), cost}, o.Points)
		return nil
	})
}

// FirstOrd is the arrival number of the first row that the log still has of a
// run: from there on nothing is lost.
func (t *Table) FirstOrd(id model.RunID) int64 {
	least := int64(math.MaxInt64)
	r := t.runs[id]
	if r == nil {
		return least
	}
	for _, l := range r.late {
		rec, err := record.DecodeBatch(l.payload)
		if err != nil {
			continue
		}
		for i := range rec.Groups {
			least = min(least, slices.Min(rec.Groups[i].Rows.Arrival))
		}
	}
	return least
}
