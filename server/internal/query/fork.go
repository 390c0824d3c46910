package query

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Lineage is where a run comes from and what comes from it.
type Lineage struct {
	// Ancestors are the runs that it continues, nearest first, as far as they can
	// be read.
	Ancestors []Ancestor
	// Broken is the ancestor that cannot be read, or the one behind MaxAncestors, nil when
	// there is none: nothing of it and of those behind it is inherited.
	Broken *BrokenLine
	Forks  []catalog.Fork // at most 1,000, oldest first
}

// Ancestor is a run whose points up to a step are inherited.
type Ancestor struct {
	*catalog.Run
	UpTo int64 // math.MaxInt64: all of them
}

// BrokenLine names a run that cannot be read.
type BrokenLine struct {
	Name string
	// Code is CodeNotFound for one that never came, CodeRunDeleted for one in the
	// trash or gone for good, CodePermission for one of another project, CodeTooLarge
	// for one that is too far.
	Code model.Code
}

// MaxAncestors is how far a run inherits.
const MaxAncestors = 1_000

// Ancestry lists the runs that a run continues, see [Lineage].
func (s *Service) Ancestry(ctx context.Context, id model.RunID) ([]Ancestor, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.open(ctx, id)
	if err != nil || run.ParentRun == "" {
		return nil, s.finish(ctx, err)
	}
	line, err := s.lineage(ctx, s.open, run)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	return line.Ancestors, nil
}

// lineage follows a run to its ancestors. Each is cut at its own fork step and at
// those of the forks in front of it.
func (s *Service) lineage(ctx context.Context, open opener, run *catalog.Run) (*Lineage, error) {
	out := &Lineage{}
	seen := map[model.RunID]bool{}
	for upTo := int64(math.MaxInt64); run.ParentRun != ""; {
		if seen[run.ID] = true; len(out.Ancestors) == MaxAncestors {
			out.Broken = &BrokenLine{run.ParentRun, model.CodeTooLarge}
			return out, nil
		}
		parent, err := s.parent(ctx, open, run)
		switch code := model.CodeOf(err); {
		case code == model.CodeNotFound, code == model.CodeRunDeleted, code == model.CodePermission:
			out.Broken = &BrokenLine{run.ParentRun, code}
			return out, nil
		case err != nil:
			return nil, err
		case seen[parent.ID]: // the catalog makes no circles
			return out, nil
		}
		if run.ForkStep != nil {
			upTo = min(upTo, *run.ForkStep)
		}
		out.Ancestors = append(out.Ancestors, Ancestor{parent, upTo})
		run = parent
	}
	return out, nil
}

// Ancestors adds to a family the ancestors of runs, each read once. ends are the runs whose
// parent cannot be read now: a fork may come before its parent.
func (s *Service) Ancestors(ctx context.Context, family map[model.RunID]bool, runs []model.RunID) (ends []model.RunID) {
	for _, id := range runs {
		if end := s.climb(ctx, family, id); !end.IsZero() {
			ends = append(ends, end)
		}
	}
	return ends
}

// climb goes up to who is in the family already.
func (s *Service) climb(ctx context.Context, family map[model.RunID]bool, id model.RunID) (end model.RunID) {
	run, err := s.open(ctx, id)
	if err != nil {
		return id
	}
	for range MaxAncestors {
		if run.ParentRun == "" {
			return end
		}
		parent, err := s.parent(ctx, s.open, run)
		if err != nil {
			return run.ID
		}
		if family[parent.ID] {
			return end
		}
		family[parent.ID] = true
		run = parent
	}
	return end
}

func (s *Service) parent(ctx context.Context, open opener, run *catalog.Run) (*catalog.Run, error) {
	if run.Parent.IsZero() {
		return nil, model.Errorf(model.CodeNotFound, "there is no run %q", run.ParentRun)
	}
	return open(ctx, run.Parent)
}

// curve is a series of a run with what it inherits.
type curve struct {
	run    *catalog.Run // that was asked for
	series store.Series // of the nearest run that has it, with the axes of all
	store.CurveRequest
	ended bool // by a series of another kind
}

// depths are the runs by the depth of a row.
func (c *curve) depths() []model.RunID {
	out := []model.RunID{c.run.ID}
	for _, a := range c.Ancestors {
		out = append(out, a.Run)
	}
	return out
}

// cuts tell apart cursors of other lineages.
func (c *curve) cuts() (out []string) {
	for _, a := range c.Ancestors {
		out = append(out, a.Run.String(), strconv.FormatInt(a.UpTo, 10))
	}
	return out
}

// take adds the series of a run that is farther than those before; false when it
// is another one.
func (c *curve) take(series *store.Series, from *Ancestor) bool {
	first := c.Run.IsZero() && len(c.Ancestors) == 0
	c.ended = c.ended || !first && series.Kind != c.series.Kind
	switch {
	case c.ended:
		return false
	case first:
		c.series = *series
	default:
		c.series.Axes = unite(c.series.Axes, series.Axes)
	}
	if from == nil {
		c.Run, c.Series = c.run.ID, series.ID
	} else {
		c.Ancestors = append(c.Ancestors, store.Ancestor{Run: from.ID, Series: series.ID, UpTo: from.UpTo})
	}
	return true
}

// unite keeps the canonical order.
func unite(a, b []model.Axis) []model.Axis {
	var out []model.Axis
	for _, axis := range model.Axes() {
		if slices.Contains(a, axis) || slices.Contains(b, axis) {
			out = append(out, axis)
		}
	}
	return out
}

// isInherited: steps within an episode are not, the episodes of a fork are its own.
func isInherited(key model.SeriesKey) bool { return key.Scale != model.ScaleEnvironment }

var errNoCurve = model.Errorf(model.CodeInvalid, "an attempt inherits nothing").
	WithHint("leave attempt out to read the curve with what it inherits, or include_inherited to read an attempt")

// findInherited resolves a selector in a run and its ancestors. The nearest run
// that has such a series decides which one is meant.
func (s *Service) findInherited(ctx context.Context, open opener, run *catalog.Run, sel Selector) (*curve, error) {
	line, err := s.lineage(ctx, open, run)
	if err != nil {
		return nil, err
	}
	c := &curve{run: run}
	own, err := s.find(ctx, run.ID, sel)
	switch {
	case err == nil:
		c.take(&own, nil)
		sel.Scale = own.Key.Scale
	case model.CodeOf(err) != model.CodeNotFound:
		return nil, err
	}
	missing := err
	for i := range line.Ancestors {
		a := &line.Ancestors[i]
		found, err := s.findWhere(ctx, a.ID, sel, isInherited)
		if model.CodeOf(err) == model.CodeNotFound {
			continue
		}
		if err != nil {
			return nil, err
		}
		if !c.take(&found, a) {
			break
		}
		sel.Scale = found.Key.Scale
	}
	if c.series.Kind == 0 {
		return nil, missing
	}
	return c, nil
}

// listInherited lists the series of a run and of its ancestors together.
func (s *Service) listInherited(ctx context.Context, run *catalog.Run, filter store.SeriesFilter) (page []curve, more bool, err error) {
	line, err := s.lineage(ctx, s.open, run)
	if err != nil {
		return nil, false, err
	}
	if len(line.Ancestors) == 0 {
		return s.listOwn(ctx, run, filter)
	}
	all := map[string]*curve{}
	add := func(id model.RunID, filter store.SeriesFilter, from *Ancestor) error {
		list, rest, err := s.listOf(ctx, id, filter)
		for i := range list {
			key := list[i].Key.String()
			if all[key] == nil {
				all[key] = &curve{run: run}
			}
			all[key].take(&list[i], from)
		}
		more = more || rest
		return err
	}
	if err := add(run.ID, filter, nil); err != nil {
		return nil, false, err
	}
	asked := filter.Match
	filter.Match = func(key model.SeriesKey) bool { return isInherited(key) && (asked == nil || asked(key)) }
	for i := range line.Ancestors {
		if err := add(line.Ancestors[i].ID, filter, &line.Ancestors[i]); err != nil {
			return nil, false, err
		}
	}
	texts := make([]string, 0, len(all))
	for text := range all {
		texts = append(texts, text)
	}
	slices.Sort(texts)
	if len(texts) > filter.Limit {
		texts, more = texts[:filter.Limit], true
	}
	for _, text := range texts {
		page = append(page, *all[text])
	}
	return page, more, s.describeAll(ctx, page)
}

// describeAll fills in what is known of curves that inherit.
func (s *Service) describeAll(ctx context.Context, list []curve) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(s.limits.Parallel)
	for i := range list {
		c := &list[i]
		if len(c.Ancestors) == 0 {
			continue
		}
		group.Go(func() error {
			end, err := s.store.Curve(ctx, c.CurveRequest)
			if err != nil {
				return fmt.Errorf("read the end of %s: %w", seriesText(c.series.Key), err)
			}
			c.series = end
			return nil
		})
	}
	return group.Wait()
}

// checkInherited refuses what has no meaning together.
func checkInherited(inherited bool, attempts Attempts) error {
	if inherited && attempts != (Attempts{}) {
		return errNoCurve
	}
	return nil
}
