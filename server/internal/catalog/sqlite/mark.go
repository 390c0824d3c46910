package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// Older says that a database and its mirror end before the change that a mark names, as
// older copies of both do; "" when they do not. A server may be using them.
func Older(ctx context.Context, path, mark string) (string, error) {
	noted := mirror.ReadMark(mark) // first: both go on
	if noted.LSN == 0 {
		return "", nil
	}
	var at mirror.Position
	// A damaged one says nothing.
	_ = reading(path, func(db *sql.DB) (err error) {
		at, err = readPosition(ctx, db)
		return err
	})
	s, err := mirror.Read(mirrorDir(path), nil, nil)
	if err != nil {
		return "", failure("compare the catalog with its mark", err)
	}
	return older(noted, at, s.Last), ctx.Err()
}

func older(noted mirror.Position, have ...mirror.Position) string {
	var newest mirror.Position
	for _, at := range have {
		if at.LSN > newest.LSN {
			newest = at
		}
	}
	switch {
	case noted.LSN > newest.LSN:
		return fmt.Sprintf("the catalog and its mirror end at change %d, and there were %d: they are older copies, or later changes were cut from both. Keys that were revoked since may be valid again", newest.LSN, noted.LSN)
	case noted.LSN == newest.LSN && noted != newest:
		return fmt.Sprintf("change %d of the catalog and of its mirror is another one than there was: they are copies of another history", noted.LSN)
	}
	return ""
}

// compareMark tells when both are older than they were.
func (d *DB) compareMark(v *verdict) {
	if d.health.Older = older(mirror.ReadMark(d.markPath), v.at, v.state.Last); d.health.Older != "" {
		d.log.Error("the catalog is older than it was; look through `kymogram key list`", "why", d.health.Older, "catalog", d.path)
	}
}

// openMark begins to note changes. A catalog works without.
func (d *DB) openMark() {
	if d.markPath == "" {
		return
	}
	err := os.MkdirAll(filepath.Dir(d.markPath), 0o700)
	if err == nil {
		d.mark, err = os.OpenFile(d.markPath, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		d.log.Warn("the catalog's mark cannot be written: older copies of it would not be noticed", "err", err)
		return
	}
	if !d.guest {
		d.note(d.mirror.Last)
	}
}

// note keeps how far the mirror is. Without it only an older copy is not noticed.
func (d *DB) note(at mirror.Position) {
	if d.mark != nil {
		_ = mirror.WriteMark(d.mark, at)
	}
}
