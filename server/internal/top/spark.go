package top

import (
	"math"
	"slices"
)

var levels = []rune("▁▂▃▄▅▆▇█")

// The marks of a cell that is no height.
const (
	above   = '▲' // a value far over the others: the other cells keep their scale
	below   = '▼'
	noValue = '×' // NaN or infinite only
	nothing = ' '
)

// outside is how many spans of the others a value must leave them by.
const outside = 3

// spark draws a curve in width cells, each with the mean of its part of the axis, between the
// least and the greatest mean. Nothing vanishes in a mean: a cell whose smallest or largest
// value leaves those of the others is marked.
func spark(c *curve, width int) string {
	if c == nil || width < 1 {
		return ""
	}
	cells := c.cells(width)
	others := cells
	if len(c.lo) < width { // a value that is held over many cells is one value
		others = make([]cell, len(c.lo))
		for i := range others {
			others[i].add(c, i)
		}
	}
	low, high := usual(others, func(c cell) (float64, float64) { return c.min, c.max })
	bottom, top := usual(others, func(c cell) (float64, float64) { return c.mean, c.mean })
	out := make([]rune, width)
	for i, cell := range cells {
		switch {
		case cell.count == 0 && cell.nans > 0:
			out[i] = noValue
		case cell.count == 0:
			out[i] = nothing
		case cell.max > high+outside*(high-low):
			out[i] = above
		case cell.min < low-outside*(high-low):
			out[i] = below
		default:
			out[i] = levels[level(cell.mean, bottom, top)]
		}
	}
	return string(out)
}

// level is where a value lies between two others, as one of the heights.
func level(v, low, high float64) int {
	most := len(levels) - 1
	part := (v/2 - low/2) / (high/2 - low/2) // halves: the difference of two float64 may be none
	if math.IsNaN(part) {
		return most / 2 // all are equal
	}
	return int(math.Round(min(max(part, 0), 1) * float64(most)))
}

// cell is a column of a spark.
type cell struct {
	min, max, mean float64
	count, nans    uint64
}

// cells spreads the buckets, which are as wide as their points reach, over columns of the
// axis. A gap stays a gap unless points are rarer than columns: then each holds until the next.
func (c *curve) cells(width int) []cell {
	out := make([]cell, width)
	first, last := float64(c.lo[0]), float64(c.hi[len(c.hi)-1])
	at := func(x int64) int {
		if last <= first {
			return 0
		}
		return min(int((float64(x)-first)/(last-first)*float64(width)), width-1)
	}
	for i := range c.lo {
		from, to := at(c.lo[i]), at(c.hi[i])
		if i+1 < len(c.lo) && len(c.lo) < width {
			to = max(to, at(c.lo[i+1])-1)
		} else if len(c.lo) < width {
			to = width - 1
		}
		for at := from; at <= to; at++ {
			out[at].add(c, i)
		}
	}
	return out
}

func (a *cell) add(c *curve, i int) {
	a.nans += c.nans[i]
	if c.count[i] == 0 {
		if c.nans[i] == 0 {
			a.nans++ // infinite ones
		}
		return
	}
	if a.count == 0 {
		a.min, a.max, a.mean = c.min[i], c.max[i], c.mean[i]
	} else {
		a.min, a.max = min(a.min, c.min[i]), max(a.max, c.max[i])
		part := float64(c.count[i]) / float64(a.count+c.count[i])
		a.mean += (c.mean[i] - a.mean) * part
	}
	a.count += c.count[i]
}

// usual is the range of the cells without a few that leave it far.
func usual(cells []cell, of func(cell) (low, high float64)) (low, high float64) {
	var lows, highs []float64
	for _, c := range cells {
		if c.count > 0 {
			low, high := of(c)
			lows, highs = append(lows, low), append(highs, high)
		}
	}
	if len(lows) == 0 {
		return 0, 0
	}
	slices.Sort(lows)
	slices.Sort(highs)
	few := len(lows) / 10
	innerLow, innerHigh := lows[few], highs[len(highs)-1-few]
	span := innerHigh - innerLow
	low, high = innerLow, innerHigh
	for i := range few { // those that are not far stay in the range
		if lows[i] >= innerLow-outside*span {
			low = min(low, lows[i])
		}
		if v := highs[len(highs)-1-i]; v <= innerHigh+outside*span {
			high = max(high, v)
		}
	}
	return low, high
}

// limits are the least and greatest value of a curve, NaN without one, and how many points
// have no number.
func (c *curve) limits() (low, high float64, nans uint64) {
	low, high = math.NaN(), math.NaN()
	if c == nil {
		return low, high, 0
	}
	for i := range c.lo {
		nans += c.nans[i]
		if c.count[i] == 0 {
			continue
		}
		if !(low <= c.min[i]) {
			low = c.min[i]
		}
		if !(high >= c.max[i]) {
			high = c.max[i]
		}
	}
	return low, high, nans
}
