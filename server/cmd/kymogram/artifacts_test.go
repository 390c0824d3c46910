package main

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the names of W&B's files
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/auth"
)

// artifactLab asks a whole server as W&B's clients do.
type artifactLab struct {
	*served
	key string
}

func newArtifactLab(t *testing.T) *artifactLab {
	s := serveNode(t, false)
	s.addKey("all", auth.KeySpec{Scopes: []auth.Scope{auth.Ingest, auth.Read, auth.Admin}})
	return &artifactLab{s, s.keys["all"]}
}

// ask runs a document; path leads to a value of the data.
func (l *artifactLab) ask(query string, variables map[string]any, path string) any {
	l.t.Helper()
	data, problems := l.try(query, variables)
	if len(problems) > 0 {
		l.t.Fatalf("%s: %v", query, problems)
	}
	return reach(data, path)
}

// reach is a value of a tree; a number in a path is a place of a list.
func reach(v any, path string) any {
	for _, name := range strings.Fields(path) {
		switch inner := v.(type) {
		case map[string]any:
			v = inner[name]
		case []any:
			i := 0
			if _, err := fmt.Sscan(name, &i); err != nil || i >= len(inner) {
				return nil
			}
			v = inner[i]
		default:
			return nil
		}
	}
	return v
}

func (l *artifactLab) try(query string, variables map[string]any) (data any, problems []string) {
	l.t.Helper()
	body, err := json.Marshal(map[string]any{"query": query, "variables": variables})
	if err != nil {
		l.t.Fatal(err)
	}
	code, text, _ := l.send("POST", "/graphql", body, true, nil)
	var answer struct {
		Data   any
		Errors []struct{ Message string }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || code != 200 {
		l.t.Fatalf("%d %s", code, text)
	}
	for _, e := range answer.Errors {
		problems = append(problems, e.Message)
	}
	return answer.Data, problems
}

// send asks with the key as the password of Basic, or without one.
func (l *artifactLab) send(method, address string, body []byte, keyed bool, header map[string]string) (int, string, http.Header) {
	l.t.Helper()
	if strings.HasPrefix(address, "/") {
		address = "http://" + l.address + address
	}
	r, err := http.NewRequestWithContext(l.t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if keyed {
		r.SetBasicAuth("api", l.key)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return answer.StatusCode, string(text), answer.Header
}

func sumOf(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see above
	return base64.StdEncoding.EncodeToString(sum[:])
}

func hexOf(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // see above
	return hex.EncodeToString(sum[:])
}

// entry is what a manifest says of a file.
type entry struct {
	Digest string `json:"digest"`
	Size   int    `json:"size"`
	Ref    string `json:"ref,omitempty"`
}

// digestOf is an artifact's digest as the SDK documents it.
func digestOf(contents map[string]entry) string {
	text := "wandb-artifact-manifest-v1\n"
	for _, name := range slices.Sorted(maps.Keys(contents)) {
		text += name + ":" + contents[name].Digest + "\n"
	}
	return hexOf(text)
}

// creation makes or finds an artifact, and gives its id and state.
func (l *artifactLab) creation(input map[string]any) (id, state string) {
	l.t.Helper()
	all := map[string]any{"entityName": "w", "projectName": "p", "artifactTypeName": "dataset", "artifactCollectionName": "ds", "digestAlgorithm": "MANIFEST_MD5", "enableDigestDeduplication": true}
	maps.Copy(all, input)
	a := l.ask(`mutation($input:CreateArtifactInput!){createArtifact(input:$input){artifact{id state artifactSequence{latestArtifact{id}}}}}`, map[string]any{"input": all}, "createArtifact artifact")
	return reach(a, "id").(string), reach(a, "state").(string)
}

// upload sends files; it gives the names of those that had to be sent.
func (l *artifactLab) upload(id string, files map[string]string) (sent []string) {
	l.t.Helper()
	var specs []any
	for name, text := range files {
		specs = append(specs, map[string]any{"artifactID": id, "artifactManifestID": "x", "name": name, "md5": sumOf(text)})
	}
	edges := l.ask(`mutation($l:L!,$f:[F!]!){createArtifactFiles(input:{storageLayout:$l,artifactFiles:$f}){files{edges{node{name uploadUrl uploadHeaders uploadMultipartUrls{uploadID} artifact{id}}}}}}`,
		map[string]any{"l": "V2", "f": specs}, "createArtifactFiles files edges").([]any)
	for i, e := range edges {
		name := reach(specs[i], "name").(string)
		if reach(e, "node name") != name || reach(e, "node artifact id") != id {
			l.t.Errorf("the edge of %q is %v", name, e)
		}
		address, asked := reach(e, "node uploadUrl").(string)
		if !asked {
			continue
		}
		if code, text, _ := l.send("PUT", address, []byte(files[name]), false, nil); code != 200 {
			l.t.Fatalf("%s: %d %s", name, code, text)
		}
		sent = append(sent, name)
	}
	slices.Sort(sent)
	return sent
}

// manifest sends a part of a manifest, as the SDK does: first for its id, then its bytes.
func (l *artifactLab) manifest(id, kind, base string, contents map[string]entry) {
	l.t.Helper()
	text, err := json.Marshal(map[string]any{"version": 1, "storagePolicy": "wandb-storage-policy-v1", "storagePolicyConfig": map[string]any{"storageLayout": "V2"}, "contents": contents})
	if err != nil {
		l.t.Fatal(err)
	}
	input := map[string]any{"artifactID": id, "name": "wandb_manifest.json", "digest": "", "entityName": "w", "projectName": "p", "runName": "r", "type": kind}
	if base != "" {
		input["baseArtifactID"] = base
	}
	const create = `mutation($input:I!){createArtifactManifest(input:$input){artifactManifest{id file{id uploadUrl uploadHeaders}}}}`
	part := l.ask(create, map[string]any{"input": input}, "createArtifactManifest artifactManifest")
	input["digest"] = sumOf(string(text))
	var address any
	if kind == "FULL" {
		address = l.ask(create, map[string]any{"input": input}, "createArtifactManifest artifactManifest file uploadUrl")
	} else {
		address = l.ask(`mutation($id:ID!,$digest:String){updateArtifactManifest(input:{artifactManifestID:$id,digest:$digest}){artifactManifest{id file{uploadUrl}}}}`,
			map[string]any{"id": reach(part, "id"), "digest": input["digest"]}, "updateArtifactManifest artifactManifest file uploadUrl")
	}
	if code, answer, _ := l.send("PUT", address.(string), text, false, nil); code != 200 {
		l.t.Fatalf("%d %s", code, answer)
	}
}

const commitText = `mutation($id:ID!){commitArtifact(input:{artifactID:$id}){artifact{id digest versionIndex fileCount size}}}`

func (l *artifactLab) commit(id string) any {
	l.t.Helper()
	return l.ask(commitText, map[string]any{"id": id}, "commitArtifact artifact")
}

// log makes a whole version.
func (l *artifactLab) log(files map[string]string, input map[string]any) (id string, artifact any) {
	l.t.Helper()
	contents := map[string]entry{}
	for name, text := range files {
		contents[name] = entry{Digest: sumOf(text), Size: len(text)}
	}
	all := map[string]any{"digest": digestOf(contents)}
	maps.Copy(all, input)
	id, state := l.creation(all)
	if state != "PENDING" {
		l.t.Fatalf("%s is %s", id, state)
	}
	l.upload(id, files)
	l.manifest(id, "FULL", "", contents)
	return id, l.commit(id)
}

// contents downloads the manifest of an artifact.
func (l *artifactLab) contents(id string) map[string]entry {
	l.t.Helper()
	address := l.ask(`query($id:ID!){artifact(id:$id){currentManifest{file{directUrl}}}}`, map[string]any{"id": id}, "artifact currentManifest file directUrl").(string)
	code, text, _ := l.send("GET", address, nil, false, nil)
	var m struct {
		Version       int
		StoragePolicy string
		Contents      map[string]entry
	}
	if err := json.Unmarshal([]byte(text), &m); err != nil || code != 200 || m.Version != 1 || m.StoragePolicy == "" {
		l.t.Fatalf("the manifest: %d %s", code, text)
	}
	return m.Contents
}

func (l *artifactLab) want(got, want any) {
	l.t.Helper()
	g, err := json.Marshal(got)
	if err != nil {
		l.t.Fatal(err)
	}
	w, err := json.Marshal(want)
	if err != nil {
		l.t.Fatal(err)
	}
	if !bytes.Equal(g, w) {
		l.t.Errorf("got %s, want %s", g, w)
	}
}

// TestArtifactsOfWandb goes through what the SDK does with an artifact.
func TestArtifactsOfWandb(t *testing.T) {
	l := newArtifactLab(t)
	l.ask(`mutation{upsertBucket(input:{entityName:"w",modelName:"p",name:"r",host:"h"}){inserted}}`, nil, "")
	files := map[string]string{"a.txt": "aaa", "sub/b ü.bin": strings.Repeat("\x00\xff", 5_000)}
	v0, a := l.log(files, map[string]any{
		"runName": "r", "description": "words", "metadata": `{"m":1}`, "clientID": "client", "sequenceClientID": "s",
		"aliases": []any{map[string]any{"artifactCollectionName": "ds", "alias": "latest"}, map[string]any{"artifactCollectionName": "ds", "alias": "best"}},
		"tags":    []any{map[string]any{"tagName": "t"}}, "historyStep": 7,
	})
	l.want(a, map[string]any{"id": v0, "digest": reach(a, "digest"), "versionIndex": 0, "fileCount": 2, "size": 10_003})

	// The same once more is the same artifact, and its aliases move to it.
	again, state := l.creation(map[string]any{"digest": reach(a, "digest"), "aliases": []any{map[string]any{"alias": "again"}}})
	l.want([]string{again, state}, []string{v0, "COMMITTED"})
	// Bytes that the project has are not sent again.
	v1, _ := l.creation(map[string]any{"digest": "second", "runName": "r"})
	l.want(l.upload(v1, map[string]string{"copy.txt": "aaa", "new.txt": "new"}), []string{"new.txt"})
	l.manifest(v1, "FULL", "", map[string]entry{"copy.txt": {sumOf("aaa"), 3, ""}, "new.txt": {sumOf("new"), 3, ""}, "ref": {"etag", 12, "s3://bucket/key"}})
	l.want(l.commit(v1), map[string]any{"id": v1, "digest": "second", "versionIndex": 1, "fileCount": 3, "size": 18})

	// By name.
	const read = `query($n:String!){project(name:"p",entityName:"w"){artifact(name:$n){id versionIndex} artifactCollectionMembership(name:$n){versionIndex artifactCollection{__typename name}}}}`
	for name, want := range map[string]any{"ds:v0": v0, "ds:best": v0, "ds:again": v0, "ds": v1, "ds:latest": v1, "ds:second": v1, "ds:v2": nil, "none:v0": nil, "ds:": v1} {
		got := l.ask(read, map[string]any{"n": name}, "project")
		l.want(reach(got, "artifact id"), want)
		if (reach(got, "artifactCollectionMembership") == nil) != (want == nil) {
			t.Errorf("the membership of %s: %v", name, got)
		}
	}
	whole := l.ask(`query($id:ID!){artifact(id:$id){__typename state description metadata historyStep tags{__typename name} versionIndex ttlDurationSeconds aliases{__typename alias artifactCollection{__typename name project{name entityName entity{name}}}}
		artifactSequence{__typename name} artifactType{name} createdBy{__typename ... on Run{name}} usedBy{edges{node{name}}}}}`, map[string]any{"id": v0}, "artifact")
	in := func(alias string) any {
		return map[string]any{"__typename": "ArtifactAlias", "alias": alias, "artifactCollection": map[string]any{"__typename": "ArtifactSequence", "name": "ds", "project": map[string]any{"name": "p", "entityName": "w", "entity": map[string]any{"name": "w"}}}}
	}
	l.want(whole, map[string]any{
		"__typename": "Artifact", "state": "COMMITTED", "description": "words", "metadata": `{"m":1}`, "historyStep": 7, "tags": []any{map[string]any{"__typename": "Tag", "name": "t"}}, "versionIndex": 0, "ttlDurationSeconds": -2,
		"aliases": []any{in("v0"), in("again"), in("best")}, "artifactSequence": map[string]any{"__typename": "ArtifactSequence", "name": "ds"}, "artifactType": map[string]any{"name": "dataset"},
		"createdBy": map[string]any{"__typename": "Run", "name": "r"}, "usedBy": map[string]any{"edges": []any{}},
	})
	l.want(l.ask(`{clientIDMapping(clientID:"client"){serverID}}`, nil, "clientIDMapping serverID"), v0)
	l.want(l.ask(`{clientIDMapping(clientID:"nobody"){serverID}}`, nil, "clientIDMapping"), nil)

	l.files(v0, files)
	l.edits(v0, v1)
	l.lists(v0, v1)

	l.want(l.ask(`mutation($id:ID!){deleteArtifact(input:{artifactID:$id,deleteAliases:true}){artifact{id}}}`, map[string]any{"id": v0}, "deleteArtifact artifact id"), v0)
	l.want(l.ask(read, map[string]any{"n": "ds:v0"}, "project artifact"), nil)
	l.want(l.ask(`query($id:ID!){artifact(id:$id){id}}`, map[string]any{"id": v0}, "artifact"), nil)
	c := l.ask(`{project(name:"p",entityName:"w"){artifactCollection(name:"ds"){id}}}`, nil, "project artifactCollection id")
	l.want(l.ask(`mutation($id:ID!){deleteArtifactSequence(input:{artifactSequenceID:$id}){artifactCollection{__typename state}}}`, map[string]any{"id": c}, "deleteArtifactSequence artifactCollection state"), "DELETED")
	l.want(l.ask(read, map[string]any{"n": "ds:v1"}, "project artifact"), nil)
}

// files downloads files of an artifact at each address that they have.
func (l *artifactLab) files(id string, files map[string]string) {
	l.t.Helper()
	got := map[string]string{}
	for cursor := ""; ; {
		page := l.ask(`query($id:ID!,$c:String){artifact(id:$id){files(first:1,after:$c){totalCount pageInfo{endCursor hasNextPage} edges{node{name displayName url directUrl md5 sizeBytes} cursor}}}}`, map[string]any{"id": id, "c": cursor}, "artifact files")
		f := reach(page, "edges 0 node")
		name := reach(f, "name").(string)
		code, text, header := l.send("GET", reach(f, "directUrl").(string), nil, false, nil)
		if code != 200 || header.Get("Content-Disposition") != "attachment" || header.Get("X-Content-Type-Options") != "nosniff" || reach(f, "md5") != sumOf(text) {
			l.t.Errorf("%s: %d %v", name, code, header)
		}
		got[name] = text
		if code, text, header := l.send("GET", reach(f, "url").(string), nil, true, map[string]string{"Range": "bytes=1-2"}); code != 206 || text != files[name][1:3] || header.Get("Content-Disposition") != "attachment" {
			l.t.Errorf("a range of %s: %d %q", name, code, text)
		}
		if code, _, _ := l.send("GET", reach(f, "url").(string), nil, false, nil); code != http.StatusUnauthorized {
			l.t.Errorf("%s without a key: %d", name, code)
		}
		if code, text, _ := l.send("GET", "/artifactsV2/default/w/"+url.PathEscape(id)+"/"+hexOf(files[name]), nil, true, nil); code != 200 || text != files[name] {
			l.t.Errorf("%s for an old client: %d", name, code)
		}
		if more, _ := reach(page, "pageInfo hasNextPage").(bool); !more {
			break
		}
		cursor = reach(page, "pageInfo endCursor").(string)
		l.want(reach(page, "edges 0 cursor"), cursor)
	}
	l.want(got, files)
	for _, names := range []any{[]string{"a.txt"}, []string{"nothing"}} {
		edges := l.ask(`query($id:ID!,$n:[String!]){artifact(id:$id){files(names:$n){edges{node{name}}}}}`, map[string]any{"id": id, "n": names}, "artifact files edges").([]any)
		if len(edges) != map[string]int{"a.txt": 1}[names.([]string)[0]] {
			l.t.Errorf("%v: %v", names, edges)
		}
	}
}

// edits changes what can be changed of two versions of ds.
func (l *artifactLab) edits(v0, v1 string) {
	l.t.Helper()
	alias := func(collection, alias string) []any {
		return []any{map[string]any{"entityName": "w", "projectName": "p", "artifactCollectionName": collection, "alias": alias}}
	}
	const aliases = `query($id:ID!){artifact(id:$id){aliases{alias artifactCollection{name}}}}`
	of := func(id string) (list []string) {
		for _, a := range l.ask(aliases, map[string]any{"id": id}, "artifact aliases").([]any) {
			list = append(list, fmt.Sprint(reach(a, "artifactCollection name"), ":", reach(a, "alias")))
		}
		return list
	}
	l.ask(`mutation($input:I!){addAliases(input:$input){success}}`, map[string]any{"input": map[string]any{"artifactID": v1, "aliases": alias("ds", "best")}}, "")
	l.want([][]string{of(v0), of(v1)}, [][]string{{"ds:v0", "ds:again"}, {"ds:v1", "ds:best", "ds:latest"}})
	l.ask(`mutation($input:I!){deleteAliases(input:$input){success}}`, map[string]any{"input": map[string]any{"artifactID": v1, "aliases": alias("ds", "best")}}, "")
	l.want(of(v1), []string{"ds:v1", "ds:latest"})
	updated := l.ask(`mutation($input:I!){updateArtifact(input:$input){artifact{description metadata tags{name}}}}`, map[string]any{"input": map[string]any{
		"artifactID": v0, "description": "other", "metadata": nil, "tagsToAdd": []any{map[string]any{"tagName": "u"}}, "tagsToDelete": []any{map[string]any{"tagName": "t"}}, "aliases": nil,
	}}, "updateArtifact artifact")
	l.want(updated, map[string]any{"description": "other", "metadata": `{"m":1}`, "tags": []any{map[string]any{"name": "u"}}})

	const link = `mutation($input:I!){linkArtifact(input:$input){versionIndex artifactMembership{versionIndex aliases{alias} artifactCollection{__typename name} artifact{id}}}}`
	for i, input := range []map[string]any{{"artifactID": v1}, {"clientID": "client", "artifactID": nil}} {
		maps.Copy(input, map[string]any{"artifactPortfolioName": "shelf", "entityName": "w", "projectName": "p", "aliases": []any{map[string]any{"alias": "linked"}}})
		l.want(l.ask(link, map[string]any{"input": input}, "linkArtifact versionIndex"), i)
	}
	got := l.ask(`{project(name:"p",entityName:"w"){artifact(name:"shelf:linked"){id versionIndex aliases{alias artifactCollection{__typename name}} artifactMemberships{edges{node{versionIndex artifactCollection{id __typename name}}}}}}}`, nil, "project artifact")
	l.want(reach(got, "id"), v0)
	l.want(reach(got, "aliases 1 alias"), "v1") // of the portfolio
	shelf := reach(got, "artifactMemberships edges 1 node artifactCollection")
	l.want(reach(shelf, "__typename"), "ArtifactPortfolio")
	l.want(l.ask(`mutation($a:ID!,$p:ID!){unlinkArtifact(input:{artifactID:$a,artifactPortfolioID:$p}){artifactID success}}`, map[string]any{"a": v0, "p": reach(shelf, "id")}, "unlinkArtifact success"), true)
	l.want(l.ask(`{project(name:"p",entityName:"w"){artifact(name:"shelf:latest"){id}}}`, nil, "project artifact id"), v1)
	l.want(l.ask(`mutation($p:ID!){deleteArtifactPortfolio(input:{artifactPortfolioID:$p}){artifactCollection{state}}}`, map[string]any{"p": reach(shelf, "id")}, "deleteArtifactPortfolio artifactCollection state"), "DELETED")

	l.want(l.ask(`mutation($id:ID!){useArtifact(input:{entityName:"w",projectName:"p",runName:"r",artifactID:$id,usedAs:"x"}){artifact{id}}}`, map[string]any{"id": v0}, "useArtifact artifact id"), v0)
	l.want(l.ask(`query($id:ID!){artifact(id:$id){usedBy{edges{node{name project{name}}}}}}`, map[string]any{"id": v0}, "artifact usedBy edges 0 node"), map[string]any{"name": "r", "project": map[string]any{"name": "p"}})

	id := l.ask(`{project(name:"p",entityName:"w"){artifactCollection(name:"ds"){id}}}`, nil, "project artifactCollection id")
	l.want(l.ask(`mutation($id:ID!){updateArtifactSequence(input:{artifactSequenceID:$id,name:"other",description:"d"}){artifactCollection{name description}}}`, map[string]any{"id": id}, "updateArtifactSequence artifactCollection"),
		map[string]any{"name": "other", "description": "d"})
	l.ask(`mutation($id:ID!){updateArtifactSequence(input:{artifactSequenceID:$id,name:"ds"}){artifactCollection{name}}}`, map[string]any{"id": id}, "")
	l.want(l.ask(`mutation{createArtifactCollectionTagAssignments(input:{entityName:"w",projectName:"p",artifactCollectionName:"ds",tags:[{tagName:"x"},{tagName:"y"}]}){tags{name}}}`, nil, "createArtifactCollectionTagAssignments tags 1 name"), "y")
	l.ask(`mutation{deleteArtifactCollectionTagAssignments(input:{entityName:"w",projectName:"p",artifactCollectionName:"ds",tags:[{tagName:"x"}]}){success}}`, nil, "")
}

// lists reads the lists that have the two versions of ds.
func (l *artifactLab) lists(v0, v1 string) {
	l.t.Helper()
	ids := func(connection any) (list []string) {
		for _, e := range reach(connection, "edges").([]any) {
			list = append(list, reach(e, "node id").(string))
		}
		return list
	}
	run := l.ask(`{project(name:"p",entityName:"w"){run(name:"r"){artifacts:outputArtifacts(first:10){totalCount edges{node{id}}} inputArtifacts{totalCount edges{node{id}}}}}}`, nil, "project run")
	l.want([][]string{ids(reach(run, "artifacts")), ids(reach(run, "inputArtifacts"))}, [][]string{{v0, v1}, {v0}})
	l.want(reach(run, "artifacts totalCount"), 2)
	const versions = `query($f:JSONString,$o:String,$c:String,$n:Int){project(name:"p",entityName:"w"){artifactType(name:"dataset"){artifactCollection(name:"ds"){artifacts(first:$n,after:$c,filters:$f,order:$o){totalCount pageInfo{__typename endCursor hasNextPage} edges{version node{id}}}}}}}`
	for _, c := range []struct {
		filters, order string
		want           []string
	}{
		{"", "", []string{v1, v0}},
		{`{"state":"COMMITTED"}`, "+createdAt", []string{v0, v1}},
		{`{"state":"PENDING"}`, "", nil},
		{`{"$and":[{"tags":"u"},{"state":"COMMITTED"}]}`, "-createdAt", []string{v0}},
	} {
		for _, size := range []int{1, 10} {
			var all []string
			for cursor := ""; ; {
				page := l.ask(versions, map[string]any{"f": c.filters, "o": c.order, "c": cursor, "n": size}, "project artifactType artifactCollection artifacts")
				all = append(all, ids(page)...)
				l.want(reach(page, "totalCount"), len(c.want))
				if more, _ := reach(page, "pageInfo hasNextPage").(bool); !more {
					break
				}
				cursor = reach(page, "pageInfo endCursor").(string)
			}
			l.want(all, c.want)
		}
	}
	l.want(l.ask(`{project(name:"p",entityName:"w"){artifactTypes{edges{node{__typename name}}} artifactType(name:"none"){id} artifactCollections{totalCount edges{node{__typename name tags{edges{node{name}}} defaultArtifactType{name} aliases{edges{node{alias}}}}}}}}`, nil, "project"), map[string]any{
		"artifactTypes": map[string]any{"edges": []any{map[string]any{"node": map[string]any{"__typename": "ArtifactType", "name": "dataset"}}}}, "artifactType": nil,
		"artifactCollections": map[string]any{"totalCount": 1, "edges": []any{map[string]any{"node": map[string]any{
			"__typename": "ArtifactSequence", "name": "ds", "tags": map[string]any{"edges": []any{map[string]any{"node": map[string]any{"name": "y"}}}}, "defaultArtifactType": map[string]any{"name": "dataset"},
			"aliases": map[string]any{"edges": []any{map[string]any{"node": map[string]any{"alias": "again"}}, map[string]any{"node": map[string]any{"alias": "latest"}}}},
		}}}},
	})
}

// TestManifestsOfWandbCompose holds incremental and distributed artifacts against maps.
func TestManifestsOfWandbCompose(t *testing.T) {
	l := newArtifactLab(t)
	r := rand.New(rand.NewPCG(1, 2))
	some := func(n int) (map[string]string, map[string]entry) {
		files, contents := map[string]string{}, map[string]entry{}
		for range n {
			name, text := fmt.Sprintf("f%d ü\"<", r.IntN(12)), fmt.Sprint("text ", r.IntN(8))
			files[name], contents[name] = text, entry{Digest: sumOf(text), Size: len(text)}
		}
		return files, contents
	}
	base := ""
	model := map[string]entry{}
	for range 6 {
		files, contents := some(4)
		id, _ := l.creation(map[string]any{"digest": digestOf(contents), "artifactCollectionName": "inc"}) // of its own files, as the SDK says it
		l.upload(id, files)
		l.manifest(id, "INCREMENTAL", base, contents)
		maps.Copy(model, contents)
		l.want(reach(l.commit(id), "digest"), digestOf(model))
		l.want(l.contents(id), model)
		base = id
	}
	for _, name := range slices.Sorted(maps.Keys(model)) { // the last version has its own copy of all
		got := l.ask(`query($id:ID!,$n:[String!]){artifact(id:$id){files(names:$n){edges{node{md5}}}}}`, map[string]any{"id": base, "n": []string{name}}, "artifact files edges 0 node md5")
		l.want(got, model[name].Digest)
	}
	clear(model)
	last := ""
	for i := range 5 {
		files, contents := some(3)
		id, _ := l.creation(map[string]any{"digest": fmt.Sprint("part ", i), "artifactCollectionName": "parts", "distributedID": "one"})
		if last != "" && id != last {
			t.Fatalf("part %d is of %s, not of %s", i, id, last)
		}
		l.upload(id, files)
		l.manifest(id, "PATCH", "", contents)
		maps.Copy(model, contents)
		last = id
	}
	l.want(reach(l.commit(last), "fileCount"), len(model))
	l.want(l.contents(last), model)
}

// TestUploadsOfWandbAreChecked: an address is good for its bytes and its file alone, and a
// key for its project.
func TestUploadsOfWandbAreChecked(t *testing.T) {
	l := newArtifactLab(t)
	id, _ := l.creation(map[string]any{"digest": "d"})
	const files = `mutation($f:[F!]!){createArtifactFiles(input:{storageLayout:V2,artifactFiles:$f}){files{edges{node{uploadUrl}}}}}`
	spec := func(name string) map[string]any {
		return map[string]any{"f": []any{map[string]any{"artifactID": id, "name": name, "md5": sumOf("right")}}}
	}
	address := l.ask(files, spec("x"), "createArtifactFiles files edges 0 node uploadUrl").(string)
	for name, c := range map[string]struct {
		address, body string
		code          int
	}{
		"other bytes":    {address, "wrong", 400},
		"another name":   {strings.Replace(address, "/files/x", "/files/y", 1), "right", 403},
		"another number": {strings.Replace(address, "/artifacts/1/", "/artifacts/2/", 1), "right", 403},
		"another sum":    {strings.Replace(address, url.QueryEscape(sumOf("right")), url.QueryEscape(sumOf("wrong")), 1), "wrong", 403},
		"another time":   {strings.Replace(address, "expires=1", "expires=2", 1), "right", 403},
		"no signature":   {address[:strings.Index(address, "&signature")], "right", 401},
		"right":          {address, "right", 200},
		"right again":    {address, "right", 200},
	} {
		if code, text, _ := l.send("PUT", c.address, []byte(c.body), false, nil); code != c.code {
			t.Errorf("%s: %d %s, want %d", name, code, text, c.code)
		}
	}
	for _, name := range []string{"", ".", "..", "../x", "/x", "a//b", "a/../b", `a\b`, "a\x00", strings.Repeat("x", 2_000)} {
		if _, problems := l.try(files, spec(name)); len(problems) != 1 {
			t.Errorf("the name %q: %v", name, problems)
		}
	}
	for name, contents := range map[string]map[string]entry{
		"bytes that nobody sent": {"y": {sumOf("nothing"), 7, ""}},
		"another size":           {"x": {sumOf("right"), 6, ""}},
		"a bad name":             {"../x": {sumOf("right"), 5, ""}},
		"a bad size":             {"x": {sumOf("right"), -5, ""}},
	} {
		l.manifest(id, "FULL", "", contents)
		if _, problems := l.try(commitText, map[string]any{"id": id}); len(problems) != 1 {
			t.Errorf("%s: %v", name, problems)
		}
	}
	l.manifest(id, "FULL", "", map[string]entry{"x": {sumOf("right"), 5, ""}})
	l.commit(id)
	if _, problems := l.try(files, spec("late")); len(problems) != 1 {
		t.Errorf("a file after the commit: %v", problems)
	}

	whole := l.key
	l.addKey("other", auth.KeySpec{Scopes: []auth.Scope{auth.Ingest, auth.Read, auth.Admin}, Workspace: "w", Project: "q"})
	l.addKey("reader", auth.KeySpec{Scopes: []auth.Scope{auth.Read}})
	for caller, reads := range map[string]bool{"other": false, "reader": true} {
		l.key = l.keys[caller]
		for _, query := range []string{
			`mutation($id:ID!){deleteArtifact(input:{artifactID:$id,deleteAliases:true}){artifact{id}}}`,
			`mutation($id:ID!){updateArtifact(input:{artifactID:$id,description:"x"}){artifact{id}}}`,
			`mutation($id:ID!){commitArtifact(input:{artifactID:$id}){artifact{id}}}`,
			`mutation($id:ID!){createArtifactManifest(input:{artifactID:$id,name:"m",digest:"",type:FULL}){artifactManifest{id}}}`,
			`mutation($id:ID!){linkArtifact(input:{artifactID:$id,artifactPortfolioName:"s",entityName:"w",projectName:"q"}){versionIndex}}`,
		} {
			data, problems := l.try(query, map[string]any{"id": id})
			if len(problems) != 1 || strings.Contains(fmt.Sprint(data), id) {
				t.Errorf("%s as %s: %v %v", query, caller, data, problems)
			}
		}
		got, _ := l.try(`query($id:ID!){artifact(id:$id){id}}`, map[string]any{"id": id})
		if (reach(got, "artifact id") == id) != reads {
			t.Errorf("%s reads %v", caller, got)
		}
		if code, _, _ := l.send("GET", "/artifactsV2/default/w/"+url.PathEscape(id)+"/"+hexOf("right"), nil, true, nil); (code == 200) != reads {
			t.Errorf("%s downloads: %d", caller, code)
		}
	}
	l.key = whole
}
