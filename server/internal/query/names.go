package query

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/spelling"
)

const (
	// shownCandidates is how many runs or projects an error lists.
	shownCandidates = 10
	// nearNames is how many names of each kind are compared with one that is not there.
	nearNames = 100
	// suggestions is how many of them an error names.
	suggestions = 3
	// nearProjects is how many projects of a misspelt name are searched for the run.
	nearProjects = 5
)

// reading is one way to understand what somebody calls a run.
type reading struct{ workspace, project, name string }

// readings are those of a reference: any part of it up to a slash may be a place, or belong to the
// name of the run.
func readings(ref string) []reading {
	out := []reading{{name: ref}}
	first, rest, ok := strings.Cut(ref, "/")
	if !ok || rest == "" || model.CheckPlace("w", first) != nil {
		return out
	}
	out = append(out, reading{project: first, name: rest})
	if project, name, ok := strings.Cut(rest, "/"); ok && name != "" && model.CheckPlace("w", project) == nil {
		out = append(out, reading{first, project, name})
	}
	return out
}

// FindRun finds the one run that somebody means by an id, a name, a display name, or one of them
// behind PROJECT/ or WORKSPACE/PROJECT/. What [Service.Resolve] finds goes first. A run in the
// trash is found where no other one is meant. Where several are, the error lists them; where none
// is, it names the nearest.
func (s *Service) FindRun(ctx context.Context, ref string) (*catalog.Named, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	run, err := s.findRun(ctx, ref)
	return run, s.finish(ctx, err)
}

func (s *Service) findRun(ctx context.Context, ref string) (*catalog.Named, error) {
	if ref == "" || len(ref) > model.MaxNameBytes*3 || !model.IsClean(ref) {
		return nil, model.Errorf(model.CodeInvalid, "%q names no run", model.Clip(ref)).
			WithHint("a run is named by its 26-character id, as workspace/project/name, or by less of it where that means one run only")
	}
	id, exact := s.Resolve(ctx, ref)
	if exact == nil {
		run, err := s.Locate(ctx, id)
		if err != nil {
			return nil, err
		}
		return &catalog.Named{ID: run.ID, Workspace: run.Workspace, Project: run.Project, Name: run.Name, DisplayName: run.DisplayName, CreatedNs: run.CreatedNs}, nil
	}
	if code := model.CodeOf(exact); code != model.CodeNotFound && code != model.CodeInvalid && code != model.CodePermission {
		return nil, exact
	}
	found, err := s.candidates(ctx, ref)
	switch {
	case err != nil:
		return nil, err
	case len(found) == 1:
		return &found[0], nil
	case len(found) > 1:
		return nil, ambiguousRun(ref, found)
	case model.CodeOf(exact) == model.CodePermission:
		return nil, exact
	}
	return nil, s.unknownRun(ctx, ref)
}

// candidates are the runs that a reference may mean and that the caller may read.
func (s *Service) candidates(ctx context.Context, ref string) (out []catalog.Named, err error) {
	for _, deleted := range []bool{false, true} {
		for _, r := range readings(ref) {
			found, err := s.read(ctx, r, deleted)
			if err != nil {
				return nil, err
			}
			for _, f := range found {
				if !slices.ContainsFunc(out, func(o catalog.Named) bool { return o.ID == f.ID }) {
					out = append(out, f)
				}
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out, nil
}

// read finds the runs of one reading.
func (s *Service) read(ctx context.Context, r reading, deleted bool) ([]catalog.Named, error) {
	f, ok := s.reached(ctx, catalog.NameFilter{Workspace: r.workspace, Project: r.project, Name: r.name, Deleted: deleted, Limit: shownCandidates + 1})
	if !ok {
		return nil, nil
	}
	found, err := s.runs.NamedRuns(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("find runs named %q: %w", model.Clip(r.name), err)
	}
	if id, bad := model.ParseRunID(r.name); bad == nil && r.project != "" && !deleted {
		run, err := s.Locate(ctx, id)
		switch {
		case err == nil && run.Project == r.project && (r.workspace == "" || run.Workspace == r.workspace):
			found = append(found, catalog.Named{ID: run.ID, Workspace: run.Workspace, Project: run.Project, Name: run.Name, DisplayName: run.DisplayName, CreatedNs: run.CreatedNs})
		case err != nil && model.CodeOf(err) == model.CodeInternal:
			return nil, err
		}
	}
	return s.onlyReadable(ctx, found), nil
}

// reached narrows a filter to the places that the caller's key is for; not ok: they have nothing
// in common.
func (s *Service) reached(ctx context.Context, f catalog.NameFilter) (_ catalog.NameFilter, ok bool) {
	workspace, project := s.auth.Reach(ctx)
	for _, part := range []struct {
		own  string
		want *string
	}{{workspace, &f.Workspace}, {project, &f.Project}} {
		if part.own != "" && *part.want != "" && part.own != *part.want {
			return f, false
		}
		if part.own != "" {
			*part.want = part.own
		}
	}
	return f, true
}

func (s *Service) onlyReadable(ctx context.Context, runs []catalog.Named) []catalog.Named {
	return slices.DeleteFunc(runs, func(r catalog.Named) bool { return s.Allow(ctx, r.Workspace, r.Project) != nil })
}

// path names a run exactly, as a shell takes it.
func path(parts ...string) string {
	text := strings.Join(parts, "/")
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-/:@%+=,", r) || r >= 0xc0
	}
	if strings.ContainsFunc(text, func(r rune) bool { return !plain(r) }) {
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return text
}

// ambiguousRun lists what a reference may mean.
func ambiguousRun(ref string, found []catalog.Named) error {
	slices.SortStableFunc(found, func(a, b catalog.Named) int { return int(min(max(b.CreatedNs-a.CreatedNs, -1), 1)) })
	lines := []string{"say one of these, the path or the id:"}
	for _, r := range found[:min(len(found), shownCandidates)] {
		line := fmt.Sprintf("%s  %s  %s", r.ID, time.Unix(0, r.CreatedNs).UTC().Format("2006-01-02 15:04 UTC"), path(r.Workspace, r.Project, r.Name))
		if r.DisplayName != "" && r.DisplayName != r.Name {
			line += fmt.Sprintf("  (%s)", model.Clip(r.DisplayName))
		}
		lines = append(lines, line)
	}
	return model.Errorf(model.CodeAmbiguous, "%q means %s", model.Clip(ref), counted(len(found), "runs")).WithHint("%s", strings.Join(lines, "\n  "))
}

func counted(n int, what string) string {
	if n > shownCandidates {
		return fmt.Sprintf("more than %d %s", shownCandidates, what)
	}
	return fmt.Sprintf("%d %s", n, what)
}

// unknownRun says that there is no run of a name, and which ones are near.
func (s *Service) unknownRun(ctx context.Context, ref string) error {
	none := model.Errorf(model.CodeNotFound, "there is no run %q", model.Clip(ref))
	if place, err := s.projectOf(ctx, ref); err != nil {
		return err
	} else if place != "" {
		return none.WithHint("%s is a project; its runs: kymogram runs list %s", place, place)
	}
	near, err := s.nearRuns(ctx, ref)
	if err != nil {
		return err
	}
	if len(near) > 0 {
		return none.WithHint("did you mean %s?", strings.Join(near, " or "))
	}
	return none.WithHint("`kymogram runs list` shows the newest runs that you may read, `kymogram projects` the projects")
}

// projectOf is the project that somebody named in the place of a run, "" where there is none.
func (s *Service) projectOf(ctx context.Context, ref string) (string, error) {
	workspace, name, ok := strings.Cut(ref, "/")
	if !ok {
		workspace, name = "", ref
	}
	if model.CheckPlace("w", name) != nil {
		return "", nil
	}
	found, err := s.projectsNamed(ctx, name)
	if err != nil {
		return "", err
	}
	for _, p := range found {
		if workspace == "" || workspace == p.Workspace {
			return path(p.Workspace, p.Project), nil
		}
	}
	return "", nil
}

// nearRuns are the paths of runs that a reference may have meant.
func (s *Service) nearRuns(ctx context.Context, ref string) (out []string, err error) {
	all := readings(ref)
	for _, r := range slices.Backward(all) { // the one that says most goes first
		places, err := s.nearPlaces(ctx, r)
		if err != nil {
			return nil, err
		}
		for _, place := range places {
			found, err := s.nearIn(ctx, place, r.name)
			if err != nil {
				return nil, err
			}
			for _, f := range found {
				if !slices.Contains(out, f) && len(out) < suggestions {
					out = append(out, f)
				}
			}
		}
		if len(out) > 0 {
			break
		}
	}
	return out, nil
}

// nearPlaces are the projects that a reading may have meant; one without names: all of them.
func (s *Service) nearPlaces(ctx context.Context, r reading) ([]catalog.Place, error) {
	if r.project == "" {
		return []catalog.Place{{}}, nil
	}
	found, err := s.projectsNamed(ctx, r.project)
	if err != nil {
		return nil, err
	}
	near, err := s.nearProjects(ctx, r.project)
	if err != nil {
		return nil, err
	}
	found = append(found, near...)
	slices.SortStableFunc(found, func(a, b catalog.Place) int {
		return cmp.Compare(spelledFrom(r.workspace, a.Workspace), spelledFrom(r.workspace, b.Workspace))
	})
	return found[:min(len(found), nearProjects)], nil
}

// spelledFrom is how far a workspace is from what was written, nothing where none was.
func spelledFrom(written, workspace string) int {
	if written == "" || written == workspace {
		return 0
	}
	if far, ok := spelling.Far(written, workspace); ok {
		return far
	}
	return len(workspace) + len(written)
}

// nearIn are the paths of runs in a place whose names are near to one.
func (s *Service) nearIn(ctx context.Context, place catalog.Place, name string) (out []string, err error) {
	f, ok := s.reached(ctx, catalog.NameFilter{Workspace: place.Workspace, Project: place.Project, Name: name, Limit: nearNames})
	if !ok {
		return nil, nil
	}
	found, err := s.runs.RunsNear(ctx, f)
	if err != nil {
		return nil, fmt.Errorf("look for runs near %q: %w", model.Clip(name), err)
	}
	found = s.onlyReadable(ctx, found)
	names := make([]string, 0, 2*len(found))
	for _, r := range found {
		names = append(names, r.Name, r.DisplayName)
	}
	for _, near := range spelling.Near(name, names, suggestions) {
		for _, r := range found {
			if p := path(r.Workspace, r.Project, r.Name); (r.Name == near || r.DisplayName == near) && !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// FindProject finds the one project that somebody means by workspace/project, or by the name of
// the project alone. One of workspace/project need not be there: it comes with its first run.
func (s *Service) FindProject(ctx context.Context, ref string) (catalog.Place, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	place, err := s.findProject(ctx, ref)
	return place, s.finish(ctx, err)
}

func (s *Service) findProject(ctx context.Context, ref string) (catalog.Place, error) {
	if workspace, project, ok := strings.Cut(ref, "/"); ok {
		if model.CheckPlace(workspace, project) != nil {
			return catalog.Place{}, model.Errorf(model.CodeInvalid, "%q names no project", model.Clip(ref)).WithHint("give workspace/project, or the project alone where one workspace has it")
		}
		if err := s.Allow(ctx, workspace, project); err != nil {
			return catalog.Place{}, err
		}
		return catalog.Place{Workspace: workspace, Project: project}, s.checkProject(ctx, workspace, project)
	}
	if err := model.CheckPlace("w", ref); err != nil {
		return catalog.Place{}, err
	}
	found, err := s.projectsNamed(ctx, ref)
	switch {
	case err != nil:
		return catalog.Place{}, err
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return catalog.Place{}, s.unknownProject(ctx, ref, ref)
	}
	lines := []string{"say one of these:"}
	for _, p := range found[:min(len(found), shownCandidates)] {
		lines = append(lines, path(p.Workspace, p.Project))
	}
	return catalog.Place{}, model.Errorf(model.CodeAmbiguous, "%q means %s", ref, counted(len(found), "projects")).WithHint("%s", strings.Join(lines, "\n  "))
}

// projectsNamed are those of a name that the caller may read.
func (s *Service) projectsNamed(ctx context.Context, name string) ([]catalog.Place, error) {
	workspace, project := s.auth.Reach(ctx)
	if project != "" {
		if project != name {
			return nil, nil
		}
		there, err := s.runs.HasProject(ctx, workspace, project)
		if err != nil || !there {
			return nil, err
		}
		return s.places(ctx, []catalog.Place{{Workspace: workspace, Project: project}}), nil
	}
	if workspace != "" {
		there, err := s.runs.HasProject(ctx, workspace, name)
		if err != nil || !there {
			return nil, err
		}
		return s.places(ctx, []catalog.Place{{Workspace: workspace, Project: name}}), nil
	}
	found, err := s.runs.NamedProjects(ctx, name, shownCandidates+1)
	if err != nil {
		return nil, fmt.Errorf("find projects named %q: %w", name, err)
	}
	return s.places(ctx, found), nil
}

// places are those that the caller may read.
func (s *Service) places(ctx context.Context, all []catalog.Place) []catalog.Place {
	return slices.DeleteFunc(all, func(p catalog.Place) bool { return s.Allow(ctx, p.Workspace, p.Project) != nil })
}

// nearProjects are the projects whose names are near to one.
func (s *Service) nearProjects(ctx context.Context, name string) (out []catalog.Place, err error) {
	all, err := s.runs.ProjectsNear(ctx, name, nearNames)
	if err != nil {
		return nil, fmt.Errorf("look for projects near %q: %w", model.Clip(name), err)
	}
	if workspace, project := s.auth.Reach(ctx); project != "" {
		all = []catalog.Place{{Workspace: workspace, Project: project}} // there is no other
	}
	all = s.places(ctx, all)
	names := make([]string, len(all))
	for i, p := range all {
		names[i] = p.Project
	}
	for _, near := range spelling.Near(name, names, suggestions) {
		for _, p := range all {
			if p.Project == near && p.Project != name && len(out) < suggestions {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// projectsIn are some projects of a workspace, by their paths.
func (s *Service) projectsIn(ctx context.Context, workspace string) (out []string, err error) {
	if strings.Contains(workspace, "/") {
		return nil, nil
	}
	all, _, err := s.runs.ListProjects(ctx, MaxRuns, "")
	if err != nil {
		return nil, fmt.Errorf("list projects: %w", err)
	}
	for _, p := range all {
		if p.Workspace == workspace && len(out) < suggestions && s.Allow(ctx, p.Workspace, p.Name) == nil {
			out = append(out, path(p.Workspace, p.Name))
		}
	}
	return out, nil
}

// unknownProject says that there is no project, and which ones are near.
func (s *Service) unknownProject(ctx context.Context, ref, project string) error {
	none := model.Errorf(model.CodeNotFound, "there is no project %s", model.Clip(ref))
	if within, err := s.projectsIn(ctx, ref); err != nil {
		return err
	} else if len(within) > 0 {
		return none.WithHint("%s is a workspace, with %s", model.Clip(ref), strings.Join(within, ", "))
	}
	near, err := s.projectsNamed(ctx, project) // of another workspace
	if err == nil && len(near) == 0 {
		near, err = s.nearProjects(ctx, project)
	}
	if err != nil {
		return err
	}
	if len(near) > 0 {
		var names []string
		for _, p := range near[:min(len(near), suggestions)] {
			names = append(names, path(p.Workspace, p.Project))
		}
		return none.WithHint("did you mean %s?", strings.Join(names, " or "))
	}
	return none.WithHint("a project comes into being with its first run; `kymogram projects` lists those there are")
}
