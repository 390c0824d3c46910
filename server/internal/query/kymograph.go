package query

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// The largest picture of a kymograph.
const (
	MaxKymographRows    = 4_096
	MaxKymographColumns = 2_048
	MaxKymographCells   = 5 << 20
)

// KymographRow names the series of one row.
type KymographRow struct {
	Run model.RunID
	Key model.SeriesKey
}

// KymographRequest asks for many series as one picture.
type KymographRequest struct {
	Rows     []KymographRow
	X        model.Axis // empty: step where the first row has it, else time_ns
	From, To *int64     // inclusive; nil: the first and the last point of all rows
	Columns  int
	Reduce   Reduction
	Lo, Hi   *float64 // the values of the scale's ends; nil: 1 and 99 % of the cells
	NoCells  bool     // only what is known of rows, columns and the scale
	Fit      bool     // fewer columns where the points lie further apart

	IncludeInherited bool
}

// Reduction makes one value of the points of a cell.
type Reduction string

// The reductions of a cell.
const (
	ReduceMean Reduction = "mean"
	ReduceMin  Reduction = "min"
	ReduceMax  Reduction = "max"
)

// Kymograph is a picture of many series: a row each, with columns of equal width.
type Kymograph struct {
	X        model.Axis
	From, To int64
	Columns  int
	Rows     []RowSummary
	Cells    []byte  // row by row, see the codes
	Lo, Hi   float64 // of the scale; NaN when no cell has a finite value
	Profile  []ColumnSummary
}

// RowSummary describes the points of a row that are in view.
type RowSummary struct {
	// Absent: there is no such series of numbers, or it has no point on this axis.
	Absent         bool
	Number         uint32  // of the series in its run, in the order in which they were first logged
	Last           float64 // of the whole curve
	Min, Max, Mean float64 // NaN when Count is 0
	Count, NaN     uint64  // finite points, and those that are NaN
	PosInf, NegInf uint64
}

// ColumnSummary describes one column. Min, Max and Mean are NaN when it has no finite point.
type ColumnSummary struct {
	Min, Max       float64 // of its finite points, whatever the reduction is
	Mean           float64 // of the means of its cells: each row counts once
	Count, NaN     uint64  // finite points, and those that are NaN
	PosInf, NegInf uint64
	Rows           int // with a finite point: of how many cells Mean is
}

// Kymograph reads many series at the same columns.
func (s *Service) Kymograph(ctx context.Context, r KymographRequest) (*Kymograph, error) {
	if err := checkKymograph(&r); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	k, err := s.kymograph(ctx, r)
	return k, s.finish(ctx, err)
}

func (s *Service) kymograph(ctx context.Context, r KymographRequest) (*Kymograph, error) {
	curves, err := s.curvesOf(ctx, r)
	if err != nil {
		return nil, err
	}
	k := &Kymograph{X: kymographAxis(curves, r.X), Columns: r.Columns, Rows: make([]RowSummary, len(r.Rows))}
	for i := range curves {
		k.Rows[i] = describeRow(curves[i], k.X)
		if k.Rows[i].Absent {
			curves[i] = nil
		}
	}
	if err := s.extent(ctx, curves, k, r); err != nil {
		return nil, err
	}
	picture := newRaster(len(r.Rows), k)
	err = s.eachCurve(ctx, curves, func(ctx context.Context, i int, c *curve) error {
		result, err := s.readBuckets(ctx, c, BucketsRequest{X: k.X, From: &k.From, To: &k.To, N: k.Columns, grid: true})
		if err == nil {
			picture.fill(i, result.Buckets, r.Reduce)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	if picture.finish(r.Lo, r.Hi); r.NoCells {
		k.Cells = nil
	}
	return k, nil
}

func checkKymograph(r *KymographRequest) error {
	switch {
	case len(r.Rows) < 1 || len(r.Rows) > MaxKymographRows:
		return model.Errorf(model.CodeInvalid, "there are %d rows, there must be 1 to %d", len(r.Rows), MaxKymographRows).
			WithHint("ask for the rows that are in view")
	case r.Columns < 1 || r.Columns > MaxKymographColumns:
		return model.Errorf(model.CodeInvalid, "columns is %d, it must be from 1 to %d", r.Columns, MaxKymographColumns)
	case len(r.Rows)*r.Columns > MaxKymographCells:
		return model.Errorf(model.CodeInvalid, "%d rows of %d columns are more than %d cells", len(r.Rows), r.Columns, MaxKymographCells).
			WithHint("a picture needs no more columns and rows than it has pixels")
	case r.Reduce != ReduceMean && r.Reduce != ReduceMin && r.Reduce != ReduceMax:
		return model.Errorf(model.CodeInvalid, "reduce is %q, it must be mean, min or max", model.Clip(string(r.Reduce)))
	case (r.Lo == nil) != (r.Hi == nil):
		return model.Errorf(model.CodeInvalid, "limits has one number, it must have 2")
	case r.Lo != nil && *r.Lo > *r.Hi:
		return model.Errorf(model.CodeInvalid, "limits begin at %g and end at %g", *r.Lo, *r.Hi)
	}
	_, _, err := rangeOf(r.From, r.To)
	return err
}

// curvesOf finds the series of the rows, with one look-up for all of a metric of a run.
// A row that there is not is nil.
func (s *Service) curvesOf(ctx context.Context, r KymographRequest) ([]*curve, error) {
	type group struct {
		run    model.RunID
		metric string
	}
	wanted := map[group]map[string][]int{}
	for i, row := range r.Rows {
		at := group{row.Run, row.Key.Metric}
		if wanted[at] == nil {
			wanted[at] = map[string][]int{}
		}
		key := row.Key.String()
		wanted[at][key] = append(wanted[at][key], i)
	}
	out := make([]*curve, len(r.Rows))
	open := once(s.open)
	for at, rows := range wanted {
		run, err := open(ctx, at.run)
		if err != nil {
			return nil, err
		}
		filter := store.SeriesFilter{
			Metric: at.metric, Limit: len(rows),
			Match: func(key model.SeriesKey) bool { return rows[key.String()] != nil },
		}
		found, _, err := s.listCurves(ctx, run, filter, r.IncludeInherited)
		if err != nil {
			return nil, err
		}
		for i := range found {
			for _, row := range rows[found[i].series.Key.String()] {
				out[row] = &found[i]
			}
		}
	}
	return out, nil
}

func kymographAxis(curves []*curve, asked model.Axis) model.Axis {
	for _, c := range curves {
		if asked == "" && c != nil {
			asked, _ = axisOf(c.series, "") // never fails
		}
	}
	if asked == "" {
		return model.AxisStep
	}
	return asked
}

func describeRow(c *curve, axis model.Axis) RowSummary {
	nan := math.NaN()
	row := RowSummary{Absent: true, Last: nan, Min: nan, Max: nan, Mean: nan}
	if c == nil || !isNumeric(c.series.Kind) || c.series.Last == nil {
		return row
	}
	if _, err := axisOf(c.series, axis); err != nil {
		return row
	}
	row.Absent, row.Number, row.Last = false, uint32(c.series.ID), c.series.Last.Value.Float
	if c.series.Kind == model.KindInt {
		row.Last = float64(c.series.Last.Value.Int)
	}
	return row
}

// eachCurve does work for the curves that there are, a few at a time.
func (s *Service) eachCurve(ctx context.Context, curves []*curve, do func(ctx context.Context, i int, c *curve) error) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.limits.Parallel)
	for i, c := range curves {
		if c == nil {
			continue
		}
		group.Go(func() error {
			if err := ctx.Err(); err != nil {
				return fmt.Errorf("read row %d: %w", i, err)
			}
			return do(ctx, i, c)
		})
	}
	return group.Wait()
}

// extent sets what the columns span: what was asked for, and where that is open the first
// and last point of all rows. It fits the columns to the points when that is asked for.
func (s *Service) extent(ctx context.Context, curves []*curve, k *Kymograph, r KymographRequest) error {
	if r.From != nil && r.To != nil && !r.Fit {
		k.From, k.To = *r.From, *r.To
		return nil
	}
	spans := make([]rowSpan, len(curves))
	err := s.eachCurve(ctx, curves, func(ctx context.Context, i int, c *curve) error {
		result, err := s.readBuckets(ctx, c, BucketsRequest{X: k.X, From: r.From, To: r.To, N: 1})
		if err == nil {
			spans[i] = spanOf(result.Buckets)
		}
		return err
	})
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for _, at := range spans {
		if at.points > 0 {
			from, to = min(from, at.lo), max(to, at.hi)
		}
	}
	if from > to { // not a point
		from, to = 0, 0
	}
	if r.From != nil {
		from, to = *r.From, max(to, *r.From)
	}
	if r.To != nil {
		from, to = min(from, *r.To), *r.To
	}
	if k.From, k.To = from, to; r.Fit {
		k.Columns = fitColumns(k, spans)
	}
	return err
}

// rowSpan is where the points of a row lie, and how many they are.
type rowSpan struct {
	lo, hi int64
	points uint64
}

func spanOf(buckets []Bucket) rowSpan {
	if len(buckets) == 0 {
		return rowSpan{}
	}
	span := rowSpan{lo: buckets[0].Lo, hi: buckets[len(buckets)-1].Hi}
	for i := range buckets {
		b := &buckets[i]
		span.points += b.Count + b.NaN + b.PosInf + b.NegInf
	}
	return span
}

// fitColumns is one column for each point of the densest row, so that no column between
// two points is empty. Times are not equally far apart: there it is one for two points.
func fitColumns(k *Kymograph, spans []rowSpan) int {
	each := 1.0
	if k.X == model.AxisTime {
		each = 2
	}
	width, densest := float64(uint64(k.To)-uint64(k.From))+1, 0.0
	for _, at := range spans {
		if at.points > 1 && at.hi > at.lo {
			densest = max(densest, float64(at.points-1)/float64(uint64(at.hi)-uint64(at.lo))/each)
		}
	}
	if densest == 0 || densest > 1 {
		densest = 1
	}
	return int(max(1, min(float64(k.Columns), math.Ceil(width*densest-1e-9))))
}

// columnOf is floor((x-from)·columns / (to-from+1)), exact over the whole of int64.
func (k *Kymograph) columnOf(x int64) int {
	width := uint64(k.To-k.From) + 1
	high, low := bits.Mul64(uint64(x-k.From), uint64(k.Columns))
	if width == 0 { // 2^64
		return int(high)
	}
	q, _ := bits.Div64(high, low, width)
	return int(q)
}
