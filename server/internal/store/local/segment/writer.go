package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Writer writes a new segment beside its final name, which it takes only
// when everything is on disk.
type Writer struct {
	files *Files
	id    uint64
	file  wal.File
	buf   []byte // not yet written
	off   int64  // of the start of buf
	desk  *Desk
	enc   *codec.Encoder
	Done  []*Section

	Rewrites int   // see [Origin]
	Freed    int64 // bytes that this merge leaves out
	counted  int64 // bytes that the store's life has already

	bases    []timeBase // of the run that is written
	baseRows int
}

// Desk is what one segment writer after the other uses.
type Desk struct {
	enc *codec.Encoder
	buf []byte
}

const (
	writeChunk   = 1 << 20
	maxKeptBytes = 4 << 20 // a larger buffer is not kept for the next segment
)

// NewDesk is an empty one.
func NewDesk() *Desk { return &Desk{enc: codec.NewEncoder()} }

// Create starts a new segment.
func (f *Files) Create(d *Desk) (*Writer, error) {
	if err := f.fs.MkdirAll(f.dir); err != nil {
		return nil, fmt.Errorf("make segment folder: %w", err)
	}
	w := &Writer{files: f, id: f.next.Add(1) - 1, desk: d, enc: d.enc}
	file, err := f.fs.Open(w.temporary(), true)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("create segment: %w", err), file.Close())
	}
	w.file = file
	w.buf = binary.LittleEndian.AppendUint16(append(d.buf[:0], magic...), version)
	return w, nil
}

func (w *Writer) final() string {
	return filepath.Join(w.files.dir, Name(w.id))
}
func (w *Writer) temporary() string { return w.final() + ".tmp" }

// block appends bytes and says where they are.
func (w *Writer) block(b []byte) (Ref, error) {
	start := len(w.buf)
	w.buf = append(w.buf, b...)
	return w.appended(start)
}

// appended makes a block of what is in the buffer from start on.
func (w *Writer) appended(start int) (Ref, error) {
	b := w.buf[start:]
	ref := Ref{Off: w.off + int64(start), Len: uint32(len(b)), crc: checksum(b)}
	if len(w.buf) < writeChunk {
		return ref, nil
	}
	return ref, w.spill()
}

func (w *Writer) spill() error {
	if _, err := w.file.WriteAt(w.buf, w.off); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
	if cap(w.buf) <= maxKeptBytes {
		w.desk.buf = w.buf
	}
	return nil
}

// group writes a row group.
func (w *Writer) group(r *column.Rows, ids []uint32, cols []column.Values, writers []model.WriterID) (*Group, error) {
	g := &Group{Ext: column.Measure(r, writers), Series: ids, Cols: make([]ColumnMeta, len(cols))}
	var err error
	if g.shared, err = w.shared(r, &g.Ext); err != nil {
		return nil, err
	}
	for i := range cols {
		if g.Cols[i], err = w.column(&cols[i], &g.Ext); err != nil {
			return nil, err
		}
	}
	g.blocks, err = w.blockAggregates(r, cols)
	return g, err
}

func (w *Writer) column(v *column.Values, e *column.Extent) (ColumnMeta, error) {
	m := ColumnMeta{Kind: v.Kind}
	start := len(w.buf)
	var err error
	switch v.Kind {
	case model.KindFloat:
		w.buf = w.enc.AppendFloats(w.buf, v.Floats)
	case model.KindInt:
		w.buf = w.enc.AppendInts(w.buf, v.Ints)
	default:
		if w.buf, err = w.enc.AppendBytes(w.buf, v.Docs); err != nil {
			return m, fmt.Errorf("encode column: %w", err)
		}
	}
	if column.Numeric(v.Kind) {
		m.sum = column.Summarise(v, 0, v.Len())
		m.sum.First, m.sum.Last = column.BitsOf(v, 0), column.BitsOf(v, int(e.Last))
	}
	m.ref, err = w.appended(start)
	return m, err
}

// copyGroup takes a group over from another segment as it is.
func (w *Writer) copyGroup(g *Group) (*Group, error) {
	out := &Group{Ext: g.Ext, Series: g.Series, Cols: append([]ColumnMeta{}, g.Cols...)}
	var refs []*Ref
	var from []Ref
	var err error
	if out.shared, err = w.copyShared(g); err != nil {
		return nil, err
	}
	for i := range g.Cols {
		refs, from = append(refs, &out.Cols[i].ref), append(from, g.Cols[i].ref)
	}
	if g.blocks.Len > 0 {
		refs, from = append(refs, &out.blocks), append(from, g.blocks)
	}
	for i := range refs {
		b, err := g.segment.read(from[i])
		if err != nil {
			return nil, err
		}
		if *refs[i], err = w.block(b); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Section writes the body of a run; its groups are written already. The head
// goes into the directory.
func (w *Writer) Section(s *Section) error {
	s.count()
	w.bases, w.baseRows = nil, 0
	s.Index = Ref{}
	if body := s.encodeBody(w.enc); body != nil {
		var err error
		if s.Index, err = w.block(w.pack(body)); err != nil {
			return err
		}
	}
	w.Done = append(w.Done, s)
	return nil
}

// pack compresses an index block when that makes it smaller.
func (w *Writer) pack(b []byte) []byte {
	out, err := w.enc.AppendBytes(nil, [][]byte{b})
	if err != nil {
		return nil // the reader finds an empty block damaged; indexes are far below the limit
	}
	return out
}

// count notes what was written up to a place of the file, and says what was before the file.
func (w *Writer) count(upTo int64) Life {
	before := w.files.wrote(upTo-w.counted, 0)
	before.Written -= w.counted
	w.counted = upTo
	return before
}

// Finish makes the segment durable under its name and opens it.
func (w *Writer) Finish(replaces []uint64) (*File, error) {
	before := w.count(w.off + int64(len(w.buf)))
	origin := Origin{w.Rewrites, before.Written, before.Freed + w.Freed}
	d := &encoder{}
	d.Uint(w.id)
	d.origin(origin)
	d.Uint(uint64(len(replaces)))
	for _, id := range replaces {
		d.Uint(id)
	}
	slices.SortFunc(w.Done, func(a, b *Section) int { return bytes.Compare(a.Run[:], b.Run[:]) })
	d.Uint(uint64(len(w.Done)))
	for _, sec := range w.Done {
		d.head(&sec.Head)
	}
	ref, err := w.block(d.Buf)
	if err != nil {
		return nil, err
	}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(ref.Off))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, ref.Len)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, ref.crc)
	w.buf = append(w.buf, trailerEnd...)
	if err := w.spill(); err != nil {
		return nil, err
	}
	w.count(w.off)
	if err := w.file.Sync(); err != nil {
		return nil, fmt.Errorf("sync segment: %w", err)
	}
	fs := w.files.fs
	err = fs.Rename(w.temporary(), w.final())
	if err == nil {
		err = fs.SyncDir(w.files.dir)
	}
	if err != nil {
		// Whether the segment will be there after a crash is unknown, so writing its
		// points once more could double them.
		return nil, w.files.poison(fmt.Errorf("name segment: %w", err))
	}
	w.files.wrote(0, w.Freed)
	s := &File{ID: w.id, files: w.files, file: w.file, Size: w.off, version: version, Origin: origin, replaces: replaces}
	for _, sec := range w.Done {
		s.Runs = append(s.Runs, sec.Entry)
		for _, g := range sec.Groups {
			g.place(s)
		}
	}
	return s, nil
}

// Abandon removes what was written, unless it may have its name already.
func (w *Writer) Abandon() {
	if w.files.Stuck() != nil {
		return
	}
	w.count(w.off)
	err := errors.Join(w.file.Close(), w.files.fs.Remove(w.temporary()))
	if err != nil {
		w.files.logger.Warn("unfinished segment not removed", "segment", w.temporary(), "err", err)
	}
}
