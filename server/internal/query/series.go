package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// shownMatches bounds the series that an error lists.
const shownMatches = 10

// Series lists the series of a run in the order of (metric, scale, labels).
func (s *Service) Series(ctx context.Context, r SeriesRequest) (*SeriesPage, error) {
	filter, hash, err := seriesFilter(&r)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, r.Run)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	list, more, err := s.listCurves(ctx, run, filter, r.IncludeInherited)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	if r.Ends {
		kept, err := s.readEnds(ctx, list, r.Texts)
		if err != nil {
			return nil, s.finish(ctx, err)
		}
		list, more = list[:kept], more || kept < len(list)
	}
	page := &SeriesPage{Series: make([]SeriesInfo, len(list)), Inherited: r.IncludeInherited}
	for i := range list {
		page.Series[i].Series = &list[i].series
	}
	if more && len(list) > 0 {
		page.Next = sealCursor(hash, []byte(list[len(list)-1].series.Key.String()))
	}
	return page, s.finish(ctx, s.addPreviews(ctx, list, page.Series, r))
}

// readEnds reads the last texts and documents of a list, and says how many series have
// room in one page with theirs.
func (s *Service) readEnds(ctx context.Context, list []curve, texts Admit) (kept int, err error) {
	size := int64(0)
	for i := range list {
		c := &list[i]
		if isNumeric(c.series.Kind) || c.series.Last == nil {
			continue
		}
		if size == 0 {
			if err := texts.wait(ctx, c.series.Kind); err != nil {
				return 0, err
			}
		}
		end, err := s.store.Curve(ctx, c.CurveRequest)
		if err != nil {
			return 0, fmt.Errorf("read the end of %s: %w", seriesText(c.series.Key), err)
		}
		if end.Last == nil { // deleted meanwhile
			continue
		}
		before := size
		if size += int64(1 + len(end.Last.Value.Doc)); size > s.limits.Page && before > 0 {
			return i, nil
		}
		c.series.Last = end.Last
	}
	return len(list), nil
}

func (s *Service) listCurves(ctx context.Context, run *catalog.Run, filter store.SeriesFilter, inherited bool) ([]curve, bool, error) {
	if inherited {
		return s.listInherited(ctx, run, filter)
	}
	return s.listOwn(ctx, run, filter)
}

func (s *Service) listOwn(ctx context.Context, run *catalog.Run, filter store.SeriesFilter) ([]curve, bool, error) {
	list, more, err := s.listOf(ctx, run.ID, filter)
	out := make([]curve, len(list))
	for i := range list {
		out[i] = curve{run: run, series: list[i], CurveRequest: store.CurveRequest{Run: run.ID, Series: list[i].ID}}
	}
	return out, more, err
}

func (s *Service) listOf(ctx context.Context, run model.RunID, filter store.SeriesFilter) ([]store.Series, bool, error) {
	list, more, err := s.store.ListSeries(ctx, run, filter)
	if err != nil && model.CodeOf(err) != model.CodeNotFound { // not found: a run without a point yet
		return nil, false, fmt.Errorf("list series of run %s: %w", run, err)
	}
	return list, more, nil
}

func seriesFilter(r *SeriesRequest) (filter store.SeriesFilter, hash uint32, err error) {
	if filter.Limit, err = pageSize(r.Limit, DefaultSeries, MaxSeries); err != nil {
		return filter, 0, err
	}
	if r.Preview < 0 || r.Preview > MaxPreview {
		return filter, 0, model.Errorf(model.CodeInvalid, "preview is %d, it must be from 0 to %d", r.Preview, MaxPreview)
	}
	given := func(texts []string) []string {
		return slices.DeleteFunc(slices.Clone(texts), func(text string) bool { return text == "" })
	}
	q, not := given(r.Query), given(r.Not)
	all, err := expressions("q", q)
	if err != nil {
		return filter, 0, err
	}
	none, err := expressions("not", not)
	if err != nil {
		return filter, 0, err
	}
	if len(all)+len(none) > 0 {
		filter.Match = byName(all, none)
	}
	filter.Kinds = r.Kinds
	kind := "series"
	if r.IncludeInherited {
		kind = "series with inherited"
	}
	of := []string{kind, r.Run.String(), strconv.Itoa(len(q)), string(r.Kinds)}
	hash = requestHash(slices.Concat(of, q, not)...)
	if r.Cursor != "" {
		after, err := openCursor(hash, r.Cursor)
		if err != nil {
			return filter, 0, err
		}
		filter.After = string(after)
	}
	return filter, hash, nil
}

// maxExpressions bounds the expressions of one search.
const maxExpressions = 32

func expressions(name string, texts []string) ([]*automaton, error) {
	if len(texts) > maxExpressions {
		return nil, model.Errorf(model.CodeInvalid, "%d expressions %s, the most are %d", len(texts), name, maxExpressions)
	}
	out := make([]*automaton, len(texts))
	for i, text := range texts {
		expression, err := newAutomaton(text)
		if err != nil {
			return nil, model.Errorf(model.CodeInvalid, "%s is not a regular expression: %v", name, err).
				WithHint("%s is RE2 syntax (github.com/google/re2/wiki/Syntax), unanchored, on the metric's name", name)
		}
		out[i] = expression
	}
	return out, nil
}

func (s *Service) addPreviews(ctx context.Context, curves []curve, list []SeriesInfo, r SeriesRequest) error {
	if r.Preview == 0 {
		return nil
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.limits.Parallel)
	for i := range list {
		if !isNumeric(list[i].Kind) {
			continue
		}
		group.Go(func() (err error) {
			list[i].Preview, err = s.readBuckets(ctx, &curves[i], BucketsRequest{N: r.Preview, IncludeInherited: r.IncludeInherited})
			return err
		})
	}
	return group.Wait()
}

// find resolves a selector to its one series.
func (s *Service) find(ctx context.Context, run model.RunID, sel Selector) (store.Series, error) {
	return s.findWhere(ctx, run, sel, func(model.SeriesKey) bool { return true })
}

func (s *Service) findWhere(ctx context.Context, run model.RunID, sel Selector, where func(model.SeriesKey) bool) (store.Series, error) {
	if sel.Metric == "" {
		return store.Series{}, model.Errorf(model.CodeInvalid, "no metric is given").
			WithHint("name the series: metric=…, scale=…, label.K=V for each of its labels")
	}
	want := model.NewSeriesKey(sel.Metric, sel.Scale, sel.Labels)
	named := func(key model.SeriesKey) bool {
		return key.Metric == want.Metric && (sel.Scale == "" || key.Scale == sel.Scale) && where(key)
	}
	match := func(key model.SeriesKey) bool { return named(key) && slices.Equal(key.Labels, want.Labels) }
	list, more, err := s.store.ListSeries(ctx, run, store.SeriesFilter{Metric: sel.Metric, Match: match, Limit: shownMatches})
	if len(list) == 0 && err == nil && len(want.Labels) == 0 {
		// Only one series bears the name, such as of one environment: it is meant.
		if only, _, err := s.store.ListSeries(ctx, run, store.SeriesFilter{Metric: sel.Metric, Match: named, Limit: 2}); err == nil && len(only) == 1 {
			return only[0], nil
		}
	}
	switch {
	case err != nil && model.CodeOf(err) != model.CodeNotFound:
		return store.Series{}, fmt.Errorf("find series %s of run %s: %w", sel.Metric, run, err)
	case len(list) == 1:
		return list[0], nil
	case len(list) > 1:
		return store.Series{}, model.Errorf(model.CodeAmbiguous, "%d series of run %s match: %s", len(list), run, describe(list, more)).
			WithHint("add scale=… to choose one")
	}
	return store.Series{}, s.notFound(ctx, run, sel, want)
}

// notFound says which series of the metric there are.
func (s *Service) notFound(ctx context.Context, run model.RunID, sel Selector, want model.SeriesKey) error {
	want.Scale = sel.Scale
	err := model.Errorf(model.CodeNotFound, "run %s has no series %s", run, seriesText(want))
	list, more, listErr := s.store.ListSeries(ctx, run, store.SeriesFilter{Metric: sel.Metric, Limit: shownMatches})
	if listErr != nil || len(list) == 0 {
		return err.WithHint("`kymogram series list %s` shows those there are", run)
	}
	return err.WithHint("scale=… and label.K=V name the whole series; of this metric there are: %s", describe(list, more))
}

func describe(list []store.Series, more bool) string {
	texts := make([]string, 0, len(list)+1)
	for i := range list {
		texts = append(texts, seriesText(list[i].Key))
	}
	if more {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// seriesText writes a key as people do: reward{scale="EPISODE", env_id="a"}.
func seriesText(key model.SeriesKey) string {
	var parts []string
	if key.Scale != "" {
		parts = append(parts, "scale="+strconv.Quote(key.Scale))
	}
	for _, l := range key.Labels {
		parts = append(parts, "label."+l.Name+"="+strconv.Quote(l.Value))
	}
	return key.Metric + "{" + strings.Join(parts, ", ") + "}"
}

// axisOf checks the axis that a caller named, or chooses step, else time.
func axisOf(series store.Series, asked model.Axis) (model.Axis, error) {
	switch {
	case asked == "" && slices.Contains(series.Axes, model.AxisStep):
		return model.AxisStep, nil
	case asked == "" || asked == model.AxisTime:
		return model.AxisTime, nil
	case slices.Contains(series.Axes, asked):
		return asked, nil
	}
	names := make([]string, 0, len(series.Axes)+1)
	for _, axis := range append(slices.Clone(series.Axes), model.AxisTime) {
		names = append(names, string(axis))
	}
	return "", model.Errorf(model.CodeInvalid, "series %s has no axis %q", seriesText(series.Key), asked).
		WithHint("its axes are %s", strings.Join(names, ", "))
}
