package uplink

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// lookForVideos is how often a writer's folder is looked at for new ones.
const lookForVideos = time.Second

// renderings uploads the writer's finished videos beside its points, over
// connections of their own, until ctx ends.
func (d *delivery) renderings(ctx context.Context) {
	backoff := lookForVideos
	for wait := d.ticks.next(lookForVideos); sleep(ctx, wait); {
		if left, err := d.sendRenderings(ctx, false); err != nil && left > 0 {
			backoff = min(2*backoff, d.opts.maxBackoff())
			wait = jitter(backoff)
		} else {
			backoff, wait = lookForVideos, d.ticks.next(lookForVideos)
		}
	}
}

// drainRenderings brings all videos of a writer that is over to their end, what
// a killed process left of one too. ok is false when ctx or stop came first.
func (d *delivery) drainRenderings(ctx context.Context) (ok bool) {
	wait := firstBackoff
	for {
		left, _ := d.sendRenderings(ctx, true)
		if left == 0 {
			return true
		}
		if !d.pause(ctx, jitter(wait)) {
			return false
		}
		wait = min(2*wait, d.opts.maxBackoff())
	}
}

// sendRenderings tries every video once, some at a time, and says how many are
// left. After an error no other is begun; it is told once: points go on meanwhile.
func (d *delivery) sendRenderings(ctx context.Context, over bool) (left int, err error) {
	d.sending.Lock()
	defer d.sending.Unlock()
	files, damage := spool.Renderings(d.dir)
	var group errgroup.Group
	group.SetLimit(paceOf(d.open.Pace).videos)
	var failed atomic.Bool
	var waiting atomic.Int64
	for _, records := range byVideo(files, over) {
		waiting.Add(int64(len(records)))
		group.Go(func() error {
			for _, f := range records {
				if failed.Load() {
					return nil
				}
				if err := d.sendRendering(ctx, f); err != nil {
					failed.Store(true)
					return err
				}
				waiting.Add(-1)
			}
			return nil
		})
	}
	err = cmp.Or(group.Wait(), damage)
	left = int(waiting.Load())
	d.videos.Store(int64(left))
	d.tell(err, left)
	return left, err
}

// byVideo groups the records that can be sent by their videos, in their order: a
// later one adds to the one before.
func byVideo(files []*spool.RenderingFile, over bool) (groups [][]*spool.RenderingFile) {
	at := map[string]int{}
	for _, f := range files {
		if f.State == spool.RenderingEncoding && !over {
			continue
		}
		i, ok := at[f.ID]
		if !ok {
			i = len(groups)
			at[f.ID], groups = i, append(groups, nil)
		}
		groups[i] = append(groups[i], f)
	}
	return groups
}

// tell logs an error once while it stays the same, and keeps it for the totals.
func (d *delivery) tell(err error, left int) {
	text := ""
	if err != nil {
		text = plainError(err)
	}
	if text != "" && text != d.trouble() {
		d.log.Warn("videos wait to be uploaded", "writer", d.id, "server", d.server(), "videos", left, "error", text)
	}
	d.told.Store(&text)
}

// trouble is the last error about a video, if it still holds.
func (d *delivery) trouble() string {
	if text := d.told.Load(); text != nil {
		return *text
	}
	return ""
}

// sendRendering puts a video's bytes, then its record, then frees it.
func (d *delivery) sendRendering(ctx context.Context, f *spool.RenderingFile) error {
	if err := d.settleRendering(f); err != nil {
		return err
	}
	run := d.runID.Load()
	if run == nil {
		if d.final.Load() {
			return f.Reject(d.folder, d.id)
		}
		return fmt.Errorf("rendering: %w: the run is not open there yet", ErrUnreachable)
	}
	key, err := d.key()
	if err != nil {
		return err
	}
	server, err := NewServer(d.server(), key)
	if err != nil {
		return err
	}
	if f.SHA256 != "" {
		err = server.putFile(ctx, f.SHA256, f.Video(), f.SizeBytes)
	}
	if errors.Is(err, os.ErrNotExist) {
		err = nil // the bytes are there: this record only adds to the one before
	}
	if err == nil {
		err = server.AddRendering(ctx, *run, f.Rendering)
	}
	if code := model.CodeOf(err); err != nil && (code.Final() || code == model.CodeTooLarge || code == model.CodeInvalid) {
		d.log.Error("the server refuses a rendering for good; it is kept in rejected/", "writer", d.id, "env", f.Env, "episode", f.Episode, "error", err)
		return f.Reject(d.folder, d.id)
	}
	if err != nil {
		return err
	}
	d.uploaded.Add(1)
	return f.Remove()
}

// settleRendering makes the record of a video whose process or encoder is over
// say what is left of it: the whole fragments that were written, or nothing.
func (d *delivery) settleRendering(f *spool.RenderingFile) error {
	if f.State == spool.RenderingDone {
		return nil
	}
	size, frames, err := keepWhole(f.Part(), f.Video())
	if err != nil {
		return err
	}
	f.FramesDropped += max(0, f.Frames-frames) // a failed encoder's; a killed process told of none
	d.log.Warn("a rendering ended in the middle", "writer", d.id, "env", f.Env, "episode", f.Episode, "state", f.State, "frames_saved", frames)
	f.State, f.Complete, f.SizeBytes, f.Frames = spool.RenderingDone, false, size, frames
	if size > 0 {
		if f.SHA256, err = hashFile(f.Video()); err != nil {
			return err
		}
	}
	return f.Save()
}

// keepWhole makes the whole fragments of a part a video; both are 0 when there
// are none. It needs no space and may be cut and done again.
func keepWhole(part, video string) (size, frames int64, err error) {
	if err := os.Rename(part, video); err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, 0, fmt.Errorf("save half a rendering: %w", err)
	}
	f, err := os.OpenFile(video, os.O_RDWR, 0)
	if errors.Is(err, os.ErrNotExist) {
		return 0, 0, nil
	}
	if err != nil {
		return 0, 0, fmt.Errorf("save half a rendering: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return 0, 0, fmt.Errorf("save half a rendering: %w", err)
	}
	size, frames, err = wholeFragments(f, info.Size())
	if err == nil {
		err = f.Truncate(size)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("save half a rendering: %w", err)
	}
	return size, frames, nil
}

func hashFile(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("hash rendering: %w", err)
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return "", fmt.Errorf("hash rendering: %w", err)
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
