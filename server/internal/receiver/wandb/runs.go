package wandb

import (
	"context"
	"unsafe"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// foundRun is a run with the texts of its trees, "" for one that it has not.
type foundRun struct {
	catalog.Run
	config, summary, about string
	// Where the members of config and summary lie is noted here; nil for texts that are read once.
	configNote, summaryNote *catalog.Note
}

// indexOf is the index of a text that is kept with its note: made by the first who asks for it.
func indexOf(text string, note *catalog.Note) loose.Index {
	if note == nil {
		return nil
	}
	if known, is := note.Load().(loose.Index); is {
		return known
	}
	made := loose.NewIndex(readOnly(text))
	note.Store(made)
	return made
}

// readOnly is a text without a copy: lists look at those of thousands of runs.
func readOnly(text string) []byte { return unsafe.Slice(unsafe.StringData(text), len(text)) }

// treesOfRun are those that a run of the API has, in this order.
func treesOfRun() []string { return []string{treeConfig, treeSummary, treeAbout} }

// foundOf is a run that was read with the trees of some names.
func foundOf(run *catalog.RunTrees, names []string) *foundRun {
	found := &foundRun{Run: run.Run}
	for i, name := range names {
		var note *catalog.Note
		if run.Notes != nil {
			note = run.Notes[i]
		}
		switch name {
		case treeConfig:
			found.config, found.configNote = run.Texts[i], note
		case treeSummary:
			found.summary, found.summaryNote = run.Texts[i], note
		case treeAbout:
			found.about = run.Texts[i]
		}
	}
	return found
}

// read reads a run with its trees.
func (r *Receiver) readRun(ctx context.Context, id model.RunID) (*foundRun, error) {
	run, err := r.query.Locate(ctx, id)
	if err != nil {
		return nil, err
	}
	trees, err := r.query.Trees(ctx, run.ID, treesOfRun()...)
	if err != nil {
		return nil, err
	}
	return &foundRun{Run: *run, config: trees[treeConfig], summary: trees[treeSummary], about: trees[treeAbout]}, nil
}

func (r *Receiver) runObject(ctx context.Context, id model.RunID) (graph.Object, error) {
	run, err := r.readRun(ctx, id)
	if err != nil {
		return nil, err
	}
	return r.runFields(run), nil
}

// run is a run of a project by its name, null where there is none.
func (r *Receiver) run(ctx context.Context, at place, args graph.Args) (graph.Field, error) {
	at.run = args.Text("name")
	id, err := r.find(ctx, at)
	if model.CodeOf(err) == model.CodeNotFound || model.CodeOf(err) == model.CodeRunDeleted {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return r.runObject(ctx, id)
}

// resumed is a run for a process that may go on with it.
func (r *Receiver) resumed(ctx context.Context, at place, args graph.Args) (graph.Field, error) {
	run, err := r.run(ctx, at, args)
	o, is := run.(graph.Object)
	if err != nil || !is {
		return nil, err
	}
	id, err := readNode(o["id"].(string)) //nolint:forcetypeassert // runFields made it
	if err != nil {
		return nil, err
	}
	v, release := r.lives.acquire(id, place{at.entity, at.project, args.Text("name")})
	v.resumed = r.options.Now()
	release()
	return o, nil
}

// runByID is a run by the id that the API gave it.
func (r *Receiver) runByID(ctx context.Context, args graph.Args) (graph.Field, error) {
	id, err := readNode(args.Text("id"))
	if err != nil {
		return nil, err
	}
	return r.runObject(ctx, id)
}

// state is a run's status in W&B's words.
func state(status model.RunStatus) string {
	switch status {
	case model.StatusLost, model.StatusSilent:
		return "crashed"
	case model.StatusInterrupted:
		return "killed"
	}
	return string(status)
}

// runFields are the fields of a run. What costs a read is read when it is asked for.
func (r *Receiver) runFields(run *foundRun) graph.Object {
	id, at, told := run.ID, place{run.Workspace, run.Project, run.Name}, readAbout(run.about)
	display := run.DisplayName
	if display == "" {
		display = run.Name
	}
	o := graph.Object{
		"__typename": "Run", "id": node("Run", id.String()), "internalId": internal(id.String()), "name": run.Name, "displayName": display,
		"projectId": internal(at.entity, at.project), "state": state(run.Status), "tags": tagsOf(run), "notes": optional(run.Description),
		"description": optional(run.Description), "group": optional(told.Group), "groupName": optional(told.Group), "jobType": optional(told.JobType),
		"sweepName": optional(told.Sweep), "commit": optional(told.Commit), "host": optional(told.Host),
		"program": optional(told.Program), "repo": optional(told.Repo), "readOnly": false, "shouldStop": false, "stopped": false, "failed": run.Status == model.StatusFailed,
		"createdAt": stamp(run.CreatedNs), "heartbeatAt": stamp(run.LastNs), "updatedAt": stamp(run.LastNs), "computeSeconds": (run.LastNs - run.CreatedNs) / 1e9,
		"config": r.configOf(run), "summaryMetrics": r.summaryOf(run),
		"user":    graph.Object{"__typename": "User", "id": node("User", told.User), "name": told.User, "username": told.User, "email": ""},
		"project": r.projectOf(at),
		"wandbConfig": graph.Resolver(func(_ context.Context, args graph.Args) (graph.Field, error) {
			return ownConfig(readOnly(run.config), args.Texts("keys")), nil
		}),
		"sweep": nil, "github": nil, "jobProgram": optional(told.Program), "jobRepo": optional(told.Repo), "imported": r.importedFields(run, &told), "fileCount": nil, "files": nil,
	}
	r.historyFields(o, id)
	r.fileFields(o, id, at)
	r.artifactRun(o, id, at)
	return o
}

// projectOf are the fields of a run's project that come with it.
func (r *Receiver) projectOf(at place) graph.Object {
	return graph.Object{
		"__typename": "Project", "id": node("Project", at.entity, at.project), "internalId": internal(at.entity, at.project), "name": at.project, "entityName": at.entity,
		"entity": graph.Object{"id": node("Entity", at.entity), "name": at.entity},
	}
}

func optional(s string) graph.Field {
	if s == "" {
		return nil
	}
	return s
}

func orEmpty(text string) string {
	if text == "" {
		return "{}"
	}
	return text
}

func tagsOf(run *foundRun) []string {
	if run.Tags == nil {
		return []string{}
	}
	return run.Tags
}

// ownConfig is what the SDK said of itself, restricted to some keys.
func ownConfig(config []byte, keys []string) graph.Field {
	own, ok := loose.Get(config, ownKey, "value")
	if !ok {
		return nil
	}
	out := []byte{'{'}
	for _, key := range keys {
		if value, has := loose.Get(own, key); has {
			out = append(member(out, key), value...)
		}
	}
	return string(append(out, '}'))
}

// deleteRun moves a run to the trash.
func (r *Receiver) deleteRun(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := readNode(in.Text("id"))
	if err != nil {
		return nil, err
	}
	if err := r.ingest.DeleteRun(ctx, id, false); err != nil {
		return nil, err
	}
	r.lives.forget(id)
	return graph.Object{"success": true, "clientMutationId": optional(in.Text("clientMutationId"))}, nil
}
