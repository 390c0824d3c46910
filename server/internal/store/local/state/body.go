package state

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// A run's body (series, fixed starts) is read when the run is first used, and the row
// groups of its segments when it is first read. Both are forgotten when they were not
// used for idleAfter, or sooner when memory is short (table.go), so that neither a
// start nor the memory grows with what nobody looks at.
const idleAfter = 10 * time.Minute

// lateRecord is a batch of the log whose series are not taken in yet.
type lateRecord struct {
	lsn     uint64
	payload []byte
	cost    int // counted
}

// Hold locks a run for writing, with its body.
func (r *Run) Hold() {
	r.mu.Lock()
	r.load(false)
}

// share locks a run for reading, with its body, its groups, and the points that waited
// until now.
func (r *Run) share() {
	for gathered := false; ; gathered = true {
		r.mu.RLock()
		if r.loaded && r.grouped && len(r.late) == 0 && (gathered || !r.waiting()) {
			r.used.Store(r.table.now().UnixNano())
			r.read.Store(r.table.now().UnixNano())
			return
		}
		r.mu.RUnlock()
		r.mu.Lock()
		r.load(true)
		r.gather()
		r.mu.Unlock()
	}
}

// load reads the body of a run, and its groups if they are wanted; the caller holds
// mu for writing. What is damaged is left out and counted.
func (r *Run) load(groups bool) {
	r.used.Store(r.table.now().UnixNano())
	r.loadParts(groups)
	r.catchUp(math.MaxInt)
}

// loadParts reads what segments have of the run.
func (r *Run) loadParts(groups bool) {
	body, groups := !r.loaded, groups && !r.grouped
	if !body && !groups {
		return
	}
	r.wake()
	r.loaded, r.grouped = true, r.grouped || groups
	for _, p := range r.parts {
		if err := r.loadPart(p, body, groups); err != nil {
			p.Segment.Keep.Store(true)
			r.table.damage.Report(r.ID, "segment index", p.Segment.Lose(err, p.Ref().Points, p.Ref().MinTime, p.Ref().MaxTime))
		}
	}
	for len(r.series) < int(r.made) { // places of what could not be read stay taken
		r.series = append(r.series, nil)
	}
	if groups {
		r.read.Store(r.table.now().UnixNano())
		r.countGroups()
	}
}

// catchUp takes in records of the log until the run holds so many bytes; true when
// none is left.
func (r *Run) catchUp(bytes int) bool {
	for len(r.late) > 0 && r.memBytes-r.lateBytes < bytes {
		l := r.late[0]
		r.late[0], r.late = lateRecord{}, r.late[1:]
		r.grow(-l.cost)
		r.lateBytes -= l.cost
		if err := r.applyLate(l); err != nil {
			r.table.damage.Report(r.ID, "log record", err, "lsn", l.lsn)
		}
	}
	if len(r.late) > 0 {
		return false
	}
	if r.late != nil {
		r.late = nil
	}
	return true
}

func (r *Run) loadPart(p segment.Place, body, groups bool) error {
	sec, err := p.Segment.Section(*p.Ref(), groups)
	if err != nil {
		return err
	}
	contradicts := func() error {
		return p.Segment.Bad(p.Ref().Index, fmt.Errorf("the segment contradicts another: %w", segment.ErrDamaged))
	}
	if body {
		r.names.room(r.table.seed, r.series, len(sec.Series))
		if len(r.setAllSeries(sec.Series)) > 0 {
			err = contradicts()
		}
		for _, def := range sec.Starts {
			r.setStart(def)
		}
		for _, def := range sec.Series {
			if s := r.Find(store.SeriesID(def.ID)); s != nil {
				s.stored = true
			}
		}
	}
	for _, g := range sec.Groups {
		if !r.attach(g) {
			err = contradicts()
		}
	}
	return err
}

func (r *Run) applyLate(l lateRecord) error {
	rec, err := record.DecodeBatch(l.payload)
	if err != nil {
		return err
	}
	return r.applyBody(rec, l.lsn)
}

// clean: all of the body is on disk.
func (r *Run) clean() bool {
	return r.loaded && !r.deleted && r.flushedAll()
}

// flushedAll: segments have all records.
func (r *Run) flushedAll() bool { return r.firstLSN == 0 && r.frozenFirst == 0 }

// idle: the body can be forgotten, and it was not used since.
func (r *Run) idle(since int64) bool { return r.clean() && r.used.Load() < since }

// unread: groups are loaded and nobody read since.
func (r *Run) unread(since int64) bool {
	return r.grouped && !r.deleted && r.read.Load() < since
}

// Places lists the segments that have something of the run.
func (r *Run) Places() []segment.Place {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return slices.Clone(r.parts)
}

// relocate replaces where parts of the body lie, after a merge.
func (r *Run) relocate(old []*segment.File, fresh segment.Place) {
	before := len(r.parts)
	r.parts = slices.DeleteFunc(slices.Clone(r.parts), func(p segment.Place) bool { return slices.Contains(old, p.Segment) })
	r.parts = append(r.parts, fresh)
	r.table.heads.Add(int64(partBytes * (len(r.parts) - before)))
}

// attach makes a group readable; false when it names what is not defined.
func (r *Run) attach(packed segment.Packed) bool {
	g := packed.Whole()
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
		l := r.series[id].alive()
		l.chunks = append(l.chunks, column.Chunk{Group: packed, Col: i})
		l.layout++
		l.mask |= g.Ext.Mask
		l.version = max(l.version, 1)
	}
	return true
}

// countGroups counts what the groups of segments take, and what reads worked out.
func (r *Run) countGroups() {
	r.kept.Take()
	n := 0
	for _, s := range r.series {
		if s != nil && s.live != nil {
			n += s.live.cost()
		}
	}
	r.growGroups(n - r.groupBytes)
}

func (r *Run) growGroups(n int) {
	r.groupBytes += n
	r.table.resident.Add(int64(n))
}

func (l *live) cost() int {
	n := l.Cost()
	for _, c := range l.chunks {
		n += chunkBytes + segment.Cost(c.Group.(segment.Packed))
	}
	if len(l.mem) == 0 { // else it is counted with them
		n += liveBytes
	}
	return n
}

// dropGroups forgets the groups of segments; reads that began before keep what they
// hold.
func (r *Run) dropGroups() {
	r.grouped = false
	for _, s := range r.series {
		if s == nil || s.live == nil {
			continue
		}
		if s.live.chunks = nil; len(s.live.mem) == 0 {
			s.live = nil
			continue
		}
		s.live.layout++
		s.live.DropLong()
	}
	r.countGroups()
}

// forget drops the body of a run that segments have all of.
func (r *Run) forget() {
	r.loaded, r.grouped = false, false
	r.dropBody()
}

// dropBody drops what is held beside the head.
func (r *Run) dropBody() {
	r.table.resident.Add(-int64(r.bodyBytes + r.groupBytes))
	r.kept.Close()
	r.body = &r.table.asleep
	r.lineage.Store(nil)
}

// wake gives a run a body of its own.
func (r *Run) wake() {
	if r.body == &r.table.asleep {
		r.body = &body{unflushed: &r.table.calm}
		r.kept.Open(&r.table.resident)
		r.growBody(awakeBytes)
	}
}

// stir gives a run of which no segment has all a place for that.
func (r *Run) stir() {
	r.wake()
	if r.unflushed == &r.table.calm {
		r.unflushed = &unflushed{}
		r.growBody(stirredBytes)
	}
}

// settle drops that place when segments have all.
func (r *Run) settle() {
	if r.flushedAll() && r.unflushed != &r.table.calm {
		r.unflushed = &r.table.calm
		r.growBody(-stirredBytes)
	}
}

// sleep drops the body of a run that needs none.
func (r *Run) sleep() {
	if (r.deleted || !r.loaded) && r.flushedAll() {
		r.dropBody()
	}
}

func (r *Run) keepLate(l lateRecord, points uint64) {
	r.late, r.loaded = append(r.late, l), false
	r.stored += points
	r.grow(l.cost)
	r.lateBytes += l.cost
}
