package query

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/summary"
)

// summarySeries bounds the last values that a line of the list of runs carries:
// a table shows a few columns, and a page of 1,000 runs stays below 5 MB.
const summarySeries = 50

// smallTexts are the bytes of texts that an answer may have which waits for no share of
// its own for them.
const smallTexts = 256 << 10

// shortList is how many attempts and other ids a run has whose document waits for no more
// than RunBytes.
const shortList = 4_000

// Projects lists the projects that the caller may read.
func (s *Service) Projects(ctx context.Context, p Page) (*ProjectsPage, error) {
	limit, err := pageSize(p.Limit, DefaultRuns, MaxRuns)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	page, next, err := s.runs.ListProjects(ctx, limit, p.Cursor)
	if err != nil {
		return nil, s.finish(ctx, fmt.Errorf("list projects: %w", err))
	}
	page = slices.DeleteFunc(page, func(p catalog.Project) bool {
		return s.Allow(ctx, p.Workspace, p.Name) != nil
	})
	return &ProjectsPage{page, next}, nil
}

// Runs lists runs of a project, newest first unless Sort says otherwise.
func (s *Service) Runs(ctx context.Context, r RunsRequest) (*RunsPage, error) {
	limit, err := pageSize(r.Limit, DefaultRuns, MaxRuns)
	if err != nil {
		return nil, err
	}
	if err := s.checkList(ctx, &r, MaxRunColumns); err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	page, values, next, err := s.valuedPage(ctx, &r, limit, true)
	if err != nil {
		return &RunsPage{Next: next}, s.finish(ctx, err)
	}
	hint, err := s.hint(ctx, &r, page)
	if err != nil || len(page) == 0 {
		return &RunsPage{Next: next, Hint: hint}, s.finish(ctx, err)
	}
	lines, err := s.lines(ctx, page)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	for i := range values {
		lines[i].Values = values[i]
	}
	return &RunsPage{lines, next, hint}, nil
}

// runPage reads a page of the catalog. An empty one is of a project that is there.
func (s *Service) runPage(ctx context.Context, r *RunsRequest, limit int, configs bool) ([]catalog.Run, string, error) {
	f, err := s.runFilter(ctx, r, false)
	if err != nil {
		return nil, "", err
	}
	f.Limit, f.Cursor, f.Configs = limit, r.Cursor, configs
	page, next, err := s.listSteps(ctx, f, r.Texts)
	if err != nil {
		return nil, "", fmt.Errorf("list runs: %w", err)
	}
	if len(page) == 0 {
		err = s.checkProject(ctx, r.Workspace, r.Project)
	}
	return page, next, err
}

// checkList checks what a list asks for, and the right to it.
func (s *Service) checkList(ctx context.Context, r *RunsRequest, columns int) error {
	if err := errors.Join(model.CheckPlace(r.Workspace, r.Project), checkStatus(r.Status)); err != nil {
		return err
	}
	if len(r.Columns) > columns {
		return model.Errorf(model.CodeInvalid, "%d columns, at most %d", len(r.Columns), columns)
	}
	for _, column := range r.Columns {
		if problem := filter.Misnamed(column); problem != "" {
			return model.Errorf(model.CodeInvalid, "the column %s is not valid: %s", model.Clip(column), problem)
		}
	}
	return s.Allow(ctx, r.Workspace, r.Project)
}

// runFilter reads the filter once. The values at a step that its sort needs come from the
// store, and those of its conditions where whole: a page reads them of its runs only.
func (s *Service) runFilter(ctx context.Context, r *RunsRequest, whole bool) (f catalog.RunFilter, err error) {
	e, err := filter.Parse(r.Query)
	if err := errors.Join(err, readSort(r.Sort)); err != nil {
		return f, err
	}
	members, err := readMember(r.Group)
	if err != nil {
		return f, err
	}
	f = catalog.RunFilter{
		Workspace: r.Workspace, Project: r.Project, Name: r.Name, Tag: r.Tag, Status: r.Status,
		Query: r.Query, Parsed: &e, Sort: r.Sort, Deleted: r.Deleted, Members: members,
	}
	if whole {
		f.Steps, err = s.steps(ctx, r, e.Metrics(nil))
	} else if m, ok := filter.ParseMetric(strings.TrimPrefix(r.Sort, "-")); ok {
		f.Steps, err = s.orderSteps(ctx, r, m)
	}
	return f, err
}

// listRuns reads a page within a small lease. Where its texts need more, it waits for a page
// of texts, and where one run needs more than that, the page has this run alone.
func (s *Service) listRuns(ctx context.Context, f catalog.RunFilter, texts Admit) (page []catalog.Run, next string, err error) {
	f.Bytes = smallTexts
	page, next, err = s.runs.ListRuns(ctx, f)
	if err == nil && (next == "" || len(page) == f.Limit) || err != nil && !errors.Is(err, catalog.ErrLarge) {
		return page, next, err
	}
	if err := texts.need(ctx); err != nil {
		return nil, "", err
	}
	f.Bytes = s.limits.Page
	if page, next, err = s.runs.ListRuns(ctx, f); errors.Is(err, catalog.ErrLarge) {
		f.Bytes, f.Limit = 0, 1
		page, next, err = s.runs.ListRuns(ctx, f)
	}
	return page, next, err
}

// config reads a run's in the same way.
func (s *Service) config(ctx context.Context, run model.RunID, texts Admit) ([]catalog.Attribute, error) {
	config, err := s.runs.Config(ctx, run, smallTexts)
	if !errors.Is(err, catalog.ErrLarge) {
		return config, err
	}
	if err := texts.need(ctx); err != nil {
		return nil, err
	}
	return s.runs.Config(ctx, run, 0)
}

// checkProject tells a project without runs from one that is not there.
func (s *Service) checkProject(ctx context.Context, workspace, project string) error {
	there, err := s.runs.HasProject(ctx, workspace, project)
	if err != nil {
		return fmt.Errorf("find project %s/%s: %w", workspace, project, err)
	}
	if !there {
		return s.unknownProject(ctx, workspace+"/"+project, project)
	}
	return nil
}

// readSort refuses functions that there are not.
func readSort(sort string) error {
	if problem := filter.Misnamed(strings.TrimPrefix(sort, "-")); problem != "" {
		return model.Errorf(model.CodeInvalid, "the sort %s is not valid: %s", model.Clip(sort), problem)
	}
	return nil
}

func checkStatus(status model.RunStatus) error {
	if status == "" || filter.IsStatus(string(status)) {
		return nil
	}
	return model.Errorf(model.CodeInvalid, "there is no status %q", status).WithHint(filter.Statuses)
}

// lines adds summaries to runs.
func (s *Service) lines(ctx context.Context, runs []catalog.Run) ([]RunLine, error) {
	lines := make([]RunLine, len(runs))
	group, gctx := errgroup.WithContext(ctx)
	group.SetLimit(s.limits.Parallel)
	for i := range runs {
		lines[i].Run = runs[i]
		group.Go(func() (err error) {
			lines[i].Summary, lines[i].SummaryCut, err = s.summary(gctx, runs[i].ID)
			return err
		})
	}
	return lines, group.Wait()
}

// summary reads the last values of a run's metrics, and what the catalog keeps beside them.
func (s *Service) summary(ctx context.Context, run model.RunID) (out []Summary, cut bool, err error) {
	metrics, cut, err := summary.Of(ctx, s.store, run, summarySeries)
	if err != nil || len(metrics) == 0 {
		return nil, cut, err
	}
	kept, err := s.runs.Summaries(ctx, run)
	if err != nil {
		return nil, false, fmt.Errorf("read the summaries of run %s: %w", run, err)
	}
	ends := make(map[string]catalog.Summary, len(kept))
	for _, k := range kept {
		ends[k.Metric] = k
	}
	out = make([]Summary, len(metrics))
	for i, m := range metrics {
		out[i] = Summary{m.Name, m.Series.Kind, *m.Series.Last, end(ends[m.Name].Min), end(ends[m.Name].Max)}
	}
	return out, cut, nil
}

func end(v model.Value) any {
	switch v.Type {
	case model.TypeInt:
		return v.Int
	case model.TypeFloat:
		return v.Float
	}
	return nil
}

// Run reads everything of one run, by ULID or by the alias of a client.
func (s *Service) Run(whole context.Context, id model.RunID, texts Admit) (*RunDetail, error) {
	ctx, cancel := s.bounded(whole)
	defer cancel()
	run, err := s.open(ctx, id)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	config, err := s.config(ctx, run.ID, texts) // first: who waits for memory holds none
	if err != nil {
		return nil, s.finish(ctx, fmt.Errorf("read the config of run %s: %w", run.ID, err))
	}
	detail, err := s.detail(ctx, run.ID, texts)
	if err != nil {
		return nil, s.finish(ctx, fmt.Errorf("read run %s: %w", run.ID, err))
	}
	detail.Config = config
	lines, err := s.lines(ctx, []catalog.Run{detail.Run})
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	stats, err := s.store.RunStats(ctx, detail.ID)
	if err != nil && model.CodeOf(err) != model.CodeNotFound {
		return nil, s.finish(ctx, fmt.Errorf("count run %s: %w", detail.ID, err))
	}
	lineage, err := s.lineage(ctx, s.open, run)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	lineage.Forks = detail.Forks
	writers := rest(whole, s, run.ID, detail.Writers, detail.Next.Writers, s.runs.Writers)
	ledger, err := s.ledger(stats, detail, writers)
	if err != nil {
		return nil, err
	}
	return &RunDetail{
		RunLine: lines[0],
		Lineage: lineage,
		Detail:  detail,

		Attributes:    rest(whole, s, run.ID, detail.Attributes, detail.Next.Attributes, s.runs.Attributes),
		Writers:       writers,
		EnvAttributes: rest(whole, s, run.ID, detail.EnvAttributes, detail.Next.EnvAttributes, s.runs.EnvAttributes),
		Events:        rest(whole, s, run.ID, detail.Events, detail.Next.Events, s.runs.Events),

		Order:  attemptOrder(detail.Attempts),
		Ledger: ledger,
		Series: stats.Series,
		Points: stats.Stored - stats.Superseded,
	}, nil
}

// detail reads a run. One with long lists of ids is read anew after the wait for their
// memory: who waits holds none.
func (s *Service) detail(ctx context.Context, run model.RunID, texts Admit) (*catalog.Detail, error) {
	d, err := s.runs.GetRun(ctx, run)
	if err != nil || texts == nil || len(d.Attempts)+len(d.Aliases) <= shortList {
		return d, err
	}
	if err := texts.need(ctx); err != nil {
		return nil, err
	}
	return s.runs.GetRun(ctx, run)
}

// rest goes on with a list of a run behind its first page, each time that it is used.
func rest[T any](ctx context.Context, s *Service, run model.RunID, first []T, behind string,
	read func(ctx context.Context, run model.RunID, cursor string) ([]T, string, error),
) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for page, next := first, behind; ; {
			for _, v := range page {
				if !yield(v, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			var err error
			bounded, cancel := s.bounded(ctx)
			page, next, err = read(bounded, run, next)
			cancel()
			if err != nil {
				yield(*new(T), s.finish(bounded, fmt.Errorf("read run %s: %w", run, err)))
				return
			}
		}
	}
}

func attemptOrder(attempts []model.Attempt) []uint32 {
	sorted := slices.Clone(attempts)
	slices.SortStableFunc(sorted, func(a, b model.Attempt) int {
		return cmp.Or(cmp.Compare(a.Precedence, b.Precedence), cmp.Compare(a.Number, b.Number))
	})
	order := make([]uint32, len(sorted))
	for i, a := range sorted {
		order[i] = a.Number
	}
	return order
}

// ledger adds up what happened to every point that a client logged.
func (s *Service) ledger(stats store.RunStats, run *catalog.Detail, writers iter.Seq2[catalog.WriterInfo, error]) (model.Ledger, error) {
	l := model.Ledger{
		Stored: stats.Stored, Superseded: stats.Superseded, Refused: stats.Refused + run.Refused,
		Dropped: run.Dropped, Skipped: stats.Skipped, Damaged: stats.Damaged,
	}
	spooled, known, err := s.spooled(writers)
	if err != nil {
		return l, err
	}
	if known {
		l.Spooled = &spooled
	}
	l.Logged = l.Stored + l.Refused + l.Dropped + spooled
	for _, gap := range l.Skipped {
		l.Logged += gap.Points
	}
	for _, d := range l.Damaged {
		l.Logged += d.Points
	}
	return l, nil
}

// spooled adds up what lies with the clients. A writer whose end was reported has
// nothing left: that report comes behind its last record.
func (s *Service) spooled(writers iter.Seq2[catalog.WriterInfo, error]) (points uint64, known bool, err error) {
	known = true
	for w, err := range writers {
		if err != nil {
			return 0, false, err
		}
		left, told := s.spools.Spooled(w.ID)
		points += left
		known = known && (told || w.State != model.WriterOpen && !w.Silent)
	}
	return points, known, nil
}

// Resolve finds a run by ULID, alias or workspace/project/name. The name may
// hold slashes. A run in the trash is found too.
func (s *Service) Resolve(ctx context.Context, ref string) (model.RunID, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	if id, err := model.ParseRunID(ref); err == nil {
		run, err := s.Locate(ctx, id)
		if err != nil {
			return model.RunID{}, s.finish(ctx, err)
		}
		return run.ID, nil
	}
	parts := strings.SplitN(ref, "/", 3)
	if len(parts) != 3 || slices.Contains(parts, "") {
		return model.RunID{}, model.Errorf(model.CodeInvalid, "%q names no run", ref).
			WithHint("a run is named by its 26-character id or as workspace/project/name")
	}
	id, err := s.findByName(ctx, parts[0], parts[1], parts[2])
	return id, s.finish(ctx, err)
}

func (s *Service) findByName(ctx context.Context, workspace, project, name string) (model.RunID, error) {
	if err := s.Allow(ctx, workspace, project); err != nil {
		return model.RunID{}, err
	}
	id, err := s.runs.FindRun(ctx, workspace, project, name)
	if err == nil {
		return id, nil
	}
	if model.CodeOf(err) != model.CodeNotFound && model.CodeOf(err) != model.CodeRunDeleted {
		return id, fmt.Errorf("find run %s/%s/%s: %w", workspace, project, name, err)
	}
	trash, _, trashErr := s.runs.ListRuns(ctx, catalog.RunFilter{Workspace: workspace, Project: project, Name: name, Deleted: true, Limit: 1})
	switch {
	case trashErr != nil:
		return id, errors.Join(err, fmt.Errorf("search the trash: %w", trashErr))
	case len(trash) == 0:
		return id, model.Errorf(model.CodeNotFound, "there is no run %q in %s/%s", name, workspace, project).
			WithHint("`kymogram runs list %s/%s` shows those there are", workspace, project)
	}
	return trash[0].ID, nil
}
