package row

import (
	"maps"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// Line is a line of the history that was read. Its parts lie in the bytes of the line, or it
// has a form and is the numbers of a window.
type Line struct {
	raw     []byte // nil: not worked out yet
	Step    int64
	HasStep bool
	// TimeNs of the row, 0 where the line does not say it.
	TimeNs  int64
	runtime float64 // NaN where the line does not say it
	members []loose.Member
	odd     []loose.Member // W&B's own keys whose value has another type than theirs

	window *Window
	index  int
	form   *form
	bits   []uint64
}

// Text is the line as JSON.
func (l *Line) Text() []byte {
	if l.raw == nil && l.window != nil {
		l.raw = l.window.text(l.index)
	}
	return l.raw
}

// Parse reads a line into l, whose room it uses again. The error says what is wrong with
// the line as a whole.
func (l *Line) Parse(raw []byte) error {
	*l = Line{raw: raw, runtime: math.NaN(), members: l.members[:0], odd: l.odd[:0]}
	for m, err := range loose.Members(raw) {
		if err != nil {
			return model.Errorf(model.CodeBadRecord, "a line of the history is no JSON object: %s", model.Clip(err.Error()))
		}
		if len(m.Key) > 0 && m.Key[0] == '_' && l.own(m) {
			continue
		}
		l.members = append(l.members, m)
	}
	return nil
}

// own takes W&B's own keys. One whose value is of another type is like any other.
func (l *Line) own(m loose.Member) bool {
	f, exact := loose.Float(m.Value)
	l.odd = slices.DeleteFunc(l.odd, func(o loose.Member) bool { return string(o.Key) == string(m.Key) }) // the last stands
	switch string(m.Key) {
	case StepKey:
		step, is := stepOf(f)
		if !exact || !is {
			l.odd = append(l.odd, m)
			return true
		}
		l.Step, l.HasStep = step, true
		return true
	case TimestampKey:
		ns, is := timeOf(f)
		if !exact || !is {
			l.odd = append(l.odd, m)
			return true
		}
		l.TimeNs = ns
		return true
	case RuntimeKey:
		if !exact || math.IsNaN(f) {
			l.odd = append(l.odd, m)
			return true
		}
		l.runtime = f
		return true
	}
	return false
}

func stepOf(f float64) (step int64, ok bool) {
	if f != math.Trunc(f) || math.Abs(f) >= 1<<62 {
		return 0, false
	}
	return int64(f), true
}

// timeOf is not ok for 0, which is for none, and for what is finer than a nanosecond, as a
// time near 1970 may be.
func timeOf(f float64) (ns int64, ok bool) {
	if !(math.Abs(f) < maxSeconds) {
		return 0, false
	}
	ns = Nanoseconds(f)
	return ns, ns != 0 && Seconds(ns) == f
}

// maxSeconds keeps a time within int64 nanoseconds.
const maxSeconds = 1 << 32

// Nanoseconds is a time in seconds as [Seconds] gives it back. The whole seconds and the
// fraction are apart: their product with 1e9 has more digits than a float64.
func Nanoseconds(seconds float64) int64 {
	whole := math.Floor(seconds)
	return int64(whole)*1e9 + int64(math.Round((seconds-whole)*1e9))
}

// Seconds is a time as W&B writes it. The distance between two float64 of this size is far
// more than a nanosecond, so it is the number that came.
func Seconds(ns int64) float64 {
	whole := ns / 1e9
	return float64(whole) + float64(ns-whole*1e9)/1e9
}

// Unnumbered is a row without its step, as one text: equal for a line and for what is read
// of it.
func Unnumbered(line []byte) string {
	all, ok := membersOf(line)
	if !ok {
		return string(line)
	}
	delete(all, `"`+StepKey+`"`)
	var out []byte
	for _, key := range slices.Sorted(maps.Keys(all)) {
		value := all[key]
		out = append(append(out, key...), ':')
		if f, held := Number(value); held {
			out = append(loose.AppendNumber(out, f), ',')
			continue
		}
		out = append(loose.Compact(out, value), ',')
	}
	return string(out)
}
