package curve

import (
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// pageBytes is how many bytes of texts and documents a page has. One that is longer comes alone.
const pageBytes = 8 << 20

// Scan answers [store.Reader.Scan].
func (r *Reader) Scan(ctx context.Context, q store.ScanRequest) (*store.Rows, error) {
	axis, err := axisOf(q.Axis)
	if err != nil {
		return nil, err
	}
	if q.Limit < 1 {
		return nil, model.Errorf(model.CodeInvalid, "a scan needs a limit of at least 1")
	}
	s := &scan{along: stretch{axis: axis, from: q.From, to: q.To}, gaps: q.Gaps && axis >= 0, after: q.After, limit: q.Limit}
	if q.After != nil {
		s.along.from = max(s.along.from, q.After.Axis)
	}
	of, err := r.line(ctx, store.CurveRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors}, q.Attempts)
	if err != nil {
		return nil, err
	}
	return r.scan(ctx, of, s)
}

// scan is a page of a line along an axis.
type scan struct {
	along stretch
	gaps  bool
	at    []int64 // not nil: at these places alone
	after *store.Position
	limit int
	last  bool // from the end
}

// scan reads a page. ClickHouse 18.16 reads all rows from the first on, however short the page is:
// where points off a range do not matter to those in it, ranges are asked for that grow until
// the page is full.
func (r *Reader) scan(ctx context.Context, of *line, s *scan) (*store.Rows, error) {
	s.along = s.along.on(&of.survey)
	if !s.windowed(of) {
		return r.window(ctx, of, s)
	}
	first := of.first(s.along.axis)
	for wide := int64(s.limit) * firstWindow; ; wide *= nextWindow {
		part, begin := *s, max(s.along.from, first)
		if begin < s.along.to && uint64(wide) < uint64(s.along.to-begin) {
			part.along.to = begin + wide
		}
		rows, err := r.window(ctx, of, &part)
		if err != nil || part.along.to == s.along.to || rows.Next != nil {
			return rows, err
		}
		if wide > math.MaxInt64/nextWindow {
			return r.window(ctx, of, s)
		}
	}
}

// first is where the points of a line begin along an axis; few are below 0 where that is not known.
func (l *line) first(axis int) int64 {
	out := int64(math.MaxInt64)
	for i := range l.parts {
		lo, hi, known := l.parts[i].series[0].bounds(axis)
		if !known {
			return 0
		}
		if lo <= hi {
			out = min(out, lo)
		}
	}
	return out
}

// A page of dense steps is in its first window.
const (
	firstWindow = 4
	nextWindow  = 64
)

func (s *scan) windowed(of *line) bool {
	if s.along.axis < 0 || s.gaps || s.last || s.at != nil || s.along.from > s.along.to {
		return false
	}
	for i := range of.parts {
		if !of.parts[i].narrowable(s.along.axis, of.fork) {
			return false
		}
	}
	return true
}

func (r *Reader) window(ctx context.Context, of *line, s *scan) (*store.Rows, error) {
	if numeric(of.series.Kind) {
		return r.page(ctx, of, s)
	}
	limit, err := r.fitting(ctx, of, s)
	if err != nil {
		return nil, err
	}
	short := *s
	short.limit = limit
	return r.page(ctx, of, &short)
}

func numeric(kind model.Kind) bool { return kind == model.KindFloat || kind == model.KindInt }

func valueColumn(kind model.Kind) string {
	switch kind {
	case model.KindFloat:
		return "float"
	case model.KindInt:
		return "int"
	}
	return "doc"
}

// order are the expressions that order rows, as the fields of [store.Position] are.
func (s *scan) order(n stage, fork bool) []string {
	x := n.x(s.along.axis)
	if s.gaps {
		x = fmt.Sprintf("if(%s, %s, %s)", n.onAxis(s.along.axis), x, integer(math.MinInt64))
	}
	ofEpisode := "toInt64(0)"
	if s.along.axis == episode {
		ofEpisode = fmt.Sprintf("if(%s, %s, %s)", n.on(1<<step), n.axis(step), integer(math.MinInt64))
	}
	depth := "toUInt32(0)"
	if fork {
		depth = n.of("depth")
	}
	return []string{x, ofEpisode, n.of("time"), n.of("writer"), n.of("seq"), "toUInt32(" + n.of("arrival") + ")", depth}
}

// query selects columns of the page's rows in their order. Expressions are of the stage.
func (s *scan) query(of *line, columns []string, list func(stage) []string) string {
	along := s.along
	if s.gaps {
		along = everything()
	}
	at := of.query(along, columns...)
	order := s.order(at, of.fork)
	conditions := []string{s.along.within(at.names), s.behind(order)}
	if s.gaps {
		conditions[0] = fmt.Sprintf("%s BETWEEN %s AND %s", order[0], integer(s.along.from), integer(s.along.to))
	}
	if s.at != nil {
		conditions = append(conditions, order[0]+" IN ("+joined(s.at, decimal)+")")
	}
	joint := ", "
	if s.last {
		joint, order = " DESC, ", append(order[:len(order)-1], order[len(order)-1]+" DESC")
	}
	return fmt.Sprintf("SELECT %s FROM %s ORDER BY %s LIMIT %d",
		strings.Join(list(at), ", "), at.source(conditions...), strings.Join(order, joint), s.limit+1)
}

// behind is true for rows behind the position.
func (s *scan) behind(order []string) string {
	if s.after == nil {
		return ""
	}
	p := s.after
	is := []string{
		integer(p.Axis), integer(p.Step), integer(p.TimeNs), bytes16(p.Writer),
		fmt.Sprintf("toUInt64(%d)", p.Seq), number32(p.Row), number32(p.Depth),
	}
	out := "0"
	for i := len(order) - 1; i >= 0; i-- {
		out = fmt.Sprintf("(%[1]s > %[2]s OR %[1]s = %[2]s AND %[3]s)", order[i], is[i], out)
	}
	return out
}

// fitting is how many rows of texts or documents a page has.
func (r *Reader) fitting(ctx context.Context, of *line, s *scan) (int, error) {
	columns := append([]string{"has", "time", "writer", "seq", "arrival", "doc", "step", "rl_step"}, s.axisColumn()...)
	statement := s.query(of, columns, func(at stage) []string { return []string{"length(" + at.of("doc") + ")"} })
	count, sum := 0, uint64(0)
	err := r.each(ctx, statement, func(rows driver.Rows) error {
		var length uint64
		if err := rows.Scan(&length); err != nil {
			return fmt.Errorf("read a length: %w", err)
		}
		if sum += length; sum <= pageBytes || count == 0 {
			count++
		}
		return nil
	})
	return min(max(count, 1), s.limit), err
}

func (s *scan) axisColumn() []string {
	if s.along.axis < 0 {
		return nil
	}
	return []string{string(model.Axes()[s.along.axis])}
}

// page reads at most limit rows.
func (r *Reader) page(ctx context.Context, of *line, s *scan) (*store.Rows, error) {
	axes := of.survey.some.names()
	columns := append([]string{"has", "attempt", "time", "writer", "seq", "arrival", "step", valueColumn(of.series.Kind)}, s.axisColumn()...)
	for _, a := range axes {
		columns = append(columns, string(a))
	}
	statement := s.query(of, columns, func(at stage) []string {
		list := append(s.order(at, of.fork), at.of("has"), at.of("attempt"), at.of(valueColumn(of.series.Kind)))
		for _, a := range axes {
			list = append(list, at.of(string(a)))
		}
		return list
	})
	out := newTable(of, s.limit)
	err := r.each(ctx, statement, out.take)
	if err != nil {
		return nil, err
	}
	return out.rows, nil
}
