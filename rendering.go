package kymogram

import (
	"errors"
	"image"
	"os/exec"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
	"github.com/kymogram/kymogram/internal/video"
)

// LogRendering appends a frame to the video of an environment's episode; [EnvID]
// names the environment. The frame is copied. Another episode of the environment
// ends the video and begins the next. Encoding (H.264, mp4) and upload happen in
// the background: the call waits for neither, and a frame is dropped and counted
// when the queue is full. Width and height must be even.
func (r *Run) LogRendering(frame image.Image, rlStep, episode int64, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	if !c.hasEnv {
		c.env = defaultEnv
	}
	if err := errors.Join(rule.Step("rl step", rlStep), rule.Step("episode", episode), rule.Env(c.env), video.Check(frame)); err != nil {
		return err
	}
	if err := r.errors.Due(); err != nil {
		return err
	}
	v, err := r.renders()
	if err != nil {
		return err
	}
	return closedError(v.Put(frame, c.env, episode, rlStep, r.timeNs(&c)))
}

// TagRendering tags the video of an episode that is being rendered or was the
// environment's last.
func (r *Run) TagRendering(tag string, episode int64, opts ...LogOption) error {
	if err := rule.Tags([]string{tag}); err != nil {
		return err
	}
	return r.labelVideo(opts, func(v *video.Renderer, env string) error { return v.Tag(tag, env, episode) })
}

// MarkRendering names frames of a video, counted from 0.
func (r *Run) MarkRendering(name string, episode, fromFrame, toFrame int64, opts ...LogOption) error {
	if fromFrame < 0 || toFrame < fromFrame {
		return invalidf("the frames %d to %d are no part of a video", fromFrame, toFrame)
	}
	if err := rule.Tags([]string{name}); err != nil {
		return err
	}
	mark := model.RenderingMark{Name: name, FromFrame: fromFrame, ToFrame: toFrame}
	return r.labelVideo(opts, func(v *video.Renderer, env string) error { return v.Mark(mark, env, episode) })
}

func (r *Run) labelVideo(opts []LogOption, label func(*video.Renderer, string) error) error {
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
	return closedError(label(v, c.env))
}

// renders makes the renderer at the first frame.
func (r *Run) renders() (*video.Renderer, error) {
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
	v := video.New(r.opts.Rendering.video(), program, r.folder.WriterPath(r.w.ID), r.w.ID, r.Name(), r.errors.Report)
	r.videos.Store(v)
	go v.Run() // ended by Close, or left where that has no time for it
	return v, nil
}

func (o *RenderingOptions) video() video.Options {
	return video.Options{
		FPS: o.FPS, MaxConcurrentEncoders: o.MaxConcurrentEncoders, QueueMaxSize: o.QueueMaxSize, NumEncoderThreads: o.NumEncoderThreads,
		Upload: o.Upload, OutputDir: o.OutputDir, DeleteAfterUpload: o.DeleteAfterUpload, SkipDrainOnClose: o.SkipDrainOnClose, CloseTimeout: o.CloseTimeout,
	}
}
