package ingest_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

func (n *node) artifact(change ...func(*catalog.NewArtifact)) (*catalog.Artifact, error) {
	a := catalog.NewArtifact{Collection: "ds", Type: "data", Digest: "d"}
	for _, f := range change {
		f(&a)
	}
	return n.CreateArtifact(n.t.Context(), "team", "project", a)
}

func TestArtifacts(t *testing.T) {
	n := start(t)
	run := n.join(request(1)).Opened.Run
	h, size, sum, err := n.blobs.Keep(t.Context(), strings.NewReader("bytes"), 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	a, err := n.artifact(func(a *catalog.NewArtifact) { a.Run, a.Aliases = run, []string{"best"} })
	if err != nil {
		t.Fatal(err)
	}
	file := catalog.File{Name: "dir/x.bin", RunFile: model.RunFile{SHA256: h.String(), Size: size, MD5: "S2vM2mGqCo6n9bv3aD6aHw=="}}
	if len(sum) != 16 {
		t.Error(sum)
	}
	if err := n.AddArtifactFiles(t.Context(), a.ID, []catalog.File{file}); err != nil {
		t.Fatal(err)
	}
	number, err := n.PutManifest(t.Context(), a.ID, catalog.ArtifactManifest{Kind: "FULL", Name: "wandb_manifest.json"})
	if err != nil || number != 1 {
		t.Fatal(number, err)
	}
	if a, err = n.CommitArtifact(t.Context(), a.ID, catalog.ArtifactContent{}); err != nil || a.Version != 0 || a.Files != 1 || a.Bytes != 5 || len(a.Aliases) != 2 {
		t.Fatalf("%+v, %v", a, err)
	}
	if err := n.UseArtifact(t.Context(), a.ID, run, catalog.RoleUsed); err != nil {
		t.Fatal(err)
	}
	// The artifact and its blob outlive the run.
	if err := n.DeleteRun(t.Context(), run, true); err != nil {
		t.Fatal(err)
	}
	later := time.Now().Add(25 * time.Hour)
	if err := n.SweepBlobs(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if r, err := n.blobs.Open(t.Context(), h); err != nil {
		t.Error(err)
	} else {
		r.Close()
	}
	n.restart()
	if again, err := n.artifact(); err != nil || again.ID != a.ID || !again.Run.IsZero() {
		t.Errorf("the same digest: %+v, %v", again, err)
	}
	if err := n.DeleteArtifact(t.Context(), a.ID, true); err != nil {
		t.Fatal(err)
	}
	if err := n.SweepBlobs(t.Context(), later); err != nil {
		t.Fatal(err)
	}
	if _, err := n.blobs.Open(t.Context(), h); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("the blob of a deleted artifact: %v", err)
	}
}

func TestBadArtifactsAreRefused(t *testing.T) {
	n := start(t)
	for name, change := range map[string]func(*catalog.NewArtifact){
		"no name":        func(a *catalog.NewArtifact) { a.Collection = "" },
		"a slash":        func(a *catalog.NewArtifact) { a.Collection = "a/b" },
		"a colon":        func(a *catalog.NewArtifact) { a.Type = "a:b" },
		"control":        func(a *catalog.NewArtifact) { a.Collection = "a\x00" },
		"a long name":    func(a *catalog.NewArtifact) { a.Collection = strings.Repeat("a", 513) },
		"a long digest":  func(a *catalog.NewArtifact) { a.Digest = strings.Repeat("a", 129) },
		"a version":      func(a *catalog.NewArtifact) { a.Aliases = []string{"v7"} },
		"an empty alias": func(a *catalog.NewArtifact) { a.Aliases = []string{""} },
		"no UTF-8":       func(a *catalog.NewArtifact) { a.Description = "\xff" },
		"bad tags":       func(a *catalog.NewArtifact) { a.Tags = []string{"\n"} },
	} {
		if _, err := n.artifact(change); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, change := range map[string]func(*catalog.NewArtifact){
		"large metadata": func(a *catalog.NewArtifact) { a.Metadata = strings.Repeat("a", 1<<20+1) },
		"many aliases":   func(a *catalog.NewArtifact) { a.Aliases = make([]string, 1001) },
	} {
		if _, err := n.artifact(change); model.CodeOf(err) != model.CodeLimit {
			t.Errorf("%s: %v", name, err)
		}
	}
	a, err := n.artifact()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []catalog.File{{Name: "../x"}, {Name: "x", RunFile: model.RunFile{SHA256: "nonsense"}}} {
		if err := n.AddArtifactFiles(t.Context(), a.ID, []catalog.File{f}); model.CodeOf(err) != model.CodeBadRecord {
			t.Errorf("%+v: %v", f, err)
		}
	}
	if _, err := n.PutManifest(t.Context(), a.ID, catalog.ArtifactManifest{Kind: "?"}); model.CodeOf(err) != model.CodeInvalid {
		t.Error(err)
	}
	other := request(1)
	other.Project = "elsewhere"
	run := n.join(other).Opened.Run
	if _, err := n.artifact(func(a *catalog.NewArtifact) { a.Run = run }); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("a run of another project: %v", err)
	}
	n.rights.denied.Store(true)
	_, created := n.artifact()
	_, committed := n.CommitArtifact(t.Context(), a.ID, catalog.ArtifactContent{})
	_, edited := n.EditArtifact(t.Context(), a.ID, catalog.ArtifactEdit{})
	_, linked := n.LinkArtifact(t.Context(), a.ID, catalog.VersionName{Workspace: "team", Project: "project", Collection: "p"}, nil)
	_, changed := n.EditCollection(t.Context(), a.Sequence, catalog.CollectionEdit{})
	_, stored := n.PutManifest(t.Context(), a.ID, catalog.ArtifactManifest{Kind: "FULL"})
	for i, err := range []error{
		created, committed, edited, linked, changed, stored, n.AddArtifactFiles(t.Context(), a.ID, nil), n.UnlinkArtifact(t.Context(), a.ID, a.Sequence),
		n.DeleteArtifact(t.Context(), a.ID, true), n.DeleteCollection(t.Context(), a.Sequence), n.UseArtifact(t.Context(), a.ID, run, catalog.RoleUsed),
	} {
		if model.CodeOf(err) != model.CodePermission {
			t.Errorf("without a right, %d: %v", i, err)
		}
	}
}

// TestManyVersions: versions cost the same however many there are.
func TestManyVersions(t *testing.T) {
	if testing.Short() {
		t.Skip("2,000 versions take long: without -short")
	}
	n := start(t)
	var slowest time.Duration
	const versions = 2_000
	for i := range versions {
		begun := time.Now()
		a, err := n.artifact(func(a *catalog.NewArtifact) { a.Digest, a.Aliases = fmt.Sprint(i), []string{"best"} })
		if err == nil {
			_, err = n.CommitArtifact(t.Context(), a.ID, catalog.ArtifactContent{Files: 1, Bytes: 1})
		}
		if err != nil {
			t.Fatal(err)
		}
		slowest = max(slowest, time.Since(begun))
	}
	c, err := n.catalog.FindCollection(t.Context(), "team", "project", "ds")
	if err != nil || c.Versions != versions {
		t.Fatalf("%+v, %v", c, err)
	}
	begun := time.Now()
	seen := 0
	for f := (catalog.ArtifactFilter{Collection: c.ID, Newest: true, Limit: 1000}); ; {
		page, next, err := n.catalog.Artifacts(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page)
		if f.Cursor = next; next == "" {
			break
		}
	}
	t.Logf("%d versions: the slowest took %v; all are read in %v", seen, slowest, time.Since(begun))
	if seen != versions {
		t.Errorf("%d versions are listed", seen)
	}
}
