package spool

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// The types of records.
const (
	TypeSeries   = 1
	TypePoint    = 2
	TypeBlock    = 3
	TypeUpdate   = 4
	TypeDocument = 5
)

// Flags of points and documents.
const (
	FlagStep     = 1 // the point has a step
	FlagRelative = 2 // the step is +k
)

// Modes of a block's columns.
const (
	ModeConstant  = 0
	ModeLinear    = 1
	ModeExplicit  = 2
	ModePerSeries = 4 // one such column a series
	ModeRelative  = 8 // the numbers are +k

	modeShape     = 3
	modeStretches = 3  // read as ModeExplicit
	modeRising    = 16 // of stretches
)

// Numbers of the axes that clients write themselves.
const (
	AxisStep    = 1
	AxisRLStep  = 2
	AxisEpisode = 3
	AxisEnvStep = 4
)

const (
	headSize     = 8 // length and CRC
	pointPayload = 32
	sealedMark   = 0xFFFFFFFF
	documentHead = 24

	wideWidth   = 8 // in a block's head: 0
	narrowWidth = 4
)

// Definition names a series of a writer.
type Definition struct {
	ID     uint32
	Kind   model.Kind
	Metric string
	Scale  string
	Labels map[string]string
	// UniqueTime: two points are the same when their times are, whatever their axes.
	UniqueTime bool
}

// Column is the time or an axis of a block, unexpanded but for stretches.
type Column struct {
	Mode   uint8
	Values []int64
}

// BlockAxis is an axis of a block, by its number.
type BlockAxis struct {
	Axis   uint8
	Column Column
}

// Block is S series × R rows of numbers of one kind.
type Block struct {
	Kind model.Kind
	// Narrow: float32 or int32 in the spool; every value must be one exactly.
	Narrow bool
	Rows   int
	Series []uint32
	Time   Column
	Axes   []BlockAxis
	Values []uint64 // bits; all rows of the first series, then of the second, …
}

// Record is one decoded record. Document aliases the payload it came from.
type Record struct {
	Seq        uint64
	Type       uint8
	Kind       model.Kind
	Flags      uint8
	Series     uint32
	Step       int64
	TimeNs     int64
	Bits       uint64 // of a point's value
	Document   []byte
	Definition Definition
	Block      Block
	Updates    []model.Update
}

// Points counts the values of the record.
func (r *Record) Points() int {
	switch r.Type {
	case TypePoint, TypeDocument:
		return 1
	case TypeBlock:
		return len(r.Block.Values)
	}
	return 0
}

// width is how many numbers a column of the mode needs for one series.
func width(mode uint8, rows int) int {
	if mode&modeShape == ModeExplicit {
		return rows
	}
	return 1
}

// At is the number of a series (by place) in a row.
func (c Column) At(series, row, rows int) int64 {
	base := 0
	if c.Mode&ModePerSeries != 0 {
		base = series * width(c.Mode, rows)
	}
	switch c.Mode & modeShape {
	case ModeLinear:
		return c.Values[base] + int64(row)
	case ModeExplicit:
		return c.Values[base+row]
	}
	return c.Values[base]
}

// pad rounds up to a multiple of 8.
func pad(n int) int { return (n + 7) &^ 7 }

// recordSize is what a payload takes with head and padding.
func recordSize(payload int) int { return headSize + pad(payload) }

// checksum covers the four length bytes, then the payload.
func checksum(length, payload []byte) uint32 {
	return crc32.Update(crc32.Update(0, crc32.IEEETable, length), crc32.IEEETable, payload)
}

type definitionJSON struct {
	Metric string            `json:"metric"`
	Scale  string            `json:"scale"`
	Labels map[string]string `json:"labels"`
	Unique string            `json:"unique,omitempty"`
}

// uniqueTime is what a series' JSON says where its points are told apart by time.
const uniqueTime = "time"

// AppendDefinition appends the payload of a series record.
func AppendDefinition(dst []byte, d Definition) ([]byte, error) {
	labels := d.Labels
	if labels == nil {
		labels = map[string]string{}
	}
	plain := definitionJSON{Metric: d.Metric, Scale: d.Scale, Labels: labels}
	if d.UniqueTime {
		plain.Unique = uniqueTime
	}
	doc, err := marshalPlain(plain)
	if err != nil {
		return nil, fmt.Errorf("encode series %q: %w", d.Metric, err)
	}
	dst = append(dst, TypeSeries, byte(d.Kind), 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, d.ID)
	return append(dst, doc...), nil
}

// AppendPoint appends the payload of a point record.
func AppendPoint(dst []byte, kind model.Kind, flags uint8, series uint32, step, timeNs int64, bits uint64) []byte {
	dst = append(dst, TypePoint, byte(kind), flags, 0)
	dst = binary.LittleEndian.AppendUint32(dst, series)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(step))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(timeNs))
	return binary.LittleEndian.AppendUint64(dst, bits)
}

// AppendDocument appends the payload of a text, histogram or scatter record.
func AppendDocument(dst []byte, kind model.Kind, flags uint8, series uint32, step, timeNs int64, doc []byte) []byte {
	dst = append(dst, TypeDocument, byte(kind), flags, 0)
	dst = binary.LittleEndian.AppendUint32(dst, series)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(step))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(timeNs))
	return append(dst, doc...)
}

// AppendUpdates appends the payload of an update record.
func AppendUpdates(dst []byte, updates []model.Update) ([]byte, error) {
	doc, err := marshalPlain(updates)
	if err != nil {
		return nil, fmt.Errorf("encode updates: %w", err)
	}
	dst = append(dst, TypeUpdate, 0, 0, 0, 0, 0, 0, 0)
	return append(dst, doc...), nil
}

// AppendBlock appends the payload of a block record.
func AppendBlock(dst []byte, b *Block) []byte {
	dst = append(dst, TypeBlock, byte(b.Kind), b.Time.Mode, byte(len(b.Axes)))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(b.Rows))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(b.Series)))
	width := uint32(0)
	if b.Narrow {
		width = narrowWidth
	}
	dst = binary.LittleEndian.AppendUint32(dst, width)
	for _, a := range b.Axes {
		dst = append(dst, a.Axis, a.Column.Mode, 0, 0, 0, 0, 0, 0)
	}
	for _, id := range b.Series {
		dst = binary.LittleEndian.AppendUint32(dst, id)
	}
	if len(b.Series)%2 == 1 {
		dst = append(dst, 0, 0, 0, 0)
	}
	dst = appendInts(dst, b.Time.Values)
	for _, a := range b.Axes {
		dst = appendInts(dst, a.Column.Values)
	}
	if b.Narrow {
		return appendNarrow(dst, b)
	}
	dst, values := extend(dst, wideWidth*len(b.Values))
	for i, v := range b.Values {
		binary.LittleEndian.PutUint64(values[wideWidth*i:], v)
	}
	return dst
}

func appendNarrow(dst []byte, b *Block) []byte {
	dst, values := extend(dst, narrowWidth*len(b.Values))
	for i, v := range b.Values {
		bits := uint32(v)
		if b.Kind == model.KindFloat {
			bits = math.Float32bits(float32(math.Float64frombits(v)))
		}
		binary.LittleEndian.PutUint32(values[narrowWidth*i:], bits)
	}
	return dst
}

// extend appends n bytes to be filled.
func extend(dst []byte, n int) (all, added []byte) {
	dst = slices.Grow(dst, n)
	all = dst[:len(dst)+n]
	return all, all[len(dst):]
}

// width is the bytes of a value.
func (b *Block) width() int {
	if b.Narrow {
		return narrowWidth
	}
	return wideWidth
}

func appendInts(dst []byte, values []int64) []byte {
	for _, v := range values {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

// blockSize is the length of a block's payload.
func blockSize(b *Block) int {
	n := 16 + 8*len(b.Axes) + pad(4*len(b.Series)) + 8*len(b.Time.Values) + b.width()*len(b.Values)
	for _, a := range b.Axes {
		n += 8 * len(a.Column.Values)
	}
	return n
}

var errShort = errors.New("record is too short for its type")

// Decode reads a payload into r, whose Seq it leaves alone.
func Decode(payload []byte, r *Record) error {
	*r = Record{Seq: r.Seq}
	if len(payload) < 8 {
		return errShort
	}
	r.Type = payload[0]
	switch r.Type {
	case TypeSeries:
		return r.decodeSeries(payload)
	case TypePoint:
		return r.decodePoint(payload)
	case TypeBlock:
		return r.decodeBlock(payload)
	case TypeUpdate:
		if err := json.Unmarshal(payload[8:], &r.Updates); err != nil {
			return fmt.Errorf("decode updates: %w", err)
		}
		return nil
	case TypeDocument:
		return r.decodeDocument(payload)
	}
	return fmt.Errorf("record has the unknown type %d", r.Type)
}

func (r *Record) decodeSeries(p []byte) error {
	var doc definitionJSON
	if err := json.Unmarshal(p[8:], &doc); err != nil {
		return fmt.Errorf("decode series: %w", err)
	}
	kind := model.Kind(p[1])
	if kind < model.KindFloat || kind > model.KindScatter {
		return fmt.Errorf("series has the unknown kind %d", kind)
	}
	r.Kind, r.Series = kind, binary.LittleEndian.Uint32(p[4:])
	r.Definition = Definition{ID: r.Series, Kind: kind, Metric: doc.Metric, Scale: doc.Scale, Labels: doc.Labels, UniqueTime: doc.Unique == uniqueTime}
	return nil
}

func (r *Record) decodePoint(p []byte) error {
	if len(p) != pointPayload {
		return errShort
	}
	if p[1] != byte(model.KindFloat) && p[1] != byte(model.KindInt) {
		return fmt.Errorf("point has the kind %d", p[1])
	}
	r.decodeHead(p)
	r.Bits = binary.LittleEndian.Uint64(p[24:])
	return nil
}

func (r *Record) decodeDocument(p []byte) error {
	if len(p) < documentHead {
		return errShort
	}
	if p[1] < byte(model.KindText) || p[1] > byte(model.KindScatter) {
		return fmt.Errorf("document has the kind %d", p[1])
	}
	r.decodeHead(p)
	r.Document = p[documentHead:]
	return nil
}

// decodeHead reads the fields that points and documents share.
func (r *Record) decodeHead(p []byte) {
	r.Kind, r.Flags = model.Kind(p[1]), p[2]
	r.Series = binary.LittleEndian.Uint32(p[4:])
	r.Step = int64(binary.LittleEndian.Uint64(p[8:]))
	r.TimeNs = int64(binary.LittleEndian.Uint64(p[16:]))
}

func (r *Record) decodeBlock(p []byte) error {
	if len(p) < 16 {
		return errShort
	}
	b := &r.Block
	b.Kind, r.Kind = model.Kind(p[1]), model.Kind(p[1])
	if b.Kind != model.KindFloat && b.Kind != model.KindInt {
		return fmt.Errorf("block has the kind %d", b.Kind)
	}
	axes, rows, series := int(p[3]), binary.LittleEndian.Uint32(p[4:]), binary.LittleEndian.Uint32(p[8:])
	switch width := binary.LittleEndian.Uint32(p[12:]); width {
	case 0:
	case narrowWidth:
		b.Narrow = true
	default:
		return fmt.Errorf("block has values of %d bytes", width)
	}
	// Every row and series needs a value, so neither can exceed the payload.
	if rows == 0 || series == 0 || uint64(rows)*uint64(series) > uint64(len(p)/b.width()) {
		return fmt.Errorf("block of %d rows and %d series does not fit its %d bytes", rows, series, len(p))
	}
	b.Rows, b.Time.Mode = int(rows), p[2]
	in := blockReader{rest: p[16:], series: int(series), rows: b.Rows}
	in.axes(b, axes)
	b.Series = in.ids()
	in.column(&b.Time)
	for i := range b.Axes {
		in.column(&b.Axes[i].Column)
	}
	b.Values = in.values(b)
	if in.err == nil && len(in.rest) != 0 {
		in.err = fmt.Errorf("block has %d bytes too many", len(in.rest))
	}
	return in.err
}

// blockReader takes a block apart; after an error it yields nothing more.
type blockReader struct {
	rest         []byte
	series, rows int
	err          error
}

func (in *blockReader) take(n int) []byte {
	if in.err != nil {
		return nil
	}
	if n > len(in.rest) {
		in.err = errShort
		return nil
	}
	out := in.rest[:n]
	in.rest = in.rest[n:]
	return out
}

func (in *blockReader) axes(b *Block, n int) {
	raw := in.take(8 * n)
	last := uint8(0)
	for ; len(raw) > 0; raw = raw[8:] {
		axis, mode := raw[0], raw[1]
		if axis <= last || int(axis) > len(model.Axes()) {
			in.err = fmt.Errorf("block has the axis %d after %d", axis, last)
			return
		}
		if mode&ModeRelative != 0 && axis != AxisStep && axis != AxisEnvStep {
			in.err = fmt.Errorf("axis %d cannot be relative", axis)
			return
		}
		last = axis
		b.Axes = append(b.Axes, BlockAxis{Axis: axis, Column: Column{Mode: mode}})
	}
}

func (in *blockReader) ids() []uint32 {
	raw := in.take(pad(4 * in.series))
	if raw == nil {
		return nil
	}
	ids := make([]uint32, in.series)
	for i := range ids {
		ids[i] = binary.LittleEndian.Uint32(raw[4*i:])
	}
	return ids
}

func (in *blockReader) column(c *Column) {
	if c.Mode&^(modeRising|ModeRelative) == modeStretches|ModePerSeries {
		in.stretches(c)
		return
	}
	if c.Mode&modeShape == modeStretches || c.Mode > ModeExplicit|ModePerSeries|ModeRelative {
		in.err = fmt.Errorf("block has a column of the unknown mode %d", c.Mode)
		return
	}
	n := width(c.Mode, in.rows)
	if c.Mode&ModePerSeries != 0 {
		n *= in.series
	}
	for _, bits := range in.numbers(n) {
		v := int64(bits)
		if c.Mode&modeShape == ModeLinear && v > math.MaxInt64-int64(in.rows) {
			in.err = fmt.Errorf("block has a column that starts at %d and overflows", v)
		}
		c.Values = append(c.Values, v)
	}
}

// stretches expands a column of stretches to a number a value.
func (in *blockReader) stretches(c *Column) {
	rising := c.Mode&modeRising != 0
	c.Mode = ModeExplicit | ModePerSeries | c.Mode&ModeRelative
	left := in.series * in.rows // at most as many as the payload has values
	many := in.numbers(1)
	if in.err == nil && (many[0] == 0 || many[0] > uint64(left)) {
		in.err = fmt.Errorf("block has a column of %d stretches for %d values", many[0], left)
	}
	if in.err != nil {
		return
	}
	firsts, lengths := in.numbers(int(many[0])), in.take(pad(4*int(many[0])))
	if in.err != nil {
		return
	}
	c.Values = make([]int64, 0, left)
	for i, bits := range firsts {
		v, n := int64(bits), int(binary.LittleEndian.Uint32(lengths[4*i:]))
		switch {
		case n == 0 || n > left:
			in.err = fmt.Errorf("block has a stretch of %d values where %d are left", n, left)
			return
		case rising && v > math.MaxInt64-int64(n):
			in.err = fmt.Errorf("block has a stretch that starts at %d and overflows", v)
			return
		}
		for range n {
			c.Values = append(c.Values, v)
			if rising {
				v++
			}
		}
		left -= n
	}
	if left != 0 {
		in.err = fmt.Errorf("block has stretches that leave %d values out", left)
	}
}

func (in *blockReader) values(b *Block) []uint64 {
	n := in.series * in.rows
	if !b.Narrow {
		return in.numbers(n)
	}
	raw := in.take(narrowWidth * n)
	if raw == nil {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		bits := binary.LittleEndian.Uint32(raw[narrowWidth*i:])
		if b.Kind == model.KindInt {
			out[i] = uint64(int32(bits))
		} else {
			out[i] = math.Float64bits(float64(math.Float32frombits(bits)))
		}
	}
	return out
}

func (in *blockReader) numbers(n int) []uint64 {
	raw := in.take(8 * n)
	if raw == nil {
		return nil
	}
	out := make([]uint64, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint64(raw[8*i:])
	}
	return out
}
