package curve

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// ListSeries answers [store.Reader.ListSeries].
func (r *Reader) ListSeries(ctx context.Context, run model.RunID, f store.SeriesFilter) ([]store.Series, bool, error) {
	facts, err := r.source.Facts(ctx, run)
	if err != nil {
		return nil, false, fmt.Errorf("read what run %s has: %w", run, err)
	}
	list, more, err := r.source.SeriesPage(ctx, run, f)
	if err != nil {
		return nil, false, fmt.Errorf("list series of run %s: %w", run, err)
	}
	out, err := r.describe(ctx, &facts, list)
	return out, more, err
}

// describe tells where the curves of series of a run end.
func (r *Reader) describe(ctx context.Context, f *Facts, list []Series) ([]store.Series, error) {
	surveys, err := r.surveyed(ctx, f, list)
	if err != nil {
		return nil, err
	}
	ends, asked := map[store.SeriesID]store.Series{}, []Series(nil)
	line := lineageOf(f.Attempts)
	for i := range list {
		if end, known := list[i].end(line); known {
			ends[list[i].ID] = end
		} else {
			asked = append(asked, list[i])
		}
	}
	for _, s := range r.selections(f, asked, surveys) {
		if err := r.endsOf(ctx, s, ends); err != nil {
			return nil, err
		}
	}
	out := make([]store.Series, len(list))
	for i, s := range list {
		out[i] = ends[s.ID]
		out[i].ID, out[i].Key, out[i].Kind = s.ID, s.Key, s.Kind
		if v, ok := surveys[s.ID]; ok {
			out[i].Axes, out[i].Superseded = v.some.names(), v.count-out[i].Count
		}
	}
	return out, nil
}

// end is what the streams of a series tell of its curve; false where points must be looked at.
func (s *Series) end(l lineage) (out store.Series, known bool) {
	shape := shapeOf(s, l, 0)
	if !s.Known || !shape.settled() {
		return out, false
	}
	var last *Stream
	for i := range s.Streams {
		if t := &s.Streams[i]; last == nil || last.before(t) {
			last = t
		}
	}
	if last == nil {
		return out, true
	}
	all := s.tally()
	out = store.Series{Count: all.Count, MinTimeNs: all.MinTime, MaxTimeNs: all.MaxTime}
	end := ending{last.Some, last.End.Step, last.End.Time, math.Float64frombits(last.End.Value), int64(last.End.Value)}
	out.Last = end.point(s.Kind)
	if v := all.Values; v != nil && v.From <= v.To && numeric(s.Kind) {
		out.Extent = &store.Extent{Min: number(s.Kind, v.From), Max: number(s.Kind, v.To)}
	}
	return out, true
}

// before reports whether a stream ends before another one, both with steps or both without.
func (t *Stream) before(o *Stream) bool {
	a, b := &t.End, &o.End
	return cmp.Or(a.compare(b), bytes.Compare(t.Writer[:], o.Writer[:]), cmp.Compare(a.Seq, b.Seq), cmp.Compare(uint32(a.Arrival), uint32(b.Arrival))) < 0
}

// endsOf describes the curves of series that have points. Which row is the last is found among
// those at the highest step, where rows at other steps cannot hide them: to order all rows by
// all that parts them takes ClickHouse several times as long.
func (r *Reader) endsOf(ctx context.Context, s *selection, ends map[store.SeriesID]store.Series) error {
	if !s.survey.every.has(step) || s.survey.rules>>model.UniqueTime&1 == 1 {
		return r.totals(ctx, s, ends, true)
	}
	if err := r.totals(ctx, s, ends, false); err != nil {
		return err
	}
	top := *s
	top.series, top.shapes = nil, nil
	for i, one := range s.series {
		if ends[one.ID].Last != nil {
			top.series, top.shapes = append(top.series, one), append(top.shapes, s.shapes[i])
		}
	}
	if len(top.series) == 0 {
		return nil
	}
	top.narrow = highest(top.series, ends)
	last := map[store.SeriesID]store.Series{}
	if err := r.totals(ctx, &top, last, true); err != nil {
		return err
	}
	for id, at := range last {
		whole := ends[id]
		whole.Last = at.Last
		ends[id] = whole
	}
	return nil
}

// highest is true for rows at the highest step of their series.
func highest(list []Series, ends map[store.SeriesID]store.Series) string {
	if len(list) == 1 {
		return "step = " + integer(*ends[list[0].ID].Last.Step)
	}
	return "(series, step) IN (" + joined(list, func(s Series) string { return fmt.Sprintf("(%d, %d)", s.ID, *ends[s.ID].Last.Step) }) + ")"
}

// totals counts the points of series, and finds the last row of each; without its values, the
// highest step alone.
func (r *Reader) totals(ctx context.Context, s *selection, ends map[store.SeriesID]store.Series, values bool) error {
	columns, last := []string{"series", "time", "step"}, ""
	if values {
		columns = append(columns, "has", "writer", "seq", "arrival", "float", "int")
	}
	at := s.query(columns...)
	end := "toUInt16(1), max(" + at.of("step") + "), toInt64(0), toFloat64(0), toInt64(0)"
	if values {
		last = "(" + strings.Join(lastOrder(at.names), ", ") + ")"
		end = joined([]string{"has", "step", "time", "float", "int"}, func(c string) string { return "argMax(" + at.of(c) + ", " + last + ")" })
	}
	statement := fmt.Sprintf("SELECT %[1]s, count(), min(%[2]s), max(%[2]s), %[3]s FROM %[4]s GROUP BY %[1]s", at.of("series"), at.of("time"), end, at.source())
	kinds := map[store.SeriesID]model.Kind{}
	for _, one := range s.series {
		kinds[one.ID] = one.Kind
	}
	return r.each(ctx, statement, func(rows driver.Rows) error {
		var id uint32
		var out store.Series
		var end ending
		if err := rows.Scan(&id, &out.Count, &out.MinTimeNs, &out.MaxTimeNs, &end.has, &end.step, &end.time, &end.float, &end.int); err != nil {
			return fmt.Errorf("read the end of a series: %w", err)
		}
		out.Last = end.point(kinds[store.SeriesID(id)])
		ends[store.SeriesID(id)] = out
		return nil
	})
}

// lastOrder orders rows by the step where they have one, then by time.
func lastOrder(n names) []string {
	return []string{"bitAnd(" + n.of("has") + ", 1)", n.of("step"), n.of("time"), n.of("writer"), n.of("seq"), "toUInt32(" + n.of("arrival") + ")"}
}

// ending is the last row of a curve.
type ending struct {
	has        uint16
	step, time int64
	float      float64
	int        int64
}

func (e *ending) point(kind model.Kind) *store.Point {
	out := &store.Point{TimeNs: e.time}
	switch kind {
	case model.KindFloat:
		out.Value.Float = e.float
	case model.KindInt:
		out.Value.Int = e.int
	}
	if axes(e.has).has(step) {
		at := e.step
		out.Step = &at
	}
	return out
}

// Curve answers [store.Reader.Curve].
func (r *Reader) Curve(ctx context.Context, q store.CurveRequest) (store.Series, error) {
	of, err := r.line(ctx, q, store.Attempts{})
	if err != nil {
		return store.Series{}, err
	}
	own := &of.parts[0]
	if !of.fork {
		list, err := r.describe(ctx, own.facts, own.series)
		if err == nil && list[0].Last != nil && !numeric(of.series.Kind) {
			err = r.last(ctx, of, &list[0], at(&list[0]))
		}
		if err != nil {
			return store.Series{}, err
		}
		return list[0], nil
	}
	out := store.Series{Key: of.series.Key, Kind: of.series.Kind}
	axes, ownCount, err := r.end(ctx, of, &out)
	if err != nil {
		return store.Series{}, err
	}
	if own.depth == 0 {
		out.ID, out.Superseded = of.series.ID, own.survey.count-ownCount
		axes |= own.survey.some
	}
	out.Axes = axes.names()
	return out, nil
}

// at is where the last point of a series is.
func at(s *store.Series) stretch {
	if s.Last.Step != nil {
		return stretch{axis: step, from: *s.Last.Step, to: *s.Last.Step}
	}
	return stretch{axis: -1, from: s.Last.TimeNs, to: s.Last.TimeNs}
}

// end reads the end of a fork's line; axes are those of its inherited points.
func (r *Reader) end(ctx context.Context, of *line, out *store.Series) (inherited axes, own uint64, err error) {
	at := of.query(everything(), "has", "time")
	statement := fmt.Sprintf("SELECT count(), countIf(%[1]s > 0), min(%[2]s), max(%[2]s), groupBitOrIf(%[3]s, %[1]s > 0) FROM %[4]s", at.of("depth"), at.of("time"), at.of("has"), at.source())
	var found uint16
	err = r.each(ctx, statement, func(rows driver.Rows) error {
		return rows.Scan(&out.Count, &out.Inherited, &out.MinTimeNs, &out.MaxTimeNs, &found)
	})
	if err != nil || out.Count == 0 {
		out.MinTimeNs, out.MaxTimeNs = 0, 0
		return 0, 0, err
	}
	return axes(found), out.Count - out.Inherited, r.last(ctx, of, out, everything())
}

// last reads the last point of a line in a stretch.
func (r *Reader) last(ctx context.Context, of *line, out *store.Series, in stretch) error {
	at := of.query(in, "has", "step", "time", "writer", "seq", "arrival", valueColumn(of.series.Kind))
	order := lastOrder(at.names)
	if of.fork {
		order = append(order, at.of("depth"))
	}
	statement := fmt.Sprintf("SELECT %s, %s, %s, %s FROM %s ORDER BY %s LIMIT 1",
		at.of("has"), at.of("step"), at.of("time"), at.of(valueColumn(of.series.Kind)), at.source(in.within(at.names)), strings.Join(order, " DESC, ")+" DESC")
	return r.each(ctx, statement, func(rows driver.Rows) error { return readEnd(rows, of.series.Kind, out) })
}

func readEnd(rows driver.Rows, kind model.Kind, out *store.Series) error {
	var end ending
	var doc string
	var value any = &doc
	switch kind {
	case model.KindFloat:
		value = &end.float
	case model.KindInt:
		value = &end.int
	}
	if err := rows.Scan(&end.has, &end.step, &end.time, value); err != nil {
		return fmt.Errorf("read the end of a curve: %w", err)
	}
	if out.Last = end.point(kind); !numeric(kind) {
		out.Last.Value.Doc = []byte(doc)
	}
	return nil
}

// listPage is how many series are looked up at once.
const listPage = 1_000

// eachPage lists all series of a run that a filter matches, in pages.
func (r *Reader) eachPage(ctx context.Context, run model.RunID, f store.SeriesFilter, take func([]Series) error) error {
	f.Limit = listPage
	for more := true; more; {
		list, rest, err := r.source.SeriesPage(ctx, run, f)
		if err != nil {
			return fmt.Errorf("list series of run %s: %w", run, err)
		}
		if err := take(list); err != nil {
			return err
		}
		if more = rest && len(list) > 0; more {
			f.After = list[len(list)-1].Text
		}
	}
	return nil
}

// RunStats counts the points of a run; what else it has is 0.
func (r *Reader) RunStats(ctx context.Context, run model.RunID) (out store.RunStats, err error) {
	facts, err := r.source.Facts(ctx, run)
	if err != nil {
		return out, fmt.Errorf("read what run %s has: %w", run, err)
	}
	line := lineageOf(facts.Attempts)
	err = r.eachPage(ctx, run, store.SeriesFilter{}, func(list []Series) error {
		surveys, err := r.surveyed(ctx, &facts, list)
		if err != nil {
			return err
		}
		for _, s := range surveys {
			if out.Stored == 0 {
				out.MinTimeNs, out.MaxTimeNs = s.minTime, s.maxTime
			}
			out.Stored += s.count
			out.MinTimeNs, out.MaxTimeNs = min(out.MinTimeNs, s.minTime), max(out.MaxTimeNs, s.maxTime)
		}
		out.Series += uint64(len(list))
		ends, err := r.describe(ctx, &facts, slices.DeleteFunc(slices.Clone(list), func(s Series) bool { h := shapeOf(&s, line, 0); return h.settled() }))
		for i := range ends {
			out.Superseded += ends[i].Superseded
		}
		return err
	})
	return out, err
}
