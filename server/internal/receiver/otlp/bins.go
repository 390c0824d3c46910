package otlp

import (
	"math"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"

	"github.com/kymogram/kymogram/internal/model"
)

// explicitBins are the buckets between bounds. The first and the last have no outer bound:
// where they hold something, it is the smallest or largest value, if that is known.
func explicitBins(counts []uint64, bounds []float64, low, high *float64) (out []model.Bin) {
	for i, n := range counts {
		b := model.Bin{Count: float64(n)}
		switch {
		case i > 0 && i < len(bounds):
			b.Lo, b.Hi = bounds[i-1], bounds[i]
		case n == 0:
			continue
		case i == 0:
			b.Lo, b.Hi = -math.MaxFloat64, bounds[0]
			if low != nil && *low <= b.Hi && !math.IsInf(*low, 0) {
				b.Lo = min(*low, math.Nextafter(b.Hi, math.Inf(-1)))
			}
		default:
			b.Lo, b.Hi = bounds[i-1], math.MaxFloat64
			if high != nil && *high >= b.Lo && !math.IsInf(*high, 0) {
				b.Hi = max(*high, math.Nextafter(b.Lo, math.Inf(1)))
			}
		}
		out = append(out, b)
	}
	return out
}

// The scales that the specification's data model allows: the base is 2^(2^-scale).
const (
	minScale = -10
	maxScale = 20
)

// side is the buckets of an exponential histogram on one side of zero: bucket i is from
// base^(first+i) to base^(first+i+1).
type side struct {
	first  int64
	counts []uint64
}

func newSide(b *metrics.ExponentialHistogramDataPoint_Buckets) side {
	s := side{int64(b.GetOffset()), b.GetBucketCounts()}
	for len(s.counts) > 0 && s.counts[0] == 0 {
		s.first, s.counts = s.first+1, s.counts[1:]
	}
	for len(s.counts) > 0 && s.counts[len(s.counts)-1] == 0 {
		s.counts = s.counts[:len(s.counts)-1]
	}
	return s
}

// coarser is the side at the scale below: each two buckets are one, exactly.
func (s side) coarser() side {
	if len(s.counts) == 0 {
		return s
	}
	out := side{first: s.first >> 1}
	out.counts = make([]uint64, (s.first+int64(len(s.counts))-1)>>1-out.first+1)
	for i, n := range s.counts {
		out.counts[(s.first+int64(i))>>1-out.first] += n
	}
	return out
}

// exponentialBins are the buckets of an exponential histogram; none where its scale is not
// of the specification. Of more buckets than a histogram may have, neighbours become one.
func exponentialBins(p *metrics.ExponentialHistogramDataPoint) (out []model.Bin) {
	const zeros = 3 // the bucket of zero and the gaps beside it
	scale := p.GetScale()
	if scale < minScale || scale > maxScale {
		return nil
	}
	negative, positive := newSide(p.GetNegative()), newSide(p.GetPositive())
	for len(negative.counts)+len(positive.counts)+zeros > model.MaxBins && scale > minScale {
		negative, positive, scale = negative.coarser(), positive.coarser(), scale-1
	}
	threshold := p.GetZeroThreshold()
	power := func(i int64) float64 { return min(math.Exp2(math.Ldexp(float64(i), -int(scale))), math.MaxFloat64) }
	for i, n := range negative.counts {
		if at := negative.first + int64(i); n > 0 {
			out = append(out, model.Bin{Lo: -power(at + 1), Hi: -max(power(at), threshold), Count: float64(n)})
		}
	}
	if n := p.GetZeroCount(); n > 0 {
		edge := max(threshold, math.SmallestNonzeroFloat64)
		out = append(out, model.Bin{Lo: -edge, Hi: edge, Count: float64(n)})
	}
	for i, n := range positive.counts {
		if at := positive.first + int64(i); n > 0 {
			out = append(out, model.Bin{Lo: max(power(at), threshold), Hi: power(at + 1), Count: float64(n)})
		}
	}
	return out
}
