package column

// Group is a row group wherever it lies. Reading may fail on a damaged file.
type Group interface {
	Extent() *Extent
	Rows() (*Rows, error)
	Values(col int) (Values, error)
	// Summary of the column, false when it is not stored.
	Summary(col int) (Aggregate, bool)
}

// Chunk is one series' part of a row group.
type Chunk struct {
	Group Group
	Col   int
}

// OnAxis reports whether the rows of the group have the axis; all have the time.
func (c Chunk) OnAxis(axis int) bool {
	return axis < 0 || axis >= WithGaps || c.Group.Extent().Mask.Has(axis)
}

// BlockRows is how many rows a block sums up.
const BlockRows = 256

// Block is a stored summary of some rows.
type Block struct {
	Lo, Hi int64
	Sum    Aggregate
}
