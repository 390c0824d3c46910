package wandb

import (
	"context"
	"encoding/base64"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
)

// uploadLife is how long an upload may wait for its turn: the SDK asks for the addresses of
// all files at once.
const uploadLife = 6 * time.Hour

// maxUploads is how many addresses a request may ask for.
const maxUploads = 10_000

// base is the address that a client asked.
func base(q *http.Request) string {
	scheme := "http"
	if q.TLS != nil || strings.EqualFold(q.Header.Get("X-Forwarded-Proto"), "https") {
		scheme = "https"
	}
	return scheme + "://" + q.Host
}

// escaped is a path of several parts.
func escaped(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		for one := range strings.SplitSeq(part, "/") {
			b.WriteByte('/')
			b.WriteString(url.PathEscape(one))
		}
	}
	return b.String()
}

// subject is what the signature of an upload is for.
func subject(run, name string) string { return "wandb file " + run + " " + name }

// baseKey is the key of a context's base.
type baseKey struct{}

// baseOf is the address that the client of a request asked.
func baseOf(ctx context.Context) string {
	from, _ := ctx.Value(baseKey{}).(string)
	return from
}

// createRunFiles gives an address to each file that a run is to have. Uploads carry no key,
// so the address is signed.
func (r *Receiver) createRunFiles(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	at := place{in.Text("entityName"), in.Text("projectName"), in.Text("runName")}
	if at.entity == "" {
		at.entity = entityOf(ctx)
	}
	id, err := r.ingest.FindRun(ctx, at.entity, at.project, at.run)
	if err != nil {
		return nil, err
	}
	names := in.Texts("files")
	if len(names) > maxUploads {
		return nil, model.Errorf(model.CodeInvalid, "%d files at once, at most %d", len(names), maxUploads)
	}
	files := make([]graph.Object, len(names))
	for i, name := range names {
		if err := model.CheckFileName(name); err != nil {
			return nil, err
		}
		query, _ := r.options.Signer.QueryOf(http.MethodPut, subject(id.String(), name), uploadLife)
		address := baseOf(ctx) + "/wandb/uploads" + escaped(id.String(), name) + "?" + query
		files[i] = graph.Object{"id": node("File", id.String(), name), "name": name, "uploadUrl": address}
	}
	return graph.Object{"runID": node("Run", id.String()), "uploadHeaders": []string{}, "files": files}, nil
}

// putFile takes a file. Who has the address may.
func (r *Receiver) putFile(w http.ResponseWriter, q *http.Request) {
	if err := r.takeFile(w, q); err != nil {
		r.fail(w, q, err)
		return
	}
	w.WriteHeader(http.StatusOK)
}

func (r *Receiver) takeFile(w http.ResponseWriter, q *http.Request) error {
	ctx, name := q.Context(), q.PathValue("name")
	id, err := model.ParseRunID(q.PathValue("run"))
	if err != nil {
		return model.Errorf(model.CodeNotFound, "%q is the id of no run", model.Clip(q.PathValue("run")))
	}
	if q.URL.Query().Has("signature") {
		err = r.options.Signer.CheckOf(http.MethodPut, subject(id.String(), name), q.URL.Query())
	} else {
		_, err = r.ingest.Writable(ctx, id)
	}
	if err != nil {
		return err
	}
	if err := model.CheckFileName(name); err != nil {
		return err
	}
	hash, size, sum, err := r.options.Blobs.Keep(ctx, http.MaxBytesReader(w, q.Body, r.options.MaxFile+1), r.options.MaxFile)
	if err != nil {
		return err
	}
	kind := q.Header.Get("Content-Type")
	if kind == "" || len(kind) > 256 || !model.IsClean(kind) {
		kind = contentType(name)
	}
	return r.ingest.PutFile(ctx, id, name, &model.RunFile{
		SHA256: hash.String(), Size: size, ContentType: kind, MD5: base64.StdEncoding.EncodeToString(sum[:]), TimeNs: r.options.Now().UnixNano(),
	})
}

// contentType is that of a file by its name.
func contentType(name string) string {
	switch path.Ext(name) {
	case ".log", ".txt", ".yaml", ".patch":
		return "text/plain; charset=utf-8"
	case ".jsonl":
		return "application/jsonl"
	}
	return mime.TypeByExtension(path.Ext(name))
}

// getFile gives a file of a run.
func (r *Receiver) getFile(w http.ResponseWriter, q *http.Request) {
	id, err := r.find(q.Context(), placeOf(q))
	if err == nil {
		var file *catalog.File
		if file, err = r.query.File(q.Context(), id, q.PathValue("name")); err == nil {
			err = r.serve(w, q, file.SHA256)
		}
	}
	if err != nil {
		r.fail(w, q, err)
	}
}

// serve gives the bytes of a blob, as data to save: no browser is to run what was stored.
func (r *Receiver) serve(w http.ResponseWriter, q *http.Request, sha256 string) error {
	hash, err := blob.ParseHash(sha256)
	if err != nil {
		return err
	}
	b, err := r.options.Blobs.Open(q.Context(), hash)
	if err != nil {
		return err
	}
	defer b.Close()
	h := w.Header()
	h.Set("Content-Type", "application/octet-stream")
	h.Set("Content-Disposition", "attachment")
	h.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("ETag", `"`+sha256+`"`)
	http.ServeContent(w, q, "", time.Time{}, b)
	return nil
}

// fileFields add the fields of a run that are about its files.
func (r *Receiver) fileFields(o graph.Object, id model.RunID, at place) {
	o["fileCount"] = graph.Resolver(func(ctx context.Context, _ graph.Args) (graph.Field, error) {
		page, err := r.query.Files(ctx, id, catalog.FileFilter{Limit: 1})
		if err != nil {
			return nil, err
		}
		return page.Count, nil
	})
	o["files"] = graph.Resolver(func(ctx context.Context, args graph.Args) (graph.Field, error) { return r.files(ctx, id, at, args) })
}

func (r *Receiver) files(ctx context.Context, id model.RunID, at place, args graph.Args) (graph.Field, error) {
	first, err := args.Int("first", 50)
	if err != nil {
		return nil, err
	}
	f := catalog.FileFilter{Like: args.Text("pattern"), Limit: int(min(max(first, 1), query.MaxRuns)), Cursor: args.Text("after")}
	if args.Has("names") && len(args.List("names")) > 0 {
		f.Names = args.Texts("names")
	}
	page, next, err := r.query.ListFiles(ctx, id, f)
	if err != nil {
		return nil, err
	}
	edges := make([]edge, len(page))
	for i := range page {
		file := &page[i]
		address := baseOf(ctx) + "/wandb/files" + escaped(at.entity, at.project, at.run, file.Name)
		edges[i] = edge{graph.Object{
			"__typename": "File", "id": node("File", id.String(), file.Name), "name": file.Name, "url": address, "directUrl": address, "uploadUrl": address,
			"sizeBytes": file.Size, "mimetype": file.ContentType, "updatedAt": stamp(file.TimeNs), "md5": file.MD5, "digest": file.MD5,
		}, next}
	}
	return connection(edges, next, next != ""), nil
}

// deleteFiles takes files off a run.
func (r *Receiver) deleteFiles(ctx context.Context, args graph.Args) (graph.Field, error) {
	ids := args.Inner("input").Texts("files")
	if len(ids) > maxUploads {
		return nil, model.Errorf(model.CodeInvalid, "%d files at once, at most %d", len(ids), maxUploads)
	}
	for _, id := range ids {
		run, name, err := readFileNode(id)
		if err != nil {
			return nil, err
		}
		if err := r.ingest.UpdateRun(ctx, run, []model.Update{{Op: model.OpSetFile, Path: name}}); err != nil {
			return nil, err
		}
	}
	return graph.Object{"success": true}, nil
}

func readFileNode(id string) (run model.RunID, name string, err error) {
	text, err := base64.StdEncoding.DecodeString(id)
	rest, is := strings.CutPrefix(string(text), "File:")
	ulid, name, cut := strings.Cut(rest, ":")
	if err != nil || !is || !cut {
		return run, "", model.Errorf(model.CodeNotFound, "%q is the id of no file", model.Clip(id))
	}
	run, err = model.ParseRunID(ulid)
	return run, name, err
}
