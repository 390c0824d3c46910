package row

import (
	"bytes"
	"math"
	"strconv"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// form is what the lines of the same keys have in common on the wire, where they are JSON
// texts in a JSON text: all but the numbers. A line that has the form needs no other look.
// Only rows of numbers have one.
type form struct {
	before  [][]byte // the wire's bytes before each number
	after   []byte
	names   [][]byte
	columns []int // the numbers that names have, by their place in the line
	rows    int   // lines that have the form

	step, time, runtime int // the places of W&B's own, or -1
}

// formOf is the form of a line that was checked, nil where it has none.
func formOf(wire []byte) *form {
	text, whole := loose.AppendDecoded(nil, wire)
	if !whole {
		return nil
	}
	f := &form{step: -1, time: -1, runtime: -1}
	seen := map[string]bool{}
	at, from, begin := 0, 0, 1 // in the text; of the wire, the end of the last number and this one's begin
	for m, err := range loose.Members(text) {
		if err != nil || loose.KindOf(m.Value) != loose.Number || !m.Faithful || seen[string(m.Key)] || !f.has(m.Key) {
			return nil
		}
		seen[string(m.Key)] = true
		next := cap(text) - cap(m.Value)
		begin = behind(wire, begin, next-at)
		if begin < 0 || !bytes.HasPrefix(wire[begin:], m.Value) {
			return nil
		}
		f.before = append(f.before, wire[from:begin])
		begin += len(m.Value)
		at, from = next+len(m.Value), begin
	}
	f.after = wire[from:]
	if f.step < 0 {
		return nil
	}
	return f
}

// has takes the next key.
func (f *form) has(key []byte) bool {
	at := len(f.before)
	switch string(key) {
	case StepKey:
		f.step = at
	case TimestampKey:
		f.time = at
	case RuntimeKey:
		f.runtime = at
	default:
		f.names, f.columns = append(f.names, key), append(f.columns, at)
		return isName(key)
	}
	return true
}

// behind is where the wire goes on after so many bytes of the text, -1 where that is not
// worth working out.
func behind(wire []byte, i, size int) int {
	for size > 0 {
		switch {
		case wire[i] != '\\':
			i, size = i+1, size-1
		case wire[i+1] != 'u':
			i, size = i+2, size-1
		default:
			r, err := strconv.ParseUint(string(wire[i+2:i+6]), 16, 16)
			if err != nil || r >= 0xd800 && r < 0xe000 {
				return -1
			}
			i, size = i+6, size-len(string(rune(r)))
		}
	}
	if size < 0 {
		return -1
	}
	return i
}

// read appends the numbers of the line that b begins with, as bits. The size is 0 where the line has
// another form, or a number that no series of its own can keep.
func (f *form) read(b []byte, bits []uint64) (out []uint64, size int) {
	i := 0
	for _, text := range f.before {
		if len(b)-i < len(text) || string(b[i:i+len(text)]) != string(text) {
			return bits, 0
		}
		i += len(text)
		v, size, held := scanned(b[i:])
		if !held {
			return bits, 0
		}
		bits = append(bits, math.Float64bits(v))
		i += size
	}
	if !bytes.HasPrefix(b[i:], f.after) {
		return bits, 0
	}
	line := Line{form: f, bits: bits[len(bits)-len(f.before):]}
	if !line.numbers() {
		return bits, 0
	}
	return bits, i + len(f.after)
}

// numbers takes W&B's own keys out of a line that has a form. It tells lines that have none
// of them in an odd way.
func (l *Line) numbers() bool {
	f := l.form
	var ok bool
	if l.Step, ok = stepOf(math.Float64frombits(l.bits[f.step])); !ok {
		return false
	}
	if l.HasStep = true; f.time >= 0 {
		if l.TimeNs, ok = timeOf(math.Float64frombits(l.bits[f.time])); !ok {
			return false
		}
	}
	if l.runtime = math.NaN(); f.runtime >= 0 {
		l.runtime = math.Float64frombits(l.bits[f.runtime])
		return !math.IsNaN(l.runtime)
	}
	return true
}
