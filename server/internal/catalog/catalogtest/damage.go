package catalogtest

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// testDamage harms each file of a catalog that was killed, one at a time: what was
// durable is there again, and a revoked key stays revoked.
func testDamage(t *testing.T, open Opener) {
	dir := t.TempDir()
	c := open(t, dir)
	h := &harness{t: t, c: c, project: "project"}
	var runs []model.RunID
	for n := 1; n <= 30; n++ {
		o := h.must(request(n, named(fmt.Sprint("run", n)), job(fmt.Sprint("job", n))))
		h.apply(o.Run, n, model.Update{Op: model.OpAddTags, Tags: []string{fmt.Sprint("tag", n)}},
			model.Update{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(float64(n) / 7)}, closeWith(model.StatusFinished))
		runs = append(runs, o.Run)
		h.check("PutKey", c.PutKey(h.ctx(), catalog.Key{ID: fmt.Sprint("k", n), SHA256: sha256.Sum256([]byte{byte(n)}), Scopes: []catalog.Scope{catalog.ScopeRead}, CreatedNs: int64(n)}))
		v := catalog.View{Name: fmt.Sprint("v", n), Title: "t", Tag: fmt.Sprint(n), Document: strings.Repeat(fmt.Sprint(n), 1000*n)}
		h.check("PutView", c.PutView(h.ctx(), "team", "project", v, catalog.Condition{}))
		if n%3 == 0 {
			h.check("RevokeKey", c.RevokeKey(h.ctx(), fmt.Sprint("k", n), at(n)))
		}
	}
	before := h.everything(runs)
	killed := filepath.Join(t.TempDir(), "killed")
	h.check("copy", os.CopyFS(killed, os.DirFS(dir)))
	h.check("Close", c.Close())
	files := filesOf(t, killed)
	if len(files) == 0 {
		t.Skip("the catalog keeps no files in its folder")
	}
	for _, name := range files {
		for how, harm := range harms() {
			t.Run(name+" "+how, func(t *testing.T) {
				again := t.TempDir()
				h := &harness{t: t}
				h.check("copy", os.CopyFS(again, os.DirFS(killed)))
				h.check(how, harm(filepath.Join(again, name)))
				h.c = open(t, again)
				equal(t, "after damage", before, h.everything(runs))
				h.check("Close", h.c.Close())
			})
		}
	}
}

// everything is what a catalog says of some runs and of its keys.
func (h *harness) everything(runs []model.RunID) any {
	h.t.Helper()
	var details []*catalog.Detail
	for _, id := range runs {
		details = append(details, h.detail(id))
	}
	keys, err := h.c.ListKeys(h.ctx())
	h.check("ListKeys", err)
	list, err := h.c.ListViews(h.ctx(), "team", "project")
	h.check("ListViews", err)
	views := make([]*catalog.View, len(list))
	for i, v := range list {
		views[i], err = h.c.View(h.ctx(), "team", "project", v.Name)
		h.check("View", err)
	}
	return []any{details, keys, views}
}

func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// harms are what disks and people do to a file.
func harms() map[string]func(path string) error {
	change := func(change func(b []byte) []byte) func(string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, change(b), 0o600)
		}
	}
	flipped := func(part, parts int) func(string) error {
		return change(func(b []byte) []byte {
			if len(b) > 0 {
				b[(len(b)-1)*part/parts] ^= 4
			}
			return b
		})
	}
	return map[string]func(string) error{
		"is deleted":           os.Remove,
		"is cut":               change(func(b []byte) []byte { return b[:len(b)/2] }),
		"is empty":             change(func([]byte) []byte { return nil }),
		"has a bit at 1/100":   flipped(1, 100),
		"has a bit at a third": flipped(1, 3),
		"has a bit at 4/5":     flipped(4, 5),
	}
}
