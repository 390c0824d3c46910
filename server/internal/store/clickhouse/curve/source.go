package curve

import (
	"context"
	"hash/fnv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Source tells what is committed.
type Source interface {
	// Facts fails with CodeNotFound for a run that is unknown or deleted.
	Facts(ctx context.Context, run model.RunID) (Facts, error)
	// SeriesPage lists series by the text of their keys, and says whether there are more.
	SeriesPage(ctx context.Context, run model.RunID, f store.SeriesFilter) ([]Series, bool, error)
	// Series leaves out the numbers that no series has.
	Series(ctx context.Context, run model.RunID, ids []store.SeriesID) ([]Series, error)
}

// Facts are what holds for a run at one moment.
type Facts struct {
	Run      model.RunID
	Attempts []model.Attempt
	Spans    []Span // of committed batches
	Pinned   []Pin
	Points   uint64 // how many rows count, all in all
	Shard    uint32 // of the servers, the run's, from 1
	// Logged is the last block of the log with rows of the run that are not in the table yet; 0
	// where all are.
	Logged uint64
	// Table is what the rows are read from, where that is not the reader's table.
	Table string
}

// OfRun is true for rows of a run.
func OfRun(run model.RunID) string { return "run = " + bytes16(run) }

// Shard is where a new run goes, from 1. A run stays where it went.
func Shard(run model.RunID, shards int) uint32 {
	sum := fnv.New64a()
	_, _ = sum.Write(run[:]) // it never fails
	return 1 + uint32(sum.Sum64()%uint64(shards))
}

// Pin is the logger id of a writer that was given another one after it was made. It holds for
// points that were stored before, too.
type Pin struct {
	Writer model.WriterID
	Logger *uint64 // nil: none
}

// Series is a series of a run.
type Series struct {
	ID   store.SeriesID
	Key  model.SeriesKey
	Text string // of the key
	Kind model.Kind
	// Known: Streams are all that it has. Else reads look at its points.
	Known   bool
	Streams []Stream
	// Plain, of one that is not Known: all points are of one writer and attempt, have a step and
	// no other axis, and each step is past those before. Nothing of it is superseded.
	Plain bool
}
