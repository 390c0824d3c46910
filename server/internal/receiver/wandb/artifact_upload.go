package wandb

import (
	"context"
	"encoding/base64"
	"net/http"
	"net/url"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// What the signature of an upload is for. The sum is part of it: who has the address can
// send these bytes only. An artifact takes them until its commit, which needs a key.
func artifactFileSubject(artifact, name, sum string) string {
	return "wandb artifact file " + artifact + " " + sum + " " + name
}

func manifestSubject(artifact, number, sum string) string {
	return "wandb manifest " + artifact + " " + number + " " + sum
}

// sumParam is the parameter of an upload that has the MD5 of its bytes, in base64.
const sumParam = "md5"

func (r *Receiver) uploadURL(ctx context.Context, path, subject, sum string) string {
	query, _ := r.options.Signer.QueryOf(http.MethodPut, subject, uploadLife)
	return baseOf(ctx) + path + "?" + sumParam + "=" + url.QueryEscape(sum) + "&" + query
}

func (r *Receiver) artifactFileURL(ctx context.Context, artifact int64, name, sum string) string {
	id := itoa(artifact)
	return r.uploadURL(ctx, "/wandb/artifacts"+escaped(id, "files", name), artifactFileSubject(id, name, sum), sum)
}

func (r *Receiver) manifestURL(ctx context.Context, artifact, number int64, sum string) string {
	id, part := itoa(artifact), itoa(number)
	return r.uploadURL(ctx, "/wandb/artifacts"+escaped(id, "manifests", part), manifestSubject(id, part, sum), sum)
}

// asked is a file for which an address is asked.
type asked struct {
	artifact  int64
	name, sum string
}

// createArtifactFiles gives an address to each file that an artifact is to have, and none to
// one whose bytes the project has already: the artifact gets these at once.
func (r *Receiver) createArtifactFiles(ctx context.Context, args graph.Args) (graph.Field, error) {
	list := args.Inner("input").List("artifactFiles")
	if len(list) > maxUploads {
		return nil, model.Errorf(model.CodeInvalid, "%d files at once, at most %d", len(list), maxUploads)
	}
	files := make([]asked, len(list))
	of := map[int64][]asked{}
	for i, one := range list {
		in, _ := one.(map[string]any)
		f, err := askedOf(in)
		if err != nil {
			return nil, err
		}
		files[i], of[f.artifact] = f, append(of[f.artifact], f)
	}
	const mostArtifacts = 100
	if len(of) > mostArtifacts {
		return nil, model.Errorf(model.CodeInvalid, "files of %d artifacts at once, at most %d", len(of), mostArtifacts)
	}
	have := map[asked]bool{}
	for id, files := range of {
		if err := r.reuse(ctx, id, files, have); err != nil {
			return nil, asAbsent(err)
		}
	}
	edges := make([]edge, len(files))
	for i, f := range files {
		id := artifactNode(f.artifact)
		o := graph.Object{
			"__typename": "File", "id": node("ArtifactFile", itoa(f.artifact), f.name), "name": f.name, "displayName": f.name, "storagePath": storagePath(f.artifact, f.name), "digest": f.sum, "md5": f.sum,
			"uploadUrl": nil, "uploadHeaders": []string{}, "uploadMultipartUrls": nil, "artifact": graph.Object{"id": id},
		}
		if !have[f] {
			o["uploadUrl"] = r.artifactFileURL(ctx, f.artifact, f.name, f.sum)
		}
		edges[i] = edge{o, itoa(int64(i + 1))}
	}
	return graph.Object{"files": connection(edges, "", false)}, nil
}

func storagePath(artifact int64, name string) string {
	return "artifacts/" + itoa(artifact) + "/" + name
}

func askedOf(in graph.Args) (f asked, err error) {
	f.name, f.sum = in.Text("name"), in.Text("md5")
	if f.artifact, err = readArtifactNode(in.Text("artifactID")); err != nil {
		return f, err
	}
	if sum, err := base64.StdEncoding.Strict().DecodeString(f.sum); err != nil || len(sum) != 16 {
		return f, model.Errorf(model.CodeInvalid, "the md5 %q of the file %q is not base64 of 16 bytes", model.Clip(f.sum), model.Clip(f.name))
	}
	return f, model.CheckFileName(f.name)
}

// reuse gives a pending artifact those files whose bytes are there.
func (r *Receiver) reuse(ctx context.Context, id int64, files []asked, have map[asked]bool) error {
	a, err := r.ingest.Artifact(ctx, id)
	if err != nil {
		return err
	}
	if a.State != catalog.ArtifactPending {
		return model.Errorf(model.CodeConflict, "the artifact %d takes no more files: it is %s", id, a.State)
	}
	digests := make([]string, len(files))
	for i, f := range files {
		digests[i] = f.sum
	}
	known, err := r.known(ctx, a.Workspace, a.Project, digests)
	if err != nil {
		return err
	}
	var own []catalog.File
	for _, f := range files {
		if file, ok := known[f.sum]; ok && !have[f] {
			file.Name, file.TimeNs = f.name, r.options.Now().UnixNano()
			own, have[f] = append(own, file), true
		}
	}
	if len(own) == 0 {
		return nil
	}
	return r.ingest.AddArtifactFiles(ctx, id, own)
}

// known are files of a project's artifacts by their MD5s. A caller that may not read is not
// told what is there.
func (r *Receiver) known(ctx context.Context, workspace, project string, digests []string) (map[string]catalog.File, error) {
	files, err := r.query.ArtifactFilesByMD5(ctx, workspace, project, digests)
	if model.CodeOf(err) == model.CodePermission {
		return nil, nil
	}
	return files, err
}

// putArtifactFile takes a file of an artifact. Who has the address may, or a key that may write.
func (r *Receiver) putArtifactFile(w http.ResponseWriter, q *http.Request) {
	name, sum := q.PathValue("name"), q.URL.Query().Get(sumParam)
	id, err := r.uploader(q, artifactFileSubject(q.PathValue("artifact"), name, sum))
	if err == nil {
		err = model.CheckFileName(name)
	}
	var b *catalog.BlobRef
	if err == nil {
		b, err = r.takeBlob(w, q, sum, r.options.MaxFile)
	}
	if err == nil {
		err = r.ingest.PutArtifactFile(q.Context(), id, catalog.File{Name: name, RunFile: model.RunFile{
			SHA256: b.SHA256, Size: b.Size, MD5: b.MD5, ContentType: contentType(name), TimeNs: r.options.Now().UnixNano(),
		}})
	}
	r.taken(w, q, err)
}

// putManifest takes a part of a manifest.
func (r *Receiver) putManifest(w http.ResponseWriter, q *http.Request) {
	sum := q.URL.Query().Get(sumParam)
	id, err := r.uploader(q, manifestSubject(q.PathValue("artifact"), q.PathValue("number"), sum))
	var number int64
	if err == nil {
		number, err = pathNumber(q, "number")
	}
	var b *catalog.BlobRef
	if err == nil {
		b, err = r.takeBlob(w, q, sum, min(r.maxManifest(), r.options.MaxFile))
	}
	if err == nil {
		err = r.ingest.FillManifest(q.Context(), id, number, *b)
	}
	r.taken(w, q, err)
}

// uploader is the artifact of an upload that is signed, or that a key may make.
func (r *Receiver) uploader(q *http.Request, subject string) (id int64, err error) {
	if id, err = pathNumber(q, "artifact"); err != nil {
		return 0, err
	}
	if q.URL.Query().Has("signature") {
		return id, r.options.Signer.CheckOf(http.MethodPut, subject, q.URL.Query())
	}
	_, err = r.ingest.Artifact(q.Context(), id)
	return id, asAbsent(err)
}

func pathNumber(q *http.Request, name string) (int64, error) {
	n, err := strconv.ParseInt(q.PathValue(name), 10, 64)
	if err != nil {
		return 0, model.Errorf(model.CodeNotFound, "there is no %s %q", name, model.Clip(q.PathValue(name)))
	}
	return n, nil
}

func (r *Receiver) taken(w http.ResponseWriter, q *http.Request, err error) {
	if err != nil {
		r.fail(w, q, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

// takeBlob keeps the bytes of an upload, which must have the sum that was declared. Without
// one, any may come.
func (r *Receiver) takeBlob(w http.ResponseWriter, q *http.Request, sum string, most int64) (*catalog.BlobRef, error) {
	if q.ContentLength > most {
		return nil, model.Errorf(model.CodeTooLarge, "the upload has %d bytes, at most %d", q.ContentLength, most)
	}
	hash, size, md5, err := r.options.Blobs.Keep(q.Context(), http.MaxBytesReader(w, q.Body, most+1), most)
	if err != nil {
		return nil, err
	}
	b := &catalog.BlobRef{SHA256: hash.String(), Size: size, MD5: base64.StdEncoding.EncodeToString(md5[:])}
	if sum != "" && b.MD5 != sum {
		return nil, model.Errorf(model.CodeInvalid, "the upload has the MD5 %s, not %s", b.MD5, model.Clip(sum)).WithHint("It changed while it was sent, or was damaged on the way: send it again.")
	}
	return b, nil
}
