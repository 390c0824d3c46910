package backup

import (
	"context"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// Restore makes a data folder from a backup; every file is compared with its checksum.
func Restore(ctx context.Context, from, to string, bar progress.Bar) (*Copied, error) {
	began := time.Now()
	m, err := readManifest(from)
	if err != nil {
		return nil, err
	}
	if m == nil && served(from) {
		return nil, model.Errorf(model.CodeConflict, "%s is no backup any more: it was served or changed since it was saved", from).
			WithHint("make a backup of it as it is now: `kymogram data backup --data %s --to NEW`; then restore from NEW", from)
	}
	if m == nil {
		return nil, model.Errorf(model.CodeNotFound, "%s is no complete backup: it has no %s", from, manifestFile).WithHint("name the folder that `kymogram data backup --to` made")
	}
	c, err := startCopy(to, bar)
	if err != nil {
		return nil, err
	}
	for i, row := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := c.putFile(from, filepath.FromSlash(row.Path)); err != nil {
			return nil, err
		}
		if len(c.rows) != i+1 || c.rows[i] != row {
			return nil, model.Errorf(model.CodeInternal, "%s in the backup is not what was saved", row.Path).WithHint("take another backup; `kymogram data verify --data %s` lists all that is damaged", from)
		}
	}
	return c.finish("restored", began)
}
