package codec

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
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
			gen = rapid.Map(rapid.Int64Range(-1e5, 1e5), func(n int64) float64 { return float64(n) / scale })
		}
		vs := rapid.SliceOfN(gen, 0, 300).Draw(t, "values")
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
		vs := rapid.SliceOfN(gen, 0, 2000).Draw(t, "values")
		got, err := d.Ints(e.AppendInts(nil, vs), len(vs))
		if err != nil || !cmp.Equal(append([]int64{}, vs...), append([]int64{}, got...)) {
			t.Fatalf("%v: %v became %v", err, vs, got)
		}
	})
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
	}
	e, d := NewEncoder(), NewDecoder()
	for _, c := range []struct {
		name string
		vs   []float64
		most float64
	}{{"loss", walk, 6.8}, {"learning rate", lr, 3.5}, {"counter", counter, 0.02}, {"float32", single, 3.2}, {"accuracy", acc, 1.6}} {
		per := float64(len(roundFloats(t, e, d, c.vs))) / float64(n)
		t.Logf("%s: %.3f bytes a value", c.name, per)
		if per > c.most {
			t.Errorf("%s: %.3f bytes a value, want at most %.3f", c.name, per, c.most)
		}
	}
}

func FuzzDecode(f *testing.F) {
	e := NewEncoder()
	f.Add(e.AppendFloats(nil, []float64{1, 2, 3.25, math.NaN()}))
	f.Add(e.AppendInts(nil, []int64{1, 2, 30, -4}))
	many := make([]int64, 3000)
	for i := range many {
		many[i] = int64(i*i) % 977
	}
	f.Add(e.AppendInts(nil, many))
	f.Add(e.AppendInts(nil, many[:200]))
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
