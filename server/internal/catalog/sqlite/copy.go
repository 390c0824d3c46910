package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
)

// Copy writes the database at from, which a server may be using, to a new file as
// it is at one moment, with a mirror of its own. It returns the highest LSN of the
// store that it knows.
func Copy(ctx context.Context, from, to string) (highest uint64, err error) {
	err = reading(from, func(db *sql.DB) error {
		_, err := db.ExecContext(ctx, `VACUUM INTO ?`, to)
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
		if plain, err := isPlain(to); plain || err != nil {
			return err // of a version before mirrors: its first start makes one
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
