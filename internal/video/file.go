package video

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

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
func (v *Renderer) keep(one *video) error {
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
