package importer

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kymogram/kymogram/internal/model"
)

// tfrecord writes one record; mask is written here a second time, by the text of
// TensorFlow's format.
func tfrecord(data []byte) []byte {
	sum := func(b []byte) []byte {
		c := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
		return binary.LittleEndian.AppendUint32(nil, ((c>>15)|(c<<17))+0xa282ead8)
	}
	head := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	return slices.Concat(head, sum(head), data, sum(data))
}

// scalarEvent is an event with one simple value.
func scalarEvent(step int64, tag string, value float32) []byte {
	v := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tag)
	v = protowire.AppendFixed32(protowire.AppendTag(v, 2, protowire.Fixed32Type), math.Float32bits(value))
	summary := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), v)
	e := protowire.AppendFixed64(protowire.AppendTag(nil, 1, protowire.Fixed64Type), math.Float64bits(1e9))
	e = protowire.AppendVarint(protowire.AppendTag(e, 2, protowire.VarintType), uint64(step))
	return protowire.AppendBytes(protowire.AppendTag(e, 5, protowire.BytesType), summary)
}

func eventFile(t *testing.T, parts ...[]byte) *Run {
	t.Helper()
	name := filepath.Join(t.TempDir(), "events.out.tfevents.1")
	if err := os.WriteFile(name, bytes.Join(parts, nil), 0o600); err != nil {
		t.Fatal(err)
	}
	run, err := readTensorBoard(t.Context(), []string{name}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return run
}

func steps(run *Run) []int64 {
	if len(run.Series) == 0 {
		return nil
	}
	return run.Series[0].Steps
}

func TestDamagedEventFiles(t *testing.T) {
	t.Parallel()
	one, two, three := tfrecord(scalarEvent(1, "x", 1)), tfrecord(scalarEvent(2, "x", 2)), tfrecord(scalarEvent(3, "x", 3))
	wrong := bytes.Clone(two)
	wrong[len(wrong)-8] ^= 1
	lost := bytes.Clone(two)
	lost[0] ^= 1
	for name, c := range map[string]struct {
		parts [][]byte
		steps []int64
		says  string
	}{
		"a wrong checksum costs one record":     {[][]byte{one, wrong, three}, []int64{1, 3}, "checksum"},
		"a damaged length costs the rest":       {[][]byte{one, lost, three}, []int64{1}, "length of a record"},
		"an end within a record keeps the rest": {[][]byte{one, two, three[:20]}, []int64{1, 2}, "ends within"},
		"an end within a head":                  {[][]byte{one, two[:5]}, []int64{1}, "ends within"},
		"a record that is no event":             {[][]byte{one, tfrecord([]byte{0xff}), three}, []int64{1, 3}, "no event"},
		"a negative step is counted":            {[][]byte{one, tfrecord(scalarEvent(-1, "x", 1))}, []int64{1}, ""},
	} {
		run := eventFile(t, c.parts...)
		if got := steps(run); !slices.Equal(got, c.steps) {
			t.Errorf("%s: steps %v, want %v", name, got, c.steps)
		}
		if c.says == "" && len(run.Skipped) != 1 || c.says != "" && (len(run.Damage) != 1 || !strings.Contains(run.Damage[0].Text, c.says)) {
			t.Errorf("%s: damage %v, skipped %v", name, run.Damage, run.Skipped)
		}
	}
}

func TestARestartPurgesEverySeries(t *testing.T) {
	t.Parallel()
	start := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 2)
	session := protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 1)
	start = protowire.AppendBytes(protowire.AppendTag(start, 7, protowire.BytesType), session)
	run := eventFile(t, tfrecord(scalarEvent(1, "x", 1)), tfrecord(scalarEvent(2, "x", 2)), tfrecord(scalarEvent(3, "x", 3)),
		tfrecord(start), tfrecord(scalarEvent(2, "x", 20)))
	if s := run.Series[0]; !slices.Equal(s.Steps, []int64{1, 2}) || s.Floats[1] != 20 {
		t.Errorf("steps %v, values %v", s.Steps, s.Floats)
	}
	if run.Skipped["points that a restart replaces, as in TensorBoard"] != 2 {
		t.Errorf("skipped %v", run.Skipped)
	}
}

// leveldb writes records as pieces in blocks, by the text of LevelDB's format.
func leveldb(records ...[]byte) []byte {
	out := append([]byte(":W&B"), 0xE1, 0xBE, 0)
	for _, r := range records {
		for first := true; first || len(r) > 0; first = false {
			if left := 32768 - len(out)%32768; left < 7 {
				out = append(out, make([]byte, left)...)
			}
			n := min(len(r), 32768-len(out)%32768-7)
			kind := byte(3)
			switch last := n == len(r); {
			case first && last:
				kind = 1
			case first:
				kind = 2
			case last:
				kind = 4
			}
			body := append([]byte{kind}, r[:n]...)
			out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(body))
			out = binary.LittleEndian.AppendUint16(out, uint16(n))
			out = append(out, body...)
			r = r[n:]
		}
	}
	return out
}

func TestWandbLogRoundTrip(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var want [][]byte
	for range 200 {
		record := make([]byte, r.IntN(1000)*r.IntN(2)+r.IntN(2)*r.IntN(70_000)+1)
		for i := range record {
			record[i] = byte(r.Uint32())
		}
		want = append(want, record)
	}
	data := leveldb(want...)
	got, problems := scan(t, data)
	if len(problems) != 0 || !slices.EqualFunc(got, want, bytes.Equal) {
		t.Fatalf("%d records of %d, damage %v", len(got), len(want), problems)
	}
	for range 200 { // any one damaged byte costs the records of its block at most
		at := 7 + r.IntN(len(data)-7)
		broken := bytes.Clone(data)
		broken[at] ^= 1 << r.IntN(8)
		got, problems := scan(t, broken)
		if len(problems) == 0 && !slices.EqualFunc(got, want, bytes.Equal) {
			t.Fatalf("a changed byte at %d was not seen", at)
		}
		for _, record := range got {
			if !slices.ContainsFunc(want, func(w []byte) bool { return bytes.Equal(w, record) }) {
				t.Fatalf("a changed byte at %d made a record that nobody wrote", at)
			}
		}
		if len(got) < len(want)-80 {
			t.Fatalf("a changed byte at %d cost %d of %d records", at, len(want)-len(got), len(want))
		}
	}
	for cut := range 100 {
		got, problems := scan(t, data[:len(data)-1-cut])
		if len(got) != len(want)-1 && len(got) != len(want)-2 || len(problems) == 0 {
			t.Fatalf("without the last %d bytes: %d records of %d, damage %v", cut+1, len(got), len(want), problems)
		}
	}
}

func scan(t *testing.T, data []byte) (records [][]byte, problems []damaged) {
	t.Helper()
	err := wandbLog(data, func(b []byte) { records = append(records, bytes.Clone(b)) }, func(d damaged) { problems = append(problems, d) })
	if err != nil {
		t.Fatal(err)
	}
	return records, problems
}

func TestNoFileOfATracker(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"run-x.wandb": "hello", "not.db": "hello", "empty.csv": "", "meta.yaml": "run_id: [1"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ source, path string }{
		{"wandb-offline", "run-x.wandb"}, {"mlflow", "not.db"}, {"mlflow", "."}, {"csv", "empty.csv"}, {"csv", "."}, {"csv", "none.csv"}, {"tensorboard", "none"},
	} {
		found, err := source(t, c.source).Find(t.Context(), filepath.Join(folder, c.path), Options{})
		for _, f := range found {
			_, err = f.Read(t.Context())
		}
		if err == nil {
			t.Errorf("%s %s: no error", c.source, c.path)
		}
	}
}

// A run whose meta.yaml is damaged is named, and the others are read.
func TestADamagedMLflowRun(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for name, text := range map[string]string{"good": "run_id: good\nlifecycle_stage: active\nstatus: 3\n", "bad": "run_id: [1"} {
		if err := os.MkdirAll(filepath.Join(folder, "0", name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "0", name, "meta.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found := find(t, "mlflow", folder)
	if len(found) != 2 {
		t.Fatalf("found %v", found)
	}
	read(t, found["good"])
	if _, err := found["0/bad"].Read(t.Context()); err == nil || !strings.Contains(err.Error(), "meta.yaml") {
		t.Errorf("the damaged one: %v", err)
	}
}

// Names of what is left out are told, as many as a person reads.
func TestWhatIsLeftOutIsNamed(t *testing.T) {
	t.Parallel()
	b := newBuilder()
	for i := range 30 {
		b.skipOf("lists", fmt.Sprintf("metric %d", i))
	}
	b.skipOf("lists", "metric 3")
	if s := b.run.Skipped; len(s) != 21 || s["lists of metric 3"] != 2 || s["lists of other names"] != 10 {
		t.Errorf("%v", s)
	}
}

func TestDamagedMetricLines(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "loss")
	text := "1000 0.5 0\nbroken\n\n2000 nan 1\n3000 1e999 2\n4000 1.5\n5000 2.5 3 4\n6000 x 1\n"
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	b := newBuilder()
	if err := b.metricFile("loss", name); err != nil {
		t.Fatal(err)
	}
	run := b.done()
	if got := fmt.Sprint(run.Series[0].Steps, run.Series[0].Floats, len(run.Damage)); got != "[0 1 2 0] [0.5 NaN +Inf 1.5] 3" {
		t.Errorf("read %s, damage %v", got, run.Damage)
	}
}

func TestHistogramsOfAnyBins(t *testing.T) {
	t.Parallel()
	inf := math.Inf(1)
	for name, c := range map[string]struct {
		bins []bin
		want string
	}{
		"none":             {nil, "<nil>"},
		"equal values":     {[]bin{{1, 1, 5}}, "[5]"},
		"infinite ends":    {[]bin{{-inf, 0, 1}, {0, inf, 2}}, "[1 2]"},
		"no width between": {[]bin{{0, 1, 1}, {1, 1, 2}, {1, 2, 3}}, "[3 3]"},
		"empty ends":       {[]bin{{0, 1, 0}, {1, 2, 4}, {2, 3, 0}}, "[4]"},
		"a negative count": {[]bin{{0, 1, -1}}, "<nil>"},
		"NaN":              {[]bin{{0, math.NaN(), 1}}, "<nil>"},
	} {
		h, got := histogramOf(c.bins, nil), "<nil>"
		if h != nil {
			got = fmt.Sprint(h.Counts)
			if err := h.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	many := make([]bin, 5000)
	for i := range many {
		many[i] = bin{float64(i), float64(i + 1), 1}
	}
	if h := histogramOf(many, nil); h.Check() != nil || len(h.Counts) > model.MaxBins || h.BinEdges[0] != 0 || h.BinEdges[len(h.Counts)] != 5000 {
		t.Errorf("5,000 bins became %d", len(h.Counts))
	}
}

func TestHalves(t *testing.T) {
	t.Parallel()
	for bits, want := range map[uint16]float64{0: 0, 0x3c00: 1, 0xc000: -2, 0x7bff: 65504, 1: math.Ldexp(1, -24), 0x0400: math.Ldexp(1, -14), 0x7c00: math.Inf(1), 0xfc00: math.Inf(-1), 0x3555: 0.333251953125} {
		if got := half(bits); got != want {
			t.Errorf("half %#x is %v, want %v", bits, got, want)
		}
	}
}

func TestDigestSeesEveryPart(t *testing.T) {
	t.Parallel()
	first := eventFile(t, tfrecord(scalarEvent(1, "x", 1)), tfrecord(scalarEvent(2, "y", 2)))
	for name, other := range map[string]*Run{
		"a value":   eventFile(t, tfrecord(scalarEvent(1, "x", 1)), tfrecord(scalarEvent(2, "y", 3))),
		"a step":    eventFile(t, tfrecord(scalarEvent(1, "x", 1)), tfrecord(scalarEvent(3, "y", 2))),
		"a name":    eventFile(t, tfrecord(scalarEvent(1, "x", 1)), tfrecord(scalarEvent(2, "z", 2))),
		"one more":  eventFile(t, tfrecord(scalarEvent(1, "x", 1)), tfrecord(scalarEvent(2, "y", 2)), tfrecord(scalarEvent(3, "y", 2))),
		"one fewer": eventFile(t, tfrecord(scalarEvent(1, "x", 1))),
	} {
		if other.Digest() == first.Digest() {
			t.Errorf("%s does not change the digest", name)
		}
	}
	again := eventFile(t, tfrecord(scalarEvent(2, "y", 2)), tfrecord(scalarEvent(1, "x", 1)))
	if again.Digest() != first.Digest() {
		t.Error("the order of series in the file changes the digest")
	}
}

// The end of a block leaves 0 to 6 bytes that hold nothing, or 7 that hold an
// empty first piece.
func TestWandbLogAtTheEdgeOfABlock(t *testing.T) {
	t.Parallel()
	for left := range 12 {
		first := bytes.Repeat([]byte{1}, 32768-7-7-left)
		want := [][]byte{first, {2, 3}, {4}}
		got, problems := scan(t, leveldb(want...))
		if len(problems) != 0 || !slices.EqualFunc(got, want, bytes.Equal) {
			t.Errorf("%d bytes left: %d records of 3, damage %v", left, len(got), problems)
		}
	}
}

// A damaged byte within a record costs that record; only one in its length costs
// what follows in the block, and that is said.
func TestWandbLogGoesOnBehindADamagedRecord(t *testing.T) {
	t.Parallel()
	var want [][]byte
	for i := range 50 {
		want = append(want, bytes.Repeat([]byte{byte(i + 1)}, 100))
	}
	data := leveldb(want...)
	for at, kept := range map[int]int{7: 49, 7 + 6: 49, 7 + 50: 49, 7 + 4: 0} { // CRC, type, data, length of the first
		broken := bytes.Clone(data)
		broken[at] ^= 0x80
		got, problems := scan(t, broken)
		if len(got) != kept || len(got) > 0 && !slices.EqualFunc(got, want[1:], bytes.Equal) {
			t.Errorf("byte %d: %d records", at, len(got))
		}
		if len(problems) != 1 || strings.Contains(problems[0].text, "left out") != (kept == 0) {
			t.Errorf("byte %d: %v", at, problems)
		}
	}
}

// TestRoundedIntegers: what float64 cannot hold of an integer is counted, by the
// arithmetic of math/big.
func TestRoundedIntegers(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	texts := []string{"0", "-0", "9007199254740992", "9007199254740993", "-9007199254740993", "1" + strings.Repeat("0", 22), "1" + strings.Repeat("0", 23), "18446744073709551616", strings.Repeat("9", 400)}
	for range 1000 {
		texts = append(texts, strconv.FormatInt(int64(r.Uint64())>>r.IntN(20), 10))
	}
	b := newBuilder()
	lost := uint64(0)
	for i, text := range texts {
		value, _ := strconv.ParseFloat(text, 64)
		exact, _ := new(big.Int).SetString(text, 10)
		held := new(big.Int)
		if !math.IsInf(value, 0) {
			new(big.Float).SetFloat64(value).Int(held)
		}
		if exact.Cmp(held) != 0 {
			lost++
		}
		b.number("m", int64(i), 0, text, value)
	}
	for _, text := range []string{"0.1", "1e300", "1.00000000000000000001", "nan"} { // no integers
		value, _ := strconv.ParseFloat(text, 64)
		b.number("m", 5000, 0, text, value)
	}
	if got := b.run.Skipped["last digits of integers beyond 2^53 of m"]; got != lost || lost < 100 {
		t.Errorf("%d counted, %d are rounded", got, lost)
	}
	if n := len(b.done().Series[0].Floats); n != len(texts)+4 {
		t.Errorf("%d points", n)
	}
}

// TestWandbTellsOfRoundedIntegers: in a history row as W&B writes it.
func TestWandbTellsOfRoundedIntegers(t *testing.T) {
	t.Parallel()
	field := func(n protowire.Number, b []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
	}
	record := field(2, slices.Concat(
		field(1, append(field(1, []byte("tokens")), field(16, []byte("9007199254740993"))...)),
		field(1, append(field(1, []byte("loss")), field(16, []byte("0.5"))...)),
	))
	name := filepath.Join(t.TempDir(), "run-x.wandb")
	if err := os.WriteFile(name, leveldb(record), 0o600); err != nil {
		t.Fatal(err)
	}
	run := read(t, find(t, "wandb-offline", name)["x"])
	if want := map[string]uint64{"last digits of integers beyond 2^53 of tokens": 1}; !maps.Equal(run.Skipped, want) || run.Points() != 2 {
		t.Errorf("%v, %d points", run.Skipped, run.Points())
	}
}
