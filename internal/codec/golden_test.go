package codec

import (
	"bufio"
	"encoding/hex"
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var writeGolden = flag.String("write-golden", "", "write testdata/NAME with today's encoder instead of reading what is there")

// goldenColumns are fixed columns that together have every kind and stream.
func goldenColumns() (ints map[string][]int64, floats map[string][]float64) {
	seed := uint64(1)
	next := func(below uint64) int64 {
		seed = seed*6364136223846793005 + 1442695040888963407
		return int64((seed >> 33) % below)
	}
	fill := func(n int, of func(i int) int64) []int64 {
		out := make([]int64, n)
		for i := range out {
			out[i] = of(i)
		}
		return out
	}
	ints = map[string][]int64{
		"none": {}, "constant": fill(40, func(int) int64 { return -7 }), "even": fill(40, func(i int) int64 { return int64(1000 * i) }),
		"packed": fill(20, func(int) int64 { return next(1000) }), "short": fill(100, func(int) int64 { return next(5) * next(5) }),
		"long": fill(1500, func(int) int64 { return next(5) * next(50) }), "one class": fill(100, func(int) int64 { return 1<<40 + next(1<<30) }),
		"ms":   fill(300, func(i int) int64 { return 1_700_000_000_000_000_000 + int64(i)*1_000_000_000 + next(30)*1_000_000 }),
		"ends": fill(60, func(i int) int64 { return []int64{math.MinInt64, math.MaxInt64, math.MinInt64 + 15}[i%3] }),
		"odd":  fill(90, func(int) int64 { return -300 + 7*next(1<<20) }),
	}
	asFloats := func(n int, of func(i int) float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = of(i)
		}
		return out
	}
	floats = map[string][]float64{
		"constant": asFloats(9, func(int) float64 { return math.Float64frombits(0x7ff0000000000001) }),
		"general":  asFloats(200, func(i int) float64 { return 1/float64(i+3) + float64(next(1<<30))/(1<<33) }),
		"integer":  asFloats(200, func(i int) float64 { return float64(int64(i) * next(100)) }),
		"single":   asFloats(200, func(int) float64 { return float64(float32(1 / float64(1+next(1<<20)))) }),
		"brain":    asFloats(200, func(int) float64 { return float64(math.Float32frombits(0x3f80<<16 + uint32(next(300))<<16)) }),
		"decimal":  asFloats(200, func(int) float64 { return float64(next(30_000)) / 1e4 }),
		"exceptions": asFloats(200, func(i int) float64 {
			if i%50 == 7 {
				return math.Copysign(0, -1)
			}
			return float64(next(300)) / 10
		}),
		"shares": asFloats(200, func(i int) float64 {
			if i%60 == 7 {
				return math.NaN()
			}
			return float64(next(450)) / 450
		}),
	}
	ints["few, since 4"] = fill(200, func(int) int64 { return []int64{-1 << 50, 77, 1 << 40, 1<<40 + 9, 5_000_000}[next(5)] })
	ints["runs, since 5"] = fill(200, func(i int) int64 { return 1_700_000_000_000_000_000 + int64(i/30)*12_345_678 })
	scrape := int64(1_700_000_000_003_000_000)
	ints["scrapes, since 5"] = fill(200, func(int) int64 { scrape += 15_000_000_000 + (next(7)-3)*1_000_000; return scrape })
	sum := 0.0
	floats["sums, since 5"] = asFloats(200, func(i int) float64 {
		if sum += float64(next(5_000_000)) / 1e9; i%50 == 7 {
			return math.NaN()
		}
		return sum
	})
	ticks := int64(12345)
	floats["ticks, since 5"] = asFloats(200, func(int) float64 { ticks += next(300); return float64(ticks) * 0.001 })
	return ints, floats
}

// TestColumnsOfEveryFormat reads columns that earlier encoders wrote, by the version of the
// data folder that they wrote.
func TestColumnsOfEveryFormat(t *testing.T) {
	ints, floats := goldenColumns()
	if *writeGolden != "" {
		writeGoldenColumns(t, filepath.Join("testdata", *writeGolden), ints, floats)
	}
	files, err := filepath.Glob("testdata/format-*.txt")
	if err != nil || len(files) < 2 {
		t.Fatalf("columns of which versions: %v, %v", files, err)
	}
	for _, name := range files {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		d, seen := NewDecoder(), 0
		for lines := bufio.NewScanner(f); lines.Scan(); seen++ {
			kind, rest, _ := strings.Cut(lines.Text(), " ")
			column, text, _ := strings.Cut(rest, ": ")
			b, err := hex.DecodeString(text)
			if err != nil {
				t.Fatal(err)
			}
			if kind == "ints" {
				got, err := d.Ints(b, MaxValues)
				if diff := cmp.Diff(ints[column], got); err != nil || diff != "" {
					t.Errorf("%s: %s: %v %s", name, column, err, diff)
				}
				continue
			}
			got, err := d.Floats(b, MaxValues)
			if diff := cmp.Diff(bitsOf(floats[column]), bitsOf(got)); err != nil || diff != "" {
				t.Errorf("%s: %s: %v %s", name, column, err, diff)
			}
		}
		want := 0
		for _, column := range slices.Concat(slices.Collect(maps.Keys(ints)), slices.Collect(maps.Keys(floats))) {
			_, since, _ := strings.Cut(column, ", since ")
			if "testdata/format-"+since+".txt" <= name {
				want++
			}
		}
		if err := f.Close(); err != nil || seen != want {
			t.Errorf("%s has %d columns: %v", name, seen, err)
		}
	}
}

func writeGoldenColumns(t *testing.T, name string, ints map[string][]int64, floats map[string][]float64) {
	t.Helper()
	var text strings.Builder
	e := NewEncoder()
	for column, vs := range ints {
		fmt.Fprintf(&text, "ints %s: %x\n", column, e.AppendIntsByList(nil, vs))
	}
	for column, vs := range floats {
		fmt.Fprintf(&text, "floats %s: %x\n", column, e.AppendFloats(nil, vs))
	}
	if err := os.WriteFile(name, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}
