package ledger

import (
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Run is a run as it stood when its lease was taken.
type Run struct {
	ID       model.RunID
	Epoch    uint64
	Shard    uint32
	Deleted  bool
	Arrivals int64
	Attempts []model.Attempt
	Writers  []Writer // by place
	Series   []Series // by number, without gaps
	Starts   map[record.StartKey]int64
	Spans    map[uint64]uint64 // the last number that each epoch committed
}

// Writer is a writer of a run.
type Writer struct {
	ID       model.WriterID
	Attempt  uint32
	Logger   *uint64
	Repinned bool // the logger changed since the writer was made
	Refused  uint64
	Mark     uint64
}

// Series is a series of a run. Known: Streams are all that it has.
type Series struct {
	record.Series
	Known   bool
	Streams []Stream
	// Plain, of one that is not Known: see [curve.Series].
	Plain bool
}

// Change is what a holder adds to a run. Zero values change nothing.
type Change struct {
	Run   model.RunID
	Epoch uint64
	Last  uint64 // number of the last batch; 0: there is none

	Delete   bool
	Arrivals int64 // of the run, all in all
	Points   uint64
	Attempts []model.Attempt
	Writers  map[uint32]Writer // by place, new or changed; without Mark
	Marks    map[model.WriterID]uint64
	Series   []Series
	Mixed    []uint32   // series without streams that are not plain any more
	Streams  []StreamOf // new or changed
	Starts   []record.Start
	Skipped  []model.Skipped
	Batches  []Batch
}

// Batch is one of a change.
type Batch struct {
	LSN    uint64
	Writer model.WriterID
	Doc    []byte // its updates, empty for none
	// Position is set by the commit.
	Position uint64
}

// LSN is the log position of a batch, by its number in an epoch.
func LSN(epoch, number uint64) uint64 { return epoch<<numberBits | number }

const numberBits = 40

// Committed reports whether a log position counts.
func (r *Run) Committed(lsn uint64) bool {
	return lsn&(1<<numberBits-1) <= r.Spans[lsn>>numberBits]
}
