package wandb

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"path"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/mongo"
)

// downloadLife is how long the address of a file is good: the SDK asks for those of some
// thousand files at once.
const downloadLife = time.Hour

// downloadURL is an address at which a blob may be read without a key.
func (r *Receiver) downloadURL(ctx context.Context, sha256 string) (string, error) {
	hash, err := blob.ParseHash(sha256)
	if err != nil {
		return "", err
	}
	if link, err := blob.LinkOf(ctx, r.options.Blobs, hash, downloadLife); err != nil || link != "" {
		return link, err
	}
	query, _ := r.options.Signer.Query(http.MethodGet, hash, downloadLife)
	return baseOf(ctx) + "/api/v1/blobs/" + sha256 + "?" + query, nil
}

// maxList is how many files or artifacts a page has at most.
const maxList = 1_000

// limitOf is how long a page is to be.
func limitOf(args graph.Args) (int, error) {
	first, err := args.Int("first", 50)
	return int(min(max(first, 1), maxList)), err
}

// artifactFiles is a page of an artifact's files by name.
func (r *Receiver) artifactFiles(ctx context.Context, a *catalog.Artifact, args graph.Args) (graph.Field, error) {
	limit, err := limitOf(args)
	if err != nil {
		return nil, err
	}
	f := catalog.FileFilter{Like: args.Text("pattern"), Limit: limit, Cursor: args.Text("after")}
	if len(args.List("names")) > 0 {
		f.Names = args.Texts("names")
	}
	page, next, err := r.query.ArtifactFiles(ctx, a.ID, f)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(page))
	for i := range page {
		if edges[i].node, err = r.artifactFile(ctx, a, &page[i]); err != nil {
			return nil, err
		}
		edges[i].cursor = next
	}
	list := connection(edges, next, next != "")
	list["totalCount"] = a.Files
	return list, nil
}

func (r *Receiver) artifactFile(ctx context.Context, a *catalog.Artifact, f *catalog.File) (graph.Object, error) {
	direct, err := r.downloadURL(ctx, f.SHA256)
	if err != nil {
		return nil, err
	}
	sum, err := base64.StdEncoding.DecodeString(f.MD5)
	if err != nil {
		return nil, err
	}
	return graph.Object{
		"__typename": "File", "id": node("ArtifactFile", itoa(a.ID), f.Name), "name": f.Name, "displayName": f.Name, "sizeBytes": f.Size, "mimetype": f.ContentType, "updatedAt": stamp(f.TimeNs),
		"digest": f.MD5, "md5": f.MD5, "storagePath": storagePath(a.ID, f.Name), "directUrl": direct,
		"url": baseOf(ctx) + "/artifactsV2" + escaped("default", a.Workspace, a.Project, a.Name, artifactNode(a.ID), hex.EncodeToString(sum), path.Base(f.Name)),
	}, nil
}

// getArtifactFile gives a file by the sum of its bytes: of the project that the address
// names, else of that of the artifact which the bytes came with.
func (r *Receiver) getArtifactFile(w http.ResponseWriter, q *http.Request) {
	if err := r.findArtifactFile(w, q); err != nil {
		r.fail(w, q, err)
	}
}

func (r *Receiver) findArtifactFile(w http.ResponseWriter, q *http.Request) error {
	ctx, at := q.Context(), placeOf(q)
	sum, err := hex.DecodeString(q.PathValue("md5"))
	if err != nil || len(sum) != 16 {
		return model.Errorf(model.CodeInvalid, "the file is named by %q, which is no MD5 in hexadecimal", model.Clip(q.PathValue("md5")))
	}
	absent := model.Errorf(model.CodeNotFound, "there is no such file of an artifact in %s", model.Clip(at.entity))
	if at.project == "" {
		id, err := readArtifactNode(q.PathValue("birth"))
		if err != nil {
			return err
		}
		a, err := r.query.Artifact(ctx, id)
		if err != nil {
			return err
		}
		if a.Workspace != at.entity {
			return absent
		}
		at.project = a.Project
	}
	if err := model.CheckPlace(at.entity, at.project); err != nil {
		return err
	}
	digest := base64.StdEncoding.EncodeToString(sum)
	files, err := r.query.ArtifactFilesByMD5(ctx, at.entity, at.project, []string{digest})
	if err != nil {
		return err
	}
	file, ok := files[digest]
	if !ok {
		return absent
	}
	return r.serve(w, q, file.SHA256)
}

// versionRecord is an artifact as filters see it.
type versionRecord struct{ *catalog.ArtifactVersion }

// Field gives a field as JSON.
func (v versionRecord) Field(name string) (value []byte, ok bool) {
	text := func(s string) ([]byte, bool) { return loose.AppendText(nil, s), s != "" }
	switch name {
	case "id":
		return text(artifactNode(v.ID))
	case "name":
		return text(v.Name)
	case "state":
		return text(string(v.State))
	case "tags":
		list, err := json.Marshal(v.Tags)
		return list, err == nil && v.Tags != nil
	case "notes":
		return text(v.Description)
	case "createdAt":
		return text(stamp(v.CreatedNs))
	case "heartbeatAt":
		return text(stamp(v.ChangedNs))
	case "project":
		return text(v.Project)
	case "entity":
		return text(v.Workspace)
	}
	return nil, false
}

// committedOnly are the filters that leave nothing out: what is listed is committed.
func committedOnly(filters string) bool {
	var plain map[string]any
	if err := json.Unmarshal([]byte(cmp.Or(filters, "{}")), &plain); err != nil {
		return false
	}
	return len(plain) == 0 || len(plain) == 1 && plain["state"] == string(catalog.ArtifactCommitted)
}

// artifacts is a page of the artifacts of a collection, newest first, or of a run.
func (r *Receiver) artifacts(ctx context.Context, f catalog.ArtifactFilter, of *catalog.Collection, args graph.Args) (graph.Field, error) {
	var err error
	if f.Limit, err = limitOf(args); err != nil {
		return nil, err
	}
	f.Cursor, f.Newest = args.Text("after"), of != nil
	switch order := args.Text("order"); order {
	case "":
	case "-createdAt", "-created_at", "-versionIndex":
		f.Newest = true
	case "+createdAt", "createdAt", "+created_at", "created_at", "+versionIndex", "versionIndex":
		f.Newest = false
	default:
		return nil, model.Errorf(model.CodeInvalid, "artifacts cannot be sorted by %q", model.Clip(order)).WithHint("Sort by +createdAt or -createdAt.")
	}
	all := committedOnly(args.Text("filters"))
	var filter *mongo.Filter
	if !all {
		if filter, err = mongo.Parse([]byte(args.Text("filters"))); err != nil {
			return nil, err
		}
	}
	edges := []edge{}
	var versions []string
	next, err := r.eachArtifact(ctx, f, filter, func(v *catalog.ArtifactVersion) bool {
		as := ownMember(&v.Artifact)
		if of != nil {
			as = &version{place{entity: of.Workspace, project: of.Project}, of.ID, of.Name, v.Index, v.AddedNs}
		}
		edges = append(edges, edge{r.artifactFields(&v.Artifact, as), ""})
		versions = append(versions, "v"+itoa(as.index))
		return len(edges) < f.Limit
	})
	if err != nil {
		return nil, err
	}
	list := connection(edges, next, next != "")
	shown, _ := list["edges"].([]graph.Object)
	for i := range shown {
		shown[i]["version"], shown[i]["cursor"] = versions[i], next
	}
	list["totalCount"] = graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
		if filter == nil {
			return r.query.CountArtifacts(ctx, f)
		}
		n, whole := 0, f
		whole.Cursor, whole.Limit = "", 0
		_, err := r.eachArtifact(ctx, whole, filter, func(*catalog.ArtifactVersion) bool { n++; return true })
		return n, err
	})
	return list, nil
}

// eachArtifact gives artifacts until do wants no more; next is where it goes on.
func (r *Receiver) eachArtifact(ctx context.Context, f catalog.ArtifactFilter, filter *mongo.Filter, do func(v *catalog.ArtifactVersion) bool) (next string, err error) {
	most := f.Limit
	for {
		page, next, err := r.query.Artifacts(ctx, f)
		if err != nil {
			return "", err
		}
		taken := 0
		for i := range page {
			is := filter == nil
			if !is {
				if is, err = filter.Match(versionRecord{&page[i]}); err != nil {
					return "", err
				}
			}
			if !is {
				continue
			}
			if taken++; !do(&page[i]) {
				if i == len(page)-1 {
					return next, nil
				}
				return "", model.Errorf(model.CodeInternal, "a page of artifacts has more than was asked for")
			}
		}
		if f.Cursor = next; next == "" {
			return "", nil
		}
		if most > 0 { // what is still wanted, so that the page's end is the cursor
			f.Limit -= taken
		}
	}
}
