package kymogram

import (
	"errors"
	"fmt"
	"image"
	"image/color"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// The choices of RenderingOptions.Upload.
const (
	UploadAll       = "all"
	UploadTriggered = "triggered" // videos that were tagged or marked
	UploadOff       = "off"
)

// ErrNoEncoder is returned by LogRendering where no encoder is installed.
var ErrNoEncoder = errors.New("LogRendering encodes with ffmpeg (libx264), and it is not installed: install ffmpeg, or name it in Options.Rendering.FFmpeg")

// RenderingOptions say how frames become videos.
type RenderingOptions struct {
	FPS                   int // 30 when 0
	MaxConcurrentEncoders int // environments that render at once; 16 when 0
	QueueMaxSize          int // frames that wait; 64 MiB of them when 0
	NumEncoderThreads     int // 2 when 0
	// Upload is UploadAll when empty.
	Upload string
	// UploadConcurrency is how many videos are uploaded at once, at most 16; 4 when 0.
	UploadConcurrency int
	// UploadWarnThreshold is how many videos may wait for their upload before it is
	// told; 100 when 0, -1 for any number.
	UploadWarnThreshold int
	// UploadCloseTimeout is the part of Close that waits for uploads; what
	// CloseTimeout leaves when 0. The rest is left to `kymogram sync`.
	UploadCloseTimeout time.Duration
	// OutputDir keeps the videos, as RUN/ENV_EPISODE.mp4; with Upload off it is
	// renderings in the user's state folder when empty.
	OutputDir string
	// DeleteAfterUpload leaves none in OutputDir that is uploaded.
	DeleteAfterUpload bool
	// SkipDrainOnClose drops the frames that wait (KYMOGRAM_SKIP_DRAIN_RENDER_ON_CLOSE).
	SkipDrainOnClose bool
	// CloseTimeout is the part of Close that encoding may take; all of it when 0
	// (KYMOGRAM_RENDERING_CLOSE_TIMEOUT, seconds).
	CloseTimeout time.Duration
	// FFmpeg is the encoder's program; the ffmpeg of PATH when empty.
	FFmpeg string
}

func (o *RenderingOptions) settle(all *Options) error {
	skip, err := all.flag("SKIP_DRAIN_RENDER_ON_CLOSE", false)
	if err != nil {
		return err
	}
	o.SkipDrainOnClose = o.SkipDrainOnClose || skip
	if text := all.setting("RENDERING_CLOSE_TIMEOUT"); o.CloseTimeout == 0 && text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0) || seconds > 1e6 {
			return invalidf("KYMOGRAM_RENDERING_CLOSE_TIMEOUT is %q, it must be a number of seconds", text)
		}
		o.CloseTimeout = time.Duration(seconds * float64(time.Second))
	}
	for what, n := range map[string]*int{"FPS": &o.FPS, "MaxConcurrentEncoders": &o.MaxConcurrentEncoders, "NumEncoderThreads": &o.NumEncoderThreads} {
		if *n == 0 {
			*n = map[string]int{"FPS": 30, "MaxConcurrentEncoders": 16, "NumEncoderThreads": 2}[what]
		}
		if *n < 0 {
			return invalidf("Rendering.%s is %d, it must not be negative", what, *n)
		}
	}
	if o.QueueMaxSize < 0 || o.CloseTimeout < 0 || o.UploadConcurrency < 0 || o.UploadCloseTimeout < 0 || o.UploadWarnThreshold < -1 {
		return invalidf("a limit of Rendering is negative")
	}
	if o.UploadWarnThreshold == 0 {
		o.UploadWarnThreshold = 100
	}
	switch o.Upload {
	case "":
		o.Upload = UploadAll
	case UploadAll, UploadTriggered, UploadOff:
	default:
		return invalidf("Rendering.Upload is %q, not one of all, triggered, off", o.Upload)
	}
	o.settleFolder(all)
	return nil
}

func (o *RenderingOptions) settleFolder(all *Options) {
	if o.OutputDir != "" || o.Upload != UploadOff {
		return
	}
	state := all.env("XDG_STATE_HOME")
	if state == "" {
		state = filepath.Join(all.env("HOME"), ".local", "state")
	}
	o.OutputDir = filepath.Join(state, "kymogram", "renderings")
}

// LogRendering appends a frame to the video of an environment's episode; [EnvID]
// names the environment. The frame is copied. Another episode of the environment
// ends the video and begins the next. Encoding (H.264, mp4) and upload happen in
// the background: the call waits for neither, and a frame for which the queue has
// no room is dropped and counted. Width and height must be even.
func (r *Run) LogRendering(frame image.Image, rlStep, episode int64, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	if !c.hasEnv {
		c.env = defaultEnv
	}
	if err := errors.Join(checkStep("rl step", rlStep), checkStep("episode", episode), checkEnv(c.env), checkFrame(frame)); err != nil {
		return err
	}
	if err := r.errors.raise(); err != nil {
		return err
	}
	v, err := r.renders()
	if err != nil {
		return err
	}
	return v.put(frame, c.env, episode, rlStep, r.timeNs(&c))
}

// TagRendering tags the video of an episode that is being rendered or was the
// environment's last.
func (r *Run) TagRendering(tag string, episode int64, opts ...LogOption) error {
	if err := checkTags([]string{tag}); err != nil {
		return err
	}
	return r.labelVideo(label{tag: tag}, episode, opts)
}

// MarkRendering names frames of a video, counted from 0.
func (r *Run) MarkRendering(name string, episode, fromFrame, toFrame int64, opts ...LogOption) error {
	if fromFrame < 0 || toFrame < fromFrame {
		return invalidf("the frames %d to %d are no part of a video", fromFrame, toFrame)
	}
	if err := checkTags([]string{name}); err != nil {
		return err
	}
	return r.labelVideo(label{mark: &model.RenderingMark{Name: name, FromFrame: fromFrame, ToFrame: toFrame}}, episode, opts)
}

func (r *Run) labelVideo(l label, episode int64, opts []LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	if !c.hasEnv {
		c.env = defaultEnv
	}
	v := r.videos.Load()
	if v == nil {
		return invalidf("the run has no rendering yet")
	}
	return v.putLabel(l, c.env, episode)
}

// renders makes the renderer at the first frame.
func (r *Run) renders() (*renderer, error) {
	if v := r.videos.Load(); v != nil {
		return v, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if v := r.videos.Load(); v != nil {
		return v, nil
	}
	if r.w.Closed() {
		return nil, ErrClosed
	}
	program, err := exec.LookPath(first(r.opts.Rendering.FFmpeg, "ffmpeg"))
	if err != nil {
		return nil, ErrNoEncoder
	}
	v := newRenderer(r.opts.Rendering, program, r.folder.WriterPath(r.w.ID), r.w.ID, fileName(r.Name()), r.errors.report)
	r.videos.Store(v)
	go v.work() // ended by Close, or left where that has no time for it
	return v, nil
}

func fileName(text string) string {
	name := strings.Map(func(c rune) rune {
		if c == '/' || c == '\\' || c == 0 {
			return '_'
		}
		return c
	}, text)
	if name == "." || name == ".." {
		return "_" + name
	}
	return name
}

func checkFrame(frame image.Image) error {
	if frame == nil {
		return invalidf("the frame is nil")
	}
	size := frame.Bounds().Size()
	if size.X <= 0 || size.Y <= 0 || size.X%2 != 0 || size.Y%2 != 0 {
		return invalidf("the frame is %d × %d; width and height must be even and not 0 (H.264 with yuv420p halves them)", size.X, size.Y)
	}
	return nil
}

// pixels copies a frame as RGB, or as grey where it is.
func pixels(frame image.Image) (data []byte, grey bool) {
	b := frame.Bounds()
	switch p := frame.(type) {
	case *image.Gray:
		out := make([]byte, 0, b.Dx()*b.Dy())
		for y := b.Min.Y; y < b.Max.Y; y++ {
			at := p.PixOffset(b.Min.X, y)
			out = append(out, p.Pix[at:at+b.Dx()]...)
		}
		return out, true
	case *image.RGBA:
		return opaque(p.Pix, p.PixOffset(b.Min.X, b.Min.Y), p.Stride, b), false
	case *image.NRGBA:
		return opaque(p.Pix, p.PixOffset(b.Min.X, b.Min.Y), p.Stride, b), false
	}
	out := make([]byte, 0, 3*b.Dx()*b.Dy())
	for y := b.Min.Y; y < b.Max.Y; y++ {
		for x := b.Min.X; x < b.Max.X; x++ {
			c := color.RGBAModel.Convert(frame.At(x, y)).(color.RGBA)
			out = append(out, c.R, c.G, c.B)
		}
	}
	return out, false
}

// opaque leaves the fourth channel out.
func opaque(pix []byte, start, stride int, b image.Rectangle) []byte {
	out := make([]byte, 0, 3*b.Dx()*b.Dy())
	for y := range b.Dy() {
		row := pix[start+y*stride:]
		for x := range b.Dx() {
			out = append(out, row[4*x], row[4*x+1], row[4*x+2])
		}
	}
	return out
}

func encoderError(act string, err error, output []byte) error {
	text := strings.TrimSpace(string(output))
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return fmt.Errorf("%s: %w: %s", act, err, text)
}
