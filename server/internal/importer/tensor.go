package importer

import (
	"encoding/binary"
	"math"

	"github.com/kymogram/kymogram/internal/model"
)

// tensor is a tensorflow.TensorProto of numbers or of texts.
type tensor struct {
	rows, columns int // of the last two dimensions; 0 without them
	numbers       []float64
	texts         []string
}

// The data types that scalars, histograms and texts have.
const (
	dtFloat  = 1
	dtDouble = 2
	dtInt32  = 3
	dtInt64  = 9
	dtBool   = 10
	dtBf16   = 14
	dtHalf   = 19
)

// readTensor reads dtype 1, tensor_shape 2, tensor_content 4, and the lists of
// values by type: float 5, double 6, int 7, string 8, int64 10, bool 11, half 13.
func readTensor(msg []byte) (t tensor, err error) {
	dtype, content := uint64(0), []byte(nil)
	for f, err := range fields(msg) {
		if err != nil {
			return t, err
		}
		switch f.num {
		case 1:
			dtype = f.u
		case 2:
			if err := t.shape(f.b); err != nil {
				return t, err
			}
		case 4:
			content = f.b
		case 8:
			t.texts = append(t.texts, string(f.b))
		case 5, 6, 7, 10, 11, 13:
			t.list(f, dtype)
		}
	}
	t.content(content, dtype)
	return t, nil
}

// shape reads TensorShapeProto: dim 2 with size 1.
func (t *tensor) shape(msg []byte) error {
	for f, err := range fields(msg) {
		if err != nil {
			return err
		}
		if f.num != 2 {
			continue
		}
		t.rows, t.columns = t.columns, 0
		for d, err := range fields(f.b) {
			if err != nil {
				return err
			}
			if d.num == 1 && d.u < math.MaxInt32 {
				t.columns = int(d.u)
			}
		}
	}
	return nil
}

// list appends a typed list, packed or one by one.
func (t *tensor) list(f field, dtype uint64) {
	switch {
	case f.num == 6:
		t.numbers = f.doubles(t.numbers)
	case f.num == 5 && f.typ == 5:
		t.numbers = append(t.numbers, f.float())
	case f.num == 5:
		t.content(f.b, dtFloat)
	case f.typ == 0:
		t.numbers = append(t.numbers, integral(f.u, dtype))
	default:
		for b := f.b; len(b) > 0; {
			u, n := binary.Uvarint(b)
			if n <= 0 {
				return
			}
			t.numbers = append(t.numbers, integral(u, dtype))
			b = b[n:]
		}
	}
}

// integral is a number of a varint list; halves lie there by their bits.
func integral(u, dtype uint64) float64 {
	switch dtype {
	case dtHalf:
		return half(uint16(u))
	case dtBf16:
		return float64(math.Float32frombits(uint32(uint16(u)) << 16))
	}
	return float64(int64(u))
}

// content appends raw little-endian values.
func (t *tensor) content(b []byte, dtype uint64) {
	width := map[uint64]int{dtFloat: 4, dtDouble: 8, dtInt32: 4, dtInt64: 8, dtBool: 1, dtBf16: 2, dtHalf: 2}[dtype]
	for ; width > 0 && len(b) >= width; b = b[width:] {
		var v float64
		switch dtype {
		case dtFloat:
			v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b)))
		case dtDouble:
			v = math.Float64frombits(binary.LittleEndian.Uint64(b))
		case dtInt32:
			v = float64(int32(binary.LittleEndian.Uint32(b)))
		case dtInt64:
			v = float64(int64(binary.LittleEndian.Uint64(b)))
		case dtBool:
			v = float64(b[0])
		default:
			v = integral(uint64(binary.LittleEndian.Uint16(b)), dtype)
		}
		t.numbers = append(t.numbers, v)
	}
}

// half is an IEEE 754 binary16.
func half(bits uint16) float64 {
	sign, exponent, fraction := 1.0, int(bits>>10&31), float64(bits&1023)
	if bits>>15 != 0 {
		sign = -1
	}
	switch exponent {
	case 0:
		return sign * math.Ldexp(fraction, -24)
	case 31:
		if fraction != 0 {
			return math.NaN()
		}
		return math.Inf(int(sign))
	}
	return sign * math.Ldexp(1024+fraction, exponent-25)
}

// histogram reads rows of left, right, count; nil when it has another shape.
func (t *tensor) histogram() *model.Histogram {
	if t.columns != 3 || len(t.numbers) != 3*t.rows {
		return nil
	}
	bins := make([]bin, 0, t.rows)
	for row := range t.rows {
		n := t.numbers[3*row:]
		bins = append(bins, bin{n[0], n[1], n[2]})
	}
	return histogramOf(bins, nil)
}
