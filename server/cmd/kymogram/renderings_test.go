package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/delivery"
)

// A video that lies in the spool of a process that is over reaches the server
// and comes back byte for byte; one of which nothing was kept is told as lost.
func TestRenderingsFromSpoolToFolder(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	k.logAway("away")
	folder, err := spool.OpenFolder(k.spool())
	if err != nil {
		t.Fatal(err)
	}
	ids, err := folder.Writers()
	if err != nil || len(ids) != 1 {
		t.Fatalf("writers %v, %v", ids, err)
	}
	videos := []string{"first video", "second video, of the same episode"}
	for i, data := range append(videos, "") {
		sum := sha256.Sum256([]byte(data))
		r := model.Rendering{ID: "w-" + string(rune('0'+i)), Env: "..:env", Episode: 7, Frames: 3, FPS: 30, ContentType: "video/mp4", TimeNs: int64(i)}
		f, err := spool.NewRendering(folder.WriterPath(ids[0]), i, r)
		if err != nil {
			t.Fatal(err)
		}
		if data != "" {
			f.State, f.SHA256, f.SizeBytes, f.Complete, f.Tags = spool.RenderingDone, hex.EncodeToString(sum[:]), int64(len(data)), true, []string{"good"}
			if err := os.WriteFile(f.Video(), []byte(data), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if err := f.Save(); err != nil {
			t.Fatal(err)
		}
	}
	var report delivery.Outcome
	if err := json.Unmarshal([]byte(k.ok("sync", "--server", "http://"+k.address, "--json")), &report); err != nil || report.Left != (delivery.Left{}) {
		t.Fatalf("%+v, %v", report, err)
	}
	listed := k.ok("renderings", "list", "default/default/away")
	if strings.Count(listed, "stored") != 2 || strings.Count(listed, "lost") != 1 {
		t.Errorf("listed\n%s", listed)
	}
	if n := strings.Count(k.ok("renderings", "list", "default/default/away", "--tag", "good", "--json"), `"sha256"`); n != 2 {
		t.Errorf("%d videos have the tag", n)
	}
	out := filepath.Join(t.TempDir(), "videos")
	for _, want := range []string{"2 videos", "0 videos in " + out + ", 2 were there"} {
		if got := k.ok("renderings", "export", "default/default/away", "--out", out); !strings.HasPrefix(got, want) || !strings.Contains(got, "1 lost") {
			t.Errorf("exported %q, want %q", got, want)
		}
	}
	for i, name := range []string{":env_7.mp4", ":env_7-2.mp4"} {
		name = strings.ReplaceAll(name, ":", "_")
		if data, err := os.ReadFile(filepath.Join(out, name)); err != nil || string(data) != videos[i] {
			t.Errorf("%s holds %q, %v", name, data, err)
		}
	}
	if err := os.WriteFile(filepath.Join(out, "_env_7.mp4"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := k.run("renderings", "export", "default/default/away", "--out", out); code != exitFailed || !strings.Contains(errs, "other bytes") {
		t.Errorf("over a file of the user's: %d %s", code, errs)
	}
}
