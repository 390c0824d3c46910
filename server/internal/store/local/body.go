package local

import (
	"context"
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

// hold locks a run for writing, with its body.
func (e *Engine) hold(r *run) {
	r.mu.Lock()
	e.load(r)
}

// share locks a run for reading, with its body.
func (e *Engine) share(r *run) {
	for {
		r.mu.RLock()
		if r.loaded {
			r.used.Store(e.cfg.Now().UnixNano())
			return
		}
		r.mu.RUnlock()
		e.hold(r)
		r.mu.Unlock()
	}
}

// load reads the body of a run; the caller holds mu for writing. What is damaged
// is left out and counted.
func (e *Engine) load(r *run) {
	r.used.Store(e.cfg.Now().UnixNano())
	if r.loaded {
		return
	}
	r.loaded = true
	r.byKey, r.starts = map[string]uint32{}, map[record.StartKey]int64{}
	for _, p := range r.parts {
		if err := e.loadPart(r, p); err != nil {
			p.Segment.Keep.Store(true)
			e.damage.Report(r.id, "segment index", p.Segment.Lose(err, p.Ref().Points, p.Ref().MinTime, p.Ref().MaxTime))
		}
	}
	for len(r.series) < int(r.made) { // places of what could not be read stay taken
		r.series = append(r.series, nil)
	}
	late := r.late
	r.late = nil
	for _, l := range late {
		e.grow(r, -len(l.payload))
		if err := e.applyLate(r, l); err != nil {
			e.damage.Report(r.id, "log record", err, "lsn", l.lsn)
		}
	}
}

func (e *Engine) loadPart(r *run, p segment.Place) error {
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

func (e *Engine) applyLate(r *run, l lateRecord) error {
	rec, err := record.DecodeBatch(l.payload)
	if err != nil {
		return err
	}
	return e.applyBody(r, rec, l.lsn)
}

// catchUp takes in what the log had at start, run by run, before anyone asks.
func (e *Engine) catchUp(ctx context.Context) {
	for _, r := range e.dirty.all() {
		if ctx.Err() != nil {
			return
		}
		r.mu.RLock()
		late := len(r.late) > 0
		r.mu.RUnlock()
		if late {
			e.hold(r)
			r.mu.Unlock()
		}
	}
}

// forget drops the bodies that nobody used for a while. Reads that began before
// keep what they hold.
func (e *Engine) forget(now time.Time) {
	for _, r := range e.allRuns() {
		if !r.idle(now) {
			continue
		}
		r.mu.Lock()
		if r.idleLocked(now) {
			r.loaded, r.series, r.byKey, r.ordered, r.starts = false, nil, nil, nil, nil
			r.memAt = nil
		}
		r.mu.Unlock()
	}
}

func (r *run) idle(now time.Time) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.idleLocked(now)
}

// idleLocked: all of the body is on disk and it was not used.
func (r *run) idleLocked(now time.Time) bool {
	return r.loaded && !r.deleted && r.firstLSN == 0 && r.frozenFirst == 0 && now.UnixNano()-r.used.Load() > int64(idleAfter)
}

// relocate replaces where parts of the body lie, after a merge.
func (r *run) relocate(old []*segment.File, fresh segment.Place) {
	r.parts = slices.DeleteFunc(slices.Clone(r.parts), func(p segment.Place) bool { return slices.Contains(old, p.Segment) })
	r.parts = append(r.parts, fresh)
}

// attach makes a group readable; false when it names what is not defined.
func (r *run) attach(g *segment.Group) bool {
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
