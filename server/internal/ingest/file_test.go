package ingest_test

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	blobdir "github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

func tree(name, text string) model.Update {
	return model.Update{Op: model.OpSetTree, Path: name, Text: text}
}

func file(name string, f *model.RunFile) model.Update {
	return model.Update{Op: model.OpSetFile, Path: name, File: f}
}

func foreign(list ...model.Update) *model.Batch { return &model.Batch{Updates: list} }

func TestTreesAndFilesOfReceivers(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	run := s.Opened.Run
	text := `{"html":"<a href='x'>&amp;</a>","line":"\u2028","raw":"` + "\u2028\x00\x7f" + `","n":NaN}` + strings.Repeat("é", 100_000)
	f := model.RunFile{SHA256: strings.Repeat("0a", 32), Size: 7, ContentType: "text/plain; charset=utf-8", MD5: "AAAAAAAAAAAAAAAAAAAAAA==", TimeNs: 5}
	ack := n.append(s, foreign(tree("wandb/config", text), file("output.log", &f), tree("gone", "{}"), file("gone", &f)))
	if len(ack.Refused) > 0 || ack.LSN == 0 {
		t.Fatalf("ack %+v", ack)
	}
	n.append(s, foreign(tree("gone", ""), file("gone", nil)))
	for range 2 {
		trees, err := n.catalog.Trees(t.Context(), run, "wandb/config", "gone")
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "trees", map[string]string{"wandb/config": text}, trees)
		files, _, err := n.catalog.Files(t.Context(), run, catalog.FileFilter{})
		if err != nil {
			t.Fatal(err)
		}
		equal(t, "files", []catalog.File{{Name: "output.log", RunFile: f}}, files)
		n.restart()
	}
	if err := n.UpdateRun(t.Context(), run, []model.Update{tree("wandb/config", "{}"), file("output.log", nil)}); err != nil {
		t.Fatal(err)
	}
	if trees, err := n.catalog.Trees(t.Context(), run, "wandb/config"); err != nil || trees["wandb/config"] != "{}" {
		t.Errorf("after an edit: %v, %v", trees, err)
	}
}

// A tree of a crash between store and catalog is there after the start.
func TestTreesSurviveACrashBeforeTheCatalog(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	n.catalog.down.Store(true)
	text := strings.Repeat("x", model.MaxTreeBytes)
	if _, err := s.Append(t.Context(), foreign(tree("large", text))); err == nil {
		t.Error("acked without the catalog")
	}
	n.restart()
	if trees, err := n.catalog.Trees(t.Context(), s.Opened.Run, "large"); err != nil || trees["large"] != text {
		t.Errorf("%d bytes after a restart, %v", len(trees["large"]), err)
	}
}

func TestBadTreesAndFilesAreRefused(t *testing.T) {
	n := start(t)
	s := n.join(request(1))
	ok := model.RunFile{SHA256: strings.Repeat("0a", 32)}
	with := func(change func(*model.RunFile)) *model.RunFile {
		f := ok
		change(&f)
		return &f
	}
	for _, c := range []struct {
		u    model.Update
		code model.Code
	}{
		{tree("", "{}"), model.CodeBadRecord},
		{tree("/a", "{}"), model.CodeBadRecord},
		{tree("a/../b", "{}"), model.CodeBadRecord},
		{tree("a\nb", ""), model.CodeBadRecord},
		{tree(strings.Repeat("a", 513), "{}"), model.CodeLimit},
		{tree("a", "\xff"), model.CodeBadRecord},
		{tree("a", strings.Repeat("x", model.MaxTreeBytes+1)), model.CodeLimit},
		{file("", &ok), model.CodeBadRecord},
		{file("../../etc/passwd", &ok), model.CodeBadRecord},
		{file(`..\..\boot.ini`, nil), model.CodeBadRecord},
		{file("a\x00b", &ok), model.CodeBadRecord},
		{file("a\xff", &ok), model.CodeBadRecord},
		{file(strings.Repeat("a", 1025), &ok), model.CodeLimit},
		{file("a", &model.RunFile{}), model.CodeBadRecord},
		{file("a", with(func(f *model.RunFile) { f.SHA256 = strings.Repeat("A", 64) })), model.CodeBadRecord},
		{file("a", with(func(f *model.RunFile) { f.Size = -1 })), model.CodeBadRecord},
		{file("a", with(func(f *model.RunFile) { f.ContentType = "text/html\r\nX: y" })), model.CodeBadRecord},
		{file("a", with(func(f *model.RunFile) { f.ContentType = strings.Repeat("x", 257) })), model.CodeBadRecord},
		{file("a", with(func(f *model.RunFile) { f.MD5 = "AAAA" })), model.CodeBadRecord},
		{file("a", with(func(f *model.RunFile) { f.MD5 = "not base64" })), model.CodeBadRecord},
		{file("a", with(func(f *model.RunFile) { f.TimeNs = -1 })), model.CodeBadRecord},
	} {
		ack := n.append(s, foreign(c.u))
		if len(ack.Refused) != 1 || ack.Refused[0].Code != c.code || ack.Refused[0].Message == "" {
			t.Errorf("%s %.40q: %+v", c.u.Op, c.u.Path, ack.Refused)
		}
		if err := n.UpdateRun(t.Context(), s.Opened.Run, []model.Update{c.u}); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("an edit with %s %.40q: %v", c.u.Op, c.u.Path, err)
		}
	}
	many := make([]model.Update, 9)
	for i := range many {
		many[i] = tree(fmt.Sprint(i), strings.Repeat("x", model.MaxTreeBytes))
	}
	if _, err := s.Append(t.Context(), foreign(many...)); model.CodeOf(err) != model.CodeTooLarge {
		t.Errorf("%d large trees at once: %v", len(many), err)
	}
	r := request(2)
	r.Initial = []model.Update{tree("a", "{}")}
	opened, err := n.Open(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	if trees, err := n.catalog.Trees(t.Context(), opened.Run, "a"); err != nil || len(trees) > 0 {
		t.Errorf("an open brought trees: %v, %v", trees, err)
	}
}

// TestBlobsOfFilesAreSwept: what files name stays, what nothing names goes, and what a purged
// run named.
func TestBlobsOfFilesAreSwept(t *testing.T) {
	n := start(t)
	keep := func(text string) *model.RunFile {
		h, size, _, err := n.blobs.Keep(t.Context(), strings.NewReader(text), 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		return &model.RunFile{SHA256: h.String(), Size: size}
	}
	one := n.join(request(1))
	r := request(2)
	r.RunName, r.OrchestrationID = "other", "other"
	other := n.join(r)
	n.append(one, foreign(file("a", keep("first")), file("both", keep("both")), file("b", keep("replaced"))))
	n.append(one, foreign(file("b", keep("second")), file("c", keep("removed"))))
	n.append(one, foreign(file("c", nil)))
	n.append(other, foreign(file("both", keep("both"))))
	keep("never named")
	sweep := func(now time.Time, want ...string) {
		t.Helper()
		if err := n.SweepBlobs(t.Context(), now); err != nil {
			t.Fatal(err)
		}
		there := map[string]bool{}
		if err := blobdir.List(t.Context(), filepath.Join(n.dir, "blobs"), func(e blobdir.Entry) error {
			b, err := os.ReadFile(filepath.Join(n.dir, "blobs", e.Path))
			if sum := sha256.Sum256(b); e.Hash != sum {
				t.Errorf("%s has other bytes", e.Path)
			}
			there[string(b)] = true
			return err
		}); err != nil {
			t.Fatal(err)
		}
		wanted := map[string]bool{}
		for _, text := range want {
			wanted[text] = true
		}
		equal(t, "blobs", wanted, there)
	}
	later := time.Now().Add(25 * time.Hour)
	sweep(time.Now(), "first", "both", "replaced", "second", "removed", "never named") // young
	sweep(later, "first", "both", "second")
	if err := n.DeleteRun(t.Context(), one.Opened.Run, false); err != nil {
		t.Fatal(err)
	}
	sweep(later, "first", "both", "second") // it may come back from the trash
	if err := n.DeleteRun(t.Context(), one.Opened.Run, true); err != nil {
		t.Fatal(err)
	}
	sweep(later, "both")
	if err := n.DeleteRun(t.Context(), other.Opened.Run, true); err != nil {
		t.Fatal(err)
	}
	sweep(later)
}

// TestManyFilesOfARun: a run has as many files as it likes; it is purged as a whole.
func TestManyFilesOfARun(t *testing.T) {
	if testing.Short() {
		t.Skip("100,000 files take long: without -short")
	}
	n := start(t)
	s := n.join(request(1))
	for i := range 10 {
		var list []model.Update
		for j := range 10_000 {
			name := fmt.Sprintf("media/%d/%05d.png", i, j)
			list = append(list, file(name, &model.RunFile{SHA256: fmt.Sprintf("%x", sha256.Sum256([]byte(name))), Size: 1}))
		}
		n.append(s, foreign(list...))
	}
	run := s.Opened.Run
	count, size, err := n.catalog.CountFiles(t.Context(), run, catalog.FileFilter{})
	if err != nil || count != 100_000 || size != 100_000 {
		t.Fatalf("%d files, %d bytes, %v", count, size, err)
	}
	if page, _, err := n.catalog.Files(t.Context(), run, catalog.FileFilter{Like: strings.Repeat("%a", 500), Limit: 10}); err != nil || len(page) > 0 {
		t.Errorf("a hostile pattern: %d files, %v", len(page), err)
	}
	if err := n.DeleteRun(t.Context(), run, true); err != nil {
		t.Fatal(err)
	}
	n.restart()
	if _, err := n.catalog.File(t.Context(), run, "media/0/00000.png"); model.CodeOf(err) != model.CodeRunDeleted {
		t.Errorf("after a purge: %v", err)
	}
}

var _ ingest.Blobs = (*blobdir.Store)(nil)
