package video

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/spool"
)

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

// encodeArguments have ffmpeg read raw frames and write fragments of at most a
// second, so that what a kill leaves can be played.
func encodeArguments(one *video, o *Options) []string {
	colour := map[bool]string{true: "gray", false: "rgb24"}[one.grey]
	return []string{
		"-hide_banner", "-loglevel", "error", "-y",
		"-f", "rawvideo", "-pix_fmt", colour, "-s", fmt.Sprintf("%dx%d", one.size.X, one.size.Y), "-r", strconv.Itoa(o.FPS), "-i", "pipe:0",
		"-an", "-c:v", "libx264", "-preset", "veryfast", "-tune", "zerolatency", "-pix_fmt", "yuv420p", "-g", strconv.Itoa(2 * o.FPS),
		"-threads", strconv.Itoa(o.NumEncoderThreads), "-movflags", "empty_moov+default_base_moof", "-frag_duration", "1000000",
		"-flush_packets", "1", "-f", "mp4", one.file.Part(),
	}
}

// seekArguments have ffmpeg copy the packets into a file with its index in front,
// in which a browser seeks by range.
func seekArguments(from, to string) []string {
	return []string{"-hide_banner", "-loglevel", "error", "-y", "-i", from, "-c", "copy", "-movflags", "+faststart", "-f", "mp4", to}
}

// start runs the encoder.
func (one *video) start(program string, o *Options) error {
	one.cmd = exec.Command(program, encodeArguments(one, o)...)
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

// seekable makes the fragments one video.
func (v *Renderer) seekable(f *spool.RenderingFile) error {
	tmp := f.Video() + ".tmp"
	out, err := exec.Command(v.program, seekArguments(f.Part(), tmp)...).CombinedOutput()
	if err != nil {
		_ = os.Remove(tmp)
		return encoderError("put the index of a video in front", err, out)
	}
	if err := os.Rename(tmp, f.Video()); err != nil {
		return fmt.Errorf("keep a video: %w", err)
	}
	return nil
}

func encoderError(act string, err error, output []byte) error {
	text := strings.TrimSpace(string(output))
	if i := strings.LastIndexByte(text, '\n'); i >= 0 {
		text = text[i+1:]
	}
	return fmt.Errorf("%s: %w: %s", act, err, text)
}
