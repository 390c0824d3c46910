package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

// Files of a run come to a folder byte for byte, and to no place outside it.
func TestFilesOfARun(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	id, err := model.ParseRunID(s.run)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{"output.log": "lines\n", "media/images/a b_1.png": "pixels", "media/50% #1?.txt": "text"}
	put := func(name, text string) {
		t.Helper()
		h, size, _, err := s.node.blobs.Keep(t.Context(), strings.NewReader(text), 1<<20)
		if err == nil {
			file := model.RunFile{SHA256: h.String(), Size: size, ContentType: "text/plain", TimeNs: 1_700_000_000_000_000_000}
			err = s.node.catalog.Apply(t.Context(), id, model.WriterID{}, 0, []model.Update{{Op: model.OpSetFile, Path: name, File: &file}}, time.Now())
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range texts {
		put(name, text)
	}
	home := t.TempDir()
	k := &kitchen{t: t, env: map[string]string{"HOME": home, "XDG_CONFIG_HOME": home, "KYMOGRAM_SERVER": "http://" + s.address, "KYMOGRAM_API_KEY": s.keys["read"]}}
	listed := k.ok("files", s.run)
	if strings.Count(listed, "\n") != 4 || !strings.Contains(listed, "media/images/a b_1.png  6      2023-11-14T22:13:20Z  text/plain") {
		t.Errorf("listed\n%s", listed)
	}
	if n := strings.Count(k.ok("files", s.run, "--prefix", "media/", "--json"), `"sha256"`); n != 2 {
		t.Errorf("%d files begin so", n)
	}
	out := filepath.Join(t.TempDir(), "out")
	var report transfer.FilesReport
	if err := json.Unmarshal([]byte(k.ok("files", s.run, "--download", out, "--json")), &report); err != nil || report.Written != 3 || report.Bytes != 16 {
		t.Errorf("%+v, %v", report, err)
	}
	if got := k.ok("files", s.run, "--download", out); got != "0 files in "+out+", 3 were there\n" {
		t.Errorf("again: %q", got)
	}
	for name, text := range texts {
		if got, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(got) != text {
			t.Errorf("%s holds %q, %v", name, got, err)
		}
	}
	put("output.log", "other lines\n")
	if code, _, said := k.run("files", s.run, "--download", out); code == 0 || !strings.Contains(said, "other bytes") {
		t.Errorf("over another file: %d %q", code, said)
	}
	outside := filepath.Join(t.TempDir(), "link")
	if err := os.MkdirAll(outside, 0o700); err != nil {
		t.Fatal(err)
	}
	trap := t.TempDir()
	if err := os.Symlink(outside, filepath.Join(trap, "media")); err != nil {
		t.Fatal(err)
	}
	if code, _, said := k.run("files", s.run, "--prefix", "media/", "--download", trap); code == 0 {
		t.Errorf("through a link: %q", said)
	}
	if left, err := os.ReadDir(outside); err != nil || len(left) > 0 {
		t.Errorf("outside the folder: %v, %v", left, err)
	}
	client, err := read.Dial("http://"+s.address, s.keys["read"])
	if err != nil {
		t.Fatal(err)
	}
	for f, err := range client.ByID(s.run).Files(t.Context(), "output") {
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"../x", "/etc/x", "a/../../x", `a\..\x`, ""} {
			evil := *f
			evil.Name = name
			if _, _, err := evil.Download(t.Context(), t.TempDir()); model.CodeOf(err) != model.CodeInvalid {
				t.Errorf("%q: %v", name, err)
			}
		}
	}
	if code, _, _ := k.run("files", s.run, "--download", ""); code == 0 {
		t.Error("a download to no folder")
	}
}
