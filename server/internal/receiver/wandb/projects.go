package wandb

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// project is a project by its name. One that is not there is empty for a caller that may
// create it, as its first run does: programs list a project before they log into it.
func (r *Receiver) project(ctx context.Context, args graph.Args) (graph.Field, error) {
	at := place{entity: args.Text("entityName"), project: args.Text("name")}
	if at.entity == "" {
		at.entity = entityOf(ctx)
	}
	if at.project == "" {
		at.project = defaultProject
	}
	if err := model.CheckPlace(at.entity, at.project); err != nil {
		return nil, err
	}
	if err := r.query.Allow(ctx, at.entity, at.project); err != nil {
		return nil, err
	}
	there, err := r.query.HasProject(ctx, at.entity, at.project)
	if err != nil {
		return nil, err
	}
	if !there && r.query.AllowWrite(ctx, at.entity, at.project) != nil {
		return nil, nil
	}
	return r.projectFields(at), nil
}

func (r *Receiver) projectFields(at place) graph.Object {
	id := node("Project", at.entity, at.project)
	o := graph.Object{
		"__typename": "Project", "id": id, "internalId": internal(at.entity, at.project), "name": at.project, "entityName": at.entity,
		"entity":      graph.Object{"id": node("Entity", at.entity), "name": at.entity},
		"description": nil, "createdAt": graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) { return r.projectAge(ctx, at) }), "user": nil, "readOnly": false, "isBenchmark": false, "isPublished": false, "access": "PRIVATE", "tags": []graph.Object{},
		"runCount": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) { return r.runCount(ctx, at, args) }),
		"runs":     graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) { return r.runs(ctx, at, args) }),
		"run":      graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) { return r.run(ctx, at, args) }),
		"bucket":   graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) { return r.resumed(ctx, at, args) }),
		"sweeps":   connection(nil, "", false), "totalSweeps": 0,
		"sweep": nil, "allViews": connection(nil, "", false),
	}
	r.artifactProject(o, at)
	return o
}

// projectAge is when the oldest run of a project began, and now for an empty one.
func (r *Receiver) projectAge(ctx context.Context, at place) (graph.Field, error) {
	for run, err := range r.query.RunsWithTrees(ctx, catalog.TreeQuery{Workspace: at.entity, Project: at.project}) {
		if err != nil {
			return nil, err
		}
		return stamp(run.CreatedNs), nil
	}
	return stamp(r.options.Now().UnixNano()), nil
}

// projects lists the projects of an entity that the caller may read.
func (r *Receiver) projects(ctx context.Context, args graph.Args) (graph.Field, error) {
	first, err := args.Int("first", 50)
	if err != nil {
		return nil, err
	}
	name := args.Text("entityName")
	if name == "" {
		name = entityOf(ctx)
	}
	var edges []edge
	page := query.Page{Limit: query.MaxRuns, Cursor: args.Text("after")}
	for {
		list, err := r.query.Projects(ctx, page)
		if err != nil {
			return nil, err
		}
		for _, p := range list.Projects {
			if p.Workspace == name {
				edges = append(edges, edge{r.projectFields(place{entity: p.Workspace, project: p.Name}), list.Next})
			}
		}
		if page.Cursor = list.Next; page.Cursor == "" || int64(len(edges)) >= max(first, 1) {
			return connection(edges, page.Cursor, page.Cursor != ""), nil
		}
	}
}

// upsertModel answers for a project: it comes into being with its first run.
func (r *Receiver) upsertModel(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	at := place{entity: in.Text("entityName"), project: in.Text("name")}
	if at.entity == "" {
		at.entity = entityOf(ctx)
	}
	if err := model.CheckPlace(at.entity, at.project); err != nil {
		return nil, err
	}
	if err := r.query.AllowWrite(ctx, at.entity, at.project); err != nil {
		return nil, err
	}
	p := r.projectFields(at)
	return graph.Object{"inserted": false, "model": p, "project": p}, nil
}
