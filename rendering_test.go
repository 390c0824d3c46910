package kymogram

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"image"
	"image/color"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

func TestFramesAreChecked(t *testing.T) {
	r := offline(t, Options{Rendering: RenderingOptions{FFmpeg: filepath.Join(t.TempDir(), "none")}})
	for name, bad := range map[string]image.Image{
		"nil": nil, "odd": image.NewRGBA(image.Rect(0, 0, 3, 4)), "empty": image.NewGray(image.Rect(0, 0, 0, 0)),
	} {
		if err := r.LogRendering(bad, 1, 1); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	good := image.NewRGBA(image.Rect(0, 0, 4, 4))
	for name, err := range map[string]error{
		"episode": r.LogRendering(good, 1, -1), "step": r.LogRendering(good, -1, 1), "env": r.LogRendering(good, 1, 1, EnvID("a/b")),
	} {
		if model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := r.LogRendering(good, 1, 1); !errors.Is(err, ErrNoEncoder) {
		t.Errorf("without ffmpeg: %v", err)
	}
}

// findFFmpeg skips the test where videos from Go cannot be encoded.
func findFFmpeg(t *testing.T) string {
	t.Helper()
	program, err := exec.LookPath("ffmpeg")
	if err != nil {
		t.Skip("ffmpeg is not installed: videos from Go are not encoded here")
	}
	return program
}

func TestVideosOfEpisodes(t *testing.T) {
	findFFmpeg(t)
	r := offline(t, Options{Rendering: RenderingOptions{FPS: 10}})
	for episode := range int64(2) {
		for step := range int64(25) {
			frame := image.NewRGBA(image.Rect(0, 0, 64, 48))
			frame.Set(int(step), 3, color.White)
			must(t, r.LogRendering(frame, 10*episode+step/10, episode, EnvID("e")))
		}
	}
	must(t, r.TagRendering("good", 1, EnvID("e")), r.MarkRendering("fell", 1, 3, 5, EnvID("e")))
	if !r.videos.Load().Close(1 << 40) {
		t.Fatal("not encoded")
	}
	files, err := spool.Renderings(r.folder.WriterPath(r.w.ID))
	must(t, err)
	if len(files) != 2 {
		t.Fatalf("%d videos", len(files))
	}
	for i, f := range files {
		content, err := os.ReadFile(f.Video())
		must(t, err)
		sum, size := fmt.Sprintf("%x", sha256.Sum256(content)), int64(len(content))
		if f.State != spool.RenderingDone || f.Episode != int64(i) || f.Frames != 25 || f.Width != 64 || f.SHA256 != sum || f.SizeBytes != size || !f.Complete || f.LastRLStep != int64(10*i+2) {
			t.Errorf("video %d: %+v", i, f)
		}
		if out, err := exec.Command("ffmpeg", "-v", "error", "-i", f.Video(), "-f", "null", "-").CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("video %d does not decode: %v %s", i, err, out)
		}
	}
	if f := files[1]; strings.Join(f.Tags, ",") != "good" || len(f.Marks) != 1 || f.Marks[0].ToFrame != 5 {
		t.Errorf("labels %+v", f.Rendering)
	}
	if m := r.Metrics(); m.RenderingFramesAdded != 50 || m.RenderingFramesEncoded != 50 || m.RenderingsFinished != 2 || m.RenderingFramesDropped != 0 {
		t.Errorf("%+v", m)
	}
}

// dying is an ffmpeg whose encoder ends after so many frames of 64 × 48.
func dying(t *testing.T, frames int) string {
	t.Helper()
	program := findFFmpeg(t)
	path := filepath.Join(t.TempDir(), "ffmpeg")
	script := fmt.Sprintf("#!/bin/sh\ncase \"$*\" in *pipe:0*) head -c %d | %s \"$@\"; exit 1;; esac\nexec %s \"$@\"\n", frames*64*48*3, program, program)
	must(t, os.WriteFile(path, []byte(script), 0o700))
	return path
}

// encoderTries is how many encoders may fail in one episode.
const encoderTries = 3

func (r *Run) logEpisode(t *testing.T, episode int64, frames int) {
	t.Helper()
	for step := range frames {
		frame := image.NewRGBA(image.Rect(0, 0, 64, 48))
		frame.Set(step%64, 3, color.White)
		must(t, r.LogRendering(frame, episode, episode, EnvID("e")))
		if step%10 == 9 { // let an encoder that died be noticed
			time.Sleep(20 * time.Millisecond)
		}
	}
}

// An encoder that dies leaves no video that waits for ever: what it wrote goes on
// its way as failed, the next frames begin another one, and after a few of them
// the rest of the episode is dropped. Every frame is counted.
func TestAnEncoderThatDies(t *testing.T) {
	r := offline(t, Options{Rendering: RenderingOptions{FPS: 10, FFmpeg: dying(t, 15)}})
	r.logEpisode(t, 0, 200)
	if !r.videos.Load().Close(1 << 40) {
		t.Fatal("not encoded")
	}
	files, err := spool.Renderings(r.folder.WriterPath(r.w.ID))
	must(t, err)
	if len(files) != encoderTries {
		t.Fatalf("%d videos, want %d", len(files), encoderTries)
	}
	for i, f := range files {
		name := ""
		if i > 0 {
			name = fmt.Sprintf("part %d", i+1)
		}
		if f.State != spool.RenderingFailed || f.Complete || f.Frames < 15 || f.Name != name {
			t.Errorf("video %d: %+v", i, f)
		}
		if out, err := exec.Command("ffmpeg", "-v", "error", "-i", f.Part(), "-f", "null", "-").CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("what is left of video %d does not decode: %v %s", i, err, out)
		}
	}
	m := r.Metrics()
	if m.RenderingsFailed != encoderTries || m.RenderingsFinished != 0 || m.RenderingFramesAdded != 200 || m.RenderingFramesEncoded+m.RenderingFramesDropped != 200 || m.RenderingFramesDropped == 0 {
		t.Errorf("%+v", m)
	}
	if errs := r.SenderErrors(); len(errs) == 0 || !strings.Contains(errs[0].Error(), `a rendering of environment "e" failed: encode`) {
		t.Errorf("told %v", errs)
	}
}

// An encoder that cannot start costs the episode, not the run.
func TestAnEncoderThatCannotStart(t *testing.T) {
	ffmpeg := findFFmpeg(t)
	program := filepath.Join(t.TempDir(), "ffmpeg")
	must(t, os.WriteFile(program, []byte("#!/bin/sh\nexec "+ffmpeg+" \"$@\"\n"), 0o700))
	r := offline(t, Options{Rendering: RenderingOptions{FPS: 10, FFmpeg: program}})
	r.logEpisode(t, 0, 5)
	waitFor(t, func() bool { return r.Metrics().RenderingFramesEncoded == 5 })
	must(t, os.Rename(program, program+".away"))
	r.logEpisode(t, 1, 5) // ends the first video without ffmpeg, too
	waitFor(t, func() bool { return r.Metrics().RenderingFramesDropped == 5 })
	must(t, os.Rename(program+".away", program))
	r.logEpisode(t, 2, 5)
	r.videos.Load().Close(1 << 40)
	files, err := spool.Renderings(r.folder.WriterPath(r.w.ID))
	must(t, err)
	if len(files) != 2 || files[0].State != spool.RenderingFailed || files[1].State != spool.RenderingDone || files[1].Episode != 2 {
		t.Errorf("%+v", files)
	}
	if m := r.Metrics(); m.RenderingsFailed != 2 || m.RenderingsFinished != 1 || m.RenderingFramesEncoded != 10 || m.RenderingFramesDropped != 5 {
		t.Errorf("%+v", m)
	}
}

func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !is(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("it never came to it")
		}
	}
}

// Close says which videos nobody uploads when the process is over, after the time
// that it was given for them.
func TestCloseWaitsForVideos(t *testing.T) {
	findFFmpeg(t)
	f := startFake(t) // takes points, and no videos
	r, err := f.init(t, Options{RunName: "name", Rendering: RenderingOptions{FPS: 10, UploadWarnThreshold: 1, UploadCloseTimeout: 300 * time.Millisecond}})
	must(t, err)
	for episode := range int64(3) {
		r.logEpisode(t, episode, 3)
	}
	must(t, r.Log("loss", 1))
	waitFor(t, func() bool { return r.videosWaiting() == 2 })
	r.look()
	r.look()
	began := time.Now()
	must(t, r.Close(t.Context()))
	if took := time.Since(began); took < 300*time.Millisecond {
		t.Errorf("close took %v", took)
	}
	var told []string
	for _, err := range r.SenderErrors() {
		told = append(told, err.Error())
	}
	text := strings.Join(told, "\n")
	if strings.Count(text, "2 videos wait to be uploaded, more than 1") != 1 || strings.Count(text, "3 videos are not uploaded yet") != 1 {
		t.Error(text)
	}
}
