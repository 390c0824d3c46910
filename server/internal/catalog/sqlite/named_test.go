package sqlite

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// TestNamed: all tables that name blobs are asked, also those of an older database.
func TestNamed(t *testing.T) {
	hash := func(digit string) string { return strings.Repeat(digit, 64) }
	older := olderDatabase(t, 13, `INSERT INTO projects (id, workspace, name) VALUES (1, 'w', 'p')`,
		`INSERT INTO runs (pk, id, project, name, status, created_ns, last_ns, attempt, orchestration_id) VALUES (1, unhex('01000000000000000000000000000000'), 1, 'r', 'lost', 1, 1, 1, 'a')`,
		`INSERT INTO renderings VALUES (1, 'v', 'e', 1, 1, '`+hash("1")+`', '{}')`)
	if got, err := Named(t.Context(), older); err != nil || !slices.Equal(got, []string{hash("1")}) {
		t.Errorf("an older database: %q, %v", got, err)
	}
	path := filepath.Join(t.TempDir(), "catalog.db")
	db, err := Open(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	w := model.WriterID{1}
	o, err := db.Open(t.Context(), model.OpenRequest{Writer: w, Workspace: "w", Project: "p", RunName: "r"}, time.Unix(1, 0))
	if err != nil {
		t.Fatal(err)
	}
	updates := []model.Update{
		{Op: model.OpRendering, Rendering: &model.Rendering{ID: "v", Env: "e", SHA256: hash("1")}},
		{Op: model.OpRendering, Rendering: &model.Rendering{ID: "lost", Env: "e"}},
		{Op: model.OpSetFile, Path: "f", File: &model.RunFile{SHA256: hash("2")}},
	}
	if err := db.Apply(t.Context(), o.Run, w, 1, updates, time.Unix(2, 0)); err != nil {
		t.Fatal(err)
	}
	if err := db.PutKey(t.Context(), catalog.Key{ID: "k", SHA256: [32]byte{7}}); err != nil {
		t.Fatal(err)
	}
	a, err := db.CreateArtifact(t.Context(), "w", "p", catalog.NewArtifact{Collection: "c", Type: "t"}, time.Unix(3, 0))
	if err != nil {
		t.Fatal(err)
	}
	_, stored := db.PutManifest(t.Context(), a.ID, catalog.ArtifactManifest{Kind: "FULL", Blob: catalog.BlobRef{SHA256: hash("3")}})
	added := db.AddArtifactFiles(t.Context(), a.ID, []catalog.File{{Name: "f", RunFile: model.RunFile{SHA256: hash("4")}}})
	_, committed := db.CommitArtifact(t.Context(), a.ID, catalog.ArtifactContent{Manifest: catalog.BlobRef{SHA256: hash("5")}}, time.Unix(4, 0))
	for _, err := range []error{stored, added, committed, db.Close()} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := Named(t.Context(), path)
	slices.Sort(got)
	if want := []string{hash("1"), hash("2"), hash("3"), hash("4"), hash("5")}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
}
