package top

import "time"

// meterSpan is how far back a rate looks, at least; at most twice as far.
const meterSpan = 5 * time.Second

type sample struct {
	n  uint64
	at time.Time
}

// meter turns a rising count into a rate.
type meter struct{ older, newer, last sample }

// add notes the count at a moment, also an unchanged one.
func (m *meter) add(n uint64, at time.Time) {
	s := sample{n, at}
	if m.older.at.IsZero() || n < m.last.n { // the first, or a deletion
		*m = meter{s, s, s}
		return
	}
	if at.Sub(m.newer.at) >= meterSpan {
		m.older, m.newer = m.newer, s
	}
	m.last = s
}

// rate is in counts a second; false until it can be told.
func (m *meter) rate() (float64, bool) {
	d := m.last.at.Sub(m.older.at)
	if d < time.Second {
		return 0, false
	}
	return float64(m.last.n-m.older.n) / d.Seconds(), true
}
