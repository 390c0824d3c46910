package query

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
	"github.com/kymogram/kymogram/server/internal/spelling"
)

const (
	// mostHinted bounds the names that one answer looks for.
	mostHinted = 4
	// nearRuns is of how many runs, the newest, names are offered instead.
	nearRuns = 20
)

// runFields are what every run has, in filters and orders.
var runFields = []string{"created", "last", "name", "status", "tag"}

// hint says why a list may not be what its reader wanted: it is empty, or not sorted, and names
// what no run has. "" where there is nothing to say. Only a first page has one.
func (s *Service) hint(ctx context.Context, r *RunsRequest, page []catalog.Run) (string, error) {
	if r.Cursor != "" {
		return "", nil
	}
	if len(page) > 0 {
		return s.sortHint(ctx, r, page[0].ID)
	}
	e, err := filter.Parse(r.Query)
	if err != nil {
		return "", err
	}
	var told []string
	for i, t := range terms(&e, nil) {
		if i == mostHinted {
			break
		}
		said, err := s.termHint(ctx, r, t)
		if err != nil {
			return "", err
		}
		if said != "" && !slices.Contains(told, said) {
			told = append(told, said)
		}
	}
	return strings.Join(told, "; "), nil
}

// sortHint: where any run has what the list is sorted by, the first one has it.
func (s *Service) sortHint(ctx context.Context, r *RunsRequest, first model.RunID) (string, error) {
	name := strings.TrimPrefix(r.Sort, "-")
	if name == "" || slices.Contains(runFields[:len(runFields)-1], name) {
		return "", nil
	}
	if m, ok := filter.ParseMetric(name); ok && m.Of == filter.AtStep { // whose values are read once
		return s.unknownMetric(ctx, r, m.Name)
	}
	values, err := s.columnValues(ctx, []model.RunID{first}, []string{name}, 0)
	if err != nil || values[0][0].Type != "" {
		return "", err
	}
	why, err := s.unknown(ctx, r, name, true)
	if why == "" || err != nil {
		return "", err
	}
	return "the list is not sorted: " + why, nil
}

// columnHint names columns that are empty because no run has them.
func (s *Service) columnHint(ctx context.Context, r *RunsRequest, values [][]model.Value) (string, error) {
	if r.Cursor != "" || len(values) == 0 {
		return "", nil
	}
	var told []string
	looked := 0
	for i, column := range r.Columns {
		if looked == mostHinted {
			break
		}
		if slices.ContainsFunc(values, func(row []model.Value) bool { return row[i].Type != "" }) {
			continue
		}
		looked++
		metric, last := strings.CutPrefix(column, "summary/")
		look := func() (string, error) { return s.unknown(ctx, r, column, true) }
		if last {
			look = func() (string, error) { return s.unknownMetric(ctx, r, metric) }
		}
		said, err := look()
		if err != nil {
			return "", err
		}
		if said != "" {
			told = append(told, said)
		}
	}
	if len(told) == 0 {
		return "", nil
	}
	return "a column is empty: " + strings.Join(told, "; "), nil
}

// terms are the conditions of a filter that are no groups of others.
func terms(e *filter.Expr, to []filter.Term) []filter.Term {
	if e.Kind == filter.Word || e.Kind == filter.Compare {
		return append(to, e.Term)
	}
	for i := range e.Parts {
		to = terms(&e.Parts[i], to)
	}
	return to
}

func (s *Service) termHint(ctx context.Context, r *RunsRequest, t filter.Term) (string, error) {
	switch {
	case t.Path == "" && t.Quoted:
		return "", nil
	case t.Path == "":
		if name, _, ok := strings.Cut(t.Value, "~"); ok && name != "" {
			return "~ is no operator: a word alone, as fir, finds the names that contain it", nil
		}
		if name, value, ok := strings.Cut(t.Value, ":"); ok && name != "" && value != "" {
			return fmt.Sprintf("no name or tag contains %s; a condition is %s=%s", quoted(t.Value), model.Clip(name), model.Clip(value)), nil
		}
		return "", nil
	case slices.Contains(runFields, t.Path):
		if strings.ContainsAny(t.Value, "*?") {
			return fmt.Sprintf("in %s=%s the star is itself: a word alone, as %s, finds the names and tags that contain it",
				t.Path, model.Clip(t.Value), model.Clip(strings.Trim(t.Value, "*?"))), nil
		}
		return "", nil
	case t.Metric != nil:
		return s.unknownMetric(ctx, r, t.Metric.Name)
	}
	return s.unknown(ctx, r, t.Path, false)
}

// unknown says that no run has an attribute or a metric, and what it may have been.
// Bare: a metric counts only as last(…) and the like.
func (s *Service) unknown(ctx context.Context, r *RunsRequest, path string, bare bool) (string, error) {
	if m, ok := filter.ParseMetric(path); ok {
		return s.unknownMetric(ctx, r, m.Name)
	}
	has, err := s.hasAttribute(ctx, r, path)
	if has || err != nil {
		return "", err
	}
	runs, err := s.runs.RunsWith(ctx, r.Workspace, r.Project, path)
	switch {
	case err != nil:
		return "", fmt.Errorf("list the runs with %s: %w", model.Clip(path), err)
	case len(runs) > 0 && bare:
		return fmt.Sprintf("%s is a metric; write last(%s), min(…) or max(…)", quoted(path), model.Clip(path)), nil
	case len(runs) > 0:
		return "", nil
	}
	return s.nobodyHas(ctx, r, path, true)
}

func (s *Service) unknownMetric(ctx context.Context, r *RunsRequest, name string) (string, error) {
	runs, err := s.runs.RunsWith(ctx, r.Workspace, r.Project, name)
	if len(runs) > 0 || err != nil {
		return "", err
	}
	return s.nobodyHas(ctx, r, name, false)
}

// hasAttribute says whether any run has an attribute, by its path or below config/.
func (s *Service) hasAttribute(ctx context.Context, r *RunsRequest, path string) (bool, error) {
	f := catalog.RunFilter{Workspace: r.Workspace, Project: r.Project, Deleted: r.Deleted, Sort: path, Limit: 1}
	first, _, err := s.runs.ListRuns(ctx, f)
	if err != nil {
		return false, fmt.Errorf("list runs by %s: %w", model.Clip(path), err)
	}
	if len(first) == 0 {
		return false, nil
	}
	values, err := s.columnValues(ctx, []model.RunID{first[0].ID}, []string{path}, 0)
	return err == nil && values[0][0].Type != "", err
}

// nobodyHas is the sentence, with the names of the newest runs that are close.
func (s *Service) nobodyHas(ctx context.Context, r *RunsRequest, name string, attributes bool) (string, error) {
	names, err := s.namesOf(ctx, r, attributes)
	if err != nil {
		return "", err
	}
	what := "metric "
	if attributes {
		what = ""
	}
	said := fmt.Sprintf("no run of %s/%s has the %s%s", r.Workspace, r.Project, what, quoted(name))
	if attributes {
		said = fmt.Sprintf("no run of %s/%s has %s", r.Workspace, r.Project, quoted(name))
	}
	near := spelling.Near(name, names, suggestions)
	if len(near) == 0 && attributes {
		near = endingIn(name, names)
	}
	if len(near) == 0 {
		return said, nil
	}
	for i := range near {
		near[i] = quoted(near[i])
	}
	return said + "; did you mean " + strings.Join(near, " or ") + "?", nil
}

// endingIn are names whose last part is that of another: config/lr for optimizer.lr.
func endingIn(name string, names []string) (out []string) {
	last := func(s string) string { return s[strings.LastIndexAny(s, "/.")+1:] }
	for _, n := range names {
		if strings.EqualFold(last(n), last(name)) && len(out) < suggestions && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// namesOf are names that the newest runs have: of metrics, and of attributes and fields too.
func (s *Service) namesOf(ctx context.Context, r *RunsRequest, attributes bool) ([]string, error) {
	f := catalog.RunFilter{Workspace: r.Workspace, Project: r.Project, Deleted: r.Deleted, Limit: nearRuns, Bytes: smallTexts, Configs: attributes}
	runs, _, err := s.runs.ListRuns(ctx, f)
	if err != nil { // of texts that are too many
		f.Bytes, f.Configs = 0, false
		if runs, _, err = s.runs.ListRuns(ctx, f); err != nil {
			return nil, fmt.Errorf("list runs: %w", err)
		}
	}
	var names []string
	if attributes {
		names = append(names, runFields...)
	}
	for i := range runs {
		for _, a := range runs[i].Config {
			names = append(names, strings.TrimPrefix(a.Path, "config/"))
		}
		kept, err := s.runs.Summaries(ctx, runs[i].ID)
		if err != nil {
			return nil, fmt.Errorf("read the summaries of run %s: %w", runs[i].ID, err)
		}
		for _, k := range kept {
			names = append(names, k.Metric)
		}
	}
	return names, nil
}

func quoted(s string) string { return strconv.Quote(model.Clip(s)) }
