package filter

import "time"

// layouts of a time with what each covers; those without a zone are UTC.
var layouts = []struct {
	layout string
	span   time.Duration
}{
	{time.DateOnly, 24 * time.Hour},
	{"2006-01-02T15:04", time.Minute},
	{"2006-01-02T15:04Z07:00", time.Minute},
	{"2006-01-02T15:04:05", time.Second},
	{time.RFC3339, time.Second},
}

// Span reads a time: the first nanosecond of the day, minute or second, and the first after it.
func Span(value string) (from, to int64, ok bool) {
	for _, l := range layouts {
		t, err := time.Parse(l.layout, value)
		if year := t.UTC().Year(); err == nil && year >= 1678 && year < 2262 { // what nanoseconds reach
			return t.UnixNano(), t.Add(l.span).UnixNano(), true
		}
	}
	return 0, 0, false
}
