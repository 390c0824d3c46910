package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// Inventory is what a database file holds.
type Inventory struct {
	Bytes       int64    `json:"bytes"`
	MirrorBytes int64    `json:"mirror_bytes"`
	Runs        int      `json:"runs"`
	Trash       int      `json:"trash"`
	Purged      int      `json:"purged"` // freed for good, by a person or by retention
	Writers     int      `json:"writers"`
	Keys        int      `json:"keys"`
	OldestNs    int64    `json:"oldest_ns"` // last sign of life of the oldest run
	Damage      []string `json:"damage"`
	Notes       []string `json:"notes,omitempty"` // what is no damage, and good to know
}

// Inspect counts what a database holds, which a server may be using; with whole
// set every page and every row is compared with its checksum and with the mirror.
func Inspect(ctx context.Context, path string, whole bool) (*Inventory, error) {
	i := &inspection{path: path, out: &Inventory{Damage: []string{}}}
	if err := i.measure(); err != nil {
		return nil, fmt.Errorf("inspect the catalog: %w", err)
	}
	look := i.verify
	if !whole {
		look = func(ctx context.Context) error {
			return reading(path, func(db *sql.DB) error { return i.count(ctx, db) })
		}
	}
	err := look(ctx)
	return i.out, failure("inspect "+path, err)
}

type inspection struct {
	path string
	out  *Inventory
}

func (i *inspection) measure() error {
	for _, name := range []string{i.path, i.path + "-wal"} {
		if info, err := os.Stat(name); err == nil {
			i.out.Bytes += info.Size()
		}
	}
	err := filepath.WalkDir(mirrorDir(i.path), func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // a file that is gone has no size
		}
		if info, err := d.Info(); err == nil {
			i.out.MirrorBytes += info.Size()
		}
		return nil
	})
	if i.out.Bytes+i.out.MirrorBytes == 0 && err == nil {
		_, err = os.Stat(i.path)
	}
	return err
}

func (i *inspection) count(ctx context.Context, q tables.Querier) error {
	o := i.out
	return q.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM runs), (SELECT count(*) FROM runs WHERE deleted_ns > 0),
		(SELECT count(DISTINCT run) FROM identities WHERE purged_ns > 0), (SELECT count(*) FROM writers), (SELECT count(*) FROM keys), (SELECT coalesce(min(seen_ns), 0) FROM runs)`).
		Scan(&o.Runs, &o.Trash, &o.Purged, &o.Writers, &o.Keys, &o.OldestNs)
}

func (i *inspection) damage(format string, args ...any) {
	i.out.Damage = append(i.out.Damage, fmt.Sprintf(format, args...))
}

func (i *inspection) verify(ctx context.Context) error {
	file, err := checkPages(i.path)
	if err != nil {
		return err
	}
	if !file.whole() {
		i.damage("%s: %s", filepath.Base(i.path), file)
		return i.compare(ctx, nil, mirror.Position{})
	}
	before := *i.out
	err = reading(i.path, func(db *sql.DB) error {
		*i.out = before
		if err := errors.Join(i.count(ctx, db), i.check(ctx, db)); err != nil {
			return err
		}
		if file.plain {
			i.out.Notes = append(i.out.Notes, "the catalog is of an older version, without checksums and mirror: the next start adds both")
			return nil
		}
		return i.beside(ctx, db)
	})
	if err != nil && damaged(err) {
		i.damage("%s: %v", filepath.Base(i.path), err)
		return nil
	}
	return err
}

// check lets SQLite compare its trees and indexes.
func (i *inspection) check(ctx context.Context, q tables.Querier) error {
	lines, err := tables.Collect(ctx, q, tables.ScanText, `PRAGMA integrity_check`)
	if err != nil {
		return err
	}
	for _, line := range lines {
		if line != "ok" {
			i.damage("%s: %s", filepath.Base(i.path), line)
		}
	}
	broken, err := tables.Collect(ctx, q, tables.ScanText, `SELECT "table" || ' names a missing ' || "parent" FROM pragma_foreign_key_check`)
	for _, line := range broken {
		i.damage("%s: %s", filepath.Base(i.path), line)
	}
	return err
}

// beside compares one moment of the database with the mirror.
func (i *inspection) beside(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	at, err := readPosition(ctx, tx)
	if err != nil {
		return err
	}
	return i.compare(ctx, tx, at)
}

// compare reads the mirror, up to a position, beside the database's rows.
func (i *inspection) compare(ctx context.Context, tx *sql.Tx, at mirror.Position) error {
	c := comparison{seed: maphash.MakeSeed(), rows: map[uint64]uint64{}}
	put := func(r mirror.Row) error { c.put(r); return nil }
	s, err := mirror.Read(mirrorDir(i.path), put, func(pos mirror.Position, rows []mirror.Row) error {
		for _, r := range rows {
			if tx != nil && pos.LSN <= at.LSN {
				c.put(r)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, d := range s.Damage {
		i.damage("%s: %s", filepath.Base(mirrorDir(i.path)), d)
	}
	if s.Base == nil {
		i.damage("%s: there is no mirror; the next start makes it anew", filepath.Base(mirrorDir(i.path)))
	}
	if tx == nil || s.Base == nil || len(s.Damage) > 0 {
		return nil
	}
	if err := i.stand(ctx, s, at); err != nil || s.Base.Schema != int64(latestMigration()) || at.LSN < s.Base.Position.LSN {
		return err
	}
	return i.rows(ctx, tx, &c)
}

// stand compares how far both are. A server that goes on meanwhile is ahead of
// what was read first.
func (i *inspection) stand(ctx context.Context, s *mirror.State, at mirror.Position) error {
	name := filepath.Base(i.path)
	if at.LSN > s.Last.LSN {
		i.damage("%s-mirror: it ends at change %d, the catalog at %d", name, s.Last.LSN, at.LSN)
	}
	var now mirror.Position
	err := reading(i.path, func(db *sql.DB) (err error) {
		now, err = readPosition(ctx, db)
		return err
	})
	switch {
	case err != nil:
	case now.LSN+1 < s.Last.LSN, now.LSN < s.Checkpointed:
		i.damage("%s: it is at change %d, its mirror at %d: changes are missing. The next start repairs it, or `kymogram data repair`", name, now.LSN, s.Last.LSN)
	case now.LSN < s.Last.LSN:
		i.out.Notes = append(i.out.Notes, "the catalog catches up with one change of its mirror at the next start, as after any crash")
	}
	return err
}

func (i *inspection) rows(ctx context.Context, tx *sql.Tx, c *comparison) error {
	tables, err := mirroredTables(ctx, tx)
	if err != nil {
		return err
	}
	for row, err := range everyRow(ctx, tx, tables) {
		if err != nil {
			return err
		}
		if !c.take(row) {
			if c.differ++; c.differ <= 3 {
				key, _ := mirror.Values(row.Key)
				i.damage("%s: a row of the table %s is not what the mirror has (key %s)", filepath.Base(i.path), row.Table, model.Clip(fmt.Sprintf("%x", key)))
			}
		}
	}
	if c.differ > 3 {
		i.damage("%s: %d rows are not what the mirror has", filepath.Base(i.path), c.differ)
	}
	if n := len(c.rows); n > 0 {
		i.damage("%s: %d rows of the mirror are missing or others", filepath.Base(i.path), n)
	}
	return nil
}

// comparison holds a checksum for each row of the mirror.
type comparison struct {
	seed   maphash.Seed
	rows   map[uint64]uint64
	differ int
}

func (c *comparison) key(r mirror.Row) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	_, _ = h.WriteString(r.Table) // never fails
	_ = h.WriteByte(0)
	_, _ = h.Write(r.Key)
	return h.Sum64()
}

func (c *comparison) put(r mirror.Row) {
	if r.Values == nil {
		delete(c.rows, c.key(r))
		return
	}
	c.rows[c.key(r)] = maphash.Bytes(c.seed, r.Values)
}

// take reports whether the mirror has the row as it is.
func (c *comparison) take(r mirror.Row) bool {
	key := c.key(r)
	had, ok := c.rows[key]
	delete(c.rows, key)
	return ok && had == maphash.Bytes(c.seed, r.Values)
}

// Missing names those of some runs that no ULID of a database means.
func Missing(ctx context.Context, path string, runs []model.RunID) (missing []model.RunID, err error) {
	err = reading(path, func(db *sql.DB) error {
		missing = nil
		for _, run := range runs {
			var there bool
			if err := db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM ids WHERE id = ?)`, run[:]).Scan(&there); err != nil {
				return err
			}
			if !there {
				missing = append(missing, run)
			}
		}
		return nil
	})
	return missing, failure("compare the catalog with the store", err)
}

// Named are the blobs that runs and artifacts name.
func Named(ctx context.Context, path string) (hashes []string, err error) {
	err = reading(path, func(db *sql.DB) error {
		columns, err := tables.Collect(ctx, db, tables.ScanText, blobColumns) // an older database has fewer tables
		if err != nil || len(columns) == 0 {
			return err
		}
		hashes, err = tables.Collect(ctx, db, tables.ScanText, strings.Join(columns, ` UNION `))
		return err
	})
	return hashes, failure("list the files that runs name", err)
}

// blobColumns gives a query for each column that names blobs: those whose names end so.
const blobColumns = `SELECT format('SELECT "%w" FROM "%w" WHERE "%w" <> ''''', c.name, t.name, c.name) FROM sqlite_schema t, pragma_table_info(t.name) c
	WHERE t.type = 'table' AND t.name <> 'keys' AND (c.name = 'sha256' OR c.name LIKE '%\_sha256' ESCAPE '\')`

// Applied are the runs of a database that are not deleted, and up to which record of
// the store's log each has its updates.
func Applied(ctx context.Context, path string) (lsns map[model.RunID]uint64, err error) {
	lsns = map[model.RunID]uint64{}
	err = reading(path, func(db *sql.DB) error {
		clear(lsns)
		_, err := tables.Collect(ctx, db, func(rows *sql.Rows) (none struct{}, err error) {
			var id []byte
			var lsn int64
			err = rows.Scan(&id, &lsn)
			lsns[model.RunID(id)] = uint64(lsn)
			return none, err
		}, `SELECT id, applied_lsn FROM runs WHERE applied_lsn > 0 AND deleted_ns = 0`)
		return err
	})
	return lsns, failure("compare the catalog with the store", err)
}

// KnowsKey says that a database has the hash of a key, and that it has keys.
func KnowsKey(ctx context.Context, path string, sha256 [32]byte) (known, others bool, err error) {
	err = reading(path, func(db *sql.DB) error {
		return db.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM keys WHERE sha256 = ?), EXISTS (SELECT 1 FROM keys)`, sha256[:]).Scan(&known, &others)
	})
	return known, others, failure("compare the admin key with the catalog", err)
}
