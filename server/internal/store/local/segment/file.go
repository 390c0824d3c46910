package segment

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
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
	magic          = "KGSEG\x00" // and two bytes of version
	version        = 5
	withOrigin     = 4 // since this version the directory has an [Origin]
	copiedFrom     = 3 // groups of this version are copied as they are
	headSize       = len(magic) + 2
	trailerEnd     = "KGSEGEND"
	trailerSize    = 8 + 4 + 4 + 8
	suffix         = ".kgs"
	maxIndexBytes  = 1 << 30
	maxGroupRows   = 8192
	longGroupRows  = maxGroupRows / 2 // a group of so many rows is not merged again
	fullGroupRows  = 1000             // nor one of so many, as a flush makes them, without neighbours to make a long one
	fullGroupBytes = 4 << 20
)

// Name is the name of a segment's file.
func Name(id uint64) string { return fmt.Sprintf("%016d%s", id, suffix) }

// ParseName reads what segmentName writes.
func ParseName(name string) (uint64, bool) {
	text, ok := strings.CutSuffix(name, suffix)
	if !ok {
		return 0, false
	}
	id, err := strconv.ParseUint(text, 10, 64)
	return id, err == nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// Ref is where bytes lie and what they must sum to.
type Ref struct {
	Off int64
	Len uint32
	crc uint32
}

// File is an open segment file. It is never written to again.
type File struct {
	ID      uint64
	files   *Files
	file    wal.File
	Size    int64
	version uint16
	Origin
	replaces []uint64
	Runs     []Entry // by rising id
	// Keep: something in it cannot be read, so it is not merged and not removed.
	Keep atomic.Bool

	dead   int64 // bytes of deleted runs, as of so many deletions
	deadAt uint64
}

// Close closes the file.
func (s *File) Close() error { return s.file.Close() }

// Again is the same file with nothing read of it yet.
func (s *File) Again() *File { return s.files.Over(s.ID, s.file) }

// Entry is a run in the directory: where its index is, and what is lost when
// that cannot be read (since version 2).
type Entry struct {
	Run              model.RunID
	Index            Ref
	Flushed          uint64 // records up to this one are in this segment or an earlier one
	Points           uint64
	MinTime, MaxTime int64 // of the points, when there are any
	Bytes            int64 // of the row groups
}

func (e *encoder) runRef(r *Entry) {
	e.ID(r.Run)
	e.ref(r.Index)
	e.Uint(r.Flushed)
	e.Uint(r.Points)
	if r.Points > 0 {
		e.Int(r.MinTime)
		e.Uint(uint64(r.MaxTime - r.MinTime))
		e.Uint(uint64(r.Bytes))
	}
}

func (d *decoder) runRef(version uint16) Entry {
	r := Entry{Run: d.ID(), Index: d.ref()}
	if version < 2 {
		return r
	}
	r.Flushed = d.Uint()
	if r.Points = d.Uint(); r.Points > 0 {
		r.MinTime = d.Int()
		r.MaxTime = r.MinTime + int64(d.Uint())
		r.Bytes = int64(d.Uint())
	}
	return r
}

// ErrDamaged says that bytes are not those that were written.
var ErrDamaged = errors.New("checksum or length is wrong")

// read returns a block whose checksum holds.
func (s *File) read(ref Ref) ([]byte, error) {
	if ref.Off < 0 || int64(ref.Len) > s.Size-ref.Off {
		return nil, s.Bad(ref, ErrDamaged)
	}
	b := make([]byte, ref.Len)
	if n, err := s.file.ReadAt(b, ref.Off); err != nil && !(errors.Is(err, io.EOF) && n == len(b)) {
		return nil, s.Bad(ref, err)
	}
	if checksum(b) != ref.crc {
		return nil, s.Bad(ref, ErrDamaged)
	}
	return b, nil
}

// BlockError is damage at one place of a file.
type BlockError struct {
	Segment uint64
	Off     int64
	Lost    Lost // none when that is not known
	Err     error
}

// Error implements error.
func (e *BlockError) Error() string {
	return fmt.Sprintf("segment %s at byte %d: %v", Name(e.Segment), e.Off, e.Err)
}

// Unwrap gives what is wrong at the place.
func (e *BlockError) Unwrap() error { return e.Err }

// Bad is damage at a place of the segment.
func (s *File) Bad(ref Ref, err error) error {
	return &BlockError{Segment: s.ID, Off: ref.Off, Err: err}
}

// Group is a row group in a segment.
type Group struct {
	segment *File
	Ext     column.Extent
	shared  Ref
	blocks  Ref // aggregates of blocks of rows; none when its length is 0
	Series  []uint32
	Cols    []ColumnMeta
}

// ColumnMeta is what the index says of a column.
type ColumnMeta struct {
	Kind model.Kind
	ref  Ref
	sum  column.Aggregate // of numeric columns
}

// Extent is what the index says of the rows.
func (g *Group) Extent() *column.Extent { return &g.Ext }

// Summary is the stored one of a numeric column.
func (g *Group) Summary(col int) (column.Aggregate, bool) {
	c := &g.Cols[col]
	return c.sum, column.Numeric(c.Kind) && c.sum.Exact(c.Kind)
}

// Points of all columns.
func (g *Group) Points() uint64 { return uint64(g.Ext.Rows * len(g.Cols)) }

// Bytes of the group's blocks.
func (g *Group) Bytes() int64 {
	n := int64(g.shared.Len) + int64(g.blocks.Len)
	for i := range g.Cols {
		n += int64(g.Cols[i].ref.Len)
	}
	return n
}

// Rows reads what the columns share.
func (g *Group) Rows() (*column.Rows, error) {
	b, err := g.segment.read(g.shared)
	if err != nil {
		return nil, g.bad(g.shared, len(g.Cols), err)
	}
	d := g.segment.files.decoder()
	defer g.segment.files.decoders.Put(d)
	r, err := g.decodeRows(d, b)
	if err != nil {
		return nil, g.bad(g.shared, len(g.Cols), err)
	}
	return r, nil
}

// Xs reads one of the columns that the group's values share.
func (g *Group) Xs(axis int) ([]int64, error) {
	b, err := g.segment.read(g.shared)
	if err != nil {
		return nil, g.bad(g.shared, len(g.Cols), err)
	}
	d := newDecoder(b)
	for a := range column.NumAxes { // the time is behind the axes
		if g.Ext.Mask.Has(a) && (axis < 0 || a < axis) {
			d.Bytes()
		}
	}
	dec := g.segment.files.decoder()
	defer g.segment.files.decoders.Put(dec)
	var xs []int64
	if axis < 0 {
		xs, err = g.readTimes(dec, d.Bytes())
	} else {
		xs, err = exactly(dec, d.Bytes(), g.Ext.Rows)
	}
	if err != nil {
		return nil, g.bad(g.shared, len(g.Cols), err)
	}
	return xs, nil
}

// Values reads a column.
func (g *Group) Values(col int) (column.Values, error) {
	m := &g.Cols[col]
	b, err := g.segment.read(m.ref)
	if err != nil {
		return column.Values{}, g.bad(m.ref, 1, err)
	}
	d := g.segment.files.decoder()
	defer g.segment.files.decoders.Put(d)
	v := column.Values{Kind: m.Kind}
	switch m.Kind {
	case model.KindFloat:
		v.Floats, err = d.Floats(b, g.Ext.Rows)
	case model.KindInt:
		v.Ints, err = d.Ints(b, g.Ext.Rows)
	default:
		v.Docs, err = d.Bytes(b, g.Ext.Rows, codec.MaxBytes)
	}
	if err == nil && v.Len() != g.Ext.Rows {
		err = codec.ErrCorrupt
	}
	if err != nil {
		return column.Values{}, g.bad(m.ref, 1, err)
	}
	return v, nil
}

func castInts[T uint32 | uint64](vs []T) []int64 {
	out := make([]int64, len(vs))
	for i, v := range vs {
		out[i] = int64(v)
	}
	return out
}

func (g *Group) decodeRows(dec *codec.Decoder, b []byte) (*column.Rows, error) {
	d, e := newDecoder(b), &g.Ext
	var failed error
	get := func() []int64 {
		vs, err := exactly(dec, d.Bytes(), e.Rows)
		failed = errors.Join(failed, err)
		return vs
	}
	r := &column.Rows{Mask: e.Mask, Mode: e.Mode}
	for a := range column.NumAxes {
		if e.Mask.Has(a) {
			r.Axes[a] = get()
		}
	}
	times, err := g.readTimes(dec, d.Bytes())
	r.Time = times
	seq, ord, src := get(), get(), get()
	if err = errors.Join(failed, err, d.Err); err != nil {
		return nil, err
	}
	r.Seq, r.Arrival, r.Source = make([]uint64, e.Rows), ord, make([]uint32, e.Rows)
	for i := range e.Rows {
		r.Seq[i], r.Source[i] = uint64(seq[i]), uint32(src[i])
	}
	return r, nil
}

// ReadDirectory checks the file as a whole and reads what it says of each run.
func (s *File) ReadDirectory() ([]Head, error) {
	size, err := s.file.Size()
	if err != nil {
		return nil, err
	}
	s.Size = size
	if size < int64(headSize+trailerSize) {
		return nil, ErrDamaged
	}
	first, tail := make([]byte, headSize), make([]byte, trailerSize)
	if _, err := s.file.ReadAt(first, 0); err != nil {
		return nil, err
	}
	if _, err := s.file.ReadAt(tail, size-trailerSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	s.version = binary.LittleEndian.Uint16(first[len(magic):])
	if !strings.HasPrefix(string(first), magic) || s.version < 1 || s.version > version || string(tail[16:]) != trailerEnd {
		return nil, ErrDamaged
	}
	ref := Ref{Off: int64(binary.LittleEndian.Uint64(tail)), Len: binary.LittleEndian.Uint32(tail[8:]), crc: binary.LittleEndian.Uint32(tail[12:])}
	b, err := s.read(ref)
	if err != nil {
		return nil, err
	}
	return s.decodeDirectory(newDecoder(b))
}

func (s *File) decodeDirectory(d *decoder) ([]Head, error) {
	if d.Uint() != s.ID {
		return nil, fmt.Errorf("the file says that it is another segment: %w", ErrDamaged)
	}
	s.Origin = d.origin(s.version)
	s.replaces, s.Runs = nil, nil
	for range d.Count(1) {
		s.replaces = append(s.replaces, d.Uint())
	}
	n := d.Count(16 + 6)
	heads := make([]Head, 0, n)
	s.Runs = make([]Entry, 0, n)
	for range n {
		h := d.head(s.version)
		heads, s.Runs = append(heads, h), append(s.Runs, h.Entry)
	}
	if !slices.IsSortedFunc(s.Runs, func(a, b Entry) int { return bytes.Compare(a.Run[:], b.Run[:]) }) {
		return nil, ErrDamaged
	}
	return heads, d.Err
}

// Complete reads what the directory of version 1 lacks.
func (s *File) Complete(h *Head) error {
	if s.version > 1 {
		return nil
	}
	sec, err := s.Section(h.Entry, true)
	if err != nil {
		return err
	}
	index := h.Index
	*h = sec.Head
	h.Index = index
	at, _ := s.find(h.Run)
	s.Runs[at] = h.Entry
	return nil
}

// find is the place of a run in the directory.
func (s *File) find(run model.RunID) (int, bool) {
	return slices.BinarySearchFunc(s.Runs, run, func(r Entry, id model.RunID) int { return bytes.Compare(r.Run[:], id[:]) })
}

// Section reads what a segment says of a run, without its groups unless they are
// wanted; of version 2 that is the body.
func (s *File) Section(ref Entry, groups bool) (*Section, error) {
	sec := &Section{Head: Head{Entry: ref}}
	if ref.Index.Len == 0 {
		return sec, nil
	}
	b, err := s.read(ref.Index)
	if err != nil {
		return nil, err
	}
	dec := s.files.decoder()
	plain, err := dec.Bytes(b, 1, maxIndexBytes)
	s.files.decoders.Put(dec)
	if err != nil || len(plain) != 1 {
		return nil, s.Bad(ref.Index, ErrDamaged)
	}
	d := newDecoder(plain[0])
	if s.version == 1 {
		sec, err = decodeSection1(d, s)
	} else {
		err = sec.decodeBody(d, s, groups)
	}
	if err != nil || sec.Run != ref.Run {
		return nil, s.Bad(ref.Index, ErrDamaged)
	}
	return sec, nil
}

func (e *encoder) ref(r Ref) {
	e.Uint(uint64(r.Off))
	e.Uint(uint64(r.Len))
	e.Buf = binary.LittleEndian.AppendUint32(e.Buf, r.crc)
}

func (d *decoder) ref() Ref {
	r := Ref{Off: int64(d.Uint()), Len: uint32(d.Uint())}
	if b := d.Take(4); b != nil {
		r.crc = binary.LittleEndian.Uint32(b)
	}
	return r
}

// encoder writes indexes: the fields of log records, and columns.
type encoder struct{ record.Encoder }

// decoder reads what encoder wrote.
type decoder struct{ record.Decoder }

func newDecoder(b []byte) *decoder { return &decoder{record.Decoder{Rest: b}} }

// Place is a part of a run's body on disk: a place in a segment's directory.
type Place struct {
	Segment *File
	At      int
}

// Ref is the entry of the run in the directory.
func (l Place) Ref() *Entry { return &l.Segment.Runs[l.At] }

// Located finds a run that the segment has.
func (s *File) Located(run model.RunID) Place {
	at, _ := s.find(run)
	return Place{s, at}
}

// DeadBytes counts the bytes of deleted runs, anew after a deletion: so many were
// deleted by now.
func (s *File) DeadBytes(now uint64, deleted func(model.RunID) bool) int64 {
	if s.deadAt == now+1 {
		return s.dead
	}
	s.dead, s.deadAt = 0, now+1
	for i := range s.Runs {
		if s.Runs[i].Bytes > 0 && deleted(s.Runs[i].Run) {
			s.dead += s.Runs[i].Bytes
		}
	}
	return s.dead
}

// Replaces reports whether a merge made this segment of another one.
func (s *File) Replaces(id uint64) bool { return slices.Contains(s.replaces, id) }
