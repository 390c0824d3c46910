package backup

import (
	"context"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// Restore makes a data folder from a backup; every file is compared with its checksum.
// With damaged set, files that are not what was saved come as they are, and are named.
func Restore(ctx context.Context, from, to string, damaged bool, bar progress.Bar) (*Copied, error) {
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
	c, err := startCopy(from, to, bar)
	if err != nil {
		return nil, err
	}
	var changed []string
	for _, row := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		had := len(c.rows)
		if err := c.putFile(from, filepath.FromSlash(row.Path)); err != nil {
			return nil, err
		}
		if len(c.rows) == had+1 && c.rows[had] == row {
			continue
		}
		if !damaged {
			return nil, model.Errorf(model.CodeInternal, "%s in the backup is not what was saved", row.Path).
				WithHint("take another backup; `kymogram data verify --data %s` lists all that is damaged. Is there no other? Restore with --damaged: what is whole is served, and the first start repairs the catalog from its mirror", from)
		}
		changed = append(changed, notSaved(row))
	}
	done, err := c.finish("restored", began)
	if err == nil {
		done.Damaged = changed
	}
	return done, err
}
