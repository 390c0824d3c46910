package state

import (
	"context"
	"slices"
	"sort"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/curve"
)

// List answers [store.Reader.ListSeries].
func (t *Table) List(ctx context.Context, run model.RunID, f store.SeriesFilter) ([]store.Series, bool, error) {
	if f.Limit < 1 {
		return nil, false, model.Errorf(model.CodeInvalid, "a list needs a limit of at least 1")
	}
	r, order, err := t.ordered(run)
	if err != nil {
		return nil, false, err
	}
	l := &lister{}
	more, err := l.collect(ctx, r, order, f)
	if err != nil {
		return nil, false, err
	}
	for i, v := range l.stale {
		if err := ctx.Err(); err != nil {
			return nil, false, model.Errorf(model.CodeTimeout, "the list was stopped: %v", err)
		}
		l.describe(&l.page[i], v.Series, v.Mask, v.End())
	}
	return l.page, more, nil
}

// lister fills a page. What all series have in common is allocated for many.
type lister struct {
	page   []store.Series
	stale  map[int]*curve.View // by place in the page: their end has to be worked out
	labels []model.Label       // of the series that is looked at
	mask   column.AxisSet
	axes   []model.Axis // of mask
	points []store.Point
	steps  []int64
}

// ordered is a run with its series by key.
func (t *Table) ordered(id model.RunID) (*Run, []uint32, error) {
	r, err := t.readable(id)
	if err != nil {
		return nil, nil, err
	}
	r.share()
	known, order, stale := r.known(), r.ordered, len(r.ordered) != r.names.count
	r.mu.RUnlock()
	if known && stale {
		r.Hold()
		known, order = r.known(), r.Order()
		r.mu.Unlock()
	}
	if !known {
		return nil, nil, notFound(id)
	}
	return r, order, nil
}

// lookedAtOnce is how many series a search looks at before it lets writers of the
// run in and sees whether it is still wanted.
const lookedAtOnce = 4096

// collect takes the series that a filter selects, and views of those whose end
// is not known.
func (l *lister) collect(ctx context.Context, r *Run, order []uint32, f store.SeriesFilter) (more bool, err error) {
	order = l.wanted(r, order, f)
	for part := range slices.Chunk(order, lookedAtOnce) {
		if err := ctx.Err(); err != nil {
			return false, model.Errorf(model.CodeTimeout, "the list was stopped: %v", err)
		}
		if l.collectPart(r, part, f) {
			return true, nil
		}
	}
	return false, nil
}

// wanted is the range of the order that is behind f.After and of f.Metric.
func (l *lister) wanted(r *Run, order []uint32, f store.SeriesFilter) []uint32 {
	r.share()
	defer r.mu.RUnlock()
	if r.deleted {
		return nil
	}
	text := func(i int) string { return r.series[order[i]].Text }
	if f.Metric != "" {
		order = order[sort.Search(len(order), func(i int) bool { return text(i) >= f.Metric+"\x00" }):]
		order = order[:sort.Search(len(order), func(i int) bool { return metricOf(text(i)) != f.Metric })]
	}
	if f.After != "" {
		order = order[sort.Search(len(order), func(i int) bool { return text(i) > f.After }):]
	}
	return order
}

// collectPart reports whether it found one more than the page holds.
func (l *lister) collectPart(r *Run, part []uint32, f store.SeriesFilter) (more bool) {
	r.share()
	defer r.mu.RUnlock()
	if r.deleted {
		return false
	}
	for i, id := range part {
		s := r.series[id]
		if len(f.Kinds) > 0 && !slices.Contains(f.Kinds, s.Kind) || f.Match != nil && !f.Match(l.keyOf(s.Text)) {
			continue
		}
		if len(l.page) == f.Limit {
			return true
		}
		l.room(min(f.Limit, len(l.page)+len(part)-i))
		l.add(r, s)
	}
	return false
}

// keyOf is a key that is good until the next call.
func (l *lister) keyOf(text string) model.SeriesKey {
	metric, rest, _ := strings.Cut(text, "\x00")
	scale, rest, more := strings.Cut(rest, "\x00")
	l.labels = l.labels[:0]
	for more {
		var label string
		label, rest, more = strings.Cut(rest, "\x00")
		name, value, _ := strings.Cut(label, "\x01")
		l.labels = append(l.labels, model.Label{Name: name, Value: value})
	}
	return model.SeriesKey{Metric: metric, Scale: scale, Labels: l.labels}
}

func metricOf(text string) string {
	metric, _, _ := strings.Cut(text, "\x00")
	return metric
}

// room makes a full page four times as large, or as large as it can become: append
// would leave several times the page behind.
func (l *lister) room(largest int) {
	if len(l.page) == cap(l.page) {
		l.page = slices.Grow(l.page, min(max(64, 3*len(l.page)), largest-len(l.page)))
	}
}

func (l *lister) add(r *Run, s *Series) {
	l.page = append(l.page, store.Series{})
	at := len(l.page) - 1
	if s.live != nil {
		if end := s.live.Known(s.live.version, r.epoch); end != nil {
			l.describe(&l.page[at], s.named(), s.live.mask, end)
			return
		}
	}
	if l.stale == nil {
		l.stale = map[int]*curve.View{}
	}
	l.stale[at] = r.view(s)
}

func (l *lister) describe(out *store.Series, s curve.Series, mask column.AxisSet, end *curve.End) {
	out.ID, out.Key, out.Kind, out.Count, out.Superseded = store.SeriesID(s.ID), s.Key(), s.Kind, end.Count, end.Stored-end.Count
	out.Axes = l.axesOf(mask)
	if end.Count == 0 {
		return
	}
	out.MinTimeNs, out.MaxTimeNs = end.MinTime, end.MaxTime
	out.Last = take(&l.points)
	out.Last.TimeNs, out.Last.Value = end.Last.Time, end.Value
	if end.LastX == column.Step {
		out.Last.Step = take(&l.steps)
		*out.Last.Step = end.Last.X
	}
}

// axesOf names the axes of a mask, mostly that of the series before.
func (l *lister) axesOf(mask column.AxisSet) []model.Axis {
	if mask != l.mask {
		l.mask, l.axes = mask, nil
		for a, name := range model.Axes() {
			if mask.Has(a) {
				l.axes = append(l.axes, name)
			}
		}
	}
	return slices.Clip(l.axes)
}

// take gives a new item, allocated with others.
func take[T any](room *[]T) *T {
	if len(*room) == 0 {
		*room = make([]T, 64)
	}
	out := &(*room)[0]
	*room = (*room)[1:]
	return out
}

// views takes views of every series of a run, in order of key.
func (t *Table) views(id model.RunID) ([]*curve.View, error) {
	r, order, err := t.ordered(id)
	if err != nil {
		return nil, err
	}
	return r.viewsOf(order)
}

// Ends answers [store.Reader.Ends]: an ENVIRONMENT_STEP series is listed with its
// highest episode.
func (t *Table) Ends(ctx context.Context, run model.RunID, limit int) ([]model.Start, []model.EnvEnd, bool, error) {
	views, err := t.views(run)
	if err != nil {
		return nil, nil, false, err
	}
	starts, envs, err := curve.Ends(ctx, views, limit)
	return starts, envs, err == nil && len(views) <= limit, err
}

// Views takes views of series.
func (r *Run) Views(order []uint32) []*curve.View {
	views := make([]*curve.View, 0, len(order))
	for _, s := range order {
		views = append(views, r.view(r.series[s]))
	}
	return views
}
