package video

import (
	"encoding/json"
	"image"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// output is what ffmpeg's options for its output say, without the defaults of
// messages and names.
func output(arguments []string) map[string]string {
	names := map[string]string{
		"-f": "format", "-c:v": "codec", "-c": "codec", "-preset": "preset", "-tune": "tune", "-pix_fmt": "pix_fmt", "-r": "rate", "-g": "gop",
		"-threads": "threads", "-s": "size", "-movflags": "movflags", "-frag_duration": "frag_duration",
	}
	out := map[string]string{}
	for i, option := range arguments {
		if name := names[option]; name != "" { // of one that is given twice the second is the output's
			out[name] = strings.TrimPrefix(arguments[i+1], "+")
		}
	}
	return out
}

// The Python package asks PyAV for the same: python/tests/test_rendering_arguments.py
// reads the same file.
func TestArguments(t *testing.T) {
	doc, err := os.ReadFile("../../testdata/client/encoder.json")
	if err != nil {
		t.Fatal(err)
	}
	var golden struct {
		FPS, Width, Height, Threads int
		Encode, Seek                map[string]string
	}
	if err := json.Unmarshal(doc, &golden); err != nil {
		t.Fatal(err)
	}
	file, err := spool.NewRendering(t.TempDir(), 0, model.Rendering{})
	if err != nil {
		t.Fatal(err)
	}
	one := &video{file: file, size: image.Pt(golden.Width, golden.Height)}
	encode := encodeArguments(one, &Options{FPS: golden.FPS, NumEncoderThreads: golden.Threads})
	if diff := cmp.Diff(golden.Encode, output(encode)); diff != "" {
		t.Errorf("encode (-want +got)\n%s", diff)
	}
	if diff := cmp.Diff(golden.Seek, output(seekArguments("a.part", "a.mp4"))); diff != "" {
		t.Errorf("seek (-want +got)\n%s", diff)
	}
	if last := encode[len(encode)-1]; last != file.Part() {
		t.Errorf("it writes to %s", last)
	}
}
