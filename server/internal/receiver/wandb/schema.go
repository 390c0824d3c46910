package wandb

import (
	"context"
	"encoding/base64"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// queries are the fields of the root of queries.
func (r *Receiver) queries() graph.Object {
	root := graph.Object{
		"__typename":   "Query",
		"viewer":       graph.Resolver(viewer),
		"serverInfo":   serverInfo(),
		"entity":       graph.Resolver(entity),
		"organization": nil,
		"model":        graph.Resolver(r.project),
		"project":      graph.Resolver(r.project),
		"models":       graph.Resolver(r.projects),
		"projects":     graph.Resolver(r.projects),
		"instanceInfo": nil,
		"users":        connection(nil, "", false),
		"run":          graph.Resolver(r.runByID),
	}
	maps.Copy(root, r.artifactQueries())
	root["__type"] = graph.Resolver(func(_ context.Context, args graph.Args) (graph.Field, error) {
		return r.typeOf(args.Text("name"), root, r.mutations()), nil
	})
	return root
}

// mutations are the fields of the root of mutations. What is not here is answered with an
// error and 200: with 5xx the SDK would ask for a week.
func (r *Receiver) mutations() graph.Object {
	root := graph.Object{
		"__typename":     "Mutation",
		"upsertBucket":   graph.Resolver(r.upsertBucket),
		"rewindRun":      graph.Resolver(r.rewindRun),
		"deleteRun":      graph.Resolver(r.deleteRun),
		"upsertModel":    graph.Resolver(r.upsertModel),
		"createRunFiles": graph.Resolver(r.createRunFiles),
		"deleteFiles":    graph.Resolver(r.deleteFiles),
	}
	maps.Copy(root, r.artifactMutations())
	return root
}

// typeOf answers introspection as far as the SDK asks: the names of fields. Of a type that
// is not known it has none; null would end the init of 0.17.
func (r *Receiver) typeOf(name string, query, mutation graph.Object) graph.Object {
	var names []string
	switch name {
	case "Query":
		names = slices.Sorted(maps.Keys(query))
	case "Mutation":
		names = slices.Sorted(maps.Keys(mutation))
	case "Run":
		names = slices.Sorted(maps.Keys(r.runFields(&foundRun{})))
	case "Project":
		names = slices.Sorted(maps.Keys(r.projectFields(place{})))
	case "ServerInfo":
		names = slices.Sorted(maps.Keys(serverInfo()))
	default:
		names = artifactType(name)
	}
	fields := make([]graph.Object, 0, len(names))
	for _, field := range names {
		fields = append(fields, graph.Object{"name": field, "args": []graph.Object{}})
	}
	return graph.Object{"name": name, "fields": fields, "inputFields": fields}
}

func serverInfo() graph.Object {
	return graph.Object{
		"cliVersionInfo":          graph.Raw(`{"max_cli_version":"99.0.0","min_cli_version":"0.16.0"}`),
		"latestLocalVersionInfo":  nil,
		"features":                []graph.Object{},
		"deploymentId":            "",
		"frontendHost":            "",
		"extraHttpHeadersEnabled": false,
	}
}

// viewer is who asks: a key.
func viewer(ctx context.Context, _ graph.Args) (graph.Field, error) {
	name, entity := "anonymous", entityOf(ctx)
	id := "0"
	if p := auth.PrincipalOf(ctx); p != nil && p.Name != "" {
		name, id = p.Name, p.KeyID
	}
	team := graph.Object{"__typename": "Entity", "id": node("Entity", entity), "name": entity}
	return graph.Object{
		"__typename": "User", "id": node("User", id), "deletedAt": nil, "entity": entity, "username": name, "name": name, "email": "", "admin": false, "flags": "{}",
		"teams":   graph.Object{"edges": []graph.Object{{"node": team}}},
		"apiKeys": graph.Object{"edges": []graph.Object{}},
	}, nil
}

func entity(_ context.Context, args graph.Args) (graph.Field, error) {
	name := args.Text("name")
	return graph.Object{
		"__typename": "Entity", "id": node("Entity", name), "name": name, "organization": nil, "isTeam": true, "entityType": "team", "available": false,
		"photoUrl": nil, "readOnly": false, "readOnlyAdmin": false, "privateOnly": false, "codeSavingEnabled": false, "defaultAccess": "PRIVATE", "isPaid": false,
		"storageBytes": 0, "members": []graph.Object{}, "invitations": []graph.Object{}, "projects": connection(nil, "", false),
	}, nil
}

// node is an id of the API: opaque to clients.
func node(parts ...string) string {
	return base64.StdEncoding.EncodeToString([]byte(strings.Join(parts, ":")))
}

// readNode reads the id of a run.
func readNode(id string) (model.RunID, error) {
	text, err := base64.StdEncoding.DecodeString(id)
	name, is := strings.CutPrefix(string(text), "Run:")
	if err != nil || !is {
		return model.RunID{}, model.Errorf(model.CodeNotFound, "%q is the id of no run", model.Clip(id))
	}
	return model.ParseRunID(name)
}

// internal is a number for clients that want one: the same for the same name, and positive.
func internal(parts ...string) string {
	h := fnv.New64a()
	_, _ = h.Write([]byte(strings.Join(parts, "\x00"))) // never fails, see hash.Hash
	return strconv.FormatUint(h.Sum64()>>12, 10)
}

// edge is a part of a connection.
type edge struct {
	node   graph.Object
	cursor string
}

// connection is a page of a list.
func connection(edges []edge, end string, more bool) graph.Object {
	list := make([]graph.Object, len(edges))
	for i, e := range edges {
		list[i] = graph.Object{"node": e.node, "cursor": e.cursor}
	}
	var last graph.Field
	if end != "" {
		last = end
	}
	return graph.Object{
		"edges": list, "totalCount": len(list),
		"pageInfo": graph.Object{"__typename": "PageInfo", "endCursor": last, "hasNextPage": more, "startCursor": nil, "hasPreviousPage": false},
	}
}
