package catalog

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
)

// Tables is what query reads of many runs at once.
type Tables interface {
	// Columns reads values of all runs that a filter selects, whatever its Sort, Limit and
	// Cursor say.
	Columns(ctx context.Context, f RunFilter, c ColumnNames) (*Columns, error)
	// Refs names runs by their [Columns.Runs], in the same order; zero for one that is gone.
	Refs(ctx context.Context, runs []int64) ([]Ref, error)
	// Summaries lists those of a run by metric.
	Summaries(ctx context.Context, run model.RunID) ([]Summary, error)
	// Values reads attributes by path, and aggregates of metrics, as last(loss), of some
	// runs: a row for each, the zero Value where a run has none. With more than so many bytes of
	// texts the error is [ErrLarge]; 0: as many as there are.
	Values(ctx context.Context, runs []model.RunID, names []string, bytes int64) ([][]model.Value, error)
}

// ColumnNames say what [Tables.Columns] reads.
type ColumnNames struct {
	// Keys are status, tag or an attribute's whole path.
	Keys []string
	// Numbers are an attribute's whole path, or last, min or max of a metric.
	Numbers []string
}

// Columns are values of runs, by run.
type Columns struct {
	Runs    []int64 // numbers of this catalog, rising
	Keys    []GroupKey
	Numbers [][]float64 // NaN where a run has none
	// NaN has, by column, the places of runs whose value is one that was logged or set as NaN.
	NaN []map[int]bool
}

// GroupKey is what runs are grouped by.
type GroupKey struct {
	Values []model.Value // each once; the first is the zero Value: runs that have none
	Of     []uint32      // of each run, its place in Values
	// More are further values of runs: a run may have several tags.
	More map[int][]uint32
}

// Ref names a run.
type Ref struct {
	ID                model.RunID
	Name, DisplayName string
}

// Member selects the runs whose key has a value; the zero Value: those that have none. Of a
// long text or set the first 256 bytes count, for GroupKey too.
type Member struct {
	Key   string
	Value model.Value
}
