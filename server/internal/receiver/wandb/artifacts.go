package wandb

import (
	"context"
	"encoding/base64"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// artifactQueries are the fields of the root of queries that are about artifacts.
func (r *Receiver) artifactQueries() graph.Object {
	return graph.Object{
		"artifact":           graph.Resolver(r.artifactByID),
		"artifactCollection": graph.Resolver(r.collectionByID),
		"clientIDMapping":    graph.Resolver(r.clientIDMapping),
	}
}

func (r *Receiver) artifactMutations() graph.Object {
	return graph.Object{
		"createArtifact":                         graph.Resolver(r.createArtifact),
		"createArtifactManifest":                 graph.Resolver(r.createArtifactManifest),
		"updateArtifactManifest":                 graph.Resolver(r.updateArtifactManifest),
		"createArtifactFiles":                    graph.Resolver(r.createArtifactFiles),
		"commitArtifact":                         graph.Resolver(r.commitArtifact),
		"useArtifact":                            graph.Resolver(r.useArtifact),
		"updateArtifact":                         graph.Resolver(r.updateArtifact),
		"addAliases":                             graph.Resolver(r.addAliases),
		"deleteAliases":                          graph.Resolver(r.deleteAliases),
		"deleteArtifact":                         graph.Resolver(r.deleteArtifact),
		"linkArtifact":                           graph.Resolver(r.linkArtifact),
		"unlinkArtifact":                         graph.Resolver(r.unlinkArtifact),
		"updateArtifactSequence":                 graph.Resolver(r.updateCollection),
		"updateArtifactPortfolio":                graph.Resolver(r.updateCollection),
		"moveArtifactSequence":                   graph.Resolver(r.updateCollection),
		"deleteArtifactSequence":                 graph.Resolver(r.deleteCollection),
		"deleteArtifactPortfolio":                graph.Resolver(r.deleteCollection),
		"createArtifactCollectionTagAssignments": graph.Resolver(r.addCollectionTags),
		"deleteArtifactCollectionTagAssignments": graph.Resolver(r.deleteCollectionTags),
	}
}

// artifactType lists the fields of a type as far as clients ask for them before they send
// one: what is not listed they leave out.
func artifactType(name string) []string {
	switch name {
	case "Artifact":
		return []string{"id", "digest", "description", "metadata", "state", "size", "fileCount", "tags", "ttlDurationSeconds", "ttlIsInherited", "historyStep", "aliases", "versionIndex"}
	case "ArtifactType":
		return []string{"artifactCollection", "artifactCollections", "artifactSequence", "artifactSequences"}
	case "CreateArtifactInput":
		return []string{
			"entityName", "projectName", "runName", "artifactTypeName", "artifactCollectionName", "artifactCollectionNames", "digest", "digestAlgorithm",
			"description", "metadata", "aliases", "tags", "clientID", "sequenceClientID", "enableDigestDeduplication", "distributedID", "historyStep", "ttlDurationSeconds",
		}
	case "CreateArtifactFilesInput":
		return []string{"artifactFiles", "storageLayout"}
	case "CreateArtifactFileSpecInput": // without parts: a file of any size comes in one piece
		return []string{"artifactID", "artifactManifestID", "name", "md5", "mimetype"}
	case "UseArtifactInput":
		return []string{"entityName", "projectName", "runName", "artifactID", "usedAs"}
	case "AddAliasesInput":
		return []string{"artifactID", "aliases"}
	case "LinkArtifactInput":
		return []string{"artifactID", "clientID", "artifactPortfolioName", "entityName", "projectName", "aliases"}
	case "UpdateArtifactInput":
		return []string{"artifactID", "description", "metadata", "aliases", "tagsToAdd", "tagsToDelete", "ttlDurationSeconds"}
	}
	return nil
}

// artifactProject adds the fields of a project that are about artifacts.
func (r *Receiver) artifactProject(o graph.Object, at place) {
	o["artifact"] = graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
		return r.artifactByName(ctx, at, args.Text("name"), "")
	})
	o["artifactCollectionMembership"] = graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
		return r.membershipByName(ctx, nameOf(at, args.Text("name")))
	})
	o["artifactTypes"] = graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) { return r.artifactTypes(ctx, at) })
	o["artifactType"] = graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
		return r.artifactTypeByName(ctx, at, args.Text("name"))
	})
	o["artifactCollections"] = graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
		return r.collections(ctx, catalog.CollectionFilter{Workspace: at.entity, Project: at.project}, args)
	})
	o["artifactCollection"] = graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) {
		return r.collectionByName(ctx, at, args.Text("name"), "")
	})
	o["artifactSequence"] = o["artifactCollection"]
}

// artifactRun adds the fields of a run that are about artifacts.
func (r *Receiver) artifactRun(o graph.Object, id model.RunID, _ place) {
	list := func(role catalog.ArtifactRole) graph.Resolver {
		return func(ctx context.Context, args graph.Args) (graph.Field, error) {
			return r.artifacts(ctx, catalog.ArtifactFilter{Run: id, Role: role}, nil, args)
		}
	}
	o["outputArtifacts"] = list(catalog.RoleLogged)
	o["inputArtifacts"] = list(catalog.RoleUsed)
}

// The kinds of nodes of artifacts.
const (
	nodeArtifact   = "Artifact"
	nodeCollection = "ArtifactCollection"
	nodeManifest   = "ArtifactManifest"
)

// readNumbers reads an id that node made of a kind and numbers.
func readNumbers(kind, id string, numbers ...*int64) error {
	text, err := base64.StdEncoding.DecodeString(id)
	parts := strings.Split(string(text), ":")
	if err == nil && len(parts) == 1+len(numbers) && parts[0] == kind {
		for i, to := range numbers {
			if *to, err = strconv.ParseInt(parts[1+i], 10, 64); err != nil || *to <= 0 {
				return errNoNode(kind, id)
			}
		}
		return nil
	}
	return errNoNode(kind, id)
}

func errNoNode(kind, id string) error {
	return model.Errorf(model.CodeNotFound, "%q is the id of no %s", model.Clip(id), kind)
}

func artifactNode(id int64) string { return node(nodeArtifact, itoa(id)) }

func readArtifactNode(id string) (number int64, err error) {
	return number, readNumbers(nodeArtifact, id, &number)
}

// asAbsent is what a caller is told of an artifact or a collection of a project in which it
// has no right.
func asAbsent(err error) error {
	if model.CodeOf(err) == model.CodePermission {
		return model.Errorf(model.CodeNotFound, "there is no such artifact or collection for this key").WithHint("The key needs the right to write in its project; to delete, that of admin.")
	}
	return err
}

// orNull is null for what is not there.
func orNull(o graph.Object, err error) (graph.Field, error) {
	switch model.CodeOf(err) {
	case "":
		return o, nil
	case model.CodeNotFound, model.CodeRunDeleted:
		return nil, nil
	}
	return nil, err
}

// artifactByID is an artifact by the id that the API gave it.
func (r *Receiver) artifactByID(ctx context.Context, args graph.Args) (graph.Field, error) {
	id, err := readArtifactNode(args.Text("id"))
	if err != nil {
		return orNull(nil, err)
	}
	a, err := r.query.Artifact(ctx, id)
	if err != nil || a.State == catalog.ArtifactDeleted {
		return orNull(nil, err)
	}
	return r.artifactFields(a, nil), nil
}

// nameOf reads NAME:ALIAS, NAME:vN or NAME:DIGEST.
func nameOf(at place, name string) catalog.VersionName {
	v := catalog.VersionName{Workspace: at.entity, Project: at.project, Collection: name}
	if i := strings.LastIndexByte(name, ':'); i >= 0 {
		v.Collection, v.Alias = name[:i], name[i+1:]
	}
	return v
}

// artifactByName is an artifact of a project, and of a type where that is given.
func (r *Receiver) artifactByName(ctx context.Context, at place, name, kind string) (graph.Field, error) {
	v, err := r.query.ArtifactVersion(ctx, nameOf(at, name))
	if err != nil || kind != "" && v.Type != kind {
		return orNull(nil, err)
	}
	return r.artifactFields(&v.Artifact, memberOf(nameOf(at, name), v)), nil
}

// clientIDMapping is the artifact that a client made under an id of its own.
func (r *Receiver) clientIDMapping(ctx context.Context, args graph.Args) (graph.Field, error) {
	a, err := r.query.ArtifactByClient(ctx, args.Text("clientID"))
	if err != nil {
		return orNull(nil, err)
	}
	return graph.Object{"serverID": artifactNode(a.ID)}, nil
}

// version is a version of a collection: of the artifact's own, or a link.
type version struct {
	at         place
	collection int64
	name       string
	index      int64
	addedNs    int64
}

func memberOf(name catalog.VersionName, v *catalog.ArtifactVersion) *version {
	return &version{place{entity: name.Workspace, project: name.Project}, v.Collection, name.Collection, v.Index, v.AddedNs}
}

// ownMember is an artifact as a version of its own collection.
func ownMember(a *catalog.Artifact) *version {
	return &version{place{entity: a.Workspace, project: a.Project}, a.Sequence, a.Name, a.Version, a.CommittedNs}
}

// artifactFields are the fields of an artifact. Of a link, as is its place. What costs a read
// is read when it is asked for.
func (r *Receiver) artifactFields(a *catalog.Artifact, as *version) graph.Object {
	at := place{entity: a.Workspace, project: a.Project}
	own := ownMember(a)
	if as == nil {
		as = own
	}
	id, tags := a.ID, make([]graph.Object, len(a.Tags))
	for i, tag := range a.Tags {
		tags[i] = tagFields(tag)
	}
	o := graph.Object{
		"__typename": "Artifact", "id": artifactNode(id), "state": string(a.State), "digest": a.Digest, "digestAlgorithm": "MANIFEST_MD5",
		"description": optional(a.Description), "metadata": optional(a.Metadata), "tags": tags, "historyStep": nil, "versionIndex": nil, "commitHash": nil, "currentManifest": nil,
		"ttlDurationSeconds": noLife, "ttlIsInherited": true, "size": a.Bytes, "fileCount": a.Files,
		"createdAt": stamp(a.CreatedNs), "updatedAt": stamp(a.ChangedNs), "artifactType": graph.Object{"__typename": "ArtifactType", "id": node("ArtifactType", at.entity, at.project, a.Type), "name": a.Type},
		"artifactSequence": r.collectionRef(own, true),
		"aliases":          graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) { return r.aliasesOf(ctx, a, as), nil }),
		"createdBy":        graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) { return r.createdBy(ctx, a.Run) }),
		"usedBy": graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
			return r.artifactRuns(ctx, id, catalog.RoleUsed)
		}),
		"files":               graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) { return r.artifactFiles(ctx, a, args) }),
		"artifactMemberships": graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) { return r.memberships(ctx, a) }),
		"artifactCollections": graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) { return r.collectionsOf(ctx, a) }),
	}
	if a.HistoryStep != nil {
		o["historyStep"] = *a.HistoryStep
	}
	if a.Version >= 0 {
		o["versionIndex"] = a.Version
	}
	if sum := a.Manifest.SHA256; sum != "" {
		o["commitHash"] = sum[:40]
		o["currentManifest"] = graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
			address, err := r.downloadURL(ctx, sum)
			return graph.Object{
				"__typename": "ArtifactManifest", "id": node(nodeManifest, itoa(id), "0"), "digest": a.Manifest.MD5,
				"file": graph.Object{"__typename": "File", "id": node("ArtifactFile", itoa(id), manifestName), "name": manifestName, "displayName": manifestName, "directUrl": address, "url": address, "sizeBytes": a.Manifest.Size, "md5": a.Manifest.MD5},
			}, err
		})
	}
	return o
}

const manifestName = "wandb_manifest.json"

func tagFields(name string) graph.Object {
	return graph.Object{"__typename": "Tag", "id": node("Tag", name), "name": name, "tagCategoryName": nil}
}

// projectRef is a project as far as artifacts show it.
func (r *Receiver) projectRef(at place) graph.Object {
	o := r.projectOf(at)
	o["__typename"] = "Project"
	return o
}

// aliasesOf are the aliases of an artifact, with vN of its own collection and of the one that
// it was found in. Those of projects that the caller may not read are left out.
func (r *Receiver) aliasesOf(ctx context.Context, a *catalog.Artifact, as *version) []graph.Object {
	var out []graph.Object
	add := func(m *version, alias string) {
		o := aliasFields(m.collection, alias)
		o["artifactCollection"], o["artifactCollectionName"] = r.collectionRef(m, m.collection == a.Sequence), m.name
		out = append(out, o)
	}
	own := ownMember(a)
	if own.index >= 0 {
		add(own, "v"+itoa(own.index))
	}
	if as.collection != own.collection {
		add(as, "v"+itoa(as.index))
	}
	allowed := map[place]bool{own.at: true, as.at: true}
	for _, alias := range a.Aliases {
		at := place{entity: alias.Workspace, project: alias.Project}
		may, known := allowed[at]
		if !known {
			may = r.query.Allow(ctx, at.entity, at.project) == nil
			allowed[at] = may
		}
		if may {
			add(&version{at: at, collection: alias.Collection, name: alias.Name}, alias.Alias)
		}
	}
	return out
}

func aliasFields(collection int64, alias string) graph.Object {
	return graph.Object{"__typename": "ArtifactAlias", "id": node("ArtifactAlias", itoa(collection), alias), "alias": alias}
}

// createdBy is the run that made an artifact, null for one that the caller may not see.
func (r *Receiver) createdBy(ctx context.Context, id model.RunID) (graph.Field, error) {
	if id.IsZero() {
		return nil, nil
	}
	o, err := r.runObject(ctx, id)
	if model.CodeOf(err) == model.CodePermission {
		return nil, nil
	}
	return orNull(o, err)
}

func (r *Receiver) artifactRuns(ctx context.Context, id int64, role catalog.ArtifactRole) (graph.Field, error) {
	runs, err := r.query.ArtifactRuns(ctx, id, role)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(runs))
	for i, run := range runs {
		o := r.runFields(&foundRun{Run: *run})
		o["project"] = r.projectRef(place{entity: run.Workspace, project: run.Project})
		edges[i] = edge{o, itoa(int64(i + 1))}
	}
	return connection(edges, "", false), nil
}

// noLife is the time to live of an artifact that is kept: as the project says, which says nothing.
const noLife = -2
