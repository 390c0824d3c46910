package kymogram

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

const (
	// queueBytes bounds the frames that wait when no number was given.
	queueBytes = 64 << 20
	// idleEncoder makes way for another environment.
	idleEncoder = 5 * time.Second
	// encoderTries may fail in one episode; the rest of it is then dropped.
	encoderTries = 3
)

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

// video is one being encoded, or the last one of its environment.
type video struct {
	file   *spool.RenderingFile
	cmd    *exec.Cmd
	in     io.WriteCloser
	errors bytes.Buffer
	size   image.Point
	grey   bool
	last   time.Time
	asked  bool // for triggered uploads
	ended  bool
}

// renderer turns the frames of a run into videos, one goroutine for all: the
// encoding itself is done by ffmpeg, a process a video.
type renderer struct {
	opts    RenderingOptions
	program string
	dir     string // of the writer
	id      model.WriterID
	run     string
	report  func(error)

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

func newRenderer(opts RenderingOptions, program, dir string, id model.WriterID, run string, report func(error)) *renderer {
	v := &renderer{
		opts: opts, program: program, dir: dir, id: id, run: run, report: report, done: make(chan struct{}),
		sizes: map[string]frame{}, lost: map[string]int64{}, open: map[string]*video{}, kept: map[string]*video{},
		parts: map[string]tries{}, failures: map[string]tries{},
	}
	v.ready = sync.NewCond(&v.mu)
	return v
}

func (v *renderer) count(m *Metrics) {
	v.mu.Lock()
	defer v.mu.Unlock()
	m.RenderingFramesAdded, m.RenderingFramesEncoded, m.RenderingFramesDropped, m.RenderingsFinished = v.added, v.encoded, v.dropped, v.finished
	m.RenderingsFailed = v.failed
}

func videoKey(env string, episode int64) string { return env + "\x00" + strconv.FormatInt(episode, 10) }

// put hands a frame over.
func (v *renderer) put(picture image.Image, env string, episode, rlStep, timeNs int64) error {
	f := frame{env: env, episode: episode, rlStep: rlStep, timeNs: timeNs, size: picture.Bounds().Size()}
	if v.full(env, episode) {
		return nil
	}
	f.data, f.grey = pixels(picture)
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ending {
		return ErrClosed
	}
	if last, ok := v.sizes[env]; ok && last.episode == episode && (last.size != f.size || last.grey != f.grey) {
		return invalidf("the frame is %v, the first one of environment %q, episode %d, was %v: a video has one size and one sort of colour", f.size, env, episode, last.size)
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
func (v *renderer) full(env string, episode int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.opts.QueueMaxSize > 0 && v.frames < v.opts.QueueMaxSize || v.opts.QueueMaxSize == 0 && v.bytes < queueBytes {
		return false
	}
	v.added++
	v.drop(env, episode, 1)
	return true
}

func (v *renderer) drop(env string, episode, n int64) {
	v.dropped += uint64(n)
	v.lost[videoKey(env, episode)] += n
}

func (v *renderer) putLabel(l label, env string, episode int64) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.ending {
		return ErrClosed
	}
	v.queue = append(v.queue, frame{env: env, episode: episode, label: &l})
	v.ready.Signal()
	return nil
}

// close ends the videos; false when they were not all encoded by the deadline.
func (v *renderer) close(limit time.Duration) bool {
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
func (v *renderer) skip() {
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
func (v *renderer) next() (f frame, ok bool) {
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

func (v *renderer) work() {
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
func (v *renderer) conclude(env string) {
	if err := v.finish(env); err != nil {
		v.report(fmt.Errorf("a rendering of environment %q failed: %w", env, err))
	}
}

// fail takes note of a video whose encoder failed: what is whole of it goes on
// its way.
func (v *renderer) fail(one *video) {
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
func (v *renderer) settle() {
	for len(v.unsettled) > 0 && v.handOver(v.unsettled[0]) == nil {
		v.unsettled = v.unsettled[1:]
	}
}

// handOver writes a video's record: of a failed one the deliverer makes the whole
// fragments a video.
func (v *renderer) handOver(one *video) error {
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

func (v *renderer) take(f *frame) error {
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
func (v *renderer) begin(f *frame) (*video, error) {
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
func (v *renderer) makeWay(now time.Time) bool {
	var oldest string
	for env, one := range v.open {
		if oldest == "" || one.last.Before(v.open[oldest].last) {
			oldest = env
		}
	}
	return now.Sub(v.open[oldest].last) >= idleEncoder && v.finish(oldest) == nil
}

// start runs ffmpeg: raw frames in, fragments of at most a second out, so that
// what a kill leaves can be played.
func (one *video) start(program string, o *RenderingOptions) error {
	sort := map[bool]string{true: "gray", false: "rgb24"}[one.grey]
	one.cmd = exec.Command(program, "-hide_banner", "-loglevel", "error", "-y",
		"-f", "rawvideo", "-pix_fmt", sort, "-s", fmt.Sprintf("%dx%d", one.size.X, one.size.Y), "-r", strconv.Itoa(o.FPS), "-i", "pipe:0",
		"-an", "-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-g", strconv.Itoa(2*o.FPS),
		"-threads", strconv.Itoa(o.NumEncoderThreads), "-movflags", "empty_moov+default_base_moof", "-frag_duration", "1000000",
		"-flush_packets", "1", "-f", "mp4", one.file.Part())
	one.cmd.Stderr = &one.errors
	var err error
	if one.in, err = one.cmd.StdinPipe(); err != nil {
		return fmt.Errorf("start ffmpeg: %w", err)
	}
	if err := one.cmd.Start(); err != nil {
		return fmt.Errorf("start ffmpeg: %w", err)
	}
	return nil
}

// end waits until the encoder has written everything.
func (one *video) end() error {
	if one.ended {
		return nil
	}
	one.ended = true
	return errors.Join(one.in.Close(), one.cmd.Wait())
}

// abandon leaves the file as it is.
func (one *video) abandon() { _ = one.end() }

// finish ends a video and hands it over.
func (v *renderer) finish(env string) error {
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
func (v *renderer) complete(one *video) (sum string, size int64, err error) {
	if err := one.end(); err != nil {
		return "", 0, encoderError("end a video", err, one.errors.Bytes())
	}
	if err := v.seekable(one.file); err != nil {
		return "", 0, err
	}
	return sumFile(one.file.Video())
}

// seekable copies the packets into a file with its index in front.
func (v *renderer) seekable(f *spool.RenderingFile) error {
	tmp := f.Video() + ".tmp"
	out, err := exec.Command(v.program, "-hide_banner", "-loglevel", "error", "-y", "-i", f.Part(), "-c", "copy", "-movflags", "+faststart", "-f", "mp4", tmp).CombinedOutput()
	if err != nil {
		_ = os.Remove(tmp)
		return encoderError("put the index of a video in front", err, out)
	}
	if err := os.Rename(tmp, f.Video()); err != nil {
		return fmt.Errorf("keep a video: %w", err)
	}
	return nil
}

func sumFile(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, fmt.Errorf("read a video: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, fmt.Errorf("read a video: %w", err)
	}
	return hex.EncodeToString(h.Sum(nil)), size, f.Sync()
}

// keep leaves a copy in the folder that the user named; none is overwritten.
func (v *renderer) keep(one *video) error {
	if v.opts.OutputDir == "" || v.opts.Upload != UploadOff && v.opts.DeleteAfterUpload {
		return nil
	}
	folder := filepath.Join(v.opts.OutputDir, v.run)
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("keep a video: %w", err)
	}
	base := fmt.Sprintf("%s_%d", fileName(one.file.Env), one.file.Episode)
	for turn := 1; ; turn++ {
		name := base + ".mp4"
		if turn > 1 {
			name = fmt.Sprintf("%s-%d.mp4", base, turn)
		}
		err := copyFile(one.file.Video(), filepath.Join(folder, name))
		if !errors.Is(err, os.ErrExist) {
			return err
		}
	}
}

func copyFile(from, to string) error {
	if err := os.Link(from, to); err == nil || errors.Is(err, os.ErrExist) {
		return err
	}
	in, err := os.Open(from)
	if err != nil {
		return fmt.Errorf("keep a video: %w", err)
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}

// forget frees a video that is not to be uploaded.
func (v *renderer) forget(one *video) {
	if v.opts.Upload == UploadOff || v.opts.Upload == UploadTriggered && !one.asked {
		if err := one.file.Remove(); err != nil {
			v.report(err)
		}
	}
}

// attach adds a label to a video that is open or was the environment's last.
func (v *renderer) attach(f *frame) error {
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
