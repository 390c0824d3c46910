package local

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// run is the state of a run: what its records said, in memory, and where its
// flushed row groups lie.
type run struct {
	id model.RunID

	mu       sync.RWMutex // guards all below
	deleted  bool
	attempts []model.Attempt // by rising number
	writers  []record.Writer
	writerAt map[model.WriterID]uint32
	sources  []record.Source
	nextOrd  int64
	made     uint32 // places of series that are taken
	stored   uint64 // points

	// The body, when loaded; else it is in parts, then late (body.go).
	loaded  bool
	used    atomic.Int64 // Unix ns
	parts   []segment.Place
	late    []lateRecord
	series  []*series
	byKey   map[string]uint32
	ordered []uint32 // series by key, the first so many of them
	starts  map[record.StartKey]int64

	mem      []*memGroup
	memAt    map[string]*memGroup
	memRows  int // of the longest group
	memBytes int
	dueBytes int       // memBytes when the run became due for a flush, else 0
	memSince time.Time // when the oldest unflushed record came
	// frozenMem is being written into a segment and still read from memory.
	frozenMem   []*memGroup
	frozenBytes int
	freshStarts []record.Start // fixed since the last flush

	// firstLSN is the oldest record that no segment covers, 0 for none; a record
	// up to flushed is in the segments.
	firstLSN, frozenFirst, lastLSN, flushed uint64

	// epoch grows when the rules of the run's curves change.
	epoch   uint64
	lineage atomic.Pointer[curve.Lineage]
}

// series is one series of a run.
type series struct {
	curve.Series
	mask column.AxisSet // axes that any point has

	chunks  []column.Chunk // in segments
	mem     []memRef
	version uint64 // grows with every point
	layout  uint64 // grows when chunks change
}

type memRef struct {
	group *memGroup
	col   int
}

// maxGap bounds how many places records lost to damage may have left empty: a
// number further on is damage itself.
const maxGap = 1 << 20

func newRun(id model.RunID) *run {
	return &run{id: id, writerAt: map[model.WriterID]uint32{}}
}

// attempt finds an attempt by number, nil when it is unknown.
func (r *run) attempt(number uint32) *model.Attempt {
	at, ok := record.FindAttempt(r.attempts, number)
	if !ok {
		return nil
	}
	return &r.attempts[at]
}

// putAttempt adds an attempt or lowers its ResumeFrom.
func (r *run) putAttempt(a model.Attempt) {
	list, changed := record.PutAttempt(r.attempts, a)
	if r.attempts = list; changed {
		r.rulesChanged()
	}
}

func (r *run) rulesChanged() {
	r.epoch++
	r.lineage.Store(nil)
}

// lines is the lineage of now; the caller holds mu, for reading at least.
func (r *run) lines() *curve.Lineage {
	if l := r.lineage.Load(); l != nil {
		return l
	}
	l := curve.NewLineage(r.attempts, r.sources, r.writers)
	r.lineage.Store(l)
	return l
}

// nextWriter is the place that a writer has or will get.
func (r *run) nextWriter(id model.WriterID) uint32 {
	if at, ok := r.writerAt[id]; ok {
		return at
	}
	return uint32(len(r.writers))
}

// nextSource is the place that a source has or will get.
func (r *run) nextSource(s record.Source) uint32 {
	if at := slices.Index(r.sources, s); at >= 0 {
		return uint32(at)
	}
	return uint32(len(r.sources))
}

// setWriter puts a writer in its place; places of records that were lost to
// damage stay empty. False when another writer is there.
func (r *run) setWriter(at uint32, id model.WriterID, attempt uint32) bool {
	if int(at) > len(r.writers)+maxGap {
		return false
	}
	for uint32(len(r.writers)) <= at {
		r.writers = append(r.writers, record.Writer{})
	}
	w := &r.writers[at]
	if w.ID != id && !w.ID.IsZero() {
		return false
	}
	if old, ok := r.writerAt[id]; ok && old != at {
		return false
	}
	if _, ok := r.writerAt[id]; !ok {
		w.ID, w.Attempt = id, attempt
		r.writerAt[id] = at
		r.rulesChanged()
	}
	return true
}

// setSource puts a source in its place, as setWriter does.
func (r *run) setSource(at uint32, s record.Source) bool {
	if int(at) > len(r.sources)+maxGap {
		return false
	}
	for uint32(len(r.sources)) <= at {
		r.sources = append(r.sources, record.Source{})
		r.lineage.Store(nil)
	}
	if old := r.sources[at]; old != s && old != (record.Source{}) {
		return false
	}
	if r.sources[at] != s {
		r.sources[at] = s
		r.lineage.Store(nil)
	}
	return true
}

// setAllSeries puts series in their places; they lie side by side in memory,
// because lists and searches go through all of them. It returns those that do
// not fit.
func (r *run) setAllSeries(defs []record.Series) (bad []record.Series) {
	var room []series
	for i, def := range defs {
		if old := r.find(store.SeriesID(def.ID)); old == nil && len(room) == 0 {
			room = make([]series, len(defs)-i)
		}
		var into *series
		if len(room) > 0 {
			into = &room[0]
		}
		switch ok, used := r.setSeries(def, into); {
		case !ok:
			bad = append(bad, def)
		case used:
			room = room[1:]
		}
	}
	return bad
}

// setSeries puts a series in its place, as setWriter does, and says whether it
// took the room for it.
func (r *run) setSeries(def record.Series, into *series) (ok, used bool) {
	if int(def.ID) > len(r.series)+maxGap {
		return false, false
	}
	if old := r.find(store.SeriesID(def.ID)); old != nil {
		return old.Text == def.Text && old.Kind == def.Kind, false
	}
	key, ok := model.ParseSeriesKey(def.Text)
	if _, taken := r.byKey[def.Text]; taken || !ok {
		return false, false
	}
	for uint32(len(r.series)) <= def.ID {
		r.series = append(r.series, nil)
	}
	into.ID, into.Key, into.Text, into.Kind = def.ID, key, def.Text, def.Kind
	r.series[def.ID] = into
	r.byKey[def.Text] = def.ID
	r.made = max(r.made, def.ID+1)
	return true, true
}

// order is the series by key; the caller holds mu for writing. New ones are
// sorted by themselves and merged in.
func (r *run) order() []uint32 {
	if len(r.ordered) == len(r.byKey) {
		return r.ordered
	}
	known := make([]bool, len(r.series))
	for _, id := range r.ordered {
		known[id] = true
	}
	fresh := make([]uint32, 0, len(r.byKey)-len(r.ordered))
	for _, s := range r.series {
		if s != nil && !known[s.ID] {
			fresh = append(fresh, s.ID)
		}
	}
	slices.SortFunc(fresh, func(a, b uint32) int { return strings.Compare(r.series[a].Text, r.series[b].Text) })
	old, out := r.ordered, make([]uint32, 0, len(r.byKey))
	for len(old) > 0 && len(fresh) > 0 {
		from := &fresh
		if r.series[old[0]].Text < r.series[fresh[0]].Text {
			from = &old
		}
		out, *from = append(out, (*from)[0]), (*from)[1:]
	}
	r.ordered = append(append(out, old...), fresh...)
	return r.ordered
}

// find returns a series by id, nil when there is none.
func (r *run) find(id store.SeriesID) *series {
	if int(id) >= len(r.series) {
		return nil
	}
	return r.series[id]
}

// wipe forgets the points of a deleted run and keeps its marks.
func (r *run) wipe() {
	r.deleted, r.loaded = true, true
	r.made, r.stored, r.late = 0, 0, nil
	r.series, r.byKey, r.ordered, r.starts = nil, nil, nil, nil
	r.frozenMem, r.frozenBytes, r.freshStarts = nil, 0, nil
	r.mem, r.memAt, r.memRows, r.memBytes = nil, nil, 0, 0
	r.rulesChanged()
}

// absorb takes a head into the run at start; false when it contradicts another.
func (r *run) absorb(h *segment.Head) bool {
	ok := true
	r.deleted = r.deleted || h.Deleted
	r.flushed, r.nextOrd, r.made = max(r.flushed, h.Flushed), max(r.nextOrd, h.NextOrd), max(r.made, h.Made)
	r.lastLSN = max(r.lastLSN, h.Flushed)
	r.stored += h.Points
	for _, a := range h.Attempts {
		r.putAttempt(a)
	}
	for _, w := range h.Writers {
		if !r.setWriter(w.Place, w.ID, w.Attempt) {
			ok = false
		} else if w.LSN >= r.writers[w.Place].LSN {
			r.writers[w.Place] = w.Writer
		}
	}
	for _, p := range h.Sources {
		ok = r.setSource(p.Place, p.Source) && ok
	}
	return ok
}
