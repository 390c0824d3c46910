package spool

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kymogram/kymogram/internal/model"
)

var update = flag.Bool("update", false, "write testdata/spool/go.seg and golden.json")

const (
	goldenDir  = "../../testdata/spool"
	goldenSize = 8192
	goldenTime = int64(1_700_000_000_000_000_000)
)

type goldenColumn struct {
	Axis   uint8   `json:"axis,omitempty"`
	Mode   uint8   `json:"mode"`
	Values []int64 `json:"values"`
}

// goldenRecord is a record as golden.json describes it. Numbers of float64
// series are given by their bits, so that NaN payloads and -0 are exact.
type goldenRecord struct {
	Seq     uint64            `json:"seq"`
	Type    uint8             `json:"type"`
	Kind    uint8             `json:"kind,omitempty"`
	Flags   uint8             `json:"flags,omitempty"`
	Series  uint32            `json:"series,omitempty"`
	Step    int64             `json:"step,omitempty"`
	TimeNs  int64             `json:"time_ns,omitempty"`
	Bits    string            `json:"bits,omitempty"` // 16 hex digits, most significant first
	Text    string            `json:"text,omitempty"`
	Metric  string            `json:"metric,omitempty"`
	Scale   string            `json:"scale,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	Narrow  bool              `json:"narrow,omitempty"` // 4 bytes a value
	Rows    int               `json:"rows,omitempty"`
	IDs     []uint32          `json:"ids,omitempty"`
	Time    *goldenColumn     `json:"time,omitempty"`
	Axes    []goldenColumn    `json:"axes,omitempty"`
	Values  []string          `json:"values,omitempty"` // bits
	Updates json.RawMessage   `json:"updates,omitempty"`
	Payload string            `json:"payload"` // hex
}

type goldenFile struct {
	Comment   string         `json:"comment"`
	Size      int            `json:"size"`
	Writer    string         `json:"writer"`
	Number    uint64         `json:"number"`
	First     uint64         `json:"first"`
	CreatedNs int64          `json:"created_ns"`
	Records   []goldenRecord `json:"records"`
}

func bits(f float64) uint64 { return math.Float64bits(f) }

// goldenRecords lists every type of record and every mode of a column.
func goldenRecords() []Record {
	def := func(id uint32, kind model.Kind, metric, scale string, labels map[string]string) Record {
		return Record{Type: TypeSeries, Kind: kind, Series: id, Definition: Definition{ID: id, Kind: kind, Metric: metric, Scale: scale, Labels: labels}}
	}
	point := func(id uint32, kind model.Kind, flags uint8, step int64, value uint64) Record {
		return Record{Type: TypePoint, Kind: kind, Flags: flags, Series: id, Step: step, TimeNs: goldenTime + 1, Bits: value}
	}
	block := func(b Block) Record { return Record{Type: TypeBlock, Kind: b.Kind, Block: b} }
	axis := func(n, mode uint8, values ...int64) BlockAxis {
		return BlockAxis{Axis: n, Column: Column{Mode: mode, Values: values}}
	}
	episode := int64(7)
	return []Record{
		def(1, model.KindFloat, "train/loss", "ML_STEP", map[string]string{}),
		def(2, model.KindInt, "tokens", "ML_STEP", map[string]string{"rank": "0", "host": "a"}),
		def(3, model.KindText, "note <&> é", "ML_STEP", map[string]string{}),
		def(4, model.KindFloat, "reward", "ENVIRONMENT_STEP", map[string]string{"env_id": "default"}),
		def(5, model.KindHistogram, "weights", "ML_STEP", map[string]string{}),
		point(1, model.KindFloat, FlagStep, 41, bits(0.5)),
		point(1, model.KindFloat, FlagStep|FlagRelative, 0, 0x7ff8_0000_0000_0bad),
		point(1, model.KindFloat, 0, 0, bits(math.Inf(-1))),
		point(2, model.KindInt, FlagStep, math.MaxInt64, 0x8000_0000_0000_0000),
		block(Block{
			Kind: model.KindFloat, Rows: 1, Series: []uint32{1, 4}, Time: Column{ModeConstant, []int64{goldenTime}},
			Axes: []BlockAxis{axis(1, ModeConstant, 42)}, Values: []uint64{bits(1), bits(math.Copysign(0, -1))},
		}),
		block(Block{
			Kind: model.KindFloat, Rows: 3, Series: []uint32{4}, Time: Column{ModeLinear, []int64{goldenTime}},
			Axes:   []BlockAxis{axis(1, ModeLinear|ModeRelative, 5), axis(2, ModeConstant, 9), axis(3, ModeConstant, 7), axis(4, ModeLinear|ModeRelative, 5)},
			Values: []uint64{bits(1), bits(2), bits(3)},
		}),
		block(Block{
			Kind: model.KindFloat, Rows: 2, Series: []uint32{1, 4, 1}, Time: Column{ModeExplicit, []int64{goldenTime, goldenTime + 5}},
			Axes:   []BlockAxis{axis(1, ModeExplicit|ModePerSeries, 1, 2, 3, 4, 5, 6), axis(5, ModeConstant|ModePerSeries, 10, 20, 30), axis(10, ModeLinear|ModePerSeries, -1, -2, -3)},
			Values: []uint64{bits(1), bits(2), bits(3), bits(4), bits(5), bits(6)},
		}),
		block(Block{Kind: model.KindInt, Rows: 2, Series: []uint32{2}, Time: Column{ModeConstant, []int64{goldenTime}}, Values: []uint64{1, 0xffff_ffff_ffff_ffff}}),
		{Type: TypeUpdate, Updates: []model.Update{
			{Op: model.OpSetAttribute, TimeNs: goldenTime, Path: "config/lr", Value: model.FloatValue(0.001)},
			{Op: model.OpSetAttribute, TimeNs: goldenTime, Path: "config/name", Value: model.StringValue("a<b>é")},
			{Op: model.OpSetEnvAttribute, TimeNs: goldenTime, Path: "seed", Value: model.IntValue(3), Env: "default", Episode: &episode},
			{Op: model.OpAddTags, TimeNs: goldenTime, Tags: []string{"x", "y"}},
		}},
		{Type: TypeDocument, Kind: model.KindText, Flags: FlagStep, Series: 3, Step: 1, TimeNs: goldenTime, Document: []byte("héllo")},
		{Type: TypeDocument, Kind: model.KindHistogram, Flags: 0, Series: 5, TimeNs: goldenTime, Document: []byte{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{Type: TypeUpdate, Updates: []model.Update{{Op: model.OpDropped, TimeNs: goldenTime, Text: "the spool was full", Count: 12}}},
		block(Block{
			Kind: model.KindFloat, Narrow: true, Rows: 3, Series: []uint32{4, 1}, Time: Column{ModeConstant, []int64{goldenTime}},
			Axes: []BlockAxis{axis(1, ModeLinear, 5), axis(2, ModeConstant, 9), axis(3, ModeConstant, 7), axis(4, ModeLinear, 5)},
			Values: []uint64{
				bits(0.5), bits(math.Copysign(0, -1)), bits(math.Inf(-1)), bits(math.MaxFloat32), bits(math.SmallestNonzeroFloat32), 0x7ff8_0000_2000_0000,
			},
		}),
		block(Block{
			Kind: model.KindInt, Narrow: true, Rows: 3, Series: []uint32{2}, Time: Column{ModeConstant, []int64{goldenTime}},
			Axes: []BlockAxis{axis(1, ModeLinear, 1)}, Values: []uint64{1, 0xffff_ffff_ffff_ffff, 0xffff_ffff_8000_0000},
		}),
		{Type: TypeUpdate, Updates: []model.Update{{Op: model.OpClose, TimeNs: goldenTime, Text: "finished"}}},
	}
}

func encodeRecord(t testing.TB, r Record) []byte {
	t.Helper()
	var payload []byte
	var err error
	switch r.Type {
	case TypeSeries:
		payload, err = AppendDefinition(nil, r.Definition)
	case TypePoint:
		payload = AppendPoint(nil, r.Kind, r.Flags, r.Series, r.Step, r.TimeNs, r.Bits)
	case TypeBlock:
		payload = AppendBlock(nil, &r.Block)
		if len(payload) != blockSize(&r.Block) {
			t.Errorf("blockSize says %d, the block has %d bytes", blockSize(&r.Block), len(payload))
		}
	case TypeUpdate:
		payload, err = AppendUpdates(nil, r.Updates)
	case TypeDocument:
		payload = AppendDocument(nil, r.Kind, r.Flags, r.Series, r.Step, r.TimeNs, r.Document)
	}
	if err != nil {
		t.Fatal(err)
	}
	return payload
}

func goldenHeader() Header {
	h := Header{CreatedNs: goldenTime, First: 1}
	for i := range h.Writer {
		h.Writer[i] = byte(i)
	}
	return h
}

// frame is a naive segment: the oracle of the layout.
func frame(header []byte, size int, payloads ...[]byte) []byte {
	out := append([]byte{}, header...)
	for _, p := range payloads {
		length := binary.LittleEndian.AppendUint32(nil, uint32(len(p)))
		sum := naiveCRC(append(append([]byte{}, length...), p...))
		out = append(out, length...)
		out = binary.LittleEndian.AppendUint32(out, sum)
		out = append(out, p...)
		for len(out)%8 != 0 {
			out = append(out, 0)
		}
	}
	if len(out)+4 <= size {
		out = append(out, 0xff, 0xff, 0xff, 0xff)
	}
	return append(out, make([]byte, size-len(out))...)
}

// naiveTable is CRC-32 (IEEE) of every byte, bit by bit.
var naiveTable = func() (table [256]uint32) {
	for i := range table {
		crc := uint32(i)
		for range 8 {
			crc = crc>>1 ^ (0xEDB88320 & -(crc & 1))
		}
		table[i] = crc
	}
	return table
}()

func naiveCRC(p []byte) uint32 {
	crc := ^uint32(0)
	for _, b := range p {
		crc = crc>>8 ^ naiveTable[byte(crc)^b]
	}
	return ^crc
}

// setVersion changes the header of a segment.
func setVersion(segment []byte, version uint16) {
	binary.LittleEndian.PutUint16(segment[8:], version)
	binary.LittleEndian.PutUint32(segment[60:], naiveCRC(segment[:60]))
}

func describe(r Record, payload []byte) goldenRecord {
	hex16 := func(v uint64) string { return hex.EncodeToString(binary.BigEndian.AppendUint64(nil, v)) }
	g := goldenRecord{Seq: r.Seq, Type: r.Type, Kind: uint8(r.Kind), Flags: r.Flags, Series: r.Series, Step: r.Step, TimeNs: r.TimeNs, Payload: hex.EncodeToString(payload)}
	switch r.Type {
	case TypeSeries:
		g.Metric, g.Scale, g.Labels = r.Definition.Metric, r.Definition.Scale, r.Definition.Labels
	case TypePoint:
		g.Bits = hex16(r.Bits)
	case TypeBlock:
		g.Narrow, g.Rows, g.IDs, g.Time = r.Block.Narrow, r.Block.Rows, r.Block.Series, &goldenColumn{Mode: r.Block.Time.Mode, Values: r.Block.Time.Values}
		for _, a := range r.Block.Axes {
			g.Axes = append(g.Axes, goldenColumn{a.Axis, a.Column.Mode, a.Column.Values})
		}
		for _, v := range r.Block.Values {
			g.Values = append(g.Values, hex16(v))
		}
	case TypeUpdate:
		g.Updates, _ = json.Marshal(r.Updates)
	case TypeDocument:
		g.Text = string(r.Document)
		if r.Kind != model.KindText {
			g.Text = hex.EncodeToString(r.Document)
		}
	}
	return g
}

func golden(t testing.TB) (goldenFile, []byte) {
	h := goldenHeader()
	g := goldenFile{
		Comment: "The records of go.seg and python.seg (docs/format/spool.md). bits and values: 64 bits in hex, most significant first; text of kinds 4 and 5: hex.",
		Size:    goldenSize, Writer: h.Writer.String(), First: 1, CreatedNs: goldenTime,
	}
	var payloads [][]byte
	for i, r := range goldenRecords() {
		r.Seq = uint64(i + 1)
		payload := encodeRecord(t, r)
		payloads = append(payloads, payload)
		g.Records = append(g.Records, describe(r, payload))
	}
	return g, frame(h.encode(), goldenSize, payloads...)
}

func TestGoldenIsCurrent(t *testing.T) {
	g, segment := golden(t)
	doc, err := json.MarshalIndent(g, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	doc = append(doc, '\n')
	if *update {
		if err := os.MkdirAll(goldenDir, 0o755); err != nil {
			t.Fatal(err)
		}
		writeFile(t, filepath.Join(goldenDir, "golden.json"), doc)
		writeFile(t, filepath.Join(goldenDir, "go.seg"), segment)
	}
	compareFile(t, "golden.json", doc)
	compareFile(t, "go.seg", segment)
}

// TestPythonWritesTheSameBytes reads the file that the Python tests wrote; both
// languages describe the same records in golden.json.
func TestPythonWritesTheSameBytes(t *testing.T) {
	_, segment := golden(t)
	setVersion(segment, 3) // Python's has columns of stretches
	compareFile(t, "python.seg", segment)
}

func TestGoldenReadsBack(t *testing.T) {
	for _, name := range []string{"go.seg", "python.seg"} {
		segment, err := os.ReadFile(filepath.Join(goldenDir, name))
		if os.IsNotExist(err) {
			continue
		}
		dir := t.TempDir()
		writeFile(t, filepath.Join(dir, "00000000.seg"), segment)
		got := readAll(t, dir, goldenHeader().Writer, 1).records
		want := goldenRecords()
		for i := range want {
			want[i].Seq = uint64(i + 1)
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: (-want +got)\n%s", name, diff)
		}
	}
}

// TestReadsTheFirstVersion: version1.seg is what go.seg was before the format
// had a width of values; it is never written again.
func TestReadsTheFirstVersion(t *testing.T) {
	segment, err := os.ReadFile(filepath.Join(goldenDir, "version1.seg"))
	if err != nil {
		t.Fatal(err)
	}
	if version := binary.LittleEndian.Uint16(segment[8:]); version != 1 {
		t.Fatalf("version1.seg has version %d", version)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "00000000.seg"), segment)
	var want []Record
	for _, r := range goldenRecords() {
		if !r.Block.Narrow {
			r.Seq = uint64(len(want) + 1)
			want = append(want, r)
		}
	}
	if diff := cmp.Diff(want, readAll(t, dir, goldenHeader().Writer, 1).records, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// stretchRecords are the blocks of stretches.seg, which only Python writes, as they are read.
func stretchRecords() []Record {
	def := Record{Seq: 1, Type: TypeSeries, Kind: model.KindFloat, Series: 1, Definition: Definition{
		ID: 1, Kind: model.KindFloat, Metric: "reward", Scale: "ENVIRONMENT_STEP", Labels: map[string]string{"env_id": "a"},
	}}
	other := def
	other.Seq, other.Series, other.Definition.ID, other.Definition.Labels = 2, 2, 2, map[string]string{"env_id": "b"}
	axis := func(n, mode uint8, values ...int64) BlockAxis {
		return BlockAxis{Axis: n, Column: Column{Mode: mode, Values: values}}
	}
	const each = ModeExplicit | ModePerSeries
	values := []uint64{bits(0), bits(1), bits(2), bits(3), bits(4), bits(5), bits(6), bits(7)}
	steps, episodes := []int64{5, 6, 7, 0, 0, 1, 2, 3}, []int64{4, 4, 4, 5, 4, 4, 4, 4}
	return []Record{
		def, other,
		{Seq: 3, Type: TypeBlock, Kind: model.KindFloat, Block: Block{
			Kind: model.KindFloat, Rows: 4, Series: []uint32{1, 2}, Time: Column{ModeConstant, []int64{goldenTime}}, Values: values,
			Axes: []BlockAxis{axis(1, each, steps...), axis(2, ModeConstant, 9), axis(3, each, episodes...), axis(4, each, steps...)},
		}},
		{Seq: 4, Type: TypeBlock, Kind: model.KindFloat, Block: Block{
			Kind: model.KindFloat, Narrow: true, Rows: 2, Series: []uint32{2}, Time: Column{ModeConstant, []int64{goldenTime}}, Values: values[:2],
			Axes: []BlockAxis{
				axis(1, each|ModeRelative, math.MaxInt64-1, 0), axis(2, ModeConstant, 9), axis(3, each, math.MinInt64, math.MaxInt64),
				axis(4, each|ModeRelative, math.MaxInt64-1, 0),
			},
		}},
	}
}

func TestReadsStretches(t *testing.T) {
	segment, err := os.ReadFile(filepath.Join(goldenDir, "stretches.seg"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "00000000.seg"), segment)
	if diff := cmp.Diff(stretchRecords(), readAll(t, dir, goldenHeader().Writer, 1).records, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// stretchBlock is a block of one row and axis: 3 series, and a column of the mode with these bytes.
func stretchBlock(mode byte, column ...byte) []byte {
	p := []byte{TypeBlock, byte(model.KindFloat), ModeConstant, 1, 1, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, AxisStep, mode, 0, 0, 0, 0, 0, 0}
	p = append(p, 1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0)
	p = append(p, make([]byte, 8)...) // the time
	p = append(p, column...)
	return append(p, make([]byte, 3*wideWidth)...)
}

// stretchColumn is a column of stretches.
func stretchColumn(many uint64, firsts []int64, lengths ...uint32) []byte {
	p := appendInts(binary.LittleEndian.AppendUint64(nil, many), firsts)
	for _, n := range lengths {
		p = binary.LittleEndian.AppendUint32(p, n)
	}
	return append(p, make([]byte, pad(len(p))-len(p))...)
}

func TestBadStretches(t *testing.T) {
	const mode, rising = modeStretches | ModePerSeries, modeStretches | ModePerSeries | modeRising
	var r Record
	if err := Decode(stretchBlock(rising, stretchColumn(2, []int64{math.MaxInt64 - 1, 7}, 1, 2)...), &r); err != nil {
		t.Fatal(err)
	}
	if got, want := r.Block.Axes[0].Column.Values, []int64{math.MaxInt64 - 1, 7, 8}; !slices.Equal(got, want) {
		t.Errorf("%d, want %d", got, want)
	}
	for name, p := range map[string][]byte{
		"none":                 stretchBlock(mode, stretchColumn(0, nil)...),
		"more than values":     stretchBlock(mode, stretchColumn(4, []int64{1, 2, 3, 4}, 1, 1, 1, 1)...),
		"2^63 of them":         stretchBlock(mode, stretchColumn(1<<63, []int64{1}, 3)...),
		"2^61 of them":         stretchBlock(mode, stretchColumn(1<<61, []int64{1}, 3)...),
		"an empty one":         stretchBlock(mode, stretchColumn(3, []int64{1, 2, 3}, 1, 0, 2)...),
		"too short":            stretchBlock(mode, stretchColumn(1, []int64{1}, 2)...),
		"too long":             stretchBlock(mode, stretchColumn(2, []int64{1, 2}, 1, 3)...),
		"wraps":                stretchBlock(mode, stretchColumn(2, []int64{1, 2}, 4, math.MaxUint32)...),
		"overflow":             stretchBlock(rising, stretchColumn(1, []int64{math.MaxInt64 - 2}, 3)...),
		"one for all series":   stretchBlock(modeStretches, stretchColumn(1, []int64{1}, 3)...),
		"rising and explicit":  stretchBlock(ModeExplicit|ModePerSeries|modeRising, stretchColumn(1, []int64{1}, 3)...),
		"a flag not known":     stretchBlock(mode|32, stretchColumn(1, []int64{1}, 3)...),
		"nothing but the mode": stretchBlock(mode)[:48],
	} {
		if err := Decode(p, &r); err == nil {
			t.Errorf("%s: taken as %+v", name, r.Block)
		}
	}
}

// TestLeavesALaterVersionAlone: nothing of it is taken for damage.
func TestLeavesALaterVersionAlone(t *testing.T) {
	_, segment := golden(t)
	setVersion(segment, formatVersion+1)
	dir := t.TempDir()
	path := filepath.Join(dir, "00000000.seg")
	writeFile(t, path, segment)
	tail, err := OpenTail(dir, goldenHeader().Writer, 1, false)
	if err != nil {
		t.Fatal(err)
	}
	defer tail.Close()
	var r Record
	if progress, err := tail.Next(&r); progress != Wait || !errors.Is(err, errNewer) {
		t.Errorf("progress %d, %v", progress, err)
	}
	kept, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(kept, segment) {
		t.Errorf("the segment was touched: %v", err)
	}
	writeFile(t, filepath.Join(dir, "open.json"), []byte(`{"format":4}`))
	if _, err := ReadOpen(dir); !errors.Is(err, errNewer) {
		t.Errorf("open.json: %v", err)
	}
	writeFile(t, filepath.Join(dir, "open.json"), []byte(`{"format":1}`))
	if _, err := ReadOpen(dir); err != nil {
		t.Errorf("open.json of format 1: %v", err)
	}
}

func compareFile(t *testing.T, name string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(filepath.Join(goldenDir, name))
	if err != nil {
		t.Fatalf("%v (go test ./internal/spool -update writes it)", err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s differs (-want +file)\n%s", name, diff)
	}
}

func writeFile(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
