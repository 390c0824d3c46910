package kymogram

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
	"github.com/kymogram/kymogram/internal/spool"
)

type temperature float32

// blocks reads the blocks that a run left in its spool.
func blocks(t *testing.T, r *Run) (found []spool.Block, bytes []int) {
	t.Helper()
	tail, err := spool.OpenTail(r.folder.WriterPath(r.w.ID), r.w.ID, 1, true)
	must(t, err)
	defer tail.Close()
	for {
		var rec spool.Record
		progress, err := tail.Next(&rec)
		must(t, err)
		if progress != spool.Got {
			return found, bytes
		}
		if rec.Type == spool.TypeBlock {
			found, bytes = append(found, rec.Block), append(bytes, len(tail.Payload))
		}
	}
}

func checkSlice[T Number](t *testing.T, narrow bool, values ...T) {
	t.Helper()
	r := offline(t, Options{})
	must(t, LogSlice(r, "v", values, Step(5)), LogSlice(r, "v", values[:0]))
	found, sizes := blocks(t, r)
	if len(found) != 1 || found[0].Narrow != narrow || found[0].Rows != len(values) || found[0].Kind != model.KindFloat {
		t.Fatalf("%T: %+v", values, found)
	}
	width := 8
	if narrow {
		width = 4
	}
	if size := sizes[0] - width*len(values); size < 0 || size > 64 {
		t.Errorf("%T: %d bytes for %d values", values, sizes[0], len(values))
	}
	for i, v := range values {
		got, want := math.Float64frombits(found[0].Values[i]), float64(v)
		if math.Float64bits(got) != math.Float64bits(want) && !(math.IsNaN(got) && math.IsNaN(want)) {
			t.Errorf("%T: %v became %v", values, v, got)
		}
	}
	if last, ok := r.LastStep("v"); !ok || last != 4+int64(len(values)) {
		t.Errorf("%T: last step %d %v", values, last, ok)
	}
}

func TestSlicesOfNumbers(t *testing.T) {
	random := make([]float32, 1000)
	for i := range random {
		random[i] = math.Float32frombits(rand.Uint32())
	}
	checkSlice(t, true, random...)
	checkSlice(t, true, temperature(0.1), temperature(math.Inf(-1)), temperature(math.Copysign(0, -1)), math.SmallestNonzeroFloat32, math.MaxFloat32)
	checkSlice(t, false, 0.1, math.MaxFloat64, 5e-324, math.NaN())
	checkSlice(t, true, int8(-128), int8(127))
	checkSlice(t, true, uint8(255), uint8(0))
	checkSlice(t, true, int16(math.MinInt16), int16(math.MaxInt16))
	checkSlice(t, true, uint16(math.MaxUint16))
	checkSlice(t, false, int32(math.MinInt32), int32(math.MaxInt32))
	checkSlice(t, false, uint32(math.MaxUint32))
	checkSlice(t, false, 1<<53, -1)
	checkSlice(t, false, int64(-1<<53), int64(math.MinInt64))
	checkSlice(t, false, uint64(1<<63-1024))
}

// TestSlicesInSeriesOfIntegers: exact, in 4 bytes where these hold every one.
func TestSlicesInSeriesOfIntegers(t *testing.T) {
	r := offline(t, Options{})
	must(t, r.LogInt("i", 1), LogSlice(r, "i", []int64{math.MaxInt64}), LogSlice(r, "i", []int32{math.MinInt32}),
		LogSlice(r, "i", []uint32{math.MaxUint32}), LogSlice(r, "i", []float32{-3}), LogSlice(r, "i", []uint16{9}))
	var got []string
	found, _ := blocks(t, r)
	for _, b := range found {
		got = append(got, fmt.Sprint(b.Kind, " ", int64(b.Values[0]), " ", b.Narrow))
	}
	want := []string{"int64 9223372036854775807 false", "int64 -2147483648 true", "int64 4294967295 false", "int64 -3 false", "int64 9 true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	before := len(logged(t, r))
	for what, err := range map[string]error{
		"0.5 is no int64":                LogSlice(r, "i", []float32{1, 0.5}),
		"beyond int64":                   LogSlice(r, "i", []uint64{1, 1 << 63}),
		"is not exact in float64":        LogSlice(r, "f", []int64{1, 1<<53 + 1}),
		"pass the largest step":          LogSlice(r, "f", []float32{1, 2}, Step(rule.MaxStep)),
		"18446744073709551615 is beyond": LogSlice(r, "f", []uint64{math.MaxUint64}),
	} {
		if err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%v, want %q", err, what)
		}
	}
	if after := len(logged(t, r)); after != before {
		t.Errorf("%d points of refused slices", after-before)
	}
}

func TestEnvironmentsOfFloat32(t *testing.T) {
	r := offline(t, Options{})
	must(t, r.LogRLEnvironmentSteps("reward", 1, []EnvValues{
		{Env: "a", Values32: []float32{0.1, 0.2}}, {Env: "b", Values32: []float32{0.3, 0.4}}, {Env: "c", Values: []float64{0.1, 0.2}},
	}))
	var got []string
	found, _ := blocks(t, r)
	for _, b := range found {
		for _, bits := range b.Values {
			got = append(got, strconv.FormatFloat(math.Float64frombits(bits), 'g', -1, 64)+fmt.Sprint(" ", b.Narrow))
		}
	}
	want := []string{"0.10000000149011612 true", "0.20000000298023224 true", "0.30000001192092896 true", "0.4000000059604645 true", "0.1 false", "0.2 false"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if err := r.LogRLEnvironmentSteps("reward", 2, []EnvValues{{Values: []float64{1}, Values32: []float32{1}}}); err == nil {
		t.Error("both Values and Values32 are taken")
	}
}

// TestEnvironmentsOfSeveralSorts: what needs several records keeps its values, also
// when the memory of an earlier call, and of one that failed, is used again.
func TestEnvironmentsOfSeveralSorts(t *testing.T) {
	r := offline(t, Options{})
	episode := int64(7)
	want := map[string][]float64{}
	for call := range int64(3) {
		v := func(i int64) float64 { return float64(100*call + i) }
		envs := []EnvValues{
			{Env: "a", Values: []float64{v(1), v(2)}},
			{Env: "b"},
			{Env: "c", Values: []float64{v(3), v(4), v(5)}},
			{Env: "d", Values32: []float32{float32(v(6)), float32(v(7))}},
			{Env: "e", Values: []float64{v(8), v(9)}, Episode: &episode},
			{Env: "f", Values: []float64{v(10), v(11)}},
			{Env: "g", Values: []float64{v(12), v(13)}, Episode: &episode},
		}
		bad := append([]EnvValues{{Env: "a", Values: []float64{-1, -2, -3}}}, EnvValues{Env: "z\x00"})
		if err := r.LogRLEnvironmentSteps("reward", call, bad); err == nil {
			t.Fatal("a name with a zero is taken")
		}
		must(t, r.LogRLEnvironmentSteps("reward", call, envs))
		for _, env := range envs {
			want[env.Env] = append(want[env.Env], env.Values...)
			for _, x := range env.Values32 {
				want[env.Env] = append(want[env.Env], float64(x))
			}
		}
	}
	names := map[uint32]string{}
	for _, env := range []string{"a", "c", "d", "e", "f", "g"} {
		s, err := r.envSeries("reward", ScaleEnvironment, &call{env: env})
		must(t, err)
		names[s.spool.ID] = env
	}
	got := map[string][]float64{}
	found, _ := blocks(t, r)
	for _, b := range found {
		for i, bits := range b.Values {
			env := names[b.Series[i/b.Rows]]
			got[env] = append(got[env], math.Float64frombits(bits))
		}
	}
	delete(want, "b") // it has no values
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if len(found) != 3*4 {
		t.Errorf("%d records", len(found))
	}
}
