package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/blob/s3"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// Files is what became of the files of a folder.
type Files struct {
	Files int    `json:"files"` // in the bucket by now
	Bytes int64  `json:"bytes"`
	Aside string `json:"aside,omitempty"`
}

// copyFiles puts the files into the bucket. Those that are there already, by their hash, are not
// sent again.
func (f Folder) copyFiles(ctx context.Context, m *Move, out *Moved) (err error) {
	place, err := s3.Parse(m.Blob)
	if err != nil {
		return err
	}
	way, err := os.MkdirTemp("", "kymogram-move-") // not the folder's own: its server may use that
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(way)) }()
	bucket, err := s3.Open(ctx, place, filepath.Join(way, "tmp"), m.owners.Bucket)
	if err != nil {
		return err
	}
	bar := progress.Bytes(m.Shown, SizeOf(f.Blobs()), "files")
	defer bar.End()
	out.Files = &Files{}
	return dir.List(ctx, f.Blobs(), func(e dir.Entry) error {
		file, err := os.Open(filepath.Join(f.Blobs(), e.Path))
		if errors.Is(err, fs.ErrNotExist) {
			return nil // deleted meanwhile
		}
		if err != nil {
			return err
		}
		defer file.Close()
		if err := bucket.Put(ctx, e.Hash, file); err != nil {
			if model.CodeOf(err) == model.CodeInvalid {
				return model.Errorf(model.CodeDamaged, "file %s is damaged: %v", e.Hash, err).WithHint("Move %s away, or restore it from a backup.", filepath.Join(f.Blobs(), e.Path))
			}
			return err
		}
		out.Files.Files, out.Files.Bytes = out.Files.Files+1, out.Files.Bytes+e.Size
		bar.Done(e.Size)
		return nil
	})
}

// setFilesAside moves the folder's files away: a server with a bucket would not look there.
func (f Folder) setFilesAside() (to string, err error) {
	to = f.Blobs() + ".moved-" + time.Now().UTC().Format("20060102T150405.000000000")
	err = os.Rename(f.Blobs(), to)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("set the files aside: %w", err)
	}
	return to, wal.OS{}.SyncDir(string(f))
}
