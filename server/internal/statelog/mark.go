package statelog

import (
	"context"
	"database/sql"
	"fmt"
	"os"
	"path/filepath"

	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// The mark says apart from file and mirror how many records were taken, of all
// projects together: records are never deleted, so fewer are older copies. It is not
// synced, so it may lag and never leads.

// Older says that a file and its mirror hold fewer records than the mark knows; "" when
// they do not. A server may be using them.
func Older(ctx context.Context, path, mark string) (string, error) {
	noted := mirror.ReadMark(mark).LSN // first: they grow
	if noted == 0 {
		return "", nil
	}
	var have, copied uint64
	_ = looking(path, func(db *sql.DB) (err error) { // a damaged or missing one is named elsewhere
		have, err = length(ctx, db)
		return err
	})
	count := func(r mirror.Row) error {
		if r.Table == rowRecord {
			copied++
		}
		return nil
	}
	_, err := mirror.Read(mirrorDir(path), count, func(_ mirror.Position, rows []mirror.Row) error {
		for _, r := range rows {
			_ = count(r)
		}
		return nil
	})
	return older(noted, max(have, copied)), err
}

func older(noted, have uint64) string {
	if have >= noted {
		return ""
	}
	return fmt.Sprintf("there are %d state records, and %d were taken: state.db and its mirror are gone, or older copies", have, noted)
}

func length(ctx context.Context, db *sql.DB) (n uint64, err error) {
	err = db.QueryRowContext(ctx, `SELECT coalesce(sum(size), 0) FROM projects`).Scan(&n)
	return n, err
}

// openMark tells when records are gone, and begins to note how many there are. Records
// are kept without it, too.
func (f *file) openMark(ctx context.Context) (err error) {
	if f.length, err = length(ctx, f.DB); err != nil || f.markPath == "" {
		return err
	}
	if f.health.Older = older(mirror.ReadMark(f.markPath).LSN, f.length); f.health.Older != "" {
		f.log.Error("the state records are older than they were", "why", f.health.Older, "file", f.path)
	}
	err = os.MkdirAll(filepath.Dir(f.markPath), 0o700)
	if err == nil {
		f.mark, err = os.OpenFile(f.markPath, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		f.log.Warn("the mark of the state records cannot be written: older copies of them would not be noticed", "err", err)
	}
	f.note(0)
	return nil
}

// note counts records that are durable.
func (f *file) note(more uint64) {
	if f.length += more; f.mark != nil {
		_ = mirror.WriteMark(f.mark, mirror.Position{LSN: f.length}) // without it only older copies are not noticed
	}
}
