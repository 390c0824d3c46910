package wandb

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// The kinds of manifests.
const (
	manifestFull        = "FULL"
	manifestIncremental = "INCREMENTAL"
)

// createArtifact makes a pending artifact, or finds the one that is meant.
func (r *Receiver) createArtifact(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	at := placeIn(ctx, in)
	names := in.Texts("artifactCollectionNames")
	if name := in.Text("artifactCollectionName"); name != "" {
		names = []string{name}
	}
	if len(names) != 1 {
		return nil, model.Errorf(model.CodeInvalid, "an artifact is of one collection, not of %d", len(names))
	}
	n := catalog.NewArtifact{
		Collection: names[0], Type: in.Text("artifactTypeName"), Digest: in.Text("digest"), ClientID: in.Text("clientID"), DistributedID: in.Text("distributedID"),
		Description: in.Text("description"), Metadata: in.Text("metadata"), Anew: !in.Bool("enableDigestDeduplication"),
	}
	var err error
	if n.Aliases, err = textsOf(in, "aliases", "alias"); err != nil {
		return nil, err
	}
	if n.Tags, err = textsOf(in, "tags", "tagName"); err != nil {
		return nil, err
	}
	if in.Has("historyStep") {
		step, err := in.Int("historyStep", 0)
		if err != nil {
			return nil, err
		}
		n.HistoryStep = &step
	}
	r.warnOfLife(ctx, in)
	if name := in.Text("runName"); name != "" {
		if n.Run, err = r.ingest.FindRun(ctx, at.entity, at.project, name); err != nil {
			return nil, err
		}
	}
	a, err := r.ingest.CreateArtifact(ctx, at.entity, at.project, n)
	if err != nil {
		return nil, err
	}
	return graph.Object{"artifact": r.artifactFields(a, nil)}, nil
}

// warnOfLife says in the log that an artifact stays past the time that a client gives it. To
// refuse it would lose the artifact; the client sees that it has no such time.
func (r *Receiver) warnOfLife(ctx context.Context, in graph.Args) {
	if life, err := in.Int("ttlDurationSeconds", 0); err == nil && life > 0 {
		r.options.Log.WarnContext(ctx, "an artifact is to be deleted after a time; it is kept, for this server deletes artifacts only when asked",
			"collection", model.Clip(in.Text("artifactCollectionName")), "artifact", model.Clip(in.Text("artifactID")), "seconds", life)
	}
}

// placeIn is the project of an input.
func placeIn(ctx context.Context, in graph.Args) place {
	at := place{entity: in.Text("entityName"), project: in.Text("projectName")}
	if at.entity == "" {
		at.entity = entityOf(ctx)
	}
	return at
}

// textsOf are members of the objects of a list.
func textsOf(in graph.Args, list, member string) ([]string, error) {
	all := in.List(list)
	if len(all) > catalog.MaxArtifactAliases {
		return nil, model.Errorf(model.CodeLimit, "%d %s at once, at most %d", len(all), list, catalog.MaxArtifactAliases)
	}
	out := make([]string, 0, len(all))
	for _, one := range all {
		o, _ := one.(map[string]any)
		text, ok := o[member].(string)
		if !ok {
			return nil, model.Errorf(model.CodeInvalid, "an element of %s has no %s", list, member)
		}
		out = append(out, text)
	}
	return out, nil
}

// createArtifactManifest begins a part of a manifest. The client does so twice: first for its
// id, then, when all files have arrived, with the sum of its bytes.
func (r *Receiver) createArtifactManifest(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	id, err := readArtifactNode(in.Text("artifactID"))
	if err != nil {
		return nil, err
	}
	m := catalog.ArtifactManifest{Kind: in.Text("type"), Name: in.Text("name"), Digest: in.Text("digest")}
	if m.Kind == "" {
		m.Kind = manifestFull
	}
	if m.Kind == manifestIncremental {
		if m.Base, err = r.base(ctx, in); err != nil {
			return nil, err
		}
	}
	if m.Number, err = r.ingest.PutManifest(ctx, id, m); err != nil {
		return nil, asAbsent(err)
	}
	return r.manifestFields(ctx, id, &m), nil
}

// base is the artifact that an incremental one adds to, 0 for none.
func (r *Receiver) base(ctx context.Context, in graph.Args) (int64, error) {
	text := in.Text("baseArtifactID")
	if text == "" {
		return 0, nil
	}
	id, err := readArtifactNode(text)
	if err == nil {
		_, err = r.committed(ctx, id)
	}
	return id, err
}

// committed finds an artifact that has all its files.
func (r *Receiver) committed(ctx context.Context, id int64) (*catalog.Artifact, error) {
	a, err := r.query.Artifact(ctx, id)
	if err == nil && a.State != catalog.ArtifactCommitted {
		err = model.Errorf(model.CodeNotFound, "there is no committed artifact %d", id)
	}
	return a, err
}

// updateArtifactManifest says what a part of a manifest will be.
func (r *Receiver) updateArtifactManifest(ctx context.Context, args graph.Args) (graph.Field, error) {
	in := args.Inner("input")
	var id, number int64
	if err := readNumbers(nodeManifest, in.Text("artifactManifestID"), &id, &number); err != nil {
		return nil, err
	}
	parts, err := r.ingest.Manifests(ctx, id)
	if err != nil {
		return nil, asAbsent(err)
	}
	for i := range parts {
		m := &parts[i]
		if m.Number != number {
			continue
		}
		if in.Has("digest") {
			m.Digest = in.Text("digest")
		}
		if in.Has("baseArtifactID") && m.Kind == manifestIncremental {
			if m.Base, err = r.base(ctx, in); err != nil {
				return nil, err
			}
		}
		if _, err := r.ingest.PutManifest(ctx, id, *m); err != nil {
			return nil, asAbsent(err)
		}
		return r.manifestFields(ctx, id, m), nil
	}
	return nil, errNoNode(nodeManifest, in.Text("artifactManifestID"))
}

func (r *Receiver) manifestFields(ctx context.Context, artifact int64, m *catalog.ArtifactManifest) graph.Object {
	id := node(nodeManifest, itoa(artifact), itoa(m.Number))
	return graph.Object{"artifactManifest": graph.Object{
		"id": id, "file": graph.Object{
			"id": id, "name": m.Name, "displayName": m.Name, "uploadHeaders": []string{}, "uploadUrl": r.manifestURL(ctx, artifact, m.Number, m.Digest),
		},
	}}
}

// commitArtifact makes a pending artifact a version: its manifest is put together of its
// parts, and the bytes of each entry must be there.
func (r *Receiver) commitArtifact(ctx context.Context, args graph.Args) (graph.Field, error) {
	id, err := readArtifactNode(args.Inner("input").Text("artifactID"))
	if err != nil {
		return nil, err
	}
	parts, err := r.ingest.Manifests(ctx, id)
	if err != nil {
		return nil, asAbsent(err)
	}
	a, err := r.ingest.Artifact(ctx, id)
	if err != nil {
		return nil, asAbsent(err)
	}
	if a.State == catalog.ArtifactPending {
		content, err := r.content(ctx, a, parts)
		if err != nil {
			return nil, err
		}
		if a, err = r.ingest.CommitArtifact(ctx, id, *content); err != nil {
			return nil, asAbsent(err)
		}
	}
	return graph.Object{"artifact": r.artifactFields(a, nil)}, nil
}

// content is what a commit says.
func (r *Receiver) content(ctx context.Context, a *catalog.Artifact, parts []catalog.ArtifactManifest) (*catalog.ArtifactContent, error) {
	blobs, err := r.partsOf(ctx, parts)
	if err != nil {
		return nil, err
	}
	var sum int64
	for _, b := range blobs {
		sum += b.Size
	}
	if most := r.maxManifest(); sum > most {
		return nil, model.Errorf(model.CodeTooLarge, "the artifact's manifest has %d bytes, at most %d", sum, most).WithHint("Split the artifact into several.")
	}
	done, err := r.options.Work.Acquire(ctx, sum*weight.Times)
	if err != nil {
		return nil, err
	}
	defer done()
	whole, err := r.manifestOf(ctx, blobs)
	if err != nil {
		return nil, err
	}
	content := &catalog.ArtifactContent{Manifest: blobs[len(blobs)-1]}
	if len(blobs) > 1 {
		text := whole.text()
		hash, size, sum, err := r.options.Blobs.Keep(ctx, bytes.NewReader(text), int64(len(text)))
		if err != nil {
			return nil, err
		}
		content.Manifest = catalog.BlobRef{SHA256: hash.String(), Size: size, MD5: base64.StdEncoding.EncodeToString(sum[:])}
		content.Digest = whole.digest()
	}
	if content.Bytes, err = r.complete(ctx, a, whole.entries); err != nil {
		return nil, err
	}
	content.Files = int64(len(whole.entries))
	return content, nil
}

// partsOf are the texts that make a manifest, each over those before it: the last part of a
// whole manifest alone; else the base's, and all additions.
func (r *Receiver) partsOf(ctx context.Context, parts []catalog.ArtifactManifest) ([]catalog.BlobRef, error) {
	var blobs []catalog.BlobRef
	last := -1
	for i := range parts {
		if parts[i].Blob.SHA256 != "" {
			last = i
		}
	}
	if last < 0 {
		return nil, model.Errorf(model.CodeInvalid, "the artifact has no manifest yet").WithHint("Upload it before the commit.")
	}
	if parts[last].Kind == manifestFull {
		return []catalog.BlobRef{parts[last].Blob}, nil
	}
	if base := parts[last].Base; base != 0 {
		a, err := r.committed(ctx, base)
		if err != nil {
			return nil, err
		}
		blobs = append(blobs, a.Manifest)
	}
	for i := range parts {
		if parts[i].Kind != manifestFull && parts[i].Blob.SHA256 != "" {
			blobs = append(blobs, parts[i].Blob)
		}
	}
	return blobs, nil
}

// manifestOf reads parts of a manifest, each over those before it.
func (r *Receiver) manifestOf(ctx context.Context, blobs []catalog.BlobRef) (*manifest, error) {
	var whole *manifest
	for _, b := range blobs {
		text, err := r.text(ctx, b)
		if err != nil {
			return nil, err
		}
		m, err := readManifest(text)
		if err != nil {
			return nil, err
		}
		if whole != nil {
			m = m.over(whole)
		}
		whole = m
	}
	return whole, nil
}

// text reads a blob whose size is within the lease of the caller.
func (r *Receiver) text(ctx context.Context, ref catalog.BlobRef) ([]byte, error) {
	hash, err := blob.ParseHash(ref.SHA256)
	if err != nil {
		return nil, err
	}
	from, err := r.options.Blobs.Open(ctx, hash)
	if err != nil {
		return nil, err
	}
	defer from.Close()
	text := make([]byte, ref.Size)
	_, err = io.ReadFull(from, text)
	return text, err
}

// maxManifest is how large a manifest may be: what it takes must fit a caller's lease.
func (r *Receiver) maxManifest() int64 { return r.options.Work.Part() / weight.Times }

// sums are entries by the MD5s of their bytes.
type sums map[string][]entry

// complete gives an artifact the files that its manifest has and that did not come with it:
// those of its base, and those that the client knew to be there. It fails for a file that
// nobody has sent. Bytes is what all entries say they have.
func (r *Receiver) complete(ctx context.Context, a *catalog.Artifact, entries []entry) (size int64, err error) {
	const batch = 5_000
	for len(entries) > 0 {
		some := entries[:min(batch, len(entries))]
		entries = entries[len(some):]
		n, err := r.completeSome(ctx, a, some)
		if err != nil {
			return 0, err
		}
		if size += n; size > maxEntryBytes {
			return 0, model.Errorf(model.CodeInvalid, "the artifact cannot have more than %d bytes", int64(maxEntryBytes))
		}
	}
	return size, nil
}

func (r *Receiver) completeSome(ctx context.Context, a *catalog.Artifact, entries []entry) (size int64, err error) {
	var names []string
	for _, e := range entries {
		n, err := e.size()
		if err != nil {
			return 0, err
		}
		if size += n; !e.isRef() {
			names = append(names, string(e.name))
		}
	}
	if len(names) == 0 {
		return size, nil
	}
	has := make(map[string]catalog.File, len(names))
	for f := (catalog.FileFilter{Names: names}); ; {
		page, next, err := r.ingest.ArtifactFiles(ctx, a.ID, f)
		if err != nil {
			return 0, err
		}
		for _, file := range page {
			has[file.Name] = file
		}
		if f.Cursor = next; next == "" {
			break
		}
	}
	lacks := sums{}
	for _, e := range entries {
		digest := e.text("digest")
		file, there := has[string(e.name)]
		switch n, _ := e.size(); {
		case e.isRef():
		case !there || file.MD5 != digest:
			lacks[digest] = append(lacks[digest], e)
		case file.Size != n:
			return 0, model.Errorf(model.CodeInvalid, "the manifest says that %q has %d bytes, it has %d", model.Clip(string(e.name)), n, file.Size)
		}
	}
	return size, r.borrow(ctx, a, lacks)
}

// borrow gives an artifact files that other artifacts have: of its project, or of the project
// of the artifact that an entry names as the one that its bytes came with.
func (r *Receiver) borrow(ctx context.Context, a *catalog.Artifact, lacks sums) error {
	if err := r.borrowFrom(ctx, a, a.Workspace, a.Project, lacks); err != nil {
		return err
	}
	for len(lacks) > 0 {
		var birth int64
		var missing entry
		for _, list := range lacks {
			missing = list[0]
			birth, _ = readArtifactNode(missing.text("birthArtifactID"))
			break
		}
		before := len(lacks)
		if birth != 0 && birth != a.ID {
			other, err := r.query.Artifact(ctx, birth)
			if err == nil {
				err = r.borrowFrom(ctx, a, other.Workspace, other.Project, lacks)
			}
			if err != nil && model.CodeOf(err) != model.CodeNotFound {
				return err
			}
		}
		if len(lacks) == before {
			return model.Errorf(model.CodeInvalid, "the bytes of %q were not uploaded", model.Clip(string(missing.name))).
				WithHint("The manifest gives their MD5 as %s; %d files are missing.", model.Clip(missing.text("digest")), len(lacks))
		}
	}
	return nil
}

// borrowFrom takes what a project has out of lacks.
func (r *Receiver) borrowFrom(ctx context.Context, a *catalog.Artifact, workspace, project string, lacks sums) error {
	if len(lacks) == 0 {
		return nil
	}
	digests := make([]string, 0, len(lacks))
	for digest := range lacks {
		digests = append(digests, digest)
	}
	found, err := r.known(ctx, workspace, project, digests)
	if err != nil {
		return err
	}
	var files []catalog.File
	for digest, file := range found {
		for _, e := range lacks[digest] {
			if n, _ := e.size(); n != file.Size {
				return model.Errorf(model.CodeInvalid, "the manifest says that %q has %d bytes, it has %d", model.Clip(string(e.name)), n, file.Size)
			}
			own := file
			own.Name, own.TimeNs = strings.Clone(string(e.name)), r.options.Now().UnixNano()
			files = append(files, own)
		}
		delete(lacks, digest)
	}
	return r.ingest.AddArtifactFiles(ctx, a.ID, files)
}
