package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
)

// Copy writes the database at from, which a server may be using, to a new file as
// it is at one moment. It returns the highest LSN of the store that it knows.
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
		return db.QueryRowContext(ctx, `SELECT coalesce(max(applied_lsn), 0) FROM runs`).Scan(&highest)
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

// Inventory is what a database file holds.
type Inventory struct {
	Bytes    int64    `json:"bytes"`
	Runs     int      `json:"runs"`
	Trash    int      `json:"trash"`
	Purged   int      `json:"purged"` // freed for good, by a person or by retention
	Writers  int      `json:"writers"`
	Keys     int      `json:"keys"`
	OldestNs int64    `json:"oldest_ns"` // last sign of life of the oldest run
	Damage   []string `json:"damage"`
}

// Inspect counts what a database holds, which a server may be using; with whole
// set SQLite checks every page and every reference too.
func Inspect(ctx context.Context, path string, whole bool) (*Inventory, error) {
	out := &Inventory{Damage: []string{}}
	for _, name := range []string{path, path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			out.Bytes += info.Size()
		} else if name == path {
			return nil, fmt.Errorf("inspect the catalog: %w", err)
		}
	}
	err := reading(path, func(db *sql.DB) error {
		err := db.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM runs WHERE deleted_ns > 0),
			(SELECT count(DISTINCT run) FROM identities WHERE purged_ns > 0), (SELECT count(*) FROM writers), (SELECT count(*) FROM keys), (SELECT coalesce(min(seen_ns), 0) FROM runs)`).
			Scan(&out.Runs, &out.Trash, &out.Purged, &out.Writers, &out.Keys, &out.OldestNs)
		if err == nil && whole {
			err = out.check(ctx, db)
		}
		return err
	})
	return out, failure("inspect "+path, err)
}

func (i *Inventory) check(ctx context.Context, db *sql.DB) error {
	lines, err := collect(ctx, db, scanText, `PRAGMA integrity_check`)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if line != "ok" {
			i.Damage = append(i.Damage, line)
		}
	}
	broken, err := collect(ctx, db, scanText, `SELECT "table" || ' names a missing ' || "parent" FROM pragma_foreign_key_check`)
	i.Damage = append(i.Damage, broken...)
	return err
}

func scanText(rows *sql.Rows) (line string, err error) {
	err = rows.Scan(&line)
	return line, err
}

// reading opens a database that must exist, for one use.
func reading(path string, use func(*sql.DB) error) (err error) {
	dsn := "file:" + (&url.URL{Path: path}).EscapedPath() + fmt.Sprintf("?mode=rw&_pragma=busy_timeout(%d)&_pragma=trusted_schema(0)", busyTimeout.Milliseconds())
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	defer func() { err = errors.Join(err, db.Close()) }()
	return use(db)
}
