// Package store is the contract of a storage engine: what ingest and query may
// rely on, in text and in interfaces. storetest holds the suite that every
// engine passes; local is the embedded engine.
//
// # Durability
//
// When [Writer.Append] returns without error, the batch, its series definitions,
// the writer's mark, the starts it fixed and its updates are on disk (fsync) in
// one record: after a crash they are all there or none is. A failed fsync
// poisons the file; the engine then refuses writes with CodeUnavailable until it
// is opened again. A full disk refuses with CodeDiskFull and stays readable.
//
// # Exactly once
//
// For a batch with sequences: First = mark + 1 is stored and moves the mark;
// Last ≤ mark is acked with nothing stored; everything else fails with CodeGap,
// and the Ack carries the mark. Skipped ranges move the mark without rows.
// Marks survive compaction, deletion of the run, backup and restore.
//
// # Refused records
//
// A record (all rows with one sequence, over all groups and columns; without
// sequences every row of a group by itself, named with sequence 0) is refused
// for good when a value cannot be converted exactly to its series' kind
// (CodeKindMismatch), when it would create a series past the run's limit
// (CodeLimit), or when its run is deleted (CodeRunDeleted). The rest of the
// batch is stored, the mark passes the record, and the Ack names it.
//
// # Curves
//
// The curve of a series is its points less the superseded ones:
//   - UniqueAxes: of one writer (or, inside one attempt, of writers with one
//     LoggerID) at equal axes the later arrival wins; a writer's arrivals are in
//     the order of sequence, then row. Points without axes are never the same.
//   - UniqueTime, UniqueStep: the later arrival at the same time (step) wins. Rows of a
//     batch without sequences arrive by turn; without turns too, by group, then row.
//   - Attempts by rising precedence (then number), among the points that are left:
//     an attempt with ResumeFrom = S hides earlier attempts' points at step ≥ S (at
//     rl_step ≥ S where the point has that axis); an attempt without it hides
//     earlier attempts' points of the series at the same step (RL, which is a point
//     with rl_step, episode or env_step: at equal axes). Points without a step are
//     never superseded by an attempt.
//
// Points meet only points of the same rule of uniqueness.
//
// Superseded points stay readable with Attempt selection and are left out of
// curves, buckets, last values, counts and starts. One that a later point repeats, with
// the same axes, time, writer, attempt, sequence and value, may be dropped at any time: it
// tells nothing that the later one does not.
//
// # Forks
//
// A read of a curve may name ancestors: series of other runs that it continues,
// nearest first. It then holds, of each ancestor's curve, the points with step ≤
// UpTo (rl_step ≤ UpTo where the point has that axis) that no nearer curve
// replaces, as a later attempt without ResumeFrom would: at the same step (RL: at
// equal axes). Points without a step are not inherited. Nothing is copied, so what
// an ancestor gains or supersedes at or below UpTo later is seen.
package store

import (
	"context"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
)

// Writer is the write side; ingest is its only user.
type Writer interface {
	// PutOpen makes an attempt and a writer of it known, with one wait for the disk:
	// [Engine.PutAttempt], then [Engine.PutWriter]. An Append needs it first.
	PutOpen(ctx context.Context, run model.RunID, a model.Attempt, w model.WriterID, loggerID *uint64) error
	// Append stores a batch. The engine keeps no reference to b after it returns.
	Append(ctx context.Context, b *model.Batch) (model.Ack, error)
	// Mark is the writer's last durable sequence, 0 for an unknown one.
	Mark(ctx context.Context, w model.WriterID) (uint64, error)
	// DeleteRun makes a run unreadable at once, refuses its later points and
	// frees its bytes in time. Marks are kept. Idempotent.
	DeleteRun(ctx context.Context, run model.RunID) error
}

// Meta is a batch's updates as they lie in the WAL.
type Meta struct {
	LSN     uint64
	Run     model.RunID
	Writer  model.WriterID
	Updates []model.Update
}

// MetaLog gives back updates after a crash, so that the catalog catches up.
type MetaLog interface {
	// PendingMeta yields the updates that are not yet released, by rising LSN.
	PendingMeta(ctx context.Context) iter.Seq2[Meta, error]
	// ReleaseMeta says that every update with LSN ≤ lsn is durable elsewhere, those
	// of appends that have not returned yet included: with appends in parallel
	// release only below the lowest LSN that may still be in work. A crash may
	// forget a release, so updates are applied idempotently.
	ReleaseMeta(lsn uint64)
}

// SharedLog is the MetaLog of an engine to which several servers write. Each applies the updates
// that it stored, and before them those that another one stored of the run and did not apply
// yet: it may be slow, or gone. Updates of a run rise by LSN whichever server stored them.
type SharedLog interface {
	// EarlierMeta lists updates of a run with after < LSN < before that are not released, by
	// rising LSN.
	EarlierMeta(ctx context.Context, run model.RunID, after, before uint64) ([]Meta, error)
	// LeftMeta lists updates of servers that are gone, by rising LSN: the first of them, where
	// there are many.
	LeftMeta(ctx context.Context) ([]Meta, error)
	// ForgetMeta says that these updates are durable elsewhere.
	ForgetMeta(ctx context.Context, lsns []uint64) error
}

// Roster tells which runs the engine keeps, so that a catalog that lost some
// gets them back.
type Roster interface {
	// Runs yields every run that has attempts, writers or points and is not
	// deleted, in no order. A run that is made meanwhile may be missing.
	Runs(ctx context.Context) iter.Seq[model.KeptRun]
}

// SeriesID names a series inside its run, for as long as the run lives.
type SeriesID uint32

// Point is one value with its axes.
type Point struct {
	Step   *int64 // nil for a series without steps
	TimeNs int64
	Value  Number
}

// Number is a value of a kind: Float for KindFloat, Int for KindInt, Doc for
// the others.
type Number struct {
	Float float64
	Int   int64
	Doc   []byte
}

// Series describes a series and the end of its curve.
type Series struct {
	ID   SeriesID
	Key  model.SeriesKey
	Kind model.Kind
	Axes []model.Axis // axes that any point of it has, canonical order
	// Count of the curve's points; Superseded of those left out of it.
	Count      uint64
	Superseded uint64
	Inherited  uint64 // of Count, those of ancestors
	Last       *Point // the curve's last by step, else by time; nil when empty. See ListSeries
	MinTimeNs  int64
	MaxTimeNs  int64
	// Extent is of a list, where the engine keeps it; nil where Buckets must be asked.
	Extent *Extent
}

// Extent are the least and the greatest finite value of a curve.
type Extent struct{ Min, Max Number }

// SeriesFilter selects series of a run in the order of (metric, scale, labels).
type SeriesFilter struct {
	Match  func(key model.SeriesKey) bool // nil matches all
	After  string                         // SeriesKey.String() of the last one seen
	Limit  int                            // ≥ 1
	Metric string                         // exact name when not empty; makes the look-up direct
	Kinds  []model.Kind                   // none: all
}

// Attempts selects which attempts' points are read.
type Attempts struct {
	// Curve (the zero value) reads the points that are not superseded. All reads
	// every point. Otherwise only points of attempt Number, uniqueness applied.
	All    bool
	Number uint32
}

// Ancestor is a series of another run whose curve is continued, see Forks.
type Ancestor struct {
	Run    model.RunID
	Series SeriesID // of the same key and kind
	UpTo   int64    // inclusive
}

// CurveRequest names a curve with what it inherits.
type CurveRequest struct {
	Run       model.RunID // zero where only ancestors have the series
	Series    SeriesID
	Ancestors []Ancestor
}

// ScanRequest asks for points in the order of (axis, time, writer, sequence, row,
// nearer run); those of one episode along the axis of episodes in the order of (step,
// time, …), those without a step first.
type ScanRequest struct {
	Run       model.RunID // zero where only ancestors have the series
	Series    SeriesID
	Ancestors []Ancestor // only with Attempts for the curve
	Axis      model.Axis // AxisTime for time; points without the axis are left out
	// Gaps keeps the points without the axis: they stand at math.MinInt64, so before all
	// others.
	Gaps     bool
	From, To int64 // inclusive
	Attempts Attempts
	// After resumes behind the row with this position; nil starts at From.
	After *Position
	Limit int // rows, ≥ 1
}

// Position names a row of a scan, stable while its points are stored.
type Position struct {
	Axis   int64
	Step   int64 // along the axis of episodes
	TimeNs int64
	Writer model.WriterID
	Seq    uint64
	Row    uint32
	Depth  uint32
}

// Rows is a page of a scan, by column. Every slice has the same length.
type Rows struct {
	Axes    []model.AxisColumn // the axes that the series has; Has marks the gaps
	Has     [][]bool           // per axis, nil when every row has it
	TimeNs  []int64
	Attempt []uint32
	Writer  []model.WriterID
	Seq     []uint64
	Depth   []uint32     // 0 the run itself, 1 its nearest ancestor, …; nil without ancestors
	Values  model.Column // Series and Kind set, one value a row
	Next    *Position    // nil at the end
}

// BucketsRequest asks for at most N disjoint buckets that together hold every
// point of From…To once.
type BucketsRequest struct {
	Run       model.RunID // zero where only ancestors have the series
	Series    SeriesID
	Ancestors []Ancestor // only with Attempts for the curve
	Axis      model.Axis
	From, To  int64 // inclusive; math.MinInt64 and math.MaxInt64 for all
	N         int   // 1…100,000
	Attempts  Attempts
	// Grid: the buckets are those of N columns of equal width from From to To, wherever the
	// points lie. A bucket holds the points of its column; of a stored summary that is no
	// wider than a quarter of a column, all points are where its middle is.
	Grid bool
}

// Bucket is the summary of the points with Lo ≤ x ≤ Hi; Lo and Hi are the x of
// its first and last point. Equal x are never split. No bucket spans more than
// 2/N of the range that the points cover. Min, Max and Sum are over finite
// values and meaningless when Count is 0; a bucket is the same whether its points
// were read or a stored summary of them was, superseded points aside.
type Bucket struct {
	Lo, Hi         int64
	Min, Max       float64 // the nearest float64 of MinInt and MaxInt for int64 series
	MinInt, MaxInt int64   // exact; of int64 series only, else 0
	// The values add up to Sum + Excess·ExcessUnit: values near the end of float64,
	// whose sum it could not hold, are counted in Excess.
	Sum, Excess    float64
	Count          uint64 // finite values
	NaN            uint64
	PosInf, NegInf uint64
	Inherited      uint64 // points of any value that are of ancestors
}

// ExcessUnit is the unit of Bucket.Excess.
const ExcessUnit = 0x1p64

// Mean is the mean of the finite values; it is finite, and inside Min…Max, also
// where their sum is not. False when there are none.
func (b *Bucket) Mean() (float64, bool) {
	if b.Count == 0 {
		return 0, false
	}
	n := float64(b.Count)
	mean := b.Sum / n
	if b.Excess != 0 {
		mean += b.Excess / n * ExcessUnit
	}
	return min(max(mean, b.Min), b.Max), true
}

// SelectRequest asks for the points of many runs whose time is in From…To.
type SelectRequest struct {
	Runs     []model.RunID                  // unknown and deleted ones are passed over
	Metric   string                         // exact name when not empty; makes the look-up direct
	Match    func(key model.SeriesKey) bool // nil matches all
	From, To int64                          // ns, inclusive
	// Last asks for one point of each series, one of its latest in From…To. Its axes other
	// than the step may be left out.
	Last bool
	// Numeric leaves out texts and documents, whose points may be very long.
	Numeric bool
}

// Selected is a piece of a series. Runs come in the order of the request, the series of
// a run by key, the points of a series by time; a long series comes in pieces that follow
// one another. Series without a point in From…To do not come. Superseded points do not
// count, nor what forks inherit.
type Selected struct {
	Run    model.RunID
	Series *Series
	Rows   *Rows // 1 to SelectRows of them; Attempt, Writer, Seq and Next mean nothing
}

// SelectRows is the most that a piece has, so that who reads pieces knows what they take.
const SelectRows = 20_000

// AcrossRequest asks for what the series of one run have in a range, for readers of rows
// that lie over many series.
type AcrossRequest struct {
	Run      model.RunID
	Metrics  []string                       // exact names, rising; makes the look-up direct. Empty: all
	Match    func(key model.SeriesKey) bool // nil matches all
	After    string                         // SeriesKey.String() of the last series that was read
	Axis     model.Axis                     // AxisTime for time; points without the axis are left out
	From, To int64                          // inclusive
	At       []int64                        // rising; when not nil, only points at these
	Attempts Attempts
	Limit    int // points of a piece; 0 or more than SelectRows: SelectRows
}

// Reader is the read side; query is its only user. An unknown run or series
// yields CodeNotFound. Reads see every append that returned before they began.
type Reader interface {
	// ListSeries returns a page and whether there is more. Last has no value where
	// that is a text or a document: those of a page may be very long. Curve has it.
	ListSeries(ctx context.Context, run model.RunID, f SeriesFilter) (page []Series, more bool, err error)
	// Curve describes a series with what it inherits; ID and Superseded are the
	// run's own, 0 where it lacks the series.
	Curve(ctx context.Context, r CurveRequest) (Series, error)
	Scan(ctx context.Context, r ScanRequest) (*Rows, error)
	// Buckets is for numeric kinds (float64, int64), CodeInvalid for others.
	Buckets(ctx context.Context, r BucketsRequest) ([]Bucket, error)
	// RunStats counts a run's series, points and ledger entries.
	RunStats(ctx context.Context, run model.RunID) (RunStats, error)
}

// Selector reads many series at once.
type Selector interface {
	// Select reads the curves of many runs by time.
	Select(ctx context.Context, r SelectRequest) iter.Seq2[Selected, error]
	// Across reads many series of a run as [Reader.Scan] does, in the order of their keys. Those
	// without a point in the range do not come, and cost next to nothing. One of many points
	// comes in pieces of at most Limit rows or a page of texts, each but the last with Next.
	// Each series is read as it is when its turn comes.
	Across(ctx context.Context, r AcrossRequest) iter.Seq2[*Rows, error]
}

// Starts tells where the series of a run stand, so that whoever goes on with it
// counts from there.
type Starts interface {
	// Ends returns the next steps of all series (at most limit, complete says
	// whether that was all) and where each RL environment stands. An
	// ENVIRONMENT_STEP series is listed once, with its highest episode.
	Ends(ctx context.Context, run model.RunID, limit int) (starts []model.Start, envs []model.EnvEnd, complete bool, err error)
}

// RunStats is what the engine knows of a run as a whole.
type RunStats struct {
	Series     uint64
	Stored     uint64 // points, superseded ones included
	Superseded uint64
	Refused    uint64
	Skipped    []model.Skipped
	Damaged    []model.Damage // found so far; their points are not in Stored
	MinTimeNs  int64
	MaxTimeNs  int64
}

// Stats is what the engine knows of itself, for /metrics and `data stats`.
type Stats struct {
	Runs, Series, Points uint64
	DiskBytes            int64
	WALBytes             int64
	// WrittenBytes were written to segments over the store's life, and KeptBytes of them
	// are there or were deleted since; the rest was written again by merges.
	WrittenBytes, KeptBytes int64
	// Quarantined counts damaged files or ranges set aside since the start.
	Quarantined uint64
	// LostRecords counts the batches and other records in damaged ranges of the log.
	// Ledgers tell of those whose clients number theirs.
	LostRecords uint64
	// MemoryBytes is what the engine holds in memory; MemoryRefused counts the batches
	// that it refused for want of more.
	MemoryBytes   uint64
	MemoryRefused uint64
	Poisoned      bool
	DiskFull      bool
}

// Engine is what cmd opens and closes.
type Engine interface { //nolint:interfacebloat // the sum of what consumers take in parts
	Writer
	MetaLog
	Reader
	Selector
	Starts
	Roster
	// PutAttempt makes an attempt known, or lowers its ResumeFrom; durable on
	// return and idempotent. An Append of an attempt needs it first.
	PutAttempt(ctx context.Context, run model.RunID, a model.Attempt) error
	// PutWriter makes a writer known with its pinned logger id (nil: none);
	// idempotent and durable. Its attempt must be known. A writer with sequences
	// belongs to one run; elsewhere it fails with CodeConflict.
	PutWriter(ctx context.Context, run model.RunID, w model.WriterID, attempt uint32, loggerID *uint64) error
	// Run does the background work (flush, compaction) until ctx ends.
	Run(ctx context.Context) error
	Stats() Stats
	// Close flushes what it can and releases the folder. Safe to call twice.
	Close() error
}
