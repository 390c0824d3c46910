package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/kymogram/kymogram/server/internal/catalog/still"
)

// Copy writes the database at from, which a server may be using, to a new file as
// it is at one moment, with a mirror of its own. It returns the highest LSN of the
// store that it knows.
func Copy(ctx context.Context, from, to string) (highest uint64, err error) {
	plain, err := isPlain(from)
	if err != nil {
		return 0, failure("copy "+from, err)
	}
	vfs := vfsName
	if plain { // of a version before checksums and mirrors: its first start makes both
		vfs = still.SystemVFS()
	}
	err = reading(from, func(db *sql.DB) error {
		if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		_, err := db.ExecContext(ctx, `VACUUM INTO ?`, still.Target(to, vfs))
		return err
	})
	if err != nil {
		return 0, failure("copy "+from, err)
	}
	if err := syncFile(to); err != nil {
		return 0, fmt.Errorf("copy %s: %w", from, err)
	}
	err = reading(to, func(db *sql.DB) error {
		if err := db.QueryRowContext(ctx, `SELECT coalesce(max(applied_lsn), 0) FROM runs`).Scan(&highest); err != nil {
			return err
		}
		if plain {
			return nil
		}
		return createMirror(ctx, db, mirrorDir(to))
	})
	return highest, failure("read the copy "+to, err)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
