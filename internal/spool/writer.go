package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

const (
	// maxRecord is where a call becomes several records.
	maxRecord = 1 << 20
	// maxMemory is what a writer keeps in memory while the spool is full.
	maxMemory = 64 << 20
	// retryFull is how often a full spool is looked at again.
	retryFull = 250 * time.Millisecond
)

// pointSeed is the CRC of a point's length bytes.
var pointSeed = crc32.ChecksumIEEE([]byte{pointPayload, 0, 0, 0})

// ErrClosed is returned by a writer after Close.
var ErrClosed = errors.New("the spool's writer is closed")

// Open is open.json: what a deliverer needs to open the run.
type Open struct {
	Format int               `json:"format"`
	Server string            `json:"server"`
	Open   model.OpenRequest `json:"open"`
	Pace   *Pace             `json:"pace,omitempty"`
	System *System           `json:"system,omitempty"`
}

// WriterOptions are the parts of a writer that tests and the SDK choose.
type WriterOptions struct {
	Now func() time.Time // nil: time.Now
	Cap int64            // bytes of segments in the folder; 0: Folder.Cap
	// MemoryBytes kept while the spool is full; 0: 64 MiB.
	MemoryBytes int64
	Pace        *Pace   // nil: the deliverer's own
	System      *System // nil: no metrics of the machine
}

// Series is a writer's series; it is made by [Writer.Series].
type Series struct {
	ID   uint32
	Kind model.Kind
	// definition is the payload that restates the series.
	definition []byte
	// segment is 1 + the number of the last segment that states it.
	segment atomic.Uint64
}

// Writer appends the records of one open run. Its methods are safe for
// concurrent use, never wait for a network, and fail only after Close or on a
// record that can never be stored.
type Writer struct {
	ID  model.WriterID
	dir string

	folder     *Folder
	now        func() time.Time
	cap        int64
	maxSegment int
	maxMemory  int64

	lock    *Lock
	status  *Status
	ids     atomic.Uint32
	current atomic.Pointer[segment]
	full    atomic.Bool // records go to memory
	ahead   ahead
	usage   usage // guarded by ahead.room

	mu      sync.Mutex // rolling, and everything below
	waiting []waiting
	bytes   int64
	dropped uint64
	lost    Tally // dropped since the start
	retryAt time.Time
	refusal error // why the spool took no more, when it last did not
}

// waiting is a record in memory.
type waiting struct {
	payload []byte
	series  []*Series
	points  int
}

// Create makes the folder of a writer: under a temporary name, locked, then
// renamed, so that nobody sees half of it.
func Create(folder *Folder, server string, open model.OpenRequest, opts WriterOptions) (*Writer, error) {
	w := &Writer{ID: open.Writer, dir: folder.WriterPath(open.Writer), folder: folder, now: opts.Now, cap: opts.Cap, maxMemory: opts.MemoryBytes, usage: usage{folder: folder}}
	if w.now == nil {
		w.now = time.Now
	}
	if w.maxMemory == 0 {
		w.maxMemory = maxMemory
	}
	if err := w.limit(); err != nil {
		return nil, err
	}
	tmp := filepath.Join(folder.writersPath(), tmpPrefix+open.Writer.String())
	if !platform.RenamesOpenFolders {
		tmp = w.dir
	}
	err := folder.List(&open)
	if err == nil {
		err = w.build(tmp, Open{Format: goVersion, Server: server, Open: open, Pace: opts.Pace, System: opts.System})
	}
	if err != nil {
		w.abandon(tmp)
		folder.unlist(&open)
		return nil, err
	}
	return w, nil
}

// limit fixes the cap and from it the largest segment.
func (w *Writer) limit() error {
	if w.cap == 0 {
		limit, err := w.folder.Cap()
		if err != nil {
			return err
		}
		w.cap = limit
	}
	w.maxSegment = lastSegment
	for w.maxSegment > firstSegment && int64(w.maxSegment) > w.cap/8 {
		w.maxSegment /= 2
	}
	if int64(firstSegment) > w.cap {
		return model.Errorf(model.CodeDiskFull, "the spool %s has too little space: its cap is %d bytes, a tenth of the free space", w.folder.Path, w.cap).
			WithHint("free disk space, or set KYMOGRAM_SPOOL_DIR to a folder on another disk")
	}
	return nil
}

func (w *Writer) build(tmp string, open Open) error {
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return fmt.Errorf("make writer: %w", err)
	}
	lock, ok, err := tryLock(filepath.Join(tmp, "lock"))
	if err != nil || !ok {
		return fmt.Errorf("lock new writer: %w", err)
	}
	w.lock = lock
	if w.status, err = createStatus(filepath.Join(tmp, "status")); err != nil {
		return err
	}
	seg, err := createSegment(segmentPath(tmp, 0), min(firstSegment, w.maxSegment), w.folder.FS.Mapped())
	if err != nil {
		return err
	}
	w.watch(seg)
	w.current.Store(seg)
	if err := seg.bring(w.folder.FS.Kind == FSMemory); err != nil {
		return err
	}
	if err := seg.begin(Header{Writer: w.ID, First: 1, CreatedNs: w.now().UnixNano()}); err != nil {
		return err
	}
	// A folder without open.json is no writer yet, where it has its name from the start.
	if err := writeOpen(tmp, open); err != nil || tmp == w.dir {
		return err
	}
	if err := os.Rename(tmp, w.dir); err != nil {
		return fmt.Errorf("publish writer: %w", err)
	}
	return nil
}

// abandon undoes a build that failed.
func (w *Writer) abandon(tmp string) {
	if seg := w.current.Swap(nil); seg != nil {
		seg.release()
	}
	if w.status != nil {
		w.status.Close()
	}
	if w.lock != nil {
		_ = w.lock.Release()
	}
	_ = os.RemoveAll(tmp)
}

// Status is the page that the deliverer writes.
func (w *Writer) Status() *Status { return w.status }

// Series makes a series of this writer. It is defined in the spool by the first
// record that uses it.
func (w *Writer) Series(kind model.Kind, key model.SeriesKey) (*Series, error) {
	return w.define(Definition{Kind: kind, Metric: key.Metric, Scale: key.Scale, Labels: key.LabelMap()})
}

// SeriesByTime makes a series whose points are told apart by time.
func (w *Writer) SeriesByTime(kind model.Kind, key model.SeriesKey) (*Series, error) {
	return w.define(Definition{Kind: kind, Metric: key.Metric, Scale: key.Scale, Labels: key.LabelMap(), UniqueTime: true})
}

func (w *Writer) define(d Definition) (s *Series, err error) {
	d.ID = w.ids.Add(1)
	s = &Series{ID: d.ID, Kind: d.Kind}
	s.definition, err = AppendDefinition(nil, d)
	return s, err
}

// acquire pins the current segment; nil after Close.
func (w *Writer) acquire() *segment {
	for {
		seg := w.current.Load()
		if seg == nil {
			return nil
		}
		seg.refs.Add(1)
		if w.current.Load() == seg {
			return seg
		}
		seg.release()
	}
}

// Point appends one number: 0 allocations and no lock once s is known to the
// segment.
func (w *Writer) Point(s *Series, flags uint8, step, timeNs int64, bits uint64) error {
	seg := w.acquire()
	if seg == nil {
		return ErrClosed
	}
	if seg.mem != nil && s.segment.Load() == seg.header.Number+1 && !w.full.Load() {
		if off := seg.reserve(pointPayload); off >= 0 {
			p := seg.mem[off+headSize : off+headSize+pointPayload]
			binary.LittleEndian.PutUint64(p, TypePoint|uint64(s.Kind)<<8|uint64(flags)<<16|uint64(s.ID)<<32)
			binary.LittleEndian.PutUint64(p[8:], uint64(step))
			binary.LittleEndian.PutUint64(p[16:], uint64(timeNs))
			binary.LittleEndian.PutUint64(p[24:], bits)
			seg.commit(off, pointPayload, pointSeed)
			seg.release()
			return nil
		}
	}
	seg.release()
	return w.append(AppendPoint(nil, s.Kind, flags, s.ID, step, timeNs, bits), []*Series{s}, 1)
}

// Document appends a text, histogram or scatter.
func (w *Writer) Document(s *Series, flags uint8, step, timeNs int64, doc []byte) error {
	if limit := w.recordLimit(); len(doc)+documentHead+len(s.definition) > limit {
		return model.Errorf(model.CodeTooLarge, "a value of %d bytes is too large, at most %d fit one record", len(doc), limit-documentHead-len(s.definition))
	}
	return w.append(AppendDocument(nil, s.Kind, flags, s.ID, step, timeNs, doc), []*Series{s}, 1)
}

// Updates appends changes of the run; all of them take effect or none.
func (w *Writer) Updates(updates []model.Update) error {
	payload, err := AppendUpdates(nil, updates)
	if err != nil {
		return err
	}
	if len(payload) > w.recordLimit() {
		return w.splitUpdates(updates, len(payload))
	}
	return w.append(payload, nil, 0)
}

// splitUpdates appends updates of so many bytes as several records. Each is encoded
// twice, and more often only where their sizes differ much.
func (w *Writer) splitUpdates(updates []model.Update, size int) error {
	if len(updates) == 1 {
		return model.Errorf(model.CodeTooLarge, "an update of %d bytes is too large, at most %d fit one record", size, w.recordLimit())
	}
	parts := min(len(updates), size/w.recordLimit()+1)
	for part := range slices.Chunk(updates, (len(updates)+parts-1)/parts) {
		if err := w.Updates(part); err != nil {
			return err
		}
	}
	return nil
}

// recordLimit keeps a record and its definitions well inside any segment.
func (w *Writer) recordLimit() int { return min(maxRecord, w.maxSegment/4) }

// Block appends rows of several series; series[i] is b.Series[i]. Large blocks
// become several records.
func (w *Writer) Block(series []*Series, b *Block) error {
	size := blockSize(b)
	for _, s := range series {
		size += recordSize(len(s.definition))
	}
	switch limit := w.recordLimit(); {
	case size <= limit:
		return w.appendBlock(series, b)
	case b.Rows > 1:
		return w.splitRows(series, b)
	case len(series) > 1:
		return w.splitSeries(series, b)
	default:
		return model.Errorf(model.CodeTooLarge, "a series of %d bytes does not fit one record of %d", size, limit)
	}
}

// appendBlock encodes a block where it belongs, else in memory.
func (w *Writer) appendBlock(series []*Series, b *Block) error {
	size := blockSize(b)
	if seg := w.acquire(); seg != nil && seg.mem != nil && !w.full.Load() {
		done := seg.stateAll(series) && seg.put(size, func(dst []byte) []byte { return AppendBlock(dst, b) })
		seg.release()
		if done {
			return nil
		}
	} else if seg != nil {
		seg.release()
	}
	return w.append(AppendBlock(make([]byte, 0, size), b), series, len(b.Values))
}

func (w *Writer) splitRows(series []*Series, b *Block) error {
	half := b.Rows / 2
	if err := w.Block(series, b.rowsOf(0, half)); err != nil {
		return err
	}
	return w.Block(series, b.rowsOf(half, b.Rows))
}

func (w *Writer) splitSeries(series []*Series, b *Block) error {
	half := len(series) / 2
	if err := w.Block(series[:half], b.seriesOf(0, half)); err != nil {
		return err
	}
	return w.Block(series[half:], b.seriesOf(half, len(series)))
}

// append stores a record after the definitions that its segment lacks.
func (w *Writer) append(payload []byte, series []*Series, points int) error {
	if !w.full.Load() {
		if done, err := w.try(payload, series); done || err != nil {
			return err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.full.Load() && !w.drain(false) {
		w.keep(payload, series, points)
		return w.alive()
	}
	return w.appendLocked(payload, series, points)
}

func (w *Writer) appendLocked(payload []byte, series []*Series, points int) error {
	for {
		if done, err := w.try(payload, series); done || err != nil {
			return err
		}
		if w.refusal = w.roll(need(payload, series)); w.refusal != nil {
			w.full.Store(true)
			w.retryAt = w.now().Add(retryFull)
			w.keep(payload, series, points)
			return w.alive()
		}
	}
}

func (w *Writer) alive() error {
	if w.current.Load() == nil {
		return ErrClosed
	}
	return nil
}

// try appends to the current segment if there is room.
func (w *Writer) try(payload []byte, series []*Series) (bool, error) {
	seg := w.acquire()
	if seg == nil {
		return false, ErrClosed
	}
	defer seg.release()
	return seg.stateAll(series) && seg.append(payload), nil
}

// stateAll writes the definitions that the segment lacks.
func (s *segment) stateAll(series []*Series) bool {
	for _, one := range series {
		if !s.state(one) {
			return false
		}
	}
	return true
}

// state writes the definition of a series that the segment lacks. The series
// counts as stated only when the definition is whole, so that no point of
// another goroutine ever depends on a record that a kill could tear.
func (s *segment) state(series *Series) bool {
	number := s.header.Number + 1
	if series.segment.Load() == number {
		return true
	}
	if !s.append(series.definition) {
		return false
	}
	series.segment.Store(number)
	return true
}

// need is what a record takes in a segment that states no series yet.
func need(payload []byte, series []*Series) int {
	n := headerSize + recordSize(len(payload))
	for _, s := range series {
		n += recordSize(len(s.definition))
	}
	return n
}

// roll seals the current segment and opens the next, large enough for a record. It
// fails when the disk or the cap is full; the old segment may then be sealed already.
func (w *Writer) roll(need int) error {
	old := w.current.Load()
	if old == nil {
		return ErrClosed
	}
	w.ahead.room.Lock()
	defer w.ahead.room.Unlock()
	seg, err := w.next(old, need)
	if err != nil {
		return err
	}
	if err := w.succeed(old, seg); err != nil {
		return errors.Join(err, seg.discard())
	}
	w.current.Store(seg)
	w.beside(old.release) // unmapping takes a millisecond
	return nil
}

// succeed makes seg the segment after old in the folder.
func (w *Writer) succeed(old, seg *segment) error {
	if err := old.seal(); err != nil {
		return err
	}
	h := Header{Writer: w.ID, Number: old.header.Number + 1, First: old.header.First + old.records(), CreatedNs: w.now().UnixNano()}
	if err := seg.begin(h); err != nil {
		return err
	}
	return seg.move(segmentPath(w.dir, h.Number))
}
