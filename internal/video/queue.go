package video

import (
	"image"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// queueBytes bounds the frames that wait when no number was given.
const queueBytes = 64 << 20

// frame is one picture, or a label, on its way to the encoder.
type frame struct {
	env                     string
	episode, rlStep, timeNs int64
	size                    image.Point
	grey                    bool
	data                    []byte
	label                   *label
}

// label is a tag or a mark of a video.
type label struct {
	tag  string
	mark *model.RenderingMark
}

// Counts are a renderer's counters at one moment; all only grow.
type Counts struct {
	Added, Encoded, Dropped uint64 // frames
	Finished, Failed        uint64 // videos
}

// Counts counts what became of the frames.
func (v *Renderer) Counts() Counts {
	v.mu.Lock()
	defer v.mu.Unlock()
	return Counts{Added: v.added, Encoded: v.encoded, Dropped: v.dropped, Finished: v.finished, Failed: v.failed}
}

func videoKey(env string, episode int64) string { return env + "\x00" + strconv.FormatInt(episode, 10) }

// Put hands a frame over and waits for nothing: where the queue has no room the
// frame is dropped and counted. All frames of an episode are of one size.
func (v *Renderer) Put(picture image.Image, env string, episode, rlStep, timeNs int64) error {
	f := frame{env: env, episode: episode, rlStep: rlStep, timeNs: timeNs, size: picture.Bounds().Size()}
	if v.full(env, episode) {
		return nil
	}
	f.data, f.grey = pixels(picture)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ending {
		return spool.ErrClosed
	}
	if last, ok := v.sizes[env]; ok && last.episode == episode && (last.size != f.size || last.grey != f.grey) {
		return model.Errorf(model.CodeInvalid, "the frame is %v, the first one of environment %q, episode %d, was %v: a video has one size and one sort of colour", f.size, env, episode, last.size)
	}
	v.sizes[env] = frame{episode: episode, size: f.size, grey: f.grey}
	v.added++
	v.frames++
	v.bytes += len(f.data)
	v.queue = append(v.queue, f)
	v.ready.Signal()
	return nil
}

// full drops and counts a frame for which the queue has no room.
func (v *Renderer) full(env string, episode int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.opts.QueueMaxSize > 0 && v.frames < v.opts.QueueMaxSize || v.opts.QueueMaxSize == 0 && v.bytes < queueBytes {
		return false
	}
	v.added++
	v.drop(env, episode, 1)
	return true
}

func (v *Renderer) drop(env string, episode, n int64) {
	v.dropped += uint64(n)
	v.lost[videoKey(env, episode)] += n
}

// Tag tags the video of an episode that is being rendered or was the environment's
// last.
func (v *Renderer) Tag(tag, env string, episode int64) error {
	return v.label(label{tag: tag}, env, episode)
}

// Mark names frames of such a video.
func (v *Renderer) Mark(mark model.RenderingMark, env string, episode int64) error {
	return v.label(label{mark: &mark}, env, episode)
}

func (v *Renderer) label(l label, env string, episode int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ending {
		return spool.ErrClosed
	}
	v.queue = append(v.queue, frame{env: env, episode: episode, label: &l})
	v.ready.Signal()
	return nil
}

// Close ends the videos; false when they were not all encoded by the deadline.
func (v *Renderer) Close(limit time.Duration) bool {
	if v.opts.CloseTimeout > 0 {
		limit = min(limit, v.opts.CloseTimeout)
	}
	v.mu.Lock()
	if v.opts.SkipDrainOnClose || limit <= 0 {
		v.skip()
	}
	v.ending = true
	v.ready.Signal()
	v.mu.Unlock()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-v.done:
		return true
	case <-timer.C:
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.skip()
	return false
}

// skip drops the frames that wait; labels stay.
func (v *Renderer) skip() {
	var labels []frame
	for _, f := range v.queue {
		if f.label == nil {
			v.drop(f.env, f.episode, 1)
		} else {
			labels = append(labels, f)
		}
	}
	v.queue, v.frames, v.bytes = labels, 0, 0
}

// next waits for work; ok is false at the end.
func (v *Renderer) next() (f frame, ok bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for len(v.queue) == 0 && !v.ending {
		v.ready.Wait()
	}
	if len(v.queue) == 0 {
		return f, false
	}
	f, v.queue = v.queue[0], v.queue[1:]
	if f.label == nil {
		v.frames--
		v.bytes -= len(f.data)
	}
	return f, true
}
