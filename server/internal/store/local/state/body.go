package state

import (
	"fmt"
	"slices"
	"time"

	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// A run's body (series, fixed starts, row groups) is read when the run is first
// used and forgotten when it was not used for idleAfter, so that neither a start
// nor the memory grows with what nobody looks at.
const idleAfter = 10 * time.Minute

// lateRecord is a batch of the log whose series are not taken in yet.
type lateRecord struct {
	lsn     uint64
	payload []byte
}

// Hold locks a run for writing, with its body.
func (r *Run) Hold() {
	r.mu.Lock()
	r.load()
}

// share locks a run for reading, with its body.
func (r *Run) share() {
	for {
		r.mu.RLock()
		if r.loaded {
			r.used.Store(r.table.now().UnixNano())
			return
		}
		r.mu.RUnlock()
		r.Hold()
		r.mu.Unlock()
	}
}

// load reads the body of a run; the caller holds mu for writing. What is damaged
// is left out and counted.
func (r *Run) load() {
	r.used.Store(r.table.now().UnixNano())
	if r.loaded {
		return
	}
	r.loaded = true
	r.byKey, r.starts = map[string]uint32{}, map[record.StartKey]int64{}
	for _, p := range r.parts {
		if err := r.loadPart(p); err != nil {
			p.Segment.Keep.Store(true)
			r.table.damage.Report(r.ID, "segment index", p.Segment.Lose(err, p.Ref().Points, p.Ref().MinTime, p.Ref().MaxTime))
		}
	}
	for len(r.series) < int(r.made) { // places of what could not be read stay taken
		r.series = append(r.series, nil)
	}
	late := r.late
	r.late = nil
	for _, l := range late {
		r.grow(-len(l.payload))
		if err := r.applyLate(l); err != nil {
			r.table.damage.Report(r.ID, "log record", err, "lsn", l.lsn)
		}
	}
}

func (r *Run) loadPart(p segment.Place) error {
	sec, err := p.Segment.Section(*p.Ref())
	if err != nil {
		return err
	}
	contradicts := func() error {
		return p.Segment.Bad(p.Ref().Index, fmt.Errorf("the segment contradicts another: %w", segment.ErrDamaged))
	}
	if r.byKey = grown(r.byKey, len(sec.Series)); len(r.setAllSeries(sec.Series)) > 0 {
		err = contradicts()
	}
	for _, def := range sec.Starts {
		r.starts[def.Key] = def.At
	}
	for _, g := range sec.Groups {
		if !r.attach(g) {
			err = contradicts()
		}
	}
	return err
}

// grown is an empty map with room, or the one there is.
func grown(m map[string]uint32, n int) map[string]uint32 {
	if len(m) > 0 {
		return m
	}
	return make(map[string]uint32, n)
}

func (r *Run) applyLate(l lateRecord) error {
	rec, err := record.DecodeBatch(l.payload)
	if err != nil {
		return err
	}
	return r.applyBody(rec, l.lsn)
}

func (r *Run) idle(now time.Time) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.idleLocked(now)
}

// idleLocked: all of the body is on disk and it was not used.
func (r *Run) idleLocked(now time.Time) bool {
	return r.loaded && !r.deleted && r.firstLSN == 0 && r.frozenFirst == 0 && now.UnixNano()-r.used.Load() > int64(idleAfter)
}

// relocate replaces where parts of the body lie, after a merge.
func (r *Run) relocate(old []*segment.File, fresh segment.Place) {
	r.parts = slices.DeleteFunc(slices.Clone(r.parts), func(p segment.Place) bool { return slices.Contains(old, p.Segment) })
	r.parts = append(r.parts, fresh)
}

// attach makes a group readable; false when it names what is not defined.
func (r *Run) attach(g *segment.Group) bool {
	for i, id := range g.Series {
		if int(id) >= len(r.series) || r.series[id] == nil || r.series[id].Kind != g.Cols[i].Kind {
			return false
		}
	}
	for _, s := range append(slices.Clone(g.Ext.Sources), g.Ext.LastSource) {
		if int(s) >= len(r.sources) {
			return false
		}
	}
	for i, id := range g.Series {
		s := r.series[id]
		s.chunks = append(s.chunks, column.Chunk{Group: g, Col: i})
		s.layout++
		s.mask |= g.Ext.Mask
		s.version = max(s.version, 1)
	}
	return true
}

func (r *Run) keepLate(l lateRecord, points uint64) {
	r.late, r.loaded = append(r.late, l), false
	r.stored += points
	r.grow(len(l.payload))
}
