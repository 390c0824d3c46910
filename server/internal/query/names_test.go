package query_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
)

// office is a catalog of names, and a key that is for one place.
type office struct {
	*fake
	runs             []catalog.Named
	workspace, place string
}

func (o *office) Reach(context.Context) (workspace, project string) { return o.workspace, o.place }

func (o *office) Allow(_ context.Context, _ catalog.Scope, workspace, project string) error {
	if o.workspace != "" && workspace != o.workspace || o.place != "" && project != o.place {
		return model.Errorf(model.CodePermission, "no read in %s/%s", workspace, project)
	}
	return nil
}

func (o *office) Lookup(_ context.Context, id model.RunID) (*catalog.Run, error) {
	for _, r := range o.runs {
		if r.ID == id {
			return &catalog.Run{ID: id, Workspace: r.Workspace, Project: r.Project, Name: r.Name}, nil
		}
	}
	return nil, model.Errorf(model.CodeNotFound, "no such id")
}

func (o *office) FindRun(_ context.Context, workspace, project, name string) (model.RunID, error) {
	for _, r := range o.runs {
		if r.Workspace == workspace && r.Project == project && r.Name == name {
			return r.ID, nil
		}
	}
	return model.RunID{}, model.Errorf(model.CodeNotFound, "no such name")
}

func (o *office) ListRuns(context.Context, catalog.RunFilter) ([]catalog.Run, string, error) {
	return nil, "", nil
}

// NamedRuns stops at its limit, as a catalog does.
func (o *office) NamedRuns(_ context.Context, f catalog.NameFilter) (out []catalog.Named, _ error) {
	for _, r := range o.runs {
		if (f.Workspace == "" || f.Workspace == r.Workspace) && (f.Project == "" || f.Project == r.Project) && (r.Name == f.Name || r.DisplayName == f.Name) && !f.Deleted && len(out) < f.Limit {
			out = append(out, r)
		}
	}
	return out, nil
}

func (o *office) RunsNear(_ context.Context, f catalog.NameFilter) ([]catalog.Named, error) {
	return o.runs[:min(len(o.runs), f.Limit)], nil
}

func (o *office) HasProject(_ context.Context, workspace, project string) (bool, error) {
	for _, r := range o.runs {
		if r.Workspace == workspace && r.Project == project {
			return true, nil
		}
	}
	return false, nil
}

func (o *office) NamedProjects(_ context.Context, name string, limit int) ([]catalog.Place, error) {
	return o.ProjectsNear(context.Background(), name, limit)
}

func (o *office) ListProjects(_ context.Context, limit int, _ string) (out []catalog.Project, _ string, _ error) {
	for _, r := range o.runs {
		p := catalog.Project{Workspace: r.Workspace, Name: r.Project}
		if !slices.Contains(out, p) && len(out) < limit {
			out = append(out, p)
		}
	}
	return out, "", nil
}

func (o *office) ProjectsNear(_ context.Context, name string, limit int) (out []catalog.Place, _ error) {
	for _, r := range o.runs {
		if r.Project == name && len(out) < limit {
			out = append(out, catalog.Place{Workspace: r.Workspace, Project: r.Project})
		}
	}
	return out, nil
}

// TestAKeySeesItsOwnNames: thousands of runs of a name that a key may not read neither hide its own
// run nor show in an error.
func TestAKeySeesItsOwnNames(t *testing.T) {
	o := &office{fake: newFake()}
	for i := range 10_000 {
		o.runs = append(o.runs, catalog.Named{ID: model.RunID{1, byte(i), byte(i >> 8)}, Workspace: fmt.Sprint("team-", i%7), Project: "digits", Name: fmt.Sprint("secret-", i), DisplayName: "same"})
	}
	mine := catalog.Named{ID: model.RunID{2}, Workspace: "w", Project: "mine", Name: "r", DisplayName: "same"}
	o.runs = append(o.runs, mine)
	s := query.New(o, o, o, o, query.Limits{})
	if _, err := s.FindRun(t.Context(), "same"); model.CodeOf(err) != model.CodeAmbiguous {
		t.Errorf("a key for everything: %v", err)
	}
	for _, key := range [][2]string{{"w", "mine"}, {"w", ""}} {
		o.workspace, o.place = key[0], key[1]
		for _, ref := range []string{"same", "r", "mine/same", "mine/r", "w/mine/same", "w/mine/r"} {
			if run, err := s.FindRun(t.Context(), ref); err != nil || run.ID != mine.ID {
				t.Errorf("%q for the key of %v: %+v, %v", ref, key, run, err)
			}
		}
		for _, ref := range []string{"secret-1", "secret", "digits/secret-1", "team-1/digits/secret-1", "team-1/digits/secret-2", "digits/same"} {
			_, err := s.FindRun(t.Context(), ref)
			shown := model.Shown(err)
			if shown == nil || shown.Code != model.CodeNotFound && shown.Code != model.CodePermission || strings.Contains(shown.Hint, "secret") {
				t.Errorf("%q for the key of %v: %+v", ref, key, err)
			}
		}
		if _, err := s.FindProject(t.Context(), "digits"); model.CodeOf(err) != model.CodeNotFound {
			t.Errorf("another's project for the key of %v: %v", key, err)
		}
		if place, err := s.FindProject(t.Context(), "mine"); err != nil || place != (catalog.Place{Workspace: "w", Project: "mine"}) {
			t.Errorf("the key's project: %v, %v", place, err)
		}
	}
}
