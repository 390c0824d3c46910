package query

import (
	"math"
	"slices"
	"sync"
)

// The codes of a cell. A cell with a NaN among its points has HasNaN as well: alone it
// would vanish in the mean of the others.
const (
	CellMissing = 0   // no point
	CellEmpty   = 1   // no finite or infinite value: NaN alone
	CellBelow   = 2   // under the scale, or -Infinity
	CellFirst   = 3   // the lowest level of the scale
	CellLevels  = 64  // more of them do not fit noise of 1,200 × 300 into 300 kB
	CellAbove   = 67  // over the scale, or Infinity
	CellHasNaN  = 128 // added to the others
)

// raster is the picture in the making: a value for each cell, and codes once all are known.
type raster struct {
	*Kymograph
	values []float64 // NaN: none

	mu      sync.Mutex
	columns []columnSum
}

// columnSum adds up the cells of a column.
type columnSum struct {
	cellSum
	rows int
	mean float64 // of the cells' means
}

func (c *columnSum) add(cell *cellSum) {
	c.nan, c.above, c.below = c.nan+cell.nan, c.above+cell.above, c.below+cell.below
	if cell.count == 0 {
		return
	}
	if c.rows++; c.rows == 1 {
		c.min, c.max = cell.min, cell.max
	}
	c.min, c.max, c.count = min(c.min, cell.min), max(c.max, cell.max), c.count+cell.count
	part := 1 / float64(c.rows)
	c.mean = c.mean*(1-part) + cell.mean*part
}

func newRaster(rows int, k *Kymograph) *raster {
	k.Cells = make([]byte, rows*k.Columns)
	r := &raster{Kymograph: k, values: make([]float64, rows*k.Columns), columns: make([]columnSum, k.Columns)}
	for i := range r.values {
		r.values[i] = math.NaN()
	}
	return r
}

// cellSum adds up the buckets of a cell.
type cellSum struct {
	at                       int
	min, max, mean           float64
	count, nan, above, below uint64
}

func (c *cellSum) add(b *Bucket) {
	c.nan, c.above, c.below = c.nan+b.NaN, c.above+b.PosInf, c.below+b.NegInf
	mean, ok := b.Mean()
	if !ok {
		return
	}
	if c.count == 0 {
		c.min, c.max = b.Min, b.Max
	}
	c.min, c.max = min(c.min, b.Min), max(c.max, b.Max)
	c.count += b.Count
	part := float64(b.Count) / float64(c.count)
	c.mean = c.mean*(1-part) + mean*part
}

// value reduces a cell; NaN when it has no value.
func (c *cellSum) value(how Reduction) float64 {
	switch {
	case c.above > 0 && c.below > 0 && c.count == 0 && how == ReduceMean:
		return math.NaN()
	case c.above > 0 && (how == ReduceMax || c.count == 0 && (how == ReduceMean || c.below == 0)):
		return math.Inf(1)
	case c.below > 0 && (how == ReduceMin || c.count == 0):
		return math.Inf(-1)
	case c.count == 0:
		return math.NaN()
	case how == ReduceMin:
		return c.min
	case how == ReduceMax:
		return c.max
	}
	return c.mean
}

// fill puts the buckets of a row into its cells. A bucket that reaches into two cells
// goes where its middle is. Rows may be filled at the same time.
func (r *raster) fill(row int, buckets []Bucket, how Reduction) {
	whole, cell := cellSum{}, cellSum{at: -1}
	var cells []cellSum
	for i := range buckets {
		b := &buckets[i]
		whole.add(b)
		at := r.columnOf(b.Lo + int64(uint64(b.Hi-b.Lo)/2))
		if at != cell.at {
			cells = append(cells, cell)
			cell = cellSum{at: at}
		}
		cell.add(b)
	}
	r.put(row, append(cells, cell), how)
	s := &r.Rows[row]
	s.Count, s.NaN, s.PosInf, s.NegInf = whole.count, whole.nan, whole.above, whole.below
	if whole.count > 0 {
		s.Min, s.Max, s.Mean = whole.min, whole.max, whole.mean
	}
}

// put stores the values of a row's cells and adds them to their columns.
func (r *raster) put(row int, cells []cellSum, how Reduction) {
	for i := range cells {
		c := &cells[i]
		if c.at < 0 {
			continue
		}
		at := row*r.Columns + c.at
		r.values[at] = c.value(how)
		r.Cells[at] = CellEmpty
		if c.nan > 0 {
			r.Cells[at] |= CellHasNaN
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range cells {
		if c := &cells[i]; c.at >= 0 {
			r.columns[c.at].add(c)
		}
	}
}

// finish chooses the scale, codes the cells and describes the columns.
func (r *raster) finish(lo, hi *float64) {
	if r.Lo, r.Hi = r.quantiles(); lo != nil {
		r.Lo, r.Hi = *lo, *hi
	}
	for i, v := range r.values {
		if !math.IsNaN(v) {
			r.Cells[i] = r.Cells[i]&CellHasNaN | codeOf(v, r.Lo, r.Hi)
		}
	}
	r.Profile = make([]ColumnSummary, r.Columns)
	for i := range r.columns {
		c, nan := &r.columns[i], math.NaN()
		r.Profile[i] = ColumnSummary{nan, nan, nan, c.count, c.nan, c.above, c.below, c.rows}
		if c.count > 0 {
			r.Profile[i].Min, r.Profile[i].Max, r.Profile[i].Mean = c.min, c.max, c.mean
		}
	}
}

// quantileSample is how many cells the ends of the scale are computed from.
const quantileSample = 1 << 16

// quantiles are 1 and 99 % of the cells' finite values, of some of them when they are many;
// NaN when there are none.
func (r *raster) quantiles() (lo, hi float64) {
	finite := 0
	for _, v := range r.values {
		if isFinite(v) {
			finite++
		}
	}
	if finite == 0 {
		return math.NaN(), math.NaN()
	}
	n := min(finite, quantileSample)
	sample := make([]float64, 0, n)
	seen := 0
	for _, v := range r.values {
		if !isFinite(v) {
			continue
		}
		if seen == len(sample)*finite/n && len(sample) < n {
			sample = append(sample, v)
		}
		seen++
	}
	slices.Sort(sample)
	last := len(sample) - 1
	return sample[last/100], sample[last-last/100]
}

func isFinite(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

// codeOf is the level of a value on the scale lo…hi.
func codeOf(v, lo, hi float64) byte {
	switch {
	case v < lo || math.IsInf(v, -1):
		return CellBelow
	case v > hi || math.IsInf(v, 1):
		return CellAbove
	case lo == hi:
		return CellFirst + CellLevels/2
	}
	// Halves, so that a difference of large numbers is finite.
	place := (v/2 - lo/2) / (hi/2 - lo/2)
	if math.IsNaN(place) { // the halves of the smallest numbers are 0
		place = 0.5
	}
	return CellFirst + byte(min(CellLevels-1, place*CellLevels))
}
