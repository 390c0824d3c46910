package query

import (
	"context"
	"iter"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Page asks for a part of a list: Limit 0 is the default, Cursor is the Next of
// the page before, empty for the first.
type Page struct {
	Limit  int
	Cursor string
}

// ProjectsPage is a part of the list of projects that the caller may read.
type ProjectsPage struct {
	Projects []catalog.Project
	Next     string
}

// RunsRequest selects runs of a project.
type RunsRequest struct {
	Page
	Workspace, Project string
	Name, Tag          string // exact, empty means any
	Status             model.RunStatus
	Query, Sort        string // see catalog.RunFilter
	Deleted            bool   // the trash instead
	Group              string // Group.Member of one: its runs only
	// Columns are values that come in each line's Values: an attribute's whole path, or
	// last, min, max, best or at of a metric.
	Columns []string
	Texts   Admit // for a page of long texts
}

// RunsPage is a part of the list of runs.
type RunsPage struct {
	Runs []RunLine
	Next string
	Hint string // what the caller may have meant; "": nothing to say
}

// RunLine is a run with its Config, as tables show it.
type RunLine struct {
	catalog.Run
	Summary []Summary // at most 50, by metric
	// SummaryCut: there may be more of it.
	SummaryCut bool
	Values     []model.Value // of RunsRequest.Columns; the zero Value where it has none
}

// Summary is the last value of a metric's curve. Its least and greatest finite ones are of a
// moment ago, nil before they are known.
type Summary struct {
	Metric   string
	Kind     model.Kind
	Last     store.Point
	Min, Max any // int64 or float64
}

// RunDetail is everything of one run.
type RunDetail struct {
	RunLine
	Detail *catalog.Detail
	// What may be long is read page by page while it is used; an error ends it.
	Attributes    iter.Seq2[catalog.Attribute, error]
	EnvAttributes iter.Seq2[catalog.EnvAttribute, error]
	Writers       iter.Seq2[catalog.WriterInfo, error]
	Events        iter.Seq2[catalog.Event, error]
	// Order lists attempt numbers by rising precedence: where they overlap the
	// later in this list wins. Detail.Attempts is in the order of first arrival.
	Order   []uint32
	Ledger  model.Ledger
	Lineage *Lineage
	Series  uint64
	Points  uint64 // of all curves
}

// Selector names one series of a run.
type Selector struct {
	Run    model.RunID
	Metric string
	Scale  string            // empty: any, when that is unambiguous
	Labels map[string]string // the whole label set
}

// Attempts selects attempts: the curve (zero), All, or one Number.
type Attempts = store.Attempts

// Admit waits for the memory that a page of texts or documents takes. It is asked
// once, before the first is read; nil: there is enough.
type Admit func(ctx context.Context) error

func (a Admit) wait(ctx context.Context, kind model.Kind) error {
	if isNumeric(kind) {
		return nil
	}
	return a.need(ctx)
}

func (a Admit) need(ctx context.Context) error {
	if a == nil {
		return nil
	}
	return a(ctx)
}

// SeriesRequest lists the series of a run.
type SeriesRequest struct {
	Page
	Run model.RunID
	// Query and Not are RE2, unanchored, on the metric's name: all of Query must match, and none of Not.
	Query, Not []string
	Kinds      []model.Kind // none: all
	Preview    int          // buckets of each numeric series, 0…64
	// IncludeInherited continues the curves of a fork's ancestors, see Lineage.
	IncludeInherited bool
	// Ends reads the last values of texts and documents, too. The page ends sooner
	// where they are long.
	Ends  bool
	Texts Admit
}

// SeriesPage is a part of the list, in the order of (metric, scale, labels).
type SeriesPage struct {
	Series    []SeriesInfo
	Inherited bool // what is inherited was asked for
	Next      string
}

// SeriesInfo describes a series and the end of its curve.
type SeriesInfo struct {
	*store.Series
	Preview *BucketsResult // nil unless asked for and numeric
}

// PointsRequest reads the points of one series.
type PointsRequest struct {
	Page
	Selector
	Axis     model.Axis // empty: episode of an RL environment's steps, else step, else time_ns
	From, To *int64     // inclusive; nil is open
	Attempts Attempts
	Texts    Admit

	IncludeInherited bool // only without Attempts
}

// PointsPage is a part of a series in the order of (axis, time, writer, sequence); along
// episodes in that of (episode, step, time, …).
type PointsPage struct {
	Run    model.RunID
	Series store.Series
	Axis   model.Axis
	Rows   *store.Rows
	// Runs are those that the rows are of, by Rows.Depth; nil unless what is
	// inherited was asked for.
	Runs []model.RunID
	Next string
}

// Bucket is the summary of a stretch of a series.
type Bucket = store.Bucket

// BucketsRequest down-samples one series.
type BucketsRequest struct {
	Selector
	X        model.Axis // empty: step, else time_ns
	From, To *int64     // inclusive; nil is open
	N        int        // 0: 1,000
	Attempts Attempts

	IncludeInherited bool // only without Attempts

	grid bool // the buckets are columns from From to To
}

// BucketsResult is at most N buckets in rising order.
type BucketsResult struct {
	Run       model.RunID
	Series    store.Series
	X         model.Axis
	Inherited bool // what is inherited was asked for
	Buckets   []Bucket
}

// BucketsOutcome is one answer of BucketsMany: a result or an error.
type BucketsOutcome struct {
	Result *BucketsResult
	Err    error
}

// Point is the end of a curve.
type Point = store.Point

// Number is the value of a point, by the series' kind.
type Number = store.Number

func isNumeric(k model.Kind) bool { return k == model.KindFloat || k == model.KindInt }
