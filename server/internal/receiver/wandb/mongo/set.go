package mongo

import (
	"math"
	"time"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// set is the values that a field may equal. Texts and numbers are found without a
// walk through all of them.
type set struct {
	texts   map[string]bool
	numbers map[float64]bool
	times   []time.Time
	others  [][]byte
	null    bool
}

// quick is true of values that a set finds at once.
func (o *operand) quick() bool {
	switch o.kind {
	case loose.String:
		_, faithful := loose.Text(o.value)
		return faithful && !o.timed
	case loose.Number:
		f, exact := loose.Float(o.value)
		return exact && !math.IsNaN(f) && !math.IsInf(f, 0)
	}
	return false
}

func (s *set) add(o operand) {
	switch {
	case o.quick() && o.kind == loose.String:
		if s.texts == nil {
			s.texts = map[string]bool{}
		}
		s.texts[o.text] = true
	case o.quick():
		if s.numbers == nil {
			s.numbers = map[float64]bool{}
		}
		f, _ := loose.Float(o.value)
		s.numbers[f] = true
	case o.timed:
		s.times = append(s.times, o.time)
	case o.kind == loose.Null:
		s.null = true
	default:
		s.others = append(s.others, o.value)
	}
}

// has looks for a value; asTime is for the times of runs.
func (s *set) has(v []byte, asTime bool) bool {
	switch loose.KindOf(v) {
	case loose.Null:
		return s.null
	case loose.String:
		if s.hasText(v, asTime) {
			return true
		}
	case loose.Number:
		if f, exact := loose.Float(v); len(s.numbers) > 0 && exact && s.numbers[f] {
			return true
		}
	}
	for _, other := range s.others {
		if loose.Equal(v, other) {
			return true
		}
	}
	return false
}

func (s *set) hasText(v []byte, asTime bool) bool {
	if len(s.texts) == 0 && len(s.times) == 0 {
		return false
	}
	text, faithful := loose.Text(v)
	if faithful && s.texts[text] {
		return true
	}
	if len(s.times) == 0 || !asTime {
		return false
	}
	t, ok := parseTime(text)
	for _, one := range s.times {
		if ok && one.Equal(t) {
			return true
		}
	}
	return false
}

// parseTime reads the texts that W&B and its users write for times.
func parseTime(s string) (time.Time, bool) {
	if len(s) < len("2006-01-02") || len(s) > 64 {
		return time.Time{}, false
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02 15:04:05.999999999Z07:00", "2006-01-02 15:04:05.999999999", "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, true
		}
	}
	return time.Time{}, false
}
