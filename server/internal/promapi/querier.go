package promapi

import (
	"context"
	"errors"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/store"
)

// reader reads what one request asks for. It is not safe for concurrent use.
type reader struct {
	service            Service
	workspace, project string // empty: every project that the caller may read
	lookback           time.Duration
	room               *room
	work               *work
	growth             *growth // of labels; nil without an expression

	runs          []query.PlacedRun // all, once they are listed
	read, configs bool              // without, and with their configs
}

var _ storage.Queryable = (*reader)(nil)

// Querier implements [storage.Queryable]: a request reads one time range after the other.
func (r *reader) Querier(int64, int64) (storage.Querier, error) { return querier{r}, nil }

// What is kept takes bytes: for each series besides its labels, for each run, for each
// value of a config, for each sample
// in lists that grow.
const (
	seriesBytes = 200
	runBytes    = 120
	configBytes = 120
	sampleBytes = 24
)

// placed lists the runs that a selector selects, from all, which are read once, or twice where
// a later selector needs their configs.
func (r *reader) placed(ctx context.Context, s *selector) ([]query.PlacedRun, error) {
	if configs := s.mayInfo(); !r.read || configs && !r.configs {
		r.runs, r.read, r.configs = nil, true, configs
		for run, err := range r.service.PlacedRuns(ctx, query.RunsFilter{Workspace: r.workspace, Project: r.project, Configs: configs}) {
			if err != nil {
				return nil, err
			}
			size := runBytes + len(run.Name)
			for i := range run.Config {
				size += configBytes + len(run.Config[i].Path) + len(run.Config[i].Value.Str)
			}
			if err := r.room.take(int64(size)); err != nil {
				return nil, err
			}
			r.runs = append(r.runs, run)
		}
	}
	if len(s.runs) == 0 {
		return r.runs, nil
	}
	var out []query.PlacedRun
	for _, run := range r.runs {
		if s.matchRun(run) {
			out = append(out, run)
		}
	}
	return out, nil
}

// infos yields the infos of runs that are selected.
func (r *reader) infos(s *selector, runs []query.PlacedRun, yield func(labels.Labels) error) error {
	if !s.mayInfo() {
		return nil
	}
	for i := range runs {
		if info := infoOf(&runs[i]); s.matchInfo(info) {
			if err := yield(info); err != nil {
				return err
			}
		}
	}
	return nil
}

// series yields the labels of the series that are selected and have points in a time range.
func (r *reader) series(ctx context.Context, s *selector, from, to int64, yield func(labels.Labels) error) error {
	runs, err := r.placed(ctx, s)
	if err != nil {
		return err
	}
	q := query.Selection{Runs: runs, Metric: s.metric(), Match: s.matchKeys(), From: from, To: to}
	for found, err := range r.service.SelectSeries(ctx, q) {
		if err != nil {
			return err
		}
		if !hasAxes(s, found.Series) {
			continue
		}
		if err := yield(labelsOf(found.Run, found.Series.Key)); err != nil {
			return err
		}
	}
	return r.infos(s, runs, yield)
}

// hasAxes is false where no point of a series can have the axes that are asked for.
func hasAxes(s *selector, of *store.Series) bool {
	for axis, list := range s.axes {
		if slices.Contains(of.Axes, axis) {
			continue
		}
		for _, m := range list {
			if !m.Matches("") {
				return false
			}
		}
	}
	return true
}

// readError is an error of the server, not of what was asked.
type readError struct{ error }

func (e readError) Unwrap() error { return e.error }

// failed marks an error of the server that has no words for the caller.
func failed(err error) error {
	if err == nil || isTooMuch(err) || model.Shown(err) != nil {
		return err
	}
	return readError{err}
}

// querier is the engine's view of a reader.
type querier struct{ *reader }

// Close implements [storage.Querier].
func (querier) Close() error { return nil }

// LabelValues implements [storage.Querier]; no function of PromQL that is on asks for it.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// LabelNames is like LabelValues.
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, errors.ErrUnsupported
}

// Select implements [storage.Querier]. Nothing is read before the first series is asked for.
func (q querier) Select(ctx context.Context, sorted bool, hints *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	return &seriesSet{read: func() ([]*series, error) {
		list, err := q.selectAll(ctx, newSelector(matchers), hints)
		err = failed(err)
		if sorted {
			slices.SortFunc(list, func(a, b *series) int { return labels.Compare(a.labels, b.labels) })
		}
		return list, err
	}, at: -1}
}

func (r *reader) selectAll(ctx context.Context, s *selector, hints *storage.SelectHints) ([]*series, error) {
	runs, err := r.placed(ctx, s)
	if err != nil {
		return nil, err
	}
	q := query.Selection{Runs: runs, Metric: s.metric(), Match: s.matchKeys(), From: nanoseconds(hints.Start), To: endOf(hints.End)}
	// Where the engine looks back from one time it needs the last sample before that alone.
	q.Last = hints.Range == 0 && hints.End-hints.Start < r.lookback.Milliseconds() && len(s.axes) == 0
	var list []*series
	var last *store.Series
	for piece, err := range r.service.Select(ctx, q) {
		if err != nil {
			return nil, err
		}
		if !hasAxes(s, piece.Series) {
			continue
		}
		if piece.Series != last {
			last = piece.Series
			of := labelsOf(piece.Run, last.Key)
			if err := r.room.take(seriesBytes + int64(of.Len()*16+size(of)) + r.growth.read(of)); err != nil {
				return nil, err
			}
			if n := len(list); n > 0 && list[n-1].count == 0 {
				list = list[:n-1]
			}
			list = append(list, &series{labels: of})
		}
		if err := r.keep(list[len(list)-1], s, piece.Rows); err != nil {
			return nil, err
		}
	}
	if n := len(list); n > 0 && list[n-1].count == 0 { // no point has the axes
		list = list[:n-1]
	}
	every := max(1, r.lookback.Milliseconds()/2, hints.Range/1000)
	err = r.infos(s, runs, func(of labels.Labels) error {
		list = append(list, &series{labels: of, every: every, from: hints.Start, to: hints.End})
		return r.room.take(seriesBytes + int64(size(of)) + r.growth.read(of))
	})
	if err != nil {
		return nil, err
	}
	return list, r.work.series(list, hints, r.lookback)
}

func size(of labels.Labels) (n int) {
	of.Range(func(l labels.Label) { n += len(l.Name) + len(l.Value) })
	return n
}

// keep adds the points that are selected to a series. Of several in one millisecond it keeps
// the last, by time, then step.
func (r *reader) keep(to *series, s *selector, rows *store.Rows) error {
	step := columnOf(rows, model.AxisStep)
	before := to.count
	added := block{from: before}
	if len(s.axes) == 0 {
		added.samples = make([]sample, 0, len(rows.TimeNs))
	}
	for i, ns := range rows.TimeNs {
		if len(s.axes) > 0 && !s.matchAxes(func(axis model.Axis) string {
			if v, ok := columnOf(rows, axis)(i); ok {
				return strconv.FormatInt(v, 10)
			}
			return ""
		}) {
			continue
		}
		at, _ := step(i)
		now := sample{milliseconds(ns), valueAt(rows, i)}
		if to.last != nil && to.last.time == now.time {
			if ns > to.lastNs || at >= to.lastStep {
				to.last.value, to.lastNs, to.lastStep = now.value, ns, at
			}
			continue
		}
		added.samples = append(added.samples, now)
		to.last, to.lastNs, to.lastStep = &added.samples[len(added.samples)-1], ns, at
	}
	if len(added.samples) > 0 {
		to.blocks = append(to.blocks, added)
		to.count += len(added.samples)
	}
	return r.room.take(int64(to.count-before) * sampleBytes)
}

// columnOf reads an axis of rows; false where a row lacks it.
func columnOf(rows *store.Rows, axis model.Axis) func(row int) (int64, bool) {
	for k, a := range rows.Axes {
		if a.Axis == axis {
			return func(row int) (int64, bool) {
				return a.Values[row], k >= len(rows.Has) || rows.Has[k] == nil || rows.Has[k][row]
			}
		}
	}
	return func(int) (int64, bool) { return math.MinInt64, false }
}

func valueAt(rows *store.Rows, i int) float64 {
	if rows.Values.Kind == model.KindInt {
		return float64(rows.Values.Ints[i])
	}
	return rows.Values.Floats[i]
}

const millisecond = int64(time.Millisecond)

func milliseconds(ns int64) int64 {
	ms := ns / millisecond
	if ns < ms*millisecond {
		ms--
	}
	return ms
}

// nanoseconds is the first of a millisecond; times that a point cannot have are moved to the
// nearest that it can.
func nanoseconds(ms int64) int64 {
	return min(max(ms, math.MinInt64/millisecond), math.MaxInt64/millisecond) * millisecond
}

// endOf is the last nanosecond of a millisecond.
func endOf(ms int64) int64 {
	if ms >= math.MaxInt64/millisecond {
		return math.MaxInt64
	}
	return nanoseconds(ms) + millisecond - 1
}

// seriesSet reads when it is first asked.
type seriesSet struct {
	read func() ([]*series, error)
	list []*series
	err  error
	at   int
}

// Next implements [storage.SeriesSet].
func (s *seriesSet) Next() bool {
	if s.at < 0 {
		s.list, s.err = s.read()
	}
	s.at++
	return s.err == nil && s.at < len(s.list)
}

func (s *seriesSet) At() storage.Series                { return s.list[s.at] }
func (s *seriesSet) Err() error                        { return s.err }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

// series is a series in memory, or one that has the value 1 at every so many milliseconds.
// Its samples stay in the blocks that were read: one long list would take what it had before,
// too, each time that it grows.
type series struct {
	labels          labels.Labels
	blocks          []block
	count           int     // of all samples
	last            *sample // of the last block
	lastNs          int64
	lastStep        int64
	every, from, to int64
}

// block is samples of a series; from is how many there are in front of them.
type block struct {
	from    int
	samples []sample
}

func (s *series) Labels() labels.Labels { return s.labels }

func (s *series) Iterator(chunkenc.Iterator) chunkenc.Iterator {
	return storage.NewListSeriesIterator(&samples{series: s})
}

// samples are those of a series, one at a time.
type samples struct {
	*series
	in  block // that was asked for last
	now sample
}

func (s *samples) Len() int {
	if s.every == 0 {
		return s.count
	}
	return int((s.to-s.from)/s.every) + 1
}

// Get is good until the next call.
func (s *samples) Get(i int) chunks.Sample {
	if s.every > 0 {
		s.now = sample{s.to - int64(s.Len()-1-i)*s.every, 1}
		return &s.now
	}
	if i < s.in.from || i >= s.in.from+len(s.in.samples) {
		k := sort.Search(len(s.blocks), func(k int) bool { return s.blocks[k].from > i })
		s.in = s.blocks[k-1]
	}
	return &s.in.samples[i-s.in.from]
}

type sample struct {
	time  int64
	value float64
}

func (s *sample) T() int64                      { return s.time }
func (s *sample) F() float64                    { return s.value }
func (s *sample) H() *histogram.Histogram       { return nil }
func (s *sample) FH() *histogram.FloatHistogram { return nil }
func (s *sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s *sample) Copy() chunks.Sample           { c := *s; return &c }
