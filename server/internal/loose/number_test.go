package loose

import (
	"fmt"
	"math"
	"math/big"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
)

// TestScanNumber compares with strconv and math/big, in all the forms that numbers have.
func TestScanNumber(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 9))
	for i := range 300_000 {
		text := writtenNumber(r)
		want, err := strconv.ParseFloat(text, 64)
		exact := err == nil
		if !strings.ContainsAny(text, ".eE") { // an integer of Python's
			n, _ := new(big.Int).SetString(text, 10)
			held, _ := new(big.Float).SetInt(n).Float64()
			back, _ := big.NewFloat(held).Int(nil)
			want, exact = held, back.Cmp(n) == 0
		}
		after := [...]string{"", ",", "}", " ", `\"`}[i%5]
		got, size, is := ScanNumber([]byte(text + after))
		if size != len(text) || is != exact || math.Float64bits(got) != math.Float64bits(want) {
			t.Fatalf("%s%s: %v (%d bytes, exact %v); it is %v (exact %v)", text, after, got, size, is, want, exact)
		}
	}
	for _, text := range []string{"", "-", ".5", "1.", "01", "-01.5", "1e", "1.5e+", "+1", "N", "Inf", "x"} {
		if f, size, exact := ScanNumber([]byte(text)); exact && size == len(text) {
			t.Errorf("%q is read as %v", text, f)
		}
	}
}

// writtenNumber is a number as programs write it, or only JSON allows it.
func writtenNumber(r *rand.Rand) string {
	f := math.Float64frombits(r.Uint64())
	switch r.IntN(8) {
	case 0:
		f = r.NormFloat64()
	case 1:
		f = math.Exp(60*r.Float64() - 60)
	case 2:
		f = float64(r.Int64N(1<<60)>>r.IntN(60)) / math.Pow(2, float64(r.IntN(60)))
	case 3: // between two float64, and next to there
		f = 1 + r.Float64()*1e9
		half := new(big.Float).SetPrec(200).SetFloat64(f)
		half.Add(half, new(big.Float).SetFloat64((math.Nextafter(f, 2*f)-f)/2))
		return half.Text('f', 14+r.IntN(20))
	case 4:
		return strconv.FormatInt(r.Int64()>>r.IntN(64), 10)
	case 5:
		return fmt.Sprintf("%s%d.%0*de%+d", [...]string{"", "-"}[r.IntN(2)], r.IntN(1000), 1+r.IntN(20), r.Int64()>>r.IntN(63), r.IntN(80)-40)
	}
	if math.IsNaN(f) || math.IsInf(f, 0) {
		f = 0.1
	}
	form := "gfe"[r.IntN(3)]
	if math.Abs(f) > 1e30 || math.Abs(f) < 1e-30 {
		form = 'g'
	}
	text := strconv.FormatFloat(f, form, -1, 64)
	if r.IntN(4) == 0 {
		text = strconv.FormatFloat(f, form, r.IntN(25), 64)
	}
	return text
}
