package influxql

import (
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// row is one of a page of rows; the page is nil before the first.
type row struct {
	page *store.Rows
	at   int
}

// value is the field's value: float64, int64 or string.
func (r row) value() any {
	switch v := &r.page.Values; v.Kind {
	case model.KindFloat:
		return v.Floats[r.at]
	case model.KindInt:
		return v.Ints[r.at]
	default:
		return v.Texts[r.at]
	}
}

func (r row) axis(axis model.Axis) (int64, bool) {
	for i := range r.page.Axes {
		if r.page.Axes[i].Axis == axis {
			return r.page.Axes[i].Values[r.at], r.page.Has[i] == nil || r.page.Has[i][r.at]
		}
	}
	return 0, false
}

// stream reads a series by rising or falling time, a page at a time.
type stream struct {
	session    *session
	run        model.RunID
	series     store.SeriesID
	from, to   int64 // what is left of the range, inclusive
	descending bool
	width      int64 // of the range that a page of falling times is looked for in

	page  *store.Rows
	at    int
	after *store.Position // rising
	begun bool
}

// newStream reads a field in a range; false where it has no point there.
func newStream(s *session, g *group, name string, from, to int64, descending bool) (*stream, bool) {
	f, ok := g.fields[name]
	if from, to = max(from, f.minNs), min(to, f.maxNs); !ok || from > to || f.count == 0 {
		return nil, false
	}
	st := &stream{session: s, run: g.run.id, series: f.series, from: from, to: to, descending: descending}
	if descending {
		each := (f.maxNs - f.minNs) / int64(f.count)
		st.width = max(1, each) * int64(s.pageRows()) / 2
	}
	return st, true
}

// peek is the row that comes next; ok is false at the end.
func (s *stream) peek() (r row, ok bool, err error) {
	for s.page == nil || s.at < 0 || s.at >= len(s.page.TimeNs) {
		more, err := s.fetch()
		if err != nil || !more {
			return row{}, false, err
		}
	}
	return row{s.page, s.at}, true, nil
}

// have makes rows all that the stream has.
func (s *stream) have(rows *store.Rows) {
	if s.session.page(s.page, rows) != nil { // the statement fails
		return
	}
	s.page, s.begun, s.from, s.to = rows, true, 1, 0
	if s.descending {
		s.at = len(rows.TimeNs) - 1
	}
}

// skip goes behind the row that peek gave.
func (s *stream) skip() {
	if s.descending {
		s.at--
	} else {
		s.at++
	}
}

func (s *stream) fetch() (more bool, err error) {
	if s.descending {
		return s.fetchBack()
	}
	if s.begun && s.after == nil {
		return false, nil
	}
	page, err := s.session.rows(s.request(s.from, s.to))
	if err == nil {
		err = s.session.page(s.page, page)
	}
	if s.page = page; err != nil {
		return false, err
	}
	s.begun, s.after, s.at = true, s.page.Next, 0
	return len(s.page.TimeNs) > 0 || s.after != nil, nil
}

func (s *stream) request(from, to int64) store.ScanRequest {
	return store.ScanRequest{Run: s.run, Series: s.series, Axis: model.AxisTime, From: from, To: to, After: s.after, Limit: s.session.pageRows()}
}

// fetchBack reads the end of what is left. The store reads forward only: the range is halved
// until what it holds fits a page, and grows where it holds little. Rows of one nanosecond
// that are more than a page are read together.
func (s *stream) fetchBack() (more bool, err error) {
	for s.from <= s.to {
		low := s.from
		if wide := uint64(s.to) - uint64(s.from); wide >= uint64(s.width) {
			low = s.to - s.width + 1
		}
		page, err := s.session.rows(s.request(low, s.to))
		if err != nil {
			return false, err
		}
		if page.Next != nil && low < s.to {
			s.width = max(1, min(s.width, s.to-low+1)/2)
			continue
		}
		if page, err = s.rest(page, low); err != nil {
			return false, err
		}
		if len(page.TimeNs) < s.session.pageRows()/4 {
			s.width = min(s.width, 1<<60) * 4
		}
		if low == s.from { // what is left is nothing
			s.from, s.to = 1, 0
		} else {
			s.to = low - 1
		}
		if len(page.TimeNs) > 0 {
			err := s.session.page(s.page, page)
			s.page, s.at = page, len(page.TimeNs)-1
			return err == nil, err
		}
	}
	return false, nil
}

// rest adds the pages behind the first.
func (s *stream) rest(page *store.Rows, low int64) (*store.Rows, error) {
	for page.Next != nil {
		r := s.request(low, s.to)
		r.After = page.Next
		next, err := s.session.rows(r)
		if err != nil {
			return nil, err
		}
		if err := s.session.hold(int64(len(page.TimeNs))); err != nil {
			return nil, err
		}
		page = joined(page, next)
	}
	return page, nil
}

func joined(a, b *store.Rows) *store.Rows {
	out := &store.Rows{Next: b.Next, Values: a.Values, Has: make([][]bool, len(a.Axes))}
	out.TimeNs, out.Attempt = slices.Concat(a.TimeNs, b.TimeNs), slices.Concat(a.Attempt, b.Attempt)
	for i := range a.Axes {
		axis := model.AxisColumn{Axis: a.Axes[i].Axis, Values: slices.Concat(a.Axes[i].Values, b.Axes[i].Values)}
		out.Axes = append(out.Axes, axis)
		if a.Has[i] != nil || b.Has[i] != nil {
			out.Has[i] = slices.Concat(all(a.Has[i], len(a.TimeNs)), all(b.Has[i], len(b.TimeNs)))
		}
	}
	out.Values.Floats, out.Values.Ints = slices.Concat(a.Values.Floats, b.Values.Floats), slices.Concat(a.Values.Ints, b.Values.Ints)
	out.Values.Texts = slices.Concat(a.Values.Texts, b.Values.Texts)
	return out
}

// all are the marks of rows of which nil says that each has its axis.
func all(has []bool, n int) []bool {
	if has == nil {
		return slices.Repeat([]bool{true}, n)
	}
	return has
}
