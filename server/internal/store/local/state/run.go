package state

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// Run is the state of a run: what its records said, in memory, and where its
// flushed row groups lie.
type Run struct {
	ID    model.RunID
	table *Table

	mu       sync.RWMutex    // guards all below
	attempts []model.Attempt // by rising number
	writers  []record.Writer
	writerAt map[model.WriterID]uint32 // of more than fewWriters
	sources  []record.Source
	nextOrd  int64
	stored   uint64 // points
	made     uint32 // places of series that are taken
	deleted  bool
	// The body, when loaded; else it is in parts, then late (body.go). The groups of
	// segments are read apart from it: only reads need them.
	loaded, grouped bool

	*body
	used, read atomic.Int64 // Unix ns
	parts      []segment.Place

	LastLSN, flushed uint64 // a record up to flushed is in the segments

	// epoch grows when the rules of the run's curves change.
	epoch   uint64
	lineage atomic.Pointer[curve.Lineage]
}

// body is what a run has while it is in use, or while no segment has all of it. All
// other runs share an empty one, which nobody writes to.
type body struct {
	series     []*Series
	names      names
	ordered    []uint32 // series by key, the first so many of them
	starts     map[record.StartKey]int64
	bodyBytes  int // of all of it but the groups
	groupBytes int // of the groups of segments, and what reads worked out until then
	kept       curve.Kept
	*unflushed
}

// unflushed is what no segment has of a run. Runs of which segments have all share an
// empty one, which nobody writes to.
type unflushed struct {
	firstLSN    uint64 // the oldest record that no segment covers, 0 for none
	frozenFirst uint64 // the oldest of those that are on their way to a segment
	late        []lateRecord
	lateBytes   int // of memBytes
	loose       *loose
	mem         []*memGroup
	shapes      shapes // of mem, where they are many
	memRows     int    // of the longest group
	memBytes    int
	dueBytes    int   // memBytes when the run became due for a flush, else 0
	memSince    int64 // when the oldest unflushed record came, Unix ns
	// frozenBytes are on their way to a segment and still read from memory.
	frozenBytes int
	freshStarts []record.Start // fixed since the last flush
}

// Series is what every record may have to know of a series of a run.
type Series struct {
	Text   string // of the key
	ID     uint32
	Kind   model.Kind
	stored bool  // a segment has points
	live   *live // nil while neither memory nor a read has something of it
}

// live is a series with points in memory, or that is read.
type live struct {
	curve.Memo
	mask    column.AxisSet // axes that any point has
	layout  uint32         // grows when chunks change
	version uint64         // grows with every point
	chunks  []column.Chunk // in segments, of a run with its groups
	mem     []memRef
}

type memRef struct {
	group *memGroup
	col   int
}

// Bytes of what is kept for a run, as the allocator gives them.
const (
	runBytes     = 294 // with its place in the table
	attemptBytes = 40
	writerBytes  = 140 // with its run in the table
	sourceBytes  = 16
	rulesBytes   = 48 // of a source, in a run of several
	skippedBytes = 64
	partBytes    = 104 // with the entry in the directory of its segment
	awakeBytes   = 128 // of a body of nothing
	stirredBytes = 160 // of what is unflushed, of nothing
)

// Bytes of what is kept for a series, as the allocator gives them.
const (
	seriesBytes = 72 // with its places in the run's lists, without its text
	liveBytes   = 80 // without what it lists
	chunkBytes  = 32
	startBytes  = 56
	freshBytes  = 48 // of a start that no segment has
)

// alive is the part of a series that points and reads need, made when missing.
func (s *Series) alive() *live {
	if s.live == nil {
		s.live = &live{}
	}
	return s.live
}

func (s *Series) named() curve.Series { return curve.Series{ID: s.ID, Kind: s.Kind, Text: s.Text} }

// maxGap bounds how many places records lost to damage may have left empty: a
// number further on is damage itself.
const maxGap = 1 << 20

func (t *Table) newRun(id model.RunID) *Run {
	t.heads.Add(runBytes)
	return &Run{ID: id, table: t, body: &t.asleep}
}

// attempt finds an attempt by number, nil when it is unknown.
func (r *Run) attempt(number uint32) *model.Attempt {
	at, ok := record.FindAttempt(r.attempts, number)
	if !ok {
		return nil
	}
	return &r.attempts[at]
}

// putAttempt adds an attempt or lowers its ResumeFrom.
func (r *Run) putAttempt(a model.Attempt) {
	list, changed := record.PutAttempt(r.attempts, a)
	r.table.heads.Add(int64(attemptBytes * (len(list) - len(r.attempts))))
	if r.attempts = list; changed {
		r.rulesChanged()
	}
}

func (r *Run) rulesChanged() {
	r.epoch++
	r.lineage.Store(nil)
}

// lines is the lineage of now; the caller holds mu, for reading at least.
func (r *Run) lines() *curve.Lineage {
	if l := r.lineage.Load(); l != nil {
		return l
	}
	l := curve.NewLineage(r.attempts, r.sources, r.writers)
	if len(r.sources) > 1 || r.names.count > fewSeries { // else it is made at once, and is a tenth of the run
		r.lineage.Store(l)
	}
	return l
}

// NextWriter is the place that a writer has or will get.
func (r *Run) NextWriter(id model.WriterID) uint32 {
	if at, ok := r.placeOf(id); ok {
		return at
	}
	return uint32(len(r.writers))
}

// NextSource is the place that a source has or will get.
func (r *Run) NextSource(s record.Source) uint32 {
	if at := slices.Index(r.sources, s); at >= 0 {
		return uint32(at)
	}
	return uint32(len(r.sources))
}

// fewWriters are looked through; more have a map.
const fewWriters = 8

func (r *Run) placeOf(id model.WriterID) (at uint32, ok bool) {
	if r.writerAt != nil {
		at, ok = r.writerAt[id]
		return at, ok
	}
	i := slices.IndexFunc(r.writers, func(w record.Writer) bool { return w.ID == id })
	return uint32(max(0, i)), i >= 0
}

// setWriter puts a writer in its place; places of records that were lost to
// damage stay empty. False when another writer is there.
func (r *Run) setWriter(at uint32, id model.WriterID, attempt uint32) bool {
	if int(at) > len(r.writers)+maxGap {
		return false
	}
	for uint32(len(r.writers)) <= at {
		r.writers = append(r.writers, record.Writer{})
		r.table.heads.Add(writerBytes)
	}
	w := &r.writers[at]
	if w.ID != id && !w.ID.IsZero() {
		return false
	}
	if old, ok := r.placeOf(id); ok {
		return old == at
	}
	w.ID, w.Attempt = id, attempt
	r.mapWriter(at)
	r.rulesChanged()
	return true
}

func (r *Run) mapWriter(at uint32) {
	if r.writerAt != nil {
		r.writerAt[r.writers[at].ID] = at
		return
	}
	if len(r.writers) <= fewWriters {
		return
	}
	r.writerAt = make(map[model.WriterID]uint32, 2*fewWriters)
	for i := range r.writers {
		r.writerAt[r.writers[i].ID] = uint32(i)
	}
}

// setSource puts a source in its place, as setWriter does.
func (r *Run) setSource(at uint32, s record.Source) bool {
	if int(at) > len(r.sources)+maxGap {
		return false
	}
	for uint32(len(r.sources)) <= at {
		r.sources = append(r.sources, record.Source{})
		r.table.heads.Add(sourceBytes)
		if len(r.sources) > 1 {
			r.table.heads.Add(rulesBytes)
		}
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
func (r *Run) setAllSeries(defs []record.Series) (bad []record.Series) {
	var room []Series
	for i, def := range defs {
		old := r.Find(store.SeriesID(def.ID))
		switch {
		case old != nil && old.Text == def.Text && old.Kind == def.Kind:
		case old != nil || !r.fits(def):
			bad = append(bad, def)
		default:
			if len(room) == 0 {
				room = make([]Series, len(defs)-i)
			}
			r.setSeries(def, &room[0])
			room = room[1:]
		}
	}
	return bad
}

// fits reports whether a new series can have its place.
func (r *Run) fits(def record.Series) bool {
	_, taken := r.names.find(r.table.seed, r.series, def.Text)
	_, ok := model.ParseSeriesKey(def.Text)
	return ok && !taken && int(def.ID) <= len(r.series)+maxGap
}

func (r *Run) setSeries(def record.Series, into *Series) {
	for uint32(len(r.series)) <= def.ID {
		r.series = append(r.series, nil)
	}
	into.ID, into.Text, into.Kind = def.ID, def.Text, def.Kind
	r.names.add(r.table.seed, r.series, into)
	r.series[def.ID] = into
	r.made = max(r.made, def.ID+1)
	r.growBody(seriesBytes + len(def.Text))
}

// Order is the series by key; the caller holds mu for writing. New ones are
// sorted by themselves and merged in.
func (r *Run) Order() []uint32 {
	if len(r.ordered) == r.names.count {
		return r.ordered
	}
	known := make([]bool, len(r.series))
	for _, id := range r.ordered {
		known[id] = true
	}
	fresh := make([]uint32, 0, r.names.count-len(r.ordered))
	for _, s := range r.series {
		if s != nil && !known[s.ID] {
			fresh = append(fresh, s.ID)
		}
	}
	slices.SortFunc(fresh, func(a, b uint32) int { return strings.Compare(r.series[a].Text, r.series[b].Text) })
	old, out := r.ordered, make([]uint32, 0, r.names.count)
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

// Find returns a series by id, nil when there is none.
func (r *Run) Find(id store.SeriesID) *Series {
	if int(id) >= len(r.series) {
		return nil
	}
	return r.series[id]
}

// wipe forgets the points of a deleted run and keeps its marks.
func (r *Run) wipe() {
	r.deleted = true
	r.made, r.stored = 0, 0
	r.table.memory.Add(-int64(r.memBytes + r.frozenBytes))
	since, due, first, frozen := r.memSince, r.dueBytes, r.firstLSN, r.frozenFirst
	r.dropBody()
	if first+frozen > 0 {
		r.stir()
		r.memSince, r.dueBytes, r.firstLSN, r.frozenFirst = since, due, first, frozen
	}
	r.loaded, r.grouped = true, true
	r.rulesChanged()
}

// absorb takes a head into the run at start; false when it contradicts another.
func (r *Run) absorb(h *segment.Head) bool {
	ok := true
	r.deleted = r.deleted || h.Deleted
	r.flushed, r.nextOrd, r.made = max(r.flushed, h.Flushed), max(r.nextOrd, h.NextOrd), max(r.made, h.Made)
	r.LastLSN = max(r.LastLSN, h.Flushed)
	r.stored += h.Points
	for _, a := range h.Attempts {
		r.putAttempt(a)
	}
	for _, w := range h.Writers {
		if !r.setWriter(w.Place, w.ID, w.Attempt) {
			ok = false
		} else if w.LSN >= r.writers[w.Place].LSN {
			r.table.heads.Add(int64(skippedBytes * (len(w.Skipped) - len(r.writers[w.Place].Skipped))))
			r.writers[w.Place] = w.Writer
		}
	}
	for _, p := range h.Sources {
		ok = r.setSource(p.Place, p.Source) && ok
	}
	return ok
}

// known is false for a deleted run and for one that nothing stored made.
func (r *Run) known() bool { return !r.deleted && len(r.attempts) > 0 }

// seriesCount is from the index where the body is not loaded.
func (r *Run) seriesCount() uint64 {
	if r.loaded && len(r.late) == 0 {
		return uint64(r.names.count)
	}
	return uint64(r.made)
}

// Mark is a writer's mark and the record that set it.
func (r *Run) Mark(w model.WriterID) (mark, lsn uint64) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.MarkOf(w)
}

// MarkOf is mark under a lock that is held.
func (r *Run) MarkOf(w model.WriterID) (mark, lsn uint64) {
	if at, ok := r.placeOf(w); ok {
		return r.writers[at].Mark, r.writers[at].LSN
	}
	return 0, 0
}

// Kept is false for a run that is deleted or that nothing made known yet.
func (r *Run) Kept() (model.KeptRun, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if r.deleted || len(r.attempts)+len(r.writers)+int(r.made) == 0 {
		return model.KeptRun{}, false
	}
	k := model.KeptRun{ID: r.ID, Attempts: slices.Clone(r.attempts)}
	for i := range r.writers {
		w := &r.writers[i]
		if !w.ID.IsZero() { // an empty place: its record was lost to damage
			k.Writers = append(k.Writers, model.KeptWriter{ID: w.ID, Attempt: w.Attempt, LoggerID: w.Logger})
		}
	}
	return k, true
}

func (r *Run) isDeleted() bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.deleted
}

// WritersOfSources are the writers of the run's sources.
func (r *Run) WritersOfSources() []model.WriterID {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.lines().Writers
}

// view takes a view; the caller holds the run's lock, for reading at least, and the
// run has its groups. A series without a live part has no points and is not read
// again: what is made for it here is for this view alone.
func (r *Run) view(s *Series) *curve.View {
	l, lines := s.live, r.lines()
	if l == nil {
		l = &live{}
	}
	v := &curve.View{Setting: &r.table.Setting, Run: r.ID, Series: s.named(), Memo: &l.Memo, Kept: &r.kept, Mask: l.mask, Version: l.version, Epoch: r.epoch, Lineage: lines}
	v.Layout, v.InSegments = uint64(l.layout), len(l.chunks)
	v.Chunks = slices.Clip(l.chunks) // copied when something is added
	for _, m := range l.mem {
		v.Chunks = append(v.Chunks, m.group.viewColumn(m.col, lines.Writers))
	}
	return v
}

// DeletedBy is the record behind which a run's deletion lies.
func (r *Run) DeletedBy() (lsn uint64, deleted bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.LastLSN, r.deleted
}
