package kymogram

import (
	"errors"
	"image"
	"image/color"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

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

// Every way to read an image gives what At gives.
func TestPixels(t *testing.T) {
	whole := image.Rect(0, 0, 6, 4)
	part := image.Rect(2, 0, 6, 2)
	rgba, nrgba, grey, paletted := image.NewRGBA(whole), image.NewNRGBA(whole), image.NewGray(whole), image.NewPaletted(whole, color.Palette{color.Black, color.RGBA{9, 8, 7, 255}})
	for y := range 4 {
		for x := range 6 {
			c := color.RGBA{uint8(10 * x), uint8(20 * y), uint8(x * y), 255}
			rgba.Set(x, y, c)
			nrgba.Set(x, y, c)
			grey.SetGray(x, y, color.Gray{uint8(7*x + y)})
			paletted.SetColorIndex(x, y, uint8((x+y)%2))
		}
	}
	for _, frame := range []image.Image{rgba, nrgba, grey, paletted, rgba.SubImage(part), grey.SubImage(part)} {
		data, isGrey := pixels(frame)
		b, i := frame.Bounds(), 0
		for y := b.Min.Y; y < b.Max.Y; y++ {
			for x := b.Min.X; x < b.Max.X; x++ {
				red, green, blue, _ := frame.At(x, y).RGBA()
				for _, want := range []uint32{red, green, blue}[:map[bool]int{true: 1, false: 3}[isGrey]] {
					if uint32(data[i]) != want>>8 {
						t.Fatalf("%T at %d,%d: %d, want %d", frame, x, y, data[i], want>>8)
					}
					i++
				}
			}
		}
		if i != len(data) {
			t.Errorf("%T has %d bytes, want %d", frame, len(data), i)
		}
	}
}

func TestVideosOfEpisodes(t *testing.T) {
	if _, err := exec.LookPath("ffmpeg"); err != nil {
		t.Skip("ffmpeg is not installed: videos from Go are not encoded here")
	}
	r := offline(t, Options{Rendering: RenderingOptions{FPS: 10}})
	for episode := range int64(2) {
		for step := range int64(25) {
			frame := image.NewRGBA(image.Rect(0, 0, 64, 48))
			frame.Set(int(step), 3, color.White)
			must(t, r.LogRendering(frame, 10*episode+step/10, episode, EnvID("e")))
		}
	}
	must(t, r.TagRendering("good", 1, EnvID("e")), r.MarkRendering("fell", 1, 3, 5, EnvID("e")))
	if !r.videos.Load().close(1 << 40) {
		t.Fatal("not encoded")
	}
	files, err := spool.Renderings(r.folder.WriterPath(r.w.ID))
	must(t, err)
	if len(files) != 2 {
		t.Fatalf("%d videos", len(files))
	}
	for i, f := range files {
		sum, size, err := sumFile(f.Video())
		must(t, err)
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
