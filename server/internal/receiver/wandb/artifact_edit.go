package wandb

import (
	"cmp"
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// useArtifact notes that a run has an artifact as its input.
func (r *Receiver) useArtifact(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := readArtifactNode(in.Text("artifactID"))
	if err != nil {
		return nil, err
	}
	at := placeIn(ctx, in)
	run, err := r.ingest.FindRun(ctx, at.entity, at.project, in.Text("runName"))
	if err != nil {
		return nil, err
	}
	if err := r.ingest.UseArtifact(ctx, id, run, catalog.RoleUsed); err != nil {
		return nil, asAbsent(err)
	}
	a, err := r.query.Artifact(ctx, id)
	if err != nil {
		return nil, err
	}
	return graph.Object{"artifact": r.artifactFields(a, nil)}, nil
}

// updateArtifact changes texts, tags and aliases.
func (r *Receiver) updateArtifact(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := readArtifactNode(in.Text("artifactID"))
	if err != nil {
		return nil, err
	}
	r.warnOfLife(ctx, in)
	e := catalog.ArtifactEdit{}
	for name, to := range map[string]**string{"description": &e.Description, "metadata": &e.Metadata} {
		if text, is := in[name].(string); is {
			*to = &text
		}
	}
	if e.AddTags, err = textsOf(in, "tagsToAdd", "tagName"); err != nil {
		return nil, err
	}
	if e.RemoveTags, err = textsOf(in, "tagsToDelete", "tagName"); err != nil {
		return nil, err
	}
	if in.Has("aliases") {
		aliases, err := textsOf(in, "aliases", "alias")
		if err != nil {
			return nil, err
		}
		e.Aliases = &aliases
	}
	a, err := r.ingest.EditArtifact(ctx, id, e)
	if err != nil {
		return nil, asAbsent(err)
	}
	return graph.Object{"artifact": r.artifactFields(a, nil)}, nil
}

func (r *Receiver) addAliases(ctx context.Context, args graph.Args) (graph.Field, error) {
	return r.editAliases(ctx, args.Inner("input"), func(e *catalog.ArtifactEdit, alias string) { e.AddAliases = append(e.AddAliases, alias) })
}

func (r *Receiver) deleteAliases(ctx context.Context, args graph.Args) (graph.Field, error) {
	return r.editAliases(ctx, args.Inner("input"), func(e *catalog.ArtifactEdit, alias string) { e.RemoveAliases = append(e.RemoveAliases, alias) })
}

// editAliases changes aliases of an artifact, collection by collection.
func (r *Receiver) editAliases(ctx context.Context, in graph.Args, change func(e *catalog.ArtifactEdit, alias string)) (graph.Field, error) {
	id, err := readArtifactNode(in.Text("artifactID"))
	if err != nil {
		return nil, err
	}
	list := in.List("aliases")
	if len(list) > catalog.MaxArtifactAliases {
		return nil, model.Errorf(model.CodeLimit, "%d aliases at once, at most %d", len(list), catalog.MaxArtifactAliases)
	}
	edits := map[catalog.VersionName]*catalog.ArtifactEdit{}
	for _, one := range list {
		inner, _ := one.(map[string]any)
		alias := graph.Args(inner)
		at := placeIn(ctx, alias)
		name := catalog.VersionName{Workspace: at.entity, Project: at.project, Collection: alias.Text("artifactCollectionName")}
		if edits[name] == nil {
			edits[name] = &catalog.ArtifactEdit{}
		}
		change(edits[name], alias.Text("alias"))
	}
	for name, edit := range edits {
		c, err := r.query.FindCollection(ctx, name.Workspace, name.Project, name.Collection)
		if err != nil {
			return nil, asAbsent(err)
		}
		edit.Collection = c.ID
		if _, err := r.ingest.EditArtifact(ctx, id, *edit); err != nil {
			return nil, asAbsent(err)
		}
	}
	return graph.Object{"success": true}, nil
}

// deleteArtifact deletes an artifact for good.
func (r *Receiver) deleteArtifact(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := readArtifactNode(in.Text("artifactID"))
	if err != nil {
		return nil, err
	}
	if err := r.ingest.DeleteArtifact(ctx, id, in.Bool("deleteAliases")); err != nil {
		return nil, asAbsent(err)
	}
	return graph.Object{"artifact": graph.Object{"__typename": "Artifact", "id": artifactNode(id), "state": string(catalog.ArtifactDeleted)}, "success": true}, nil
}

// linkArtifact makes an artifact a version of a portfolio.
func (r *Receiver) linkArtifact(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := r.linked(ctx, in)
	if err != nil {
		return nil, err
	}
	aliases, err := textsOf(in, "aliases", "alias")
	if err != nil {
		return nil, err
	}
	at := placeIn(ctx, in)
	to := catalog.VersionName{Workspace: at.entity, Project: at.project, Collection: in.Text("artifactPortfolioName")}
	v, err := r.ingest.LinkArtifact(ctx, id, to, aliases)
	if err != nil {
		return nil, asAbsent(err)
	}
	return graph.Object{"versionIndex": v.Index, "artifactMembership": r.membershipFields(&v.Artifact, memberOf(to, v))}, nil
}

// linked is the artifact that a link is to: by its id, or by that of the client.
func (r *Receiver) linked(ctx context.Context, in graph.Args) (int64, error) {
	if id := in.Text("artifactID"); id != "" {
		return readArtifactNode(id)
	}
	a, err := r.query.ArtifactByClient(ctx, cmp.Or(in.Text("clientID"), in.Text("clientId")))
	if err != nil {
		return 0, err
	}
	return a.ID, nil
}

// unlinkArtifact takes an artifact out of a portfolio.
func (r *Receiver) unlinkArtifact(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := readArtifactNode(in.Text("artifactID"))
	if err != nil {
		return nil, err
	}
	var portfolio int64
	if err := readNumbers(nodeCollection, in.Text("artifactPortfolioID"), &portfolio); err != nil {
		return nil, err
	}
	if err := r.ingest.UnlinkArtifact(ctx, id, portfolio); err != nil {
		return nil, asAbsent(err)
	}
	return graph.Object{"success": true, "artifactID": in.Text("artifactID"), "clientMutationId": optional(in.Text("clientMutationId"))}, nil
}

// collectionIn is the collection that an input means.
func collectionIn(in graph.Args) (id int64, err error) {
	return id, readNumbers(nodeCollection, cmp.Or(in.Text("artifactSequenceID"), in.Text("artifactPortfolioID")), &id)
}

// updateCollection changes name, type and description.
func (r *Receiver) updateCollection(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := collectionIn(in)
	if err != nil {
		return nil, err
	}
	e := catalog.CollectionEdit{}
	for name, to := range map[string]**string{"name": &e.Name, "description": &e.Description, "destinationArtifactTypeName": &e.Type} {
		if text, is := in[name].(string); is && (text != "" || name == "description") {
			*to = &text
		}
	}
	c, err := r.ingest.EditCollection(ctx, id, e)
	if err != nil {
		return nil, asAbsent(err)
	}
	return graph.Object{"artifactCollection": r.collectionFields(c)}, nil
}

// deleteCollection deletes a collection with all its artifacts, or a portfolio with its links.
func (r *Receiver) deleteCollection(ctx context.Context, args graph.Args) (graph.Field, error) {
	id, err := collectionIn(args.Inner("input"))
	if err != nil {
		return nil, err
	}
	sequence := args.Inner("input").Has("artifactSequenceID")
	if err := r.ingest.DeleteCollection(ctx, id); err != nil {
		return nil, asAbsent(err)
	}
	return graph.Object{"artifactCollection": graph.Object{"__typename": typename(sequence), "id": collectionNode(id), "state": "DELETED"}}, nil
}

func (r *Receiver) addCollectionTags(ctx context.Context, args graph.Args) (graph.Field, error) {
	return r.editCollectionTags(ctx, args.Inner("input"), func(e *catalog.CollectionEdit, tags []string) { e.AddTags = tags })
}

func (r *Receiver) deleteCollectionTags(ctx context.Context, args graph.Args) (graph.Field, error) {
	return r.editCollectionTags(ctx, args.Inner("input"), func(e *catalog.CollectionEdit, tags []string) { e.RemoveTags = tags })
}

func (r *Receiver) editCollectionTags(ctx context.Context, in graph.Args, change func(e *catalog.CollectionEdit, tags []string)) (graph.Field, error) {
	at := placeIn(ctx, in)
	tags, err := textsOf(in, "tags", "tagName")
	if err != nil {
		return nil, err
	}
	c, err := r.query.FindCollection(ctx, at.entity, at.project, in.Text("artifactCollectionName"))
	if err != nil {
		return nil, asAbsent(err)
	}
	e := catalog.CollectionEdit{}
	change(&e, tags)
	if c, err = r.ingest.EditCollection(ctx, c.ID, e); err != nil {
		return nil, asAbsent(err)
	}
	shown := make([]graph.Object, len(c.Tags))
	for i, tag := range c.Tags {
		shown[i] = tagFields(tag)
	}
	return graph.Object{"success": true, "tags": shown}, nil
}
