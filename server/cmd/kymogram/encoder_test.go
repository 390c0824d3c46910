package main

import (
	"context"
	"encoding/json"
	"fmt"
	"image"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
)

// TestAVideoWhoseEncoderDies: while its process goes on, what was whole of it is
// on the server, says that it is cut short, and plays.
func TestAVideoWhoseEncoderDies(t *testing.T) {
	ffmpeg, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Skip("ffmpeg is not installed: videos from Go are not encoded here")
	}
	k := serveKitchen(t)
	for _, v := range []string{"KYMOGRAM_ORCHESTRATION_ID", "KYMOGRAM_ATTEMPT", "KYMOGRAM_ATTEMPT_PID"} {
		t.Setenv(v, "")
	}
	const frame, taken = 64 * 48 * 3, 25
	dying := filepath.Join(t.TempDir(), "ffmpeg") // its encoder ends after so many frames, and with a torn fragment
	script := fmt.Sprintf(`#!/bin/sh
case "$*" in *pipe:0*) head -c %d | %[2]s "$@"; for part; do :; done; truncate -s -20 "$part"; exit 1;; esac
exec %[2]s "$@"
`, frame*taken, ffmpeg)
	if err := os.WriteFile(dying, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx := context.Background()
	r, err := kymogram.Init(ctx, kymogram.Options{
		Server: "http://" + k.address, APIKey: k.key(), RunName: "cut", SpoolDir: t.TempDir(), NoEnvironment: true, NoSystemMetrics: true,
		Log: slog.New(slog.DiscardHandler), Rendering: kymogram.RenderingOptions{FPS: 10, FFmpeg: dying},
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if err := r.LogRendering(image.NewGray(image.Rect(0, 0, 64, 48)), 1, 1); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	var videos struct {
		Renderings []model.Rendering `json:"renderings"`
	}
	listed := func() uint64 {
		code, out, _ := k.run("renderings", "list", "default/default/cut", "--json")
		if code != 0 || json.Unmarshal([]byte(out), &videos) != nil {
			return 0
		}
		return uint64(len(videos.Renderings))
	}
	k.until("the first video is there", func() bool { return listed() > 0 })
	if err := r.Close(ctx); err != nil {
		t.Error(err)
	}
	if n := listed(); n != r.Metrics().RenderingsFailed {
		t.Errorf("%d videos of %d", n, r.Metrics().RenderingsFailed)
	}
	var kept, lost int64
	for _, v := range videos.Renderings {
		if v.Complete || v.SHA256 == "" || v.Frames == 0 {
			t.Errorf("%+v", v)
		}
		kept += v.Frames
		lost += v.FramesDropped
	}
	if kept+lost != 200 {
		t.Errorf("%d frames are kept and %d lost of 200", kept, lost)
	}
	out := t.TempDir()
	k.ok("renderings", "export", "default/default/cut", "--out", out)
	files, err := filepath.Glob(filepath.Join(out, "*.mp4"))
	if err != nil || len(files) != len(videos.Renderings) {
		t.Fatalf("exported %v, %v", files, err)
	}
	for _, file := range files {
		if said, err := exec.Command(ffmpeg, "-v", "error", "-i", file, "-f", "null", "-").CombinedOutput(); err != nil || len(said) > 0 {
			t.Errorf("%s does not play: %v %s", file, err, said)
		}
	}
}
