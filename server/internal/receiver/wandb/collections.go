package wandb

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// typename is what a collection is to clients.
func typename(sequence bool) string {
	if sequence {
		return "ArtifactSequence"
	}
	return "ArtifactPortfolio"
}

func collectionNode(id int64) string { return node(nodeCollection, itoa(id)) }

// collectionRef is a collection as far as an artifact tells it. The rest is read when it is
// asked for.
func (r *Receiver) collectionRef(m *version, sequence bool) graph.Object {
	id := m.collection
	lazy := func(field string) graph.Resolver {
		return func(ctx context.Context, args graph.Args) (graph.Field, error) {
			c, err := r.query.Collection(ctx, id)
			if err != nil {
				return orNull(nil, err)
			}
			value := r.collectionFields(c)[field]
			if resolve, is := value.(graph.Resolver); is {
				return resolve(ctx, args)
			}
			return value, nil
		}
	}
	o := graph.Object{"__typename": typename(sequence), "id": collectionNode(id), "name": m.name, "project": r.projectRef(m.at)}
	for _, field := range []string{"description", "createdAt", "updatedAt", "state", "tags", "aliases", "artifacts", "artifactMembership", "latestArtifact", "defaultArtifactType", "type"} {
		o[field] = lazy(field)
	}
	return o
}

// collectionFields are the fields of a collection.
func (r *Receiver) collectionFields(c *catalog.Collection) graph.Object {
	at := place{entity: c.Workspace, project: c.Project}
	tags := make([]edge, len(c.Tags))
	for i, tag := range c.Tags {
		tags[i] = edge{tagFields(tag), itoa(int64(i + 1))}
	}
	kind := graph.Object{"__typename": "ArtifactType", "id": node("ArtifactType", at.entity, at.project, c.Type), "name": c.Type}
	return graph.Object{
		"__typename": typename(!c.Portfolio), "id": collectionNode(c.ID), "name": c.Name, "description": optional(c.Description), "state": "READY",
		"createdAt": stamp(c.CreatedNs), "updatedAt": stamp(c.ChangedNs), "project": r.projectRef(at), "defaultArtifactType": kind, "type": kind, "tags": connection(tags, "", false),
		"aliases": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
			return r.collectionAliases(ctx, c.ID, args)
		}),
		"artifacts": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
			return r.artifacts(ctx, catalog.ArtifactFilter{Collection: c.ID}, c, args)
		}),
		"artifactMembership": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
			return r.membershipByName(ctx, catalog.VersionName{Workspace: c.Workspace, Project: c.Project, Collection: c.Name, Alias: args.Text("aliasName")})
		}),
		"latestArtifact": graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
			if c.Latest == 0 {
				return nil, nil
			}
			a, err := r.query.Artifact(ctx, c.Latest)
			if err != nil {
				return orNull(nil, err)
			}
			return r.artifactFields(a, nil), nil
		}),
	}
}

// membershipByName is an artifact as a version of a collection.
func (r *Receiver) membershipByName(ctx context.Context, name catalog.VersionName) (graph.Field, error) {
	v, err := r.query.ArtifactVersion(ctx, name)
	if err != nil {
		return orNull(nil, err)
	}
	return r.membershipFields(&v.Artifact, memberOf(name, v)), nil
}

func (r *Receiver) membershipFields(a *catalog.Artifact, m *version) graph.Object {
	aliases := []graph.Object{}
	for _, alias := range a.Aliases {
		if alias.Collection == m.collection {
			aliases = append(aliases, aliasFields(m.collection, alias.Alias))
		}
	}
	return graph.Object{
		"__typename": "ArtifactCollectionMembership", "id": node("ArtifactCollectionMembership", itoa(m.collection), itoa(m.index)), "versionIndex": m.index, "createdAt": stamp(m.addedNs),
		"aliases": aliases, "artifactCollection": r.collectionRef(m, m.collection == a.Sequence), "artifact": r.artifactFields(a, m),
		"files": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) { return r.artifactFiles(ctx, a, args) }),
	}
}

// memberships are all versions that an artifact is.
func (r *Receiver) memberships(ctx context.Context, a *catalog.Artifact) (graph.Field, error) {
	list, err := r.query.Memberships(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(list))
	for i, m := range list {
		edges[i] = edge{r.membershipFields(a, &version{place{entity: m.Workspace, project: m.Project}, m.Collection, m.Name, m.Index, m.AddedNs}), itoa(int64(i + 1))}
	}
	return connection(edges, "", false), nil
}

func (r *Receiver) collectionsOf(ctx context.Context, a *catalog.Artifact) (graph.Field, error) {
	list, err := r.query.Memberships(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(list))
	for i, m := range list {
		edges[i] = edge{r.collectionRef(&version{at: place{entity: m.Workspace, project: m.Project}, collection: m.Collection, name: m.Name}, m.Collection == a.Sequence), itoa(int64(i + 1))}
	}
	return connection(edges, "", false), nil
}

func (r *Receiver) collectionAliases(ctx context.Context, id int64, args graph.Args) (graph.Field, error) {
	limit, err := limitOf(args)
	if err != nil {
		return nil, err
	}
	page, next, err := r.query.CollectionAliases(ctx, id, limit, args.Text("after"))
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(page))
	for i, alias := range page {
		edges[i] = edge{aliasFields(id, alias), next}
	}
	return connection(edges, next, next != ""), nil
}

// collectionByID is a collection by the id that the API gave it.
func (r *Receiver) collectionByID(ctx context.Context, args graph.Args) (graph.Field, error) {
	var id int64
	err := readNumbers(nodeCollection, args.Text("id"), &id)
	var c *catalog.Collection
	if err == nil {
		c, err = r.query.Collection(ctx, id)
	}
	if err != nil {
		return orNull(nil, err)
	}
	return r.collectionFields(c), nil
}

// collectionByName is a collection of a project, and of a type where that is given.
func (r *Receiver) collectionByName(ctx context.Context, at place, name, kind string) (graph.Field, error) {
	c, err := r.query.FindCollection(ctx, at.entity, at.project, name)
	if err != nil || kind != "" && c.Type != kind {
		return orNull(nil, err)
	}
	return r.collectionFields(c), nil
}

// collections is a page of collections by name.
func (r *Receiver) collections(ctx context.Context, f catalog.CollectionFilter, args graph.Args) (graph.Field, error) {
	if text := args.Text("filters"); !committedOnly(text) {
		return nil, model.Errorf(model.CodeInvalid, "collections cannot be filtered by %s", model.Clip(text)).WithHint("List them all and choose from the list.")
	}
	switch order := args.Text("order"); order {
	case "", "name", "+name":
	default:
		return nil, model.Errorf(model.CodeInvalid, "collections cannot be sorted by %q", model.Clip(order)).WithHint("They come by name.")
	}
	var err error
	if f.Limit, err = limitOf(args); err != nil {
		return nil, err
	}
	f.Cursor = args.Text("after")
	page, next, err := r.query.Collections(ctx, f)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(page))
	for i := range page {
		edges[i] = edge{r.collectionFields(&page[i]), next}
	}
	list := connection(edges, next, next != "")
	list["totalCount"] = graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
		types, err := r.query.ArtifactTypes(ctx, f.Workspace, f.Project)
		var n int64
		for _, t := range types {
			if f.Type == "" || f.Type == t.Name {
				n += t.Collections
			}
		}
		return n, err
	})
	return list, nil
}

// artifactTypes are all types of a project.
func (r *Receiver) artifactTypes(ctx context.Context, at place) (graph.Field, error) {
	types, err := r.query.ArtifactTypes(ctx, at.entity, at.project)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(types))
	for i := range types {
		edges[i] = edge{r.typeFields(at, &types[i]), itoa(int64(i + 1))}
	}
	return connection(edges, "", false), nil
}

func (r *Receiver) artifactTypeByName(ctx context.Context, at place, name string) (graph.Field, error) {
	types, err := r.query.ArtifactTypes(ctx, at.entity, at.project)
	if err != nil {
		return nil, err
	}
	for i := range types {
		if types[i].Name == name {
			return r.typeFields(at, &types[i]), nil
		}
	}
	return nil, nil
}

func (r *Receiver) typeFields(at place, t *catalog.ArtifactType) graph.Object {
	kind := t.Name
	list := func(sequences bool) graph.Resolver {
		return func(ctx context.Context, args graph.Args) (graph.Field, error) {
			return r.collections(ctx, catalog.CollectionFilter{Workspace: at.entity, Project: at.project, Type: kind, Sequences: sequences}, args)
		}
	}
	return graph.Object{
		"__typename": "ArtifactType", "id": node("ArtifactType", at.entity, at.project, kind), "name": kind, "description": nil, "createdAt": stamp(t.CreatedNs),
		"artifactCollections": list(false), "artifactSequences": list(true),
		"artifactCollection": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
			return r.collectionByName(ctx, at, args.Text("name"), kind)
		}),
		"artifactSequence": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
			c, err := r.query.FindCollection(ctx, at.entity, at.project, args.Text("name"))
			if err != nil || c.Type != kind || c.Portfolio {
				return orNull(nil, err)
			}
			return r.collectionFields(c), nil
		}),
		"artifact": graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
			return r.artifactByName(ctx, at, args.Text("name"), kind)
		}),
	}
}
