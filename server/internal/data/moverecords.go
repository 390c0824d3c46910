package data

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

// Records is what became of the signed records of a folder.
type Records struct {
	Records int64  `json:"records"`
	Aside   string `json:"aside,omitempty"` // the folder's own
}

// recordFiles have the folder's signed records.
func (f Folder) recordFiles() []string {
	return []string{f.StateMark(), f.States() + "-mirror", f.States() + "-shm", f.States() + "-wal", f.States()}
}

// recordsOut copies signed records into the database, and sets the folder's aside.
func (f Folder) recordsOut(ctx context.Context, m *Move, out *Moved) error {
	there, err := exists(f.States())
	if err != nil || !there {
		return err
	}
	if err := f.carryRecords(ctx, m, out); err != nil {
		return err
	}
	out.Records.Aside = f.States() + ".moved-" + time.Now().UTC().Format("20060102T150405.000000000")
	if err := os.Mkdir(out.Records.Aside, 0o700); err != nil {
		return err
	}
	for _, path := range f.recordFiles() {
		err := os.Rename(path, filepath.Join(out.Records.Aside, filepath.Base(path)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set the signed records aside: %w", err)
		}
	}
	return errors.Join(wal.OS{}.SyncDir(out.Records.Aside), wal.OS{}.SyncDir(string(f)))
}

// recordsBack copies signed records into the folder. What an interrupted copy left is made anew.
func (f Folder) recordsBack(ctx context.Context, m *Move, out *Moved) error {
	for _, path := range f.recordFiles() {
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return f.carryRecords(ctx, m, out)
}

func (f Folder) carryRecords(ctx context.Context, m *Move, out *Moved) (err error) {
	file, err := statelog.OpenWith(ctx, f.States(), f.StateMark(), time.Now, m.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := file.Broken(); err != nil {
		return err
	}
	shared, err := statelog.OpenShared(ctx, m.Catalog, time.Now, m.Log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, shared.Close()) }()
	from, to := file, shared
	if m.Back {
		from, to = shared, file
	}
	total, err := from.Count(ctx)
	if err != nil {
		return err
	}
	bar := progress.Count(m.Shown, total, "signed records")
	defer bar.End()
	out.Records = &Records{Records: total}
	return statelog.Carry(ctx, from, to, filepath.Join(string(f), LogKeyFile), bar.Done)
}
