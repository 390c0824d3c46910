package codec

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func bitsOf(vs []float64) []uint64 {
	out := make([]uint64, len(vs))
	for i, v := range vs {
		out[i] = math.Float64bits(v)
	}
	return out
}

func roundFloats(t interface {
	Helper()
	Fatalf(string, ...any)
}, e *Encoder, d *Decoder, vs []float64,
) []byte {
	t.Helper()
	b := e.AppendFloats(nil, vs)
	got, err := d.Floats(b, len(vs))
	if err != nil {
		t.Fatalf("decode %d values: %v", len(vs), err)
	}
	if diff := cmp.Diff(bitsOf(vs), bitsOf(got)); diff != "" {
		t.Fatalf("not bit-exact: %s", diff)
	}
	return b
}

func anyFloat() *rapid.Generator[float64] {
	return rapid.OneOf(
		rapid.Map(rapid.Uint64(), math.Float64frombits),
		rapid.Map(rapid.Int64Range(-1e6, 1e6), func(n int64) float64 { return float64(n) / 1e4 }),
		rapid.Map(rapid.Int64Range(-1e6, 1e6), func(n int64) float64 { return float64(n) }),
		rapid.Map(rapid.Float32(), func(f float32) float64 { return float64(f) }),
		rapid.SampledFrom([]float64{0, math.Copysign(0, -1), math.Inf(1), math.Inf(-1), math.NaN(), math.Float64frombits(0x7ff0000000000001), math.Float64frombits(0xfff8dead00000000), 5e-324, math.MaxFloat64, 1 << 53, 1<<53 + 2, -1 << 63}),
	)
}

func TestFloatsAreBitExact(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	rapid.Check(t, func(t *rapid.T) {
		gen := anyFloat()
		if rapid.Bool().Draw(t, "tame") {
			scale := rapid.SampledFrom([]float64{1, 10, 1e4, 1e8}).Draw(t, "scale")
			if rapid.Bool().Draw(t, "shares") {
				scale = float64(rapid.IntRange(1, 1<<17).Draw(t, "of"))
			}
			by := rapid.SampledFrom([]float64{0, 1e-3, 1e-9}).Draw(t, "by")
			gen = rapid.Map(rapid.Int64Range(-1e5, 1e5), func(n int64) float64 {
				if by > 0 {
					return float64(n) * by
				}
				return float64(n) / scale
			})
		}
		vs := rapid.SliceOfN(gen, 0, 300).Draw(t, "values")
		if rapid.Bool().Draw(t, "sums") {
			for i := 1; i < len(vs); i++ {
				vs[i] += vs[i-1]
			}
		}
		for range rapid.IntRange(0, 3).Draw(t, "odd") {
			if len(vs) > 0 {
				vs[rapid.IntRange(0, len(vs)-1).Draw(t, "at")] = anyFloat().Draw(t, "value")
			}
		}
		roundFloats(t, e, d, vs)
	})
}

func TestIntsAreExact(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	rapid.Check(t, func(t *rapid.T) {
		gen := rapid.OneOf(rapid.Int64(), rapid.Int64Range(-20, 20), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 0}))
		if rapid.Bool().Draw(t, "small") {
			gen = rapid.Int64Range(0, 3)
		}
		if rapid.Bool().Draw(t, "multiples") { // they wrap where they are too large
			base, g := rapid.Int64().Draw(t, "base"), rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{1e6, 1e9, math.MinInt64, math.MaxInt64})).Draw(t, "divisor")
			few := gen
			gen = rapid.Map(few, func(n int64) int64 { return base + g*n })
		}
		vs := rapid.SliceOfN(gen, 0, 2000).Draw(t, "values")
		if rapid.Bool().Draw(t, "clock") {
			tick := rapid.Int64().Draw(t, "tick")
			for i := 1; i < len(vs); i++ {
				vs[i] = vs[i-1] + tick + vs[i]
			}
		}
		if long := rapid.IntRange(1, 30).Draw(t, "runs"); long > 1 {
			heads := vs
			for vs = nil; len(vs) < 2000 && len(heads) > 0; heads = heads[1:] {
				vs = append(vs, slices.Repeat(heads[:1], rapid.IntRange(1, long).Draw(t, "run"))...)
			}
		}
		got, err := d.Ints(e.AppendInts(nil, vs), len(vs))
		if err != nil || !cmp.Equal(append([]int64{}, vs...), append([]int64{}, got...)) {
			t.Fatalf("%v: %v became %v", err, vs, got)
		}
		listed := e.AppendIntsByList([]byte("before"), vs)
		got, err = d.Ints(listed[len("before"):], len(vs))
		if err != nil || !cmp.Equal(append([]int64{}, vs...), append([]int64{}, got...)) || len(listed) > len("before")+len(e.AppendInts(nil, vs)) {
			t.Fatalf("by a list: %v: %v became %v", err, vs, got)
		}
	})
}

// TestListOfFewValues: places in a list take what it takes to choose, whatever the values are.
func TestListOfFewValues(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	vs, few := make([]int64, 8000), make([]int64, 16)
	for i := range few {
		few[i] = r.Int64()
	}
	for i := range vs {
		vs[i] = few[r.IntN(len(few))]
	}
	e := NewEncoder()
	b := e.AppendIntsByList(nil, vs)
	if per := float64(len(b)) / float64(len(vs)); per > 0.55 {
		t.Errorf("%.3f bytes a value for one of 16", per)
	}
	if got := e.AppendInts(nil, vs); len(got) < 10*len(b) {
		t.Errorf("%d bytes without a list", len(got))
	}
	two := e.AppendInts(nil, []int64{5, 9})
	by := func(places []byte, list []byte) []byte {
		return append(append([]byte{3, intListed, byte(len(list))}, list...), places...)
	}
	three := func(a, b, c int64) []byte { return e.AppendInts(nil, []int64{a, b, c}) }
	d := NewDecoder()
	if got, err := d.Ints(by(three(-1, 0, -1), two), 8000); err != nil || !cmp.Equal(got, []int64{5, 9, 5}) {
		t.Errorf("%v: %v", err, got)
	}
	for name, bad := range map[string][]byte{
		"a list of a list": by(three(0, 0, 0), by(three(0, 0, 0), two)), "places in a list": by(by(three(0, 0, 0), two), two),
		"a place behind": by(three(0, 1, 0), two), "a place before": by(three(0, -2, 0), two), "the last place": by(three(0, math.MaxInt64, 0), two),
		"too few": by(e.AppendInts(nil, []int64{0, 0}), two), "an empty list": by(three(0, 0, 0), e.AppendInts(nil, nil)), "no end": {3, intListed, 200, 1, 1},
	} {
		if got, err := d.Ints(bad, 8000); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestRuns: values that stand for a while cost a change, not a bit each.
func TestRuns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	vs, at := make([]int64, 6400), int64(1_700_000_000_000_000_000)
	for i := range vs {
		if i%64 == 0 { // the times of a rollout: all its steps are logged at once
			at += 10_000_000 + int64(r.IntN(1<<16))
		}
		vs[i] = at
	}
	e, d := NewEncoder(), NewDecoder()
	b := e.AppendInts([]byte("before"), vs)
	if len(b) > 260 {
		t.Errorf("%d bytes for 100 runs", len(b))
	}
	if got, err := d.Ints(b[len("before"):], len(vs)); err != nil || !cmp.Equal(got, vs) {
		t.Errorf("%v: %v", err, got)
	}
	two := e.AppendInts(nil, []int64{5, 9})
	by := func(lengths ...int64) []byte {
		return e.AppendInts(append([]byte{3, intRuns, byte(len(two))}, two...), lengths)
	}
	if got, err := d.Ints(by(1, 2), 8000); err != nil || !cmp.Equal(got, []int64{5, 9, 9}) {
		t.Errorf("%v: %v", err, got)
	}
	for name, bad := range map[string][]byte{
		"too many": by(1, 3), "too few": by(1, 1), "less than none": by(4, -1), "an end too far": by(math.MaxInt64, 1), "one length": by(3), "no end": {3, intRuns, 200, 1, 1},
		"a run of runs": append(append([]byte{3, intRuns, byte(len(by(1, 2)))}, by(1, 2)...), by(1, 2)...),
	} {
		if got, err := d.Ints(bad, 8000); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestStepsAroundANumber: each step of a clock is a number and its own noise, which the
// differences of steps would hold twice.
func TestStepsAroundANumber(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	vs, at := make([]int64, 2000), int64(1_700_000_000_000)
	for i := range vs {
		at += 15_000 + int64(r.IntN(5)) - 2
		vs[i] = at * 1_000_000
		if i == 700 { // a pause is no reason to lose the number
			at += 3_600_000
		}
	}
	e, d := NewEncoder(), NewDecoder()
	b := e.AppendInts(nil, vs)
	if per := float64(len(b)) / float64(len(vs)); per > 0.35 { // a code of whole bits for five steps and a pause is 2.6
		t.Errorf("%.3f bytes a value for one of five steps", per)
	}
	if got, err := d.Ints(b, len(vs)); err != nil || !cmp.Equal(got, vs) {
		t.Errorf("%v: %v", err, got)
	}
	const order1 = centred<<easeShift | 1
	if got, err := d.Ints([]byte{4, order1, 20, 200, 1, streamPacked, 2, 0b01_10_00}, 4); err != nil || !cmp.Equal(got, []int64{10, 110, 211, 310}) {
		t.Errorf("%v: %v", err, got)
	}
	for name, bad := range map[string][]byte{"no number": {4, order1, 20}, "too few": {1, order1, 20, 200, 1}} {
		if got, err := d.Ints(bad, 4); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSumsOfDecimals: what additions round off, or a multiplication by 0.001, costs a few bits.
func TestSumsOfDecimals(t *testing.T) {
	const n = 2000
	r := rand.New(rand.NewPCG(1, 2))
	sums, ticks, sum, tick := make([]float64, n), make([]float64, n), 0.0, int64(1_000_000)
	for i := range n {
		sum += float64(r.IntN(1<<12)) / 1e6
		tick += int64(r.IntN(1 << 6))
		sums[i], ticks[i] = sum, float64(tick)*0.001
	}
	e, d := NewEncoder(), NewDecoder()
	for _, c := range []struct {
		name string
		vs   []float64
		most float64 // 12 bits and the steps; 6 bits
	}{{"sums", sums, 2.7}, {"ticks", ticks, 0.85}} {
		per := float64(len(roundFloats(t, e, d, c.vs))) / n
		t.Logf("%s: %.3f bytes a value", c.name, per)
		if per > c.most {
			t.Errorf("%s: %.3f bytes a value, want at most %.3f", c.name, per, c.most)
		}
	}
	two, zeros := e.AppendInts(nil, []int64{5, 9}), e.AppendInts(nil, []int64{0, 0})
	by := func(digits, size byte, first, second []byte) []byte {
		return append(append([]byte{2, floatNear, digits, 0, size}, first...), second...)
	}
	whole := byte(len(two))
	if got, err := d.Floats(by(1, whole, two, zeros), 2); err != nil || !cmp.Equal(got, []float64{.5, .9}) {
		t.Errorf("%v: %v", err, got)
	}
	for name, bad := range map[string][]byte{
		"no digits": by(0, whole, two, zeros), "too many digits": by(10, whole, two, zeros), "no end": by(1, 200, two, zeros), "no steps": by(1, whole, two, nil),
		"too few": by(1, whole, two, e.AppendInts(nil, []int64{0})), "nothing": {2, floatNear},
	} {
		if got, err := d.Floats(bad, 2); err == nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestBytesAndBools(t *testing.T) {
	e, d := NewEncoder(), NewDecoder()
	defer d.Close()
	rapid.Check(t, func(t *rapid.T) {
		vs := rapid.SliceOfN(rapid.SliceOfN(rapid.Byte(), 0, 50), 0, 50).Draw(t, "values")
		b, err := e.AppendBytes(nil, vs)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Bytes(b, len(vs), MaxBytes)
		if err != nil || len(got) != len(vs) {
			t.Fatal(err, len(got))
		}
		for i := range vs {
			if !bytes.Equal(got[i], vs[i]) {
				t.Fatal(i)
			}
		}
		bools := rapid.SliceOf(rapid.Bool()).Draw(t, "bools")
		back, err := Bools(AppendBools(nil, bools), len(bools))
		if err != nil || !cmp.Equal(append([]bool{}, bools...), append([]bool{}, back...)) {
			t.Fatal(err, back)
		}
	})
}

// TestSizes holds the sizes that the design was chosen for.
func TestSizes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	n := 2000
	share := make([]float64, n)
	walk, lr, counter, single, acc := make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n), make([]float64, n)
	level, ar := 2.0, 0.0
	for i := range n {
		level *= 1 + 0.01*r.NormFloat64()
		walk[i] = level * (1 + 0.05*r.NormFloat64())
		lr[i] = 1e-3 * 0.5 * (1 + math.Cos(math.Pi*float64(i)/float64(n)))
		counter[i] = float64(i * 512)
		ar = 0.9*ar + 0.3*r.NormFloat64()
		single[i] = float64(float32(math.Exp(ar)))
		acc[i] = math.Round(1e4*(0.5+0.1*r.Float64())) / 1e4
		share[i] = float64(400+r.IntN(32)) / 1797
	}
	e, d := NewEncoder(), NewDecoder()
	for _, c := range []struct {
		name string
		vs   []float64
		most float64
	}{{"loss", walk, 6.4}, {"learning rate", lr, 3.5}, {"counter", counter, 0.02}, {"float32", single, 3.2}, {"accuracy", acc, 1.35}, {"share", share, 0.7}} {
		per := float64(len(roundFloats(t, e, d, c.vs))) / float64(n)
		t.Logf("%s: %.3f bytes a value", c.name, per)
		if per > c.most {
			t.Errorf("%s: %.3f bytes a value, want at most %.3f", c.name, per, c.most)
		}
	}
	// 15 ms of jitter are 5.95 bits: 0.74 bytes.
	times, at := make([]int64, n), int64(1_700_000_000_000)
	for i := range times {
		at += 1000 + int64(math.Round(15*r.NormFloat64()))
		times[i] = at * 1_000_000
	}
	per := float64(len(e.AppendInts(nil, times))) / float64(n)
	t.Logf("ms times in ns: %.3f bytes a value", per)
	if per > 0.8 {
		t.Errorf("ms times in ns: %.3f bytes a value, want at most 0.8", per)
	}
}

// TestRoomOfDecoder holds a decoder to the room of what its caller allows, whatever a
// column says of itself.
func TestRoomOfDecoder(t *testing.T) {
	const values, most = 100, 300 << 10 // 128 KiB are a Huffman table; 65,536 values were 512 KiB
	ints, floats := goldenColumns()
	e, d := NewEncoder(), NewDecoder()
	var columns [][]byte
	for _, vs := range ints {
		columns = append(columns, e.AppendIntsByList(nil, vs))
	}
	for _, vs := range floats {
		columns = append(columns, e.AppendFloats(nil, vs))
	}
	r := rand.New(rand.NewPCG(1, 2))
	for _, column := range columns {
		for range 300 {
			b := bytes.Clone(column)
			for range 1 + r.IntN(3) {
				b[r.IntN(min(len(b), 12))] = byte(r.Uint32())
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, _ = d.Ints(b, values)
			_, _ = d.Floats(b, values)
			runtime.ReadMemStats(&after)
			if took := after.TotalAlloc - before.TotalAlloc; took > most {
				t.Fatalf("%d bytes for %x", took, b)
			}
		}
	}
}

func FuzzDecode(f *testing.F) {
	e := NewEncoder()
	f.Add(e.AppendFloats(nil, []float64{1, 2, 3.25, math.NaN()}))
	f.Add(e.AppendFloats(nil, []float64{1. / 7, 5. / 7, 2. / 3, math.NaN()}))
	f.Add([]byte{2, floatNear, 1, 0, 4, 2, 0, streamPacked, 2, 1, 2, 0, streamConstant, 0})
	f.Add(e.AppendInts(nil, []int64{1, 2, 30, -4}))
	many := make([]int64, 3000)
	for i := range many {
		many[i] = int64(i*i) % 977
	}
	f.Add(e.AppendInts(nil, many))
	f.Add(e.AppendIntsByList(nil, many))
	f.Add([]byte{4, centred<<easeShift | 1, 20, 200, 1, streamPacked, 2, 0b01_10_00})
	f.Add(e.AppendInts(nil, many[:200]))
	f.Add(e.AppendInts(nil, slices.Concat(slices.Repeat([]int64{7}, 90), slices.Repeat([]int64{1 << 40}, 90), many[:9])))
	for i := range many {
		many[i] = 1_700_000_000_000_000_000 + many[i]*1_000_000
	}
	f.Add(e.AppendInts(nil, many))
	if b, err := e.AppendBytes(nil, [][]byte{[]byte("aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), nil}); err == nil {
		f.Add(b)
	}
	f.Add(binary.AppendUvarint(nil, 1<<40))
	f.Fuzz(func(t *testing.T, b []byte) {
		d := NewDecoder()
		defer d.Close()
		if vs, err := d.Floats(b, MaxValues); err == nil && len(vs) > MaxValues {
			t.Fatal("too many values")
		}
		_, _ = d.Ints(b, MaxValues)
		_, _ = d.Bytes(b, MaxValues, 1<<20)
		_, _ = Bools(b, MaxValues)
	})
}

// BenchmarkRun encodes and decodes the columns of the workload of test/bench/engine: 2,000
// log calls of 50 series, in the kinds and shares that they have there.
func BenchmarkRun(b *testing.B) {
	const n, series = 2000, 50
	r := rand.New(rand.NewPCG(1, 2))
	times, at := make([]int64, n), int64(1_700_000_000_000)
	columns := make([][]float64, series)
	for i := range columns {
		columns[i] = make([]float64, n)
	}
	level := make([]float64, series)
	for row := range n {
		at += 1000 + int64(math.Round(15*r.NormFloat64()))
		times[row] = at * 1_000_000
		for i, vs := range columns {
			switch {
			case i < 15:
				level[i] += 0.01 * r.NormFloat64()
				vs[row] = math.Exp(level[i]) * (1 + 0.05*r.NormFloat64())
			case i < 20:
				vs[row] = float64(i) * 1e-4 * 0.5 * (1 + math.Cos(math.Pi*float64(row)/n))
			case i < 28:
				vs[row] = float64(row * (i - 19) * 64)
			case i < 40:
				level[i] = 0.95*level[i] + 0.2*r.NormFloat64()
				vs[row] = float64(float32(math.Exp(level[i])))
			case i < 44:
				vs[row] = float64(i) / 8
			default:
				vs[row] = math.Round(1e4*(0.5+0.02*r.NormFloat64())) / 1e4
			}
		}
	}
	e, d := NewEncoder(), NewDecoder()
	out := make([][]byte, series)
	shared := e.AppendInts(nil, times)
	for i, vs := range columns {
		out[i] = e.AppendFloats(nil, vs)
	}
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			shared = e.AppendInts(shared[:0], times)
			for i, vs := range columns {
				out[i] = e.AppendFloats(out[i][:0], vs)
			}
		}
		size := len(shared)
		for _, column := range out {
			size += len(column)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(n*series), "ns/value")
		b.ReportMetric(float64(size)/(n*series), "B/value")
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Ints(shared, n); err != nil {
				b.Fatal(err)
			}
			for _, column := range out {
				if _, err := d.Floats(column, n); err != nil {
					b.Fatal(err)
				}
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/(n*series), "ns/value")
	})
}

func BenchmarkFloats(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	vs := make([]float64, 2000)
	for i := range vs {
		vs[i] = 2 + 0.05*r.NormFloat64()
	}
	e, d := NewEncoder(), NewDecoder()
	var out []byte
	b.Run("encode", func(b *testing.B) {
		for b.Loop() {
			out = e.AppendFloats(out[:0], vs)
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/value")
	})
	b.Run("decode", func(b *testing.B) {
		for b.Loop() {
			if _, err := d.Floats(out, 2000); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/2000, "ns/value")
	})
}
