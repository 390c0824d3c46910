package video

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

const (
	// idleEncoder makes way for another environment.
	idleEncoder = 5 * time.Second
	// encoderTries may fail in one episode; the rest of it is then dropped.
	encoderTries = 3
)

// The choices of Options.Upload.
const (
	UploadAll       = "all"
	UploadTriggered = "triggered" // videos that were tagged or marked
	UploadOff       = "off"
)

// Options say how frames become videos; every one is given.
type Options struct {
	FPS                   int
	MaxConcurrentEncoders int // environments that render at once
	QueueMaxSize          int // frames that wait; 0: 64 MiB of them
	NumEncoderThreads     int // of one video
	Upload                string
	OutputDir             string // keeps the videos, as RUN/ENV_EPISODE.mp4; "": none is kept
	DeleteAfterUpload     bool   // keeps none that is uploaded
	SkipDrainOnClose      bool   // drops the frames that wait at the end
	CloseTimeout          time.Duration
}

// Renderer turns the frames of a run into videos. Build it with [New].
type Renderer struct {
	opts    Options
	program string
	dir     string // of the writer
	id      model.WriterID
	run     string
	report  func(error)

	// The log calls' half: what waits, and the counters.
	mu       sync.Mutex
	ready    *sync.Cond
	queue    []frame
	frames   int
	bytes    int
	ending   bool
	sizes    map[string]frame // what the environment's last frame was like
	lost     map[string]int64 // frames dropped, by video
	added    uint64
	dropped  uint64
	encoded  uint64
	finished uint64
	failed   uint64

	// The worker's half, which no lock guards.
	done      chan struct{}
	number    int
	open      map[string]*video
	kept      map[string]*video
	parts     map[string]tries // by environment
	failures  map[string]tries
	unsettled []*video // ended, and their records not written yet
}

// tries counts what happened in the environment's episode.
type tries struct {
	episode int64
	n       int
}

func (t tries) in(episode int64) int {
	if t.episode != episode {
		return 0
	}
	return t.n
}

// New returns a renderer whose videos lie in dir, the folder of a writer in the
// spool. The run's name names the folder of kept copies, program is ffmpeg's path.
func New(opts Options, program, dir string, id model.WriterID, run string, report func(error)) *Renderer {
	v := &Renderer{
		opts: opts, program: program, dir: dir, id: id, run: fileName(run), report: report, done: make(chan struct{}),
		sizes: map[string]frame{}, lost: map[string]int64{}, open: map[string]*video{}, kept: map[string]*video{},
		parts: map[string]tries{}, failures: map[string]tries{},
	}
	v.ready = sync.NewCond(&v.mu)
	return v
}

// Run encodes until [Renderer.Close] has nothing left for it. A process calls it once.
func (v *Renderer) Run() {
	defer close(v.done)
	for {
		f, ok := v.next()
		if !ok {
			break
		}
		if err := v.take(&f); err != nil {
			v.report(fmt.Errorf("a rendering of environment %q failed: %w", f.env, err))
			if f.label == nil {
				v.mu.Lock()
				v.drop(f.env, f.episode, 1)
				v.mu.Unlock()
			}
		}
		v.settle()
	}
	for env := range v.open {
		v.conclude(env)
	}
	v.settle()
	for _, one := range v.kept {
		v.forget(one)
	}
}

// conclude ends a video and tells of its failure.
func (v *Renderer) conclude(env string) {
	if err := v.finish(env); err != nil {
		v.report(fmt.Errorf("a rendering of environment %q failed: %w", env, err))
	}
}

// fail takes note of a video whose encoder failed: what is whole of it goes on
// its way.
func (v *Renderer) fail(one *video) {
	one.abandon()
	env, episode := one.file.Env, one.file.Episode
	delete(v.open, env)
	v.failures[env] = tries{episode, v.failures[env].in(episode) + 1}
	key := videoKey(env, episode)
	v.mu.Lock()
	v.failed++
	one.file.FramesDropped += v.lost[key]
	delete(v.lost, key)
	v.mu.Unlock()
	one.file.State, one.file.Complete = spool.RenderingFailed, false
	v.unsettled = append(v.unsettled, one)
}

// settle hands over the videos that ended; where the disk is full, again later.
// After a kill the deliverer does it.
func (v *Renderer) settle() {
	for len(v.unsettled) > 0 && v.handOver(v.unsettled[0]) == nil {
		v.unsettled = v.unsettled[1:]
	}
}

// handOver writes a video's record: of a failed one the deliverer makes the whole
// fragments a video.
func (v *Renderer) handOver(one *video) error {
	upload := v.opts.Upload == UploadAll || v.opts.Upload == UploadTriggered && one.asked
	if upload {
		if err := one.file.Save(); err != nil {
			return err
		}
	}
	if one.file.State == spool.RenderingDone {
		if err := os.Remove(one.file.Part()); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("free the parts of a video: %w", err)
		}
		return nil
	}
	if upload {
		return nil
	}
	if v.opts.Upload == UploadOff && one.file.Frames > 0 {
		if err := os.Rename(one.file.Part(), one.file.Video()); err != nil {
			return fmt.Errorf("keep half a video: %w", err)
		}
		if err := v.keep(one); err != nil {
			return err
		}
	}
	return one.file.Remove()
}

func (v *Renderer) take(f *frame) error {
	if f.label != nil {
		return v.attach(f)
	}
	if now := v.open[f.env]; now != nil && now.file.Episode != f.episode {
		v.conclude(f.env)
	}
	one := v.open[f.env]
	if one == nil && v.failures[f.env].in(f.episode) >= encoderTries { // which was told
		v.mu.Lock()
		defer v.mu.Unlock()
		v.drop(f.env, f.episode, 1)
		return nil
	}
	if one == nil {
		var err error
		if one, err = v.begin(f); err != nil {
			return err
		}
	}
	if _, err := one.in.Write(f.data); err != nil {
		v.fail(one) // and with it what ffmpeg says is whole
		return encoderError("encode", err, one.errors.Bytes())
	}
	one.file.Frames++
	one.file.LastRLStep, one.last = f.rlStep, time.Unix(0, f.timeNs)
	v.mu.Lock()
	v.encoded++
	v.mu.Unlock()
	return nil
}

// begin starts the encoder of a video.
func (v *Renderer) begin(f *frame) (*video, error) {
	if len(v.open) >= v.opts.MaxConcurrentEncoders && !v.makeWay(time.Unix(0, f.timeNs)) {
		return nil, fmt.Errorf("%d environments render at once, all that MaxConcurrentEncoders allows", len(v.open))
	}
	record := model.Rendering{
		ID: v.id.String() + "-" + strconv.Itoa(v.number), Env: f.env, Episode: f.episode, ContentType: "video/mp4", FPS: float64(v.opts.FPS),
		Width: int64(f.size.X), Height: int64(f.size.Y), FirstRLStep: f.rlStep, LastRLStep: f.rlStep, TimeNs: f.timeNs,
	}
	part := tries{f.episode, v.parts[f.env].in(f.episode) + 1}
	if part.n > 1 {
		record.Name = fmt.Sprintf("part %d", part.n)
	}
	file, err := spool.NewRendering(v.dir, v.number, record)
	if err != nil {
		return nil, err
	}
	v.number++
	one := &video{file: file, size: f.size, grey: f.grey}
	if err := one.start(v.program, &v.opts); err != nil {
		v.failures[f.env] = tries{f.episode, encoderTries} // not again for every frame
		v.mu.Lock()
		v.failed++
		v.mu.Unlock()
		return nil, err
	}
	v.parts[f.env], v.open[f.env] = part, one
	if v.opts.Upload == UploadAll {
		if err := file.Save(); err != nil {
			v.fail(one)
			return nil, err
		}
	}
	return one, nil
}

// makeWay ends the video that had no frame for longest, if that is long ago.
func (v *Renderer) makeWay(now time.Time) bool {
	var oldest string
	for env, one := range v.open {
		if oldest == "" || one.last.Before(v.open[oldest].last) {
			oldest = env
		}
	}
	return now.Sub(v.open[oldest].last) >= idleEncoder && v.finish(oldest) == nil
}

// finish ends a video and hands it over.
func (v *Renderer) finish(env string) error {
	one := v.open[env]
	delete(v.open, env)
	sum, size, err := v.complete(one)
	if err != nil {
		v.fail(one)
		return err
	}
	v.mu.Lock()
	key := videoKey(env, one.file.Episode)
	one.file.FramesDropped = v.lost[key]
	delete(v.lost, key)
	v.finished++
	v.mu.Unlock()
	one.file.SHA256, one.file.SizeBytes, one.file.Complete, one.file.State = sum, size, true, spool.RenderingDone
	if old := v.kept[env]; old != nil {
		v.forget(old)
	}
	v.kept[env] = one
	v.unsettled = append(v.unsettled, one)
	return v.keep(one)
}

// complete makes what was encoded a video.
func (v *Renderer) complete(one *video) (sum string, size int64, err error) {
	if err := one.end(); err != nil {
		return "", 0, encoderError("end a video", err, one.errors.Bytes())
	}
	if err := v.seekable(one.file); err != nil {
		return "", 0, err
	}
	return sumFile(one.file.Video())
}

// forget frees a video that is not to be uploaded.
func (v *Renderer) forget(one *video) {
	if v.opts.Upload == UploadOff || v.opts.Upload == UploadTriggered && !one.asked {
		if err := one.file.Remove(); err != nil {
			v.report(err)
		}
	}
}

// attach adds a label to a video that is open or was the environment's last.
func (v *Renderer) attach(f *frame) error {
	one := cmp.Or(v.open[f.env], v.kept[f.env])
	if one == nil || one.file.Episode != f.episode {
		if one = v.kept[f.env]; one == nil || one.file.Episode != f.episode {
			return fmt.Errorf("there is no video of episode %d any more", f.episode)
		}
	}
	if f.label.mark != nil {
		one.file.Marks = append(one.file.Marks, *f.label.mark)
	} else {
		one.file.Tags = append(one.file.Tags, f.label.tag)
	}
	one.asked = true
	if one != v.kept[f.env] || v.opts.Upload == UploadOff {
		return nil
	}
	if v.opts.Upload == UploadTriggered {
		if _, err := os.Stat(one.file.Video()); err == nil {
			return one.file.Save()
		}
	}
	// The bytes are on their way or there: the record again, under the same id.
	again, err := spool.NewRendering(v.dir, v.number, one.file.Rendering)
	if err != nil {
		return err
	}
	v.number++
	again.State = spool.RenderingDone
	return again.Save()
}
