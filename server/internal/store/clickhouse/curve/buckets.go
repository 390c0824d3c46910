package curve

import (
	"context"
	"fmt"
	"math"
	"math/bits"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

const maxBuckets = 100_000

// Buckets answers [store.Reader.Buckets].
func (r *Reader) Buckets(ctx context.Context, q store.BucketsRequest) ([]store.Bucket, error) {
	axis, err := axisOf(q.Axis)
	if err != nil {
		return nil, err
	}
	if q.N < 1 || q.N > maxBuckets {
		return nil, model.Errorf(model.CodeInvalid, "a read may ask for 1 to %d buckets, not %d", maxBuckets, q.N)
	}
	along := stretch{axis: axis, from: q.From, to: q.To}
	of, err := r.line(ctx, store.CurveRequest{Run: q.Run, Series: q.Series, Ancestors: q.Ancestors}, q.Attempts)
	if err != nil {
		return nil, err
	}
	if !numeric(of.series.Kind) {
		return nil, model.Errorf(model.CodeInvalid, "series %s holds %s, which has no buckets", of.series.Key.Metric, of.series.Kind)
	}
	b := &bucketing{line: of, along: along.on(&of.survey), n: uint64(q.N)}
	if q.Grid {
		return r.fill(ctx, b, gridCell(along, b.n))
	}
	return r.spread(ctx, b)
}

// bucketing is a read of buckets.
type bucketing struct {
	*line
	along stretch
	n     uint64
}

// fineness is how many cells a bucket is made of where the ends of the curve are not known
// beforehand: the ends of the stored points are, of which some may be superseded.
const fineness = 4

// spread asks for buckets of equal width over what the points cover.
func (r *Reader) spread(ctx context.Context, b *bucketing) ([]store.Bucket, error) {
	lo, hi, exact, err := r.ends(ctx, b)
	if err != nil || lo > hi {
		return []store.Bucket{}, err
	}
	for {
		n := b.n
		if !exact {
			n *= fineness
		}
		out, err := r.pieces(ctx, b, lo, hi, n)
		if err != nil || len(out) == 0 {
			return out, err
		}
		first, last := out[0].Lo, out[len(out)-1].Hi
		covered := uint64(last - first)
		switch {
		case covered < uint64(hi-lo)/2:
			lo, hi, exact = first, last, true
		case exact:
			return out, nil
		default:
			return gathered(out, first, covered/b.n+1), nil
		}
	}
}

// pieces fills at most n cells of lo…hi. Where many points may be the same or hide one another, the
// cells are asked for in some pieces: a server keeps each of those points in memory.
func (r *Reader) pieces(ctx context.Context, b *bucketing, lo, hi int64, n uint64) (out []store.Bucket, err error) {
	in, count := evenCell(b.along.axis, lo, hi, n), uint64(0)
	for i := range b.parts {
		count += b.parts[i].resolved() / r.atOnce
	}
	if count == 0 || b.along.axis != step || !b.narrowable(step) {
		return r.fill(ctx, b, in)
	}
	width := (uint64(hi-lo)/n + 1) * (n/(count+1) + 1) // of whole cells
	for from := lo; ; from += int64(width) {
		part := *b
		part.along.from, part.along.to = max(b.along.from, from), b.along.to
		last := width == 0 || uint64(hi-from) < width
		if !last {
			part.along.to = min(b.along.to, from+int64(width-1))
		}
		found, err := r.fill(ctx, &part, in)
		if out = append(out, found...); err != nil || last {
			return out, err
		}
	}
}

// ends are where stored points in the stretch may be, lo past hi when there is none. They are
// exact when each of the two is where a point of the curve is.
func (r *Reader) ends(ctx context.Context, b *bucketing) (lo, hi int64, exact bool, err error) {
	lo, hi = math.MaxInt64, math.MinInt64
	exact = len(b.parts) == 1 && b.parts[0].whole()
	for i := range b.parts {
		p := &b.parts[i]
		first, last, known := p.series[0].bounds(b.along.axis)
		if !known {
			found, err := r.surveys(ctx, p.facts, p.series, b.along)
			if err != nil {
				return 0, 0, false, err
			}
			if first, last = 1, 0; found[p.series[0].ID].onAxis > 0 {
				first, last = found[p.series[0].ID].lo, found[p.series[0].ID].hi
			}
		}
		exact = exact && first >= b.along.from && last <= b.along.to
		if first, last = max(first, b.along.from), min(last, b.along.to); first <= last {
			lo, hi = min(lo, first), max(hi, last)
		}
	}
	return lo, hi, exact, nil
}

// gathered joins cells of a bucketing into buckets of a width. A cell is narrower than half of
// one, and goes where it begins.
func gathered(cells []store.Bucket, first int64, width uint64) (out []store.Bucket) {
	place := uint64(0)
	for i := range cells {
		at := uint64(cells[i].Lo-first) / width
		if len(out) == 0 || at != place {
			out, place = append(out, cells[i]), at
			continue
		}
		join(&out[len(out)-1], &cells[i])
	}
	return out
}

// join adds a later bucket to one.
func join(to, b *store.Bucket) {
	to.Hi = b.Hi
	to.NaN += b.NaN
	to.PosInf += b.PosInf
	to.NegInf += b.NegInf
	to.Inherited += b.Inherited
	if b.Count == 0 {
		return
	}
	if to.Count == 0 {
		to.Min, to.Max, to.MinInt, to.MaxInt = b.Min, b.Max, b.MinInt, b.MaxInt
	}
	to.Min, to.Max = min(to.Min, b.Min), max(to.Max, b.Max)
	to.MinInt, to.MaxInt = min(to.MinInt, b.MinInt), max(to.MaxInt, b.MaxInt)
	to.Count += b.Count
	to.Excess += b.Excess
	if sum := to.Sum + b.Sum; !math.IsInf(sum, 0) {
		to.Sum = sum
		return
	}
	to.Sum = to.Sum/2 + b.Sum/2 // half of it fits
	to.Excess += to.Sum / store.ExcessUnit
}

// cell is an expression: the number of the cell that a row lies in.
type cell func(n names) string

// evenCell parts lo…hi into at most n cells of one whole width.
func evenCell(axis int, lo, hi int64, n uint64) cell {
	width := uint64(hi-lo)/n + 1
	return func(at names) string {
		if width == 0 { // 2^64: all is one cell
			return "toUInt64(0)"
		}
		return fmt.Sprintf("intDiv(toUInt64(%s - %s), toUInt64(%d))", at.x(axis), integer(lo), width)
	}
}

// gridCell parts a stretch into n columns. Where whole numbers would not fit 64 bits, a point
// nearer to the edge of a column than a 2^-40 of it may lie on the other side.
func gridCell(along stretch, n uint64) cell {
	span := uint64(along.to - along.from)
	return func(at names) string {
		offset := fmt.Sprintf("toUInt64(%s - %s)", at.x(along.axis), integer(along.from))
		if high, _ := bits.Mul64(span, n); high == 0 && span < math.MaxUint64 {
			return fmt.Sprintf("intDiv(%s * toUInt64(%d), toUInt64(%d))", offset, n, span+1)
		}
		return fmt.Sprintf("toUInt64(least(floor(toFloat64(%s) * %d / %.17g), %d))", offset, n, float64(span)+1, n-1)
	}
}

// columns are what a bucket is made of.
func (b *bucketing) columns() []string {
	out := []string{"has", valueColumn(b.series.Kind)}
	if b.along.axis < 0 {
		return append(out, "time")
	}
	return append(out, string(model.Axes()[b.along.axis]))
}

// fill asks for the buckets of cells. Most series have finite values whose sum is finite; only
// for others each kind of value is counted.
func (r *Reader) fill(ctx context.Context, b *bucketing, in cell) ([]store.Bucket, error) {
	if b.series.Kind == model.KindInt {
		out, _, err := r.cells(ctx, b, in, ofInts)
		return out, err
	}
	out, finite, err := r.cells(ctx, b, in, ofFiniteFloats)
	if err == nil && !finite {
		out, _, err = r.cells(ctx, b, in, ofFloats)
	}
	return out, err
}

// hugeValue and more are added up in units of store.ExcessUnit.
const hugeValue = 0x1p960

// tallies are what is asked of the values v of a cell: the count of finite ones; of NaN, +Inf
// and −Inf; least and most as Float64 and as Int64; the sum, and its excess.
type tallies func(v string) string

func ofInts(v string) string {
	return fmt.Sprintf("count(), toUInt64(0), toUInt64(0), toUInt64(0), toFloat64(min(%[1]s)), toFloat64(max(%[1]s)), min(%[1]s), max(%[1]s), sum(toFloat64(%[1]s)), toFloat64(0)", v)
}

func ofFiniteFloats(v string) string {
	return fmt.Sprintf("count(), toUInt64(0), toUInt64(0), toUInt64(0), min(%[1]s), max(%[1]s), toInt64(0), toInt64(0), sum(%[1]s), toFloat64(0)", v)
}

func ofFloats(v string) string {
	small := fmt.Sprintf("abs(%s) < %g", v, hugeValue)
	return fmt.Sprintf(`countIf(isFinite(%[1]s)), countIf(isNaN(%[1]s)), countIf(isInfinite(%[1]s) AND %[1]s > 0), countIf(isInfinite(%[1]s) AND %[1]s < 0),
		minIf(%[1]s, isFinite(%[1]s)), maxIf(%[1]s, isFinite(%[1]s)), toInt64(0), toInt64(0),
		sumIf(%[1]s, %[2]s), sumIf(%[1]s / %[3]g, isFinite(%[1]s) AND NOT (%[2]s))`, v, small, store.ExcessUnit)
}

// cells reads the buckets of cells; finite says that all sums are.
func (r *Reader) cells(ctx context.Context, b *bucketing, in cell, ask tallies) (out []store.Bucket, finite bool, err error) {
	at := b.query(b.along, b.columns()...)
	inherited := "toUInt64(0)"
	if b.fork {
		inherited = "countIf(" + at.of("depth") + " > 0)"
	}
	x := at.x(b.along.axis)
	statement := fmt.Sprintf("SELECT %s AS cell, min(%[2]s), max(%[2]s), %[3]s, %[4]s FROM %[5]s GROUP BY cell ORDER BY cell",
		in(at.names), x, inherited, ask(at.of(valueColumn(b.series.Kind))), at.source(b.along.within(at.names)))
	finite, out = true, []store.Bucket{}
	err = r.each(ctx, statement, func(rows driver.Rows) error {
		var place uint64
		var k store.Bucket
		if err := rows.Scan(&place, &k.Lo, &k.Hi, &k.Inherited, &k.Count, &k.NaN, &k.PosInf, &k.NegInf, &k.Min, &k.Max, &k.MinInt, &k.MaxInt, &k.Sum, &k.Excess); err != nil {
			return fmt.Errorf("read a bucket: %w", err)
		}
		finite = finite && !math.IsNaN(k.Sum) && !math.IsInf(k.Sum, 0)
		if k.Count == 0 {
			k.Min, k.Max, k.Sum, k.Excess = 0, 0, 0, 0
		}
		out = append(out, k)
		return nil
	})
	return out, finite, err
}
