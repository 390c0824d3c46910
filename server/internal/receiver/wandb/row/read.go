package row

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// Source is what rows are read from: *query.Service.
type Source interface {
	Across(ctx context.Context, r query.AcrossRequest) iter.Seq2[*query.Rows, error]
	Describe(ctx context.Context, run model.RunID, key model.SeriesKey) (*query.SeriesEnd, error)
	Series(ctx context.Context, r query.SeriesRequest) (*query.SeriesPage, error)
	Buckets(ctx context.Context, r query.BucketsRequest) (*query.BucketsResult, error)
	Points(ctx context.Context, r query.PointsRequest) (*query.PointsPage, error)
}

// Range is steps, inclusive.
type Range struct{ From, To int64 }

// All is every step.
func All() Range { return Range{math.MinInt64, math.MaxInt64} }

// Bounds of what a page holds.
const (
	// MaxRows is the most rows of a page.
	MaxRows = 10_000
	// PageBytes is about how long the lines of a page are together at most. A page of one
	// step is as long as it is.
	PageBytes = 8 << 20
)

// Lines reads a page of rows, each as one JSON object with bare NaN, in the order of (step,
// time, writer); superseded rows are left out. The rows of one step come together, so a
// page has more rows than limit where the first step alone has. It ends sooner where the
// rows are long. next is the step to go on at, nil at the end of the range.
func Lines(ctx context.Context, src Source, run model.RunID, r Range, limit int) (lines [][]byte, next *int64, err error) {
	rows, next, err := read(ctx, src, selection{run: run, Range: r}, limit)
	for i := range rows {
		lines = append(lines, rows[i].Line)
	}
	return lines, next, err
}

// AllLines reads the rows of a range page by page.
func AllLines(ctx context.Context, src Source, run model.RunID, r Range) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for row, err := range rowsOf(ctx, src, selection{run: run, Range: r}) {
			if !yield(row.Line, err) || err != nil {
				return
			}
		}
	}
}

// Row is a stored row. Attempt, Writer and Step name it.
type Row struct {
	Attempt uint32
	Writer  model.WriterID
	Step    int64
	TimeNs  int64
	Line    []byte // as [Lines] gives it
}

// Find reads the rows that are stored at some steps, by step: those of every attempt, also
// superseded ones, so that rows that come again are known. steps rise.
func Find(ctx context.Context, src Source, run model.RunID, steps []int64) (map[int64][]Row, error) {
	found := map[int64][]Row{}
	if len(steps) == 0 {
		return found, nil
	}
	sel := selection{run: run, Range: Range{steps[0], steps[len(steps)-1]}, at: steps, attempts: query.Attempts{All: true}}
	for row, err := range rowsOf(ctx, src, sel) {
		if err != nil {
			return nil, err
		}
		found[row.Step] = append(found[row.Step], row)
	}
	return found, nil
}

// Tail reads the last row, nil where there is none.
func Tail(ctx context.Context, src Source, run model.RunID) ([]byte, error) {
	last, err := LastStep(ctx, src, run)
	if err != nil || last == nil {
		return nil, err
	}
	lines, _, err := Lines(ctx, src, run, Range{*last, *last}, 1)
	if err != nil || len(lines) == 0 {
		return nil, err
	}
	return lines[len(lines)-1], nil
}

// Count counts the rows.
func Count(ctx context.Context, src Source, run model.RunID) (uint64, error) {
	index, err := src.Describe(ctx, run, indexKey())
	if err != nil || index == nil {
		return 0, err
	}
	return index.Count, nil
}

// LastStep is the step of the last row, nil where there is none.
func LastStep(ctx context.Context, src Source, run model.RunID) (*int64, error) {
	index, err := src.Describe(ctx, run, indexKey())
	if err != nil || index == nil || index.Last == nil {
		return nil, err
	}
	return index.Last.Step, nil
}

// Greatest is the greatest step of a row of any attempt, also of those that are superseded;
// -1 where there is none.
func Greatest(ctx context.Context, src Source, run model.RunID) (int64, error) {
	last, err := LastStep(ctx, src, run)
	if err != nil || last == nil {
		return -1, err
	}
	most := *last
	behind := query.AcrossRequest{Run: run, Metrics: []string{IndexMetric}, Axis: model.AxisStep, From: most + 1, To: math.MaxInt64, Attempts: query.Attempts{All: true}}
	for rows, err := range src.Across(ctx, behind) {
		if err != nil {
			return 0, err
		}
		most = max(most, slices.Max(stepsOf(rows)))
	}
	return most, nil
}

// StepsAt are the steps of the rows of any attempt whose times are in a range, rising.
func StepsAt(ctx context.Context, src Source, run model.RunID, from, to int64) (steps []int64, err error) {
	within := query.AcrossRequest{Run: run, Metrics: []string{IndexMetric}, Axis: model.AxisTime, From: from, To: to, Attempts: query.Attempts{All: true}}
	for rows, err := range src.Across(ctx, within) {
		if err != nil {
			return nil, err
		}
		steps = append(steps, stepsOf(rows)...)
	}
	slices.Sort(steps)
	return slices.Compact(steps), nil
}

// Any says whether an attempt of the run has a row.
func Any(ctx context.Context, src Source, run model.RunID, attempt uint32) (bool, error) {
	one := query.AcrossRequest{
		Run: run, Metrics: []string{IndexMetric}, Axis: model.AxisStep, From: math.MinInt64, To: math.MaxInt64, Attempts: query.Attempts{Number: attempt}, Limit: 1,
	}
	for rows, err := range src.Across(ctx, one) {
		if err != nil || len(stepsOf(rows)) > 0 {
			return err == nil, err
		}
	}
	return false, nil
}

func indexKey() model.SeriesKey { return model.SeriesKey{Metric: IndexMetric, Scale: model.ScaleStep} }

// selection is which rows a read is about.
type selection struct {
	run model.RunID
	Range
	at       []int64 // rising; nil: all steps
	attempts query.Attempts
	keys     []string // rising; nil: all of the row
	single   bool     // one row of each step: the first, of the last step the last
	events   bool     // system events instead: the steps are times
}

// request asks for series at the steps of a selection.
func (s *selection) request() query.AcrossRequest {
	r := query.AcrossRequest{Run: s.run, Axis: model.AxisStep, From: s.From, To: s.To, At: s.at, Attempts: s.attempts}
	if s.events {
		r.Axis = model.AxisTime
	}
	return r
}

// rowsOf reads the rows of a selection page by page.
func rowsOf(ctx context.Context, src Source, sel selection) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		for more, limit := true, MaxRows; more; {
			rows, next, err := read(ctx, src, sel, limit)
			if err != nil {
				yield(Row{}, err)
				return
			}
			limit = roomFor(rows, limit)
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
			if more = next != nil; more {
				sel.From = *next
			}
		}
	}
}

// roomFor is how many rows the page behind some rows is to have. Where they are long, most
// of what a large page begins to read has no room in it.
func roomFor(rows []Row, limit int) int {
	size := 0
	for i := range rows {
		size += len(rows[i].Line)
	}
	switch {
	case size < PageBytes/4:
		return min(2*limit, MaxRows)
	case len(rows) < limit:
		return len(rows) + len(rows)/2
	}
	return limit
}

// read reads a page of rows.
func read(ctx context.Context, src Source, sel selection, limit int) (rows []Row, next *int64, err error) {
	if limit < 1 {
		return nil, nil, model.Errorf(model.CodeInvalid, "a page of %d rows", limit).WithHint("ask for 1 to %d", MaxRows)
	}
	entries, next, err := index(ctx, src, &sel, min(limit, MaxRows))
	if err != nil || len(entries) == 0 {
		return nil, nil, err
	}
	drafts, err := fill(ctx, src, &sel, entries)
	if err != nil {
		return nil, nil, err
	}
	if len(drafts) < len(entries) {
		next = &entries[len(drafts)].step
	}
	rows = make([]Row, len(drafts))
	for i := range drafts {
		e := &entries[i]
		rows[i] = Row{e.attempt, e.writer, e.step, e.time, sel.line(&drafts[i], e)}
	}
	return rows, next, nil
}

// entry is a row as the index has it.
type entry struct {
	step, time int64
	writer     model.WriterID
	attempt    uint32
	runtime    float64
}

// compare orders rows as points of one series are.
func (e *entry) compare(step, time int64, writer *model.WriterID) int {
	if c := cmp.Or(cmp.Compare(e.step, step), cmp.Compare(e.time, time)); c != 0 {
		return c
	}
	return bytes.Compare(e.writer[:], writer[:])
}

// index lists the first rows of a selection, whole steps of at least one. next is the step
// behind them, nil where there is no other.
func index(ctx context.Context, src Source, sel *selection, limit int) (out []entry, next *int64, err error) {
	r := sel.request()
	r.Metrics, r.Limit = []string{IndexMetric}, limit+1
	r.Match = isPlain
	for rows, err := range src.Across(ctx, r) {
		if err != nil {
			return nil, nil, err
		}
		if rows.Values.Kind != model.KindFloat { // of a run that others wrote
			return nil, nil, nil
		}
		if out == nil {
			out = make([]entry, 0, min(limit+1, 4*len(rows.TimeNs)))
		}
		if out = appendEntries(out, rows, sel); len(out) > limit && out[len(out)-1].step > out[0].step {
			break
		}
	}
	if len(out) <= limit {
		return out, nil, nil
	}
	end := limit
	for end > 0 && out[end-1].step == out[limit].step {
		end--
	}
	if end == 0 { // a step of many rows
		for end = limit; end < len(out) && out[end].step == out[0].step; {
			end++
		}
	}
	if end < len(out) {
		next = &out[end].step
	}
	return out[:end:end], next, nil
}

func appendEntries(out []entry, rows *query.Rows, sel *selection) []entry {
	for i, step := range sel.xs(rows) {
		e := entry{step, rows.TimeNs[i], rows.Writer[i], rows.Attempt[i], rows.Values.Floats[i]}
		if n := len(out); n > 0 && (out[n-1].is(&e) || sel.single && out[n-1].step == step) {
			if !sel.single || len(sel.at) > 1 && step == sel.at[len(sel.at)-1] {
				out[n-1] = e
			}
			continue
		}
		out = append(out, e)
	}
	return out
}

// is reports whether two entries are of one row, where all attempts are read.
func (e *entry) is(o *entry) bool {
	return e.attempt == o.attempt && e.compare(o.step, o.time, &o.writer) == 0
}

// xs are where points stand.
func (s *selection) xs(rows *query.Rows) []int64 {
	if s.events {
		return rows.TimeNs
	}
	return stepsOf(rows)
}

// stepsOf are the steps of points that all have one.
func stepsOf(rows *query.Rows) []int64 {
	at := slices.IndexFunc(rows.Axes, func(a model.AxisColumn) bool { return a.Axis == model.AxisStep })
	if at < 0 { // points of another client, read by time
		return nil
	}
	return rows.Axes[at].Values
}

func isPlain(key model.SeriesKey) bool { return key.Scale == model.ScaleStep && len(key.Labels) == 0 }
