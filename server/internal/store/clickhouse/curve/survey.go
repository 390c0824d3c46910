package curve

import (
	"context"
	"fmt"
	"math"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// survey is what the stored points of some series have in common. It makes queries cheaper: a
// rule that no point can break is left out.
type survey struct {
	count            uint64
	rules            uint8 // bit i: some point has model.Uniqueness(i)
	some, every      axes  // that some point has, that every point has
	firstAttempt     uint32
	lastAttempt      uint32
	writers          bool  // more than one
	lo, hi           int64 // of the axis asked for, in the range asked for
	onAxis           uint64
	minTime, maxTime int64
}

// survey is that of a series whose streams are known; its ends are of no axis.
func (s *Series) survey() (out survey) {
	t := s.tally()
	out = survey{count: t.Count, rules: t.Rules, some: axes(t.Some), every: axes(t.Every), minTime: t.MinTime, maxTime: t.MaxTime}
	for i := range s.Streams {
		of := &s.Streams[i]
		if i == 0 {
			out.firstAttempt, out.lastAttempt = of.Attempt, of.Attempt
		}
		out.firstAttempt, out.lastAttempt = min(out.firstAttempt, of.Attempt), max(out.lastAttempt, of.Attempt)
		out.writers = out.writers || of.Writer != s.Streams[0].Writer
	}
	return out
}

// surveyed are the surveys of series; of those that are not known, the points are looked at.
func (r *Reader) surveyed(ctx context.Context, f *Facts, list []Series) (map[store.SeriesID]survey, error) {
	var unknown []Series
	for _, s := range list {
		if !s.Known {
			unknown = append(unknown, s)
		}
	}
	out, err := r.surveys(ctx, f, unknown, everything())
	if err != nil {
		return nil, err
	}
	for _, s := range list {
		if s.Known && len(s.Streams) > 0 {
			out[s.ID] = s.survey()
		}
	}
	return out, nil
}

func (s *survey) sole(rule model.Uniqueness) bool { return s.rules == 1<<rule }

// join takes in the survey of other points.
func (s *survey) join(o survey) {
	switch {
	case o.count == 0:
		return
	case s.rules == 0:
		*s = o
		return
	}
	s.firstAttempt, s.lastAttempt = min(s.firstAttempt, o.firstAttempt), max(s.lastAttempt, o.lastAttempt)
	s.count += o.count
	s.rules |= o.rules
	s.some |= o.some
	s.every &= o.every
	s.writers = true
	if o.onAxis > 0 {
		if s.onAxis == 0 {
			s.lo, s.hi = o.lo, o.hi
		}
		s.lo, s.hi = min(s.lo, o.lo), max(s.hi, o.hi)
		s.onAxis += o.onAxis
	}
}

// stretch is a range of an axis, -1 for time.
type stretch struct {
	axis     int
	from, to int64
	whole    bool // every point has the axis
}

func everything() stretch { return stretch{axis: -1, from: math.MinInt64, to: math.MaxInt64} }

// on is the stretch for points of a survey.
func (s stretch) on(v *survey) stretch {
	s.whole = s.axis >= 0 && v.every.has(s.axis)
	return s
}

// within is true for rows in the stretch.
func (s stretch) within(n names) string {
	x := n.x(s.axis)
	lower, upper := "", ""
	if s.from > math.MinInt64 {
		lower = x + " >= " + integer(s.from)
	}
	if s.to < math.MaxInt64 {
		upper = x + " <= " + integer(s.to)
	}
	if s.whole {
		return all(lower, upper)
	}
	return all(n.onAxis(s.axis), lower, upper)
}

// surveys looks at all stored points of series of a run, those of every attempt. A series
// without a point is left out. The ends along an axis are of the points in the stretch.
func (r *Reader) surveys(ctx context.Context, f *Facts, list []Series, along stretch) (map[store.SeriesID]survey, error) {
	out := map[store.SeriesID]survey{}
	if len(list) == 0 || len(f.Spans) == 0 {
		return out, nil
	}
	var n names
	statement := fmt.Sprintf(`SELECT series, count(), groupBitOr(bitShiftLeft(toUInt8(1), rule)), groupBitOr(has), groupBitAnd(has),
		min(attempt), max(attempt), toUInt8(uniqUpTo(1)(writer) > 1), minIf(%[1]s, %[2]s), maxIf(%[1]s, %[2]s), countIf(%[2]s), min(time), max(time)
		FROM %[3]s WHERE %[4]s GROUP BY series`, n.x(along.axis), along.within(n), r.place(f), all(f.stored(list)))
	err := r.each(ctx, statement, func(rows driver.Rows) error {
		var id uint32
		var s survey
		var some, every uint16
		var writers uint8
		if err := rows.Scan(&id, &s.count, &s.rules, &some, &every, &s.firstAttempt, &s.lastAttempt, &writers, &s.lo, &s.hi, &s.onAxis, &s.minTime, &s.maxTime); err != nil {
			return fmt.Errorf("read a survey: %w", err)
		}
		s.some, s.every, s.writers = axes(some), axes(every), writers == 1
		out[store.SeriesID(id)] = s
		return nil
	})
	return out, err
}

// stored is true for the committed rows of series of the run.
func (f *Facts) stored(list []Series) string {
	which := "series IN (" + joined(list, seriesNumber) + ")"
	if len(list) == 1 {
		which = "series = " + seriesNumber(list[0])
	}
	return all(OfRun(f.Run), which, Visible(f.Spans))
}
