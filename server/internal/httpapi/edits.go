package httpapi

import (
	"context"
	"net/http"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// mostEdits is how many runs one request may change.
	mostEdits = 500
	// editsAtOnce wait for the disk together: the catalog writes them in few commits.
	editsAtOnce = 16
)

// editsQuery changes many runs.
type editsQuery struct {
	Runs       []string `json:"runs"`
	AddTags    []string `json:"add_tags"`
	RemoveTags []string `json:"remove_tags"`
}

func (q *editsQuery) ids() ([]model.RunID, error) {
	if len(q.Runs) == 0 || len(q.Runs) > mostEdits {
		return nil, model.Errorf(model.CodeInvalid, "%d runs at once, it must be from 1 to %d", len(q.Runs), mostEdits)
	}
	return runIDs(q.Runs)
}

// edited is what became of one run.
type edited struct {
	changed bool
	err     error
}

// each does something with every run of a request, and answers for each, in their order.
func (a *API) each(w http.ResponseWriter, r *http.Request, check func(q *editsQuery) error, act func(ctx context.Context, id model.RunID, q *editsQuery) (changed bool, err error)) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	var body editsQuery
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	ids, err := body.ids()
	if err != nil {
		return err
	}
	if err := check(&body); err != nil {
		return err
	}
	done := make([]edited, len(ids))
	var group errgroup.Group
	group.SetLimit(editsAtOnce)
	for i, id := range ids {
		group.Go(func() error {
			done[i].changed, done[i].err = act(r.Context(), id, &body)
			return nil // one that fails stops no other
		})
	}
	_ = group.Wait() // none gives an error
	j := a.newJSONWriter(w, false)
	j.raw(`{"results":[`)
	for i := range done {
		if i > 0 {
			j.raw(",")
		}
		j.raw("{")
		if err := done[i].err; err != nil {
			a.failed(j, r, i, err)
		} else {
			j.raw(`"id":`)
			j.value(ids[i])
			j.raw(`,"changed":`)
			j.value(done[i].changed)
		}
		j.raw("}")
	}
	j.raw("]}\n")
	return a.cut(r, j.flush())
}

// edits adds and removes tags of many runs.
func (a *API) edits(w http.ResponseWriter, r *http.Request) error {
	return a.each(w, r, func(q *editsQuery) error {
		if len(q.AddTags)+len(q.RemoveTags) == 0 {
			return model.Errorf(model.CodeInvalid, "nothing to change").WithHint("give add_tags or remove_tags")
		}
		return nil
	}, func(ctx context.Context, id model.RunID, q *editsQuery) (bool, error) {
		run, err := a.ingest.Writable(ctx, id)
		if err != nil {
			return false, err
		}
		has := func(tag string) bool { return slices.Contains(run.Tags, tag) }
		add := slices.DeleteFunc(slices.Clone(q.AddTags), has)
		remove := slices.DeleteFunc(slices.Clone(q.RemoveTags), func(tag string) bool { return !has(tag) })
		var updates []model.Update
		if len(add) > 0 {
			updates = append(updates, model.Update{Op: model.OpAddTags, Tags: add})
		}
		if len(remove) > 0 {
			updates = append(updates, model.Update{Op: model.OpRemoveTags, Tags: remove})
		}
		if len(updates) == 0 {
			return false, nil
		}
		return true, a.ingest.UpdateRun(ctx, run.ID, updates)
	})
}

func noTags(q *editsQuery) error {
	if len(q.AddTags)+len(q.RemoveTags) > 0 {
		return model.Errorf(model.CodeInvalid, "this route changes no tags").WithHint("POST /api/v1/edits does")
	}
	return nil
}

// deletions moves many runs to the trash.
func (a *API) deletions(w http.ResponseWriter, r *http.Request) error {
	return a.each(w, r, noTags, func(ctx context.Context, id model.RunID, _ *editsQuery) (bool, error) {
		run, err := a.query.Locate(ctx, id)
		if err != nil || run.DeletedNs != 0 {
			return false, err
		}
		return true, a.ingest.DeleteRun(ctx, run.ID, false)
	})
}

// restorations brings many runs back.
func (a *API) restorations(w http.ResponseWriter, r *http.Request) error {
	return a.each(w, r, noTags, func(ctx context.Context, id model.RunID, _ *editsQuery) (bool, error) {
		run, err := a.query.Locate(ctx, id)
		if err != nil || run.DeletedNs == 0 {
			return false, err
		}
		return true, a.ingest.RestoreRun(ctx, run.ID)
	})
}
