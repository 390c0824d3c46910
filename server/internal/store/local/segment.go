package local

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// A segment file is a header, blocks, an index block for each run, a directory
// and a trailer; docs/format/segment.md has the bytes.
const (
	segmentMagic   = "KGSEG\x00" // and two bytes of version
	segmentVersion = 2
	segmentHead    = len(segmentMagic) + 2
	segmentEnd     = "KGSEGEND"
	trailerSize    = 8 + 4 + 4 + 8
	segmentSuffix  = ".kgs"
	maxIndexBytes  = 1 << 30
	maxGroupRows   = 8192
	fullGroupRows  = 1000 // a group of so many rows, as a flush makes them, is not merged again
	fullGroupBytes = 4 << 20
)

func segmentName(id uint64) string { return fmt.Sprintf("%016d%s", id, segmentSuffix) }

func parseSegmentName(name string) (uint64, bool) {
	text, ok := strings.CutSuffix(name, segmentSuffix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(text, 10, 64)
	return id, err == nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// blockRef is where bytes lie and what they must sum to.
type blockRef struct {
	off int64
	len uint32
	crc uint32
}

// segment is an open segment file. It is never written to again.
type segment struct {
	id       uint64
	engine   *Engine
	file     wal.File
	size     int64
	version  uint16
	replaces []uint64
	runs     []runRef // by rising id
	// keep: something in it cannot be read, so it is not merged and not removed.
	keep atomic.Bool

	dead   int64 // bytes of deleted runs, as of so many deletions
	deadAt uint64
}

// runRef is a run in the directory: where its index is, and what is lost when
// that cannot be read (since version 2).
type runRef struct {
	run      model.RunID
	index    blockRef
	flushed  uint64 // records up to this one are in this segment or an earlier one
	points   uint64
	tlo, thi int64 // of the points, when there are any
	bytes    int64 // of the row groups
}

func (e *encoder) runRef(r *runRef) {
	e.ID(r.run)
	e.ref(r.index)
	e.Uint(r.flushed)
	e.Uint(r.points)
	if r.points > 0 {
		e.Int(r.tlo)
		e.Uint(uint64(r.thi - r.tlo))
		e.Uint(uint64(r.bytes))
	}
}

func (d *decoder) runRef(version uint16) runRef {
	r := runRef{run: d.ID(), index: d.ref()}
	if version < 2 {
		return r
	}
	r.flushed = d.Uint()
	if r.points = d.Uint(); r.points > 0 {
		r.tlo = d.Int()
		r.thi = r.tlo + int64(d.Uint())
		r.bytes = int64(d.Uint())
	}
	return r
}

var errDamaged = errors.New("checksum or length is wrong")

// read returns a block whose checksum holds.
func (s *segment) read(ref blockRef) ([]byte, error) {
	if ref.off < 0 || int64(ref.len) > s.size-ref.off {
		return nil, s.bad(ref, errDamaged)
	}
	b := make([]byte, ref.len)
	if n, err := s.file.ReadAt(b, ref.off); err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		return nil, s.bad(ref, err)
	}
	if checksum(b) != ref.crc {
		return nil, s.bad(ref, errDamaged)
	}
	return b, nil
}

// blockError is damage at one place of a file.
type blockError struct {
	segment uint64
	off     int64
	lost    lostPoints // none when that is not known
	err     error
}

func (e *blockError) Error() string {
	return fmt.Sprintf("segment %s at byte %d: %v", segmentName(e.segment), e.off, e.err)
}

func (e *blockError) Unwrap() error { return e.err }

func (s *segment) bad(ref blockRef, err error) error {
	return &blockError{segment: s.id, off: ref.off, err: err}
}

// segmentGroup is a row group in a segment.
type segmentGroup struct {
	segment *segment
	ext     column.Extent
	shared  blockRef
	blocks  blockRef // aggregates of blocks of rows; none when its length is 0
	series  []uint32
	cols    []columnMeta
}

type columnMeta struct {
	kind model.Kind
	ref  blockRef
	sum  column.Aggregate // of numeric columns
}

func (g *segmentGroup) Extent() *column.Extent { return &g.ext }

func (g *segmentGroup) Summary(col int) (column.Aggregate, bool) {
	c := &g.cols[col]
	return c.sum, column.Numeric(c.kind) && c.sum.Exact(c.kind)
}

// points of all columns.
func (g *segmentGroup) points() uint64 { return uint64(g.ext.Rows * len(g.cols)) }

// bytes of the group's blocks.
func (g *segmentGroup) bytes() int64 {
	n := int64(g.shared.len) + int64(g.blocks.len)
	for i := range g.cols {
		n += int64(g.cols[i].ref.len)
	}
	return n
}

func (g *segmentGroup) Rows() (*column.Rows, error) {
	b, err := g.segment.read(g.shared)
	if err != nil {
		return nil, g.bad(g.shared, len(g.cols), err)
	}
	d := g.segment.engine.decoder()
	defer g.segment.engine.decoders.Put(d)
	r, err := decodeRows(d, b, &g.ext)
	if err != nil {
		return nil, g.bad(g.shared, len(g.cols), err)
	}
	return r, nil
}

// xs reads one of the columns that the group's values share.
func (g *segmentGroup) xs(axis int) ([]int64, error) {
	b, err := g.segment.read(g.shared)
	if err != nil {
		return nil, g.bad(g.shared, len(g.cols), err)
	}
	d := newDecoder(b)
	for a := range column.NumAxes { // the time is behind the axes
		if g.ext.Mask.Has(a) && (axis < 0 || a < axis) {
			d.Bytes()
		}
	}
	dec := g.segment.engine.decoder()
	defer g.segment.engine.decoders.Put(dec)
	xs := d.ints(dec, g.ext.Rows)
	if d.Err != nil {
		return nil, g.bad(g.shared, len(g.cols), codec.ErrCorrupt)
	}
	return xs, nil
}

func (g *segmentGroup) Values(col int) (column.Values, error) {
	m := &g.cols[col]
	b, err := g.segment.read(m.ref)
	if err != nil {
		return column.Values{}, g.bad(m.ref, 1, err)
	}
	d := g.segment.engine.decoder()
	defer g.segment.engine.decoders.Put(d)
	v := column.Values{Kind: m.kind}
	switch m.kind {
	case model.KindFloat:
		v.Floats, err = d.Floats(b, g.ext.Rows)
	case model.KindInt:
		v.Ints, err = d.Ints(b, g.ext.Rows)
	default:
		v.Docs, err = d.Bytes(b, g.ext.Rows, codec.MaxBytes)
	}
	if err == nil && v.Len() != g.ext.Rows {
		err = codec.ErrCorrupt
	}
	if err != nil {
		return column.Values{}, g.bad(m.ref, 1, err)
	}
	return v, nil
}

func (e *Engine) decoder() *codec.Decoder {
	if d, ok := e.decoders.Get().(*codec.Decoder); ok {
		return d
	}
	return codec.NewDecoder()
}

// encodeRows writes each shared column behind its length.
func encodeRows(enc *codec.Encoder, r *column.Rows) []byte {
	var out encoder
	put := func(vs []int64) { out.Bytes(enc.AppendInts(nil, vs)) }
	for a := range column.NumAxes {
		if r.Mask.Has(a) {
			put(r.Axes[a])
		}
	}
	put(r.Time)
	put(castInts(r.Seq))
	put(r.Arrival)
	put(castInts(r.Source))
	return out.Buf
}

func castInts[T uint32 | uint64](vs []T) []int64 {
	out := make([]int64, len(vs))
	for i, v := range vs {
		out[i] = int64(v)
	}
	return out
}

func decodeRows(dec *codec.Decoder, b []byte, e *column.Extent) (*column.Rows, error) {
	d := newDecoder(b)
	var failed error
	get := func() []int64 {
		vs, err := dec.Ints(d.Bytes(), e.Rows)
		if err == nil && len(vs) != e.Rows {
			err = codec.ErrCorrupt
		}
		failed = errors.Join(failed, err)
		return vs
	}
	r := &column.Rows{Mask: e.Mask, Mode: e.Mode}
	for a := range column.NumAxes {
		if e.Mask.Has(a) {
			r.Axes[a] = get()
		}
	}
	r.Time = get()
	seq, ord, src := get(), get(), get()
	if err := errors.Join(failed, d.Err); err != nil {
		return nil, err
	}
	r.Seq, r.Arrival, r.Source = make([]uint64, e.Rows), ord, make([]uint32, e.Rows)
	for i := range e.Rows {
		r.Seq[i], r.Source[i] = uint64(seq[i]), uint32(src[i])
	}
	return r, nil
}

// openSegment reads the directory of a segment.
func (e *Engine) openSegment(id uint64) (*segment, []head, error) {
	file, err := e.cfg.FS.Open(filepath.Join(e.segmentDir(), segmentName(id)), false)
	if err != nil {
		return nil, nil, err
	}
	s := &segment{id: id, engine: e, file: file}
	heads, err := s.readDirectory()
	if err != nil {
		return nil, nil, errors.Join(err, file.Close())
	}
	return s, heads, nil
}

// readDirectory checks the file as a whole and reads what it says of each run.
func (s *segment) readDirectory() ([]head, error) {
	size, err := s.file.Size()
	if err != nil {
		return nil, err
	}
	s.size = size
	if size < int64(segmentHead+trailerSize) {
		return nil, errDamaged
	}
	first, tail := make([]byte, segmentHead), make([]byte, trailerSize)
	if _, err := s.file.ReadAt(first, 0); err != nil {
		return nil, err
	}
	if _, err := s.file.ReadAt(tail, size-trailerSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s.version = binary.LittleEndian.Uint16(first[len(segmentMagic):])
	if !strings.HasPrefix(string(first), segmentMagic) || s.version < 1 || s.version > segmentVersion || string(tail[16:]) != segmentEnd {
		return nil, errDamaged
	}
	ref := blockRef{off: int64(binary.LittleEndian.Uint64(tail)), len: binary.LittleEndian.Uint32(tail[8:]), crc: binary.LittleEndian.Uint32(tail[12:])}
	b, err := s.read(ref)
	if err != nil {
		return nil, err
	}
	return s.decodeDirectory(newDecoder(b))
}

func (s *segment) decodeDirectory(d *decoder) ([]head, error) {
	if d.Uint() != s.id {
		return nil, fmt.Errorf("the file says that it is another segment: %w", errDamaged)
	}
	s.replaces, s.runs = nil, nil
	for range d.Count(1) {
		s.replaces = append(s.replaces, d.Uint())
	}
	n := d.Count(16 + 6)
	heads := make([]head, 0, n)
	s.runs = make([]runRef, 0, n)
	for range n {
		h := d.head(s.version)
		heads, s.runs = append(heads, h), append(s.runs, h.runRef)
	}
	if !slices.IsSortedFunc(s.runs, func(a, b runRef) int { return bytes.Compare(a.run[:], b.run[:]) }) {
		return nil, errDamaged
	}
	return heads, d.Err
}

// complete reads what the directory of version 1 lacks.
func (s *segment) complete(h *head) error {
	if s.version > 1 {
		return nil
	}
	sec, err := s.section(h.runRef)
	if err != nil {
		return err
	}
	index := h.index
	*h = sec.head
	h.index = index
	at, _ := s.find(h.run)
	s.runs[at] = h.runRef
	return nil
}

// find is the place of a run in the directory.
func (s *segment) find(run model.RunID) (int, bool) {
	return slices.BinarySearchFunc(s.runs, run, func(r runRef, id model.RunID) int { return bytes.Compare(r.run[:], id[:]) })
}

// section reads what a segment says of a run; of version 2 that is the body.
func (s *segment) section(ref runRef) (*section, error) {
	sec := &section{head: head{runRef: ref}}
	if ref.index.len == 0 {
		return sec, nil
	}
	b, err := s.read(ref.index)
	if err != nil {
		return nil, err
	}
	dec := s.engine.decoder()
	plain, err := dec.Bytes(b, 1, maxIndexBytes)
	s.engine.decoders.Put(dec)
	if err != nil || len(plain) != 1 {
		return nil, s.bad(ref.index, errDamaged)
	}
	d := newDecoder(plain[0])
	if s.version == 1 {
		sec, err = decodeSection1(d, s)
	} else {
		err = sec.decodeBody(d, s)
	}
	if err != nil || sec.run != ref.run {
		return nil, s.bad(ref.index, errDamaged)
	}
	return sec, nil
}

func (e *encoder) ref(r blockRef) {
	e.Uint(uint64(r.off))
	e.Uint(uint64(r.len))
	e.Buf = binary.LittleEndian.AppendUint32(e.Buf, r.crc)
}

func (d *decoder) ref() blockRef {
	r := blockRef{off: int64(d.Uint()), len: uint32(d.Uint())}
	if b := d.Take(4); b != nil {
		r.crc = binary.LittleEndian.Uint32(b)
	}
	return r
}

func (e *Engine) segmentDir() string { return filepath.Join(e.cfg.Dir, "segments") }

// encoder writes indexes: the fields of log records, and columns.
type encoder struct{ record.Encoder }

// decoder reads what encoder wrote.
type decoder struct{ record.Decoder }

func newDecoder(b []byte) *decoder { return &decoder{record.Decoder{Rest: b}} }
