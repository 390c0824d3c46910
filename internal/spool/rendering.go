package spool

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

const renderingFolder = "renderings"

// RenderingState says how far a video is.
type RenderingState string

// The states of a video in the spool.
const (
	// RenderingEncoding: frames still come, into NUMBER.part, a fragmented mp4.
	RenderingEncoding RenderingState = "encoding"
	// RenderingDone: NUMBER.mp4 is whole.
	RenderingDone RenderingState = "done"
	// RenderingFailed: the encoder gave up; NUMBER.part is what it wrote of Frames.
	RenderingFailed RenderingState = "failed"
)

// RenderingFile is a video in a writer's folder: renderings/NUMBER.json beside
// NUMBER.part or NUMBER.mp4 (docs/format/spool.md).
type RenderingFile struct {
	State RenderingState `json:"state"`
	model.Rendering
	base string
}

// Video is the path of the finished video.
func (f *RenderingFile) Video() string { return f.base + ".mp4" }

// Part is the path of the video in the making.
func (f *RenderingFile) Part() string { return f.base + ".part" }

// NewRendering names the files of a writer's next video, and makes their folder.
func NewRendering(writerDir string, number int, r model.Rendering) (*RenderingFile, error) {
	folder := filepath.Join(writerDir, renderingFolder)
	if err := os.Mkdir(folder, 0o700); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, fmt.Errorf("make the folder of renderings: %w", err)
	}
	return &RenderingFile{State: RenderingEncoding, Rendering: r, base: filepath.Join(folder, strconv.Itoa(number))}, nil
}

// Save writes the record, whole or not at all.
func (f *RenderingFile) Save() error {
	doc, err := json.Marshal(f)
	if err != nil {
		return fmt.Errorf("encode rendering: %w", err)
	}
	tmp := f.base + ".json.tmp"
	if err := os.WriteFile(tmp, doc, 0o600); err != nil {
		return fmt.Errorf("save rendering: %w", err)
	}
	if err := os.Rename(tmp, f.base+".json"); err != nil {
		return fmt.Errorf("save rendering: %w", err)
	}
	return nil
}

// Remove frees a video that was delivered: its record first, so that a kill in
// between leaves nothing that would be sent again.
func (f *RenderingFile) Remove() error {
	for _, ending := range []string{".json", ".mp4", ".part"} {
		if err := os.Remove(f.base + ending); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove rendering: %w", err)
		}
	}
	return nil
}

// Reject keeps a video that the server refuses for good.
func (f *RenderingFile) Reject(folder *Folder, writer model.WriterID) error {
	for _, ending := range []string{".mp4", ".part", ".json"} {
		to := filepath.Join(folder.Path, "rejected", writer.String()+"-rendering-"+filepath.Base(f.base)+ending)
		if err := os.Rename(f.base+ending, to); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("keep refused rendering: %w", err)
		}
	}
	return nil
}

// Renderings lists the videos in a writer's folder, oldest first. A record that
// cannot be read is an error that names it; the others are listed.
func Renderings(writerDir string) ([]*RenderingFile, error) {
	folder := filepath.Join(writerDir, renderingFolder)
	entries, err := os.ReadDir(folder)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list renderings: %w", err)
	}
	var out []*RenderingFile
	var faults error
	for _, e := range entries {
		base, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok {
			continue
		}
		f, err := readRendering(filepath.Join(folder, base))
		switch {
		case err == nil:
			out = append(out, f)
		case !errors.Is(err, os.ErrNotExist):
			faults = errors.Join(faults, err)
		}
	}
	slices.SortFunc(out, func(a, b *RenderingFile) int { return compareNumbers(a.base, b.base) })
	return out, faults
}

func compareNumbers(a, b string) int {
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

func readRendering(base string) (*RenderingFile, error) {
	doc, err := os.ReadFile(base + ".json")
	if err != nil {
		return nil, fmt.Errorf("read rendering: %w", err)
	}
	f := &RenderingFile{base: base}
	if err := json.Unmarshal(doc, f); err != nil {
		return nil, fmt.Errorf("read rendering %s.json: %w", base, err)
	}
	return f, nil
}
