package local

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

// segmentWriter writes a new segment beside its final name, which it takes only
// when everything is on disk.
type segmentWriter struct {
	engine *Engine
	id     uint64
	file   wal.File
	buf    []byte // not yet written
	off    int64  // of the start of buf
	desk   *desk
	enc    *codec.Encoder
	done   []*section
}

// desk is what one segment writer after the other uses.
type desk struct {
	enc *codec.Encoder
	buf []byte
}

const writeChunk = 1 << 20

func (e *Engine) newSegmentWriter(d *desk) (*segmentWriter, error) {
	if err := e.cfg.FS.MkdirAll(e.segmentDir()); err != nil {
		return nil, fmt.Errorf("make segment folder: %w", err)
	}
	w := &segmentWriter{engine: e, id: e.nextSegment.Add(1) - 1, desk: d, enc: d.enc}
	file, err := e.cfg.FS.Open(w.temporary(), true)
	if err != nil {
		return nil, fmt.Errorf("create segment: %w", err)
	}
	if err := file.Truncate(0); err != nil {
		return nil, errors.Join(fmt.Errorf("create segment: %w", err), file.Close())
	}
	w.file = file
	w.buf = binary.LittleEndian.AppendUint16(append(d.buf[:0], segmentMagic...), segmentVersion)
	return w, nil
}

func (w *segmentWriter) final() string {
	return filepath.Join(w.engine.segmentDir(), segmentName(w.id))
}
func (w *segmentWriter) temporary() string { return w.final() + ".tmp" }

// block appends bytes and says where they are.
func (w *segmentWriter) block(b []byte) (blockRef, error) {
	start := len(w.buf)
	w.buf = append(w.buf, b...)
	return w.appended(start)
}

// appended makes a block of what is in the buffer from start on.
func (w *segmentWriter) appended(start int) (blockRef, error) {
	b := w.buf[start:]
	ref := blockRef{off: w.off + int64(start), len: uint32(len(b)), crc: checksum(b)}
	if len(w.buf) < writeChunk {
		return ref, nil
	}
	return ref, w.spill()
}

func (w *segmentWriter) spill() error {
	if _, err := w.file.WriteAt(w.buf, w.off); err != nil {
		return fmt.Errorf("write segment: %w", err)
	}
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
	if cap(w.buf) <= maxKeptBuffer {
		w.desk.buf = w.buf
	}
	return nil
}

// group writes a row group.
func (w *segmentWriter) group(r *column.Rows, ids []uint32, cols []column.Values, l *lineage) (*segmentGroup, error) {
	g := &segmentGroup{ext: column.Measure(r, l.writers), series: ids, cols: make([]columnMeta, len(cols))}
	var err error
	if g.shared, err = w.block(encodeRows(w.enc, r)); err != nil {
		return nil, err
	}
	for i := range cols {
		if g.cols[i], err = w.column(&cols[i], &g.ext); err != nil {
			return nil, err
		}
	}
	g.blocks, err = w.blockAggregates(r, cols)
	return g, err
}

func (w *segmentWriter) column(v *column.Values, e *column.Extent) (columnMeta, error) {
	m := columnMeta{kind: v.Kind}
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
func (w *segmentWriter) copyGroup(g *segmentGroup) (*segmentGroup, error) {
	out := &segmentGroup{ext: g.ext, series: g.series, cols: append([]columnMeta{}, g.cols...)}
	refs := []*blockRef{&out.shared}
	from := []blockRef{g.shared}
	for i := range g.cols {
		refs, from = append(refs, &out.cols[i].ref), append(from, g.cols[i].ref)
	}
	if g.blocks.len > 0 {
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

// section writes the body of a run; its groups are written already. The head
// goes into the directory.
func (w *segmentWriter) section(s *section) error {
	s.count()
	s.index = blockRef{}
	if body := s.encodeBody(w.enc); body != nil {
		var err error
		if s.index, err = w.block(w.pack(body)); err != nil {
			return err
		}
	}
	w.done = append(w.done, s)
	return nil
}

// pack compresses an index block when that makes it smaller.
func (w *segmentWriter) pack(b []byte) []byte {
	out, err := w.enc.AppendBytes(nil, [][]byte{b})
	if err != nil {
		return nil // the reader finds an empty block damaged; indexes are far below the limit
	}
	return out
}

// finish makes the segment durable under its name and opens it.
func (w *segmentWriter) finish(replaces []uint64) (*segment, error) {
	d := &encoder{}
	d.Uint(w.id)
	d.Uint(uint64(len(replaces)))
	for _, id := range replaces {
		d.Uint(id)
	}
	slices.SortFunc(w.done, func(a, b *section) int { return bytes.Compare(a.run[:], b.run[:]) })
	d.Uint(uint64(len(w.done)))
	for _, sec := range w.done {
		d.head(&sec.head)
	}
	ref, err := w.block(d.Buf)
	if err != nil {
		return nil, err
	}
	w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(ref.off))
	w.buf = binary.LittleEndian.AppendUint32(w.buf, ref.len)
	w.buf = binary.LittleEndian.AppendUint32(w.buf, ref.crc)
	w.buf = append(w.buf, segmentEnd...)
	if err := w.spill(); err != nil {
		return nil, err
	}
	if err := w.file.Sync(); err != nil {
		return nil, fmt.Errorf("sync segment: %w", err)
	}
	fs := w.engine.cfg.FS
	err = fs.Rename(w.temporary(), w.final())
	if err == nil {
		err = fs.SyncDir(w.engine.segmentDir())
	}
	if err != nil {
		// Whether the segment will be there after a crash is unknown, so writing its
		// points once more could double them.
		return nil, w.engine.poison(fmt.Errorf("name segment: %w", err))
	}
	s := &segment{id: w.id, engine: w.engine, file: w.file, size: w.off, version: segmentVersion, replaces: replaces}
	for _, sec := range w.done {
		s.runs = append(s.runs, sec.runRef)
		for _, g := range sec.groups {
			g.segment = s
		}
	}
	return s, nil
}

// abandon removes what was written, unless it may have its name already.
func (w *segmentWriter) abandon() {
	if w.engine.poisoned() != nil {
		return
	}
	err := errors.Join(w.file.Close(), w.engine.cfg.FS.Remove(w.temporary()))
	if err != nil {
		w.engine.cfg.Logger.Warn("unfinished segment not removed", "segment", w.temporary(), "err", err)
	}
}
