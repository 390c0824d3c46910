package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// maxLost bounds the rows that are named as lost.
const maxLost = 20

// rebuild makes the database anew from its mirror and sets the old one aside.
func (d *DB) rebuild(ctx context.Context, v *verdict) error {
	d.log.Warn("the catalog is made anew from its mirror", "why", v.rebuild, "catalog", d.path)
	made, err := d.build(ctx, v.state)
	if err != nil {
		return fmt.Errorf("make the catalog anew: %w", err)
	}
	aside := d.asideName()
	for _, suffix := range []string{"", "-wal"} {
		err := os.Rename(d.path+suffix, aside+suffix)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("set aside the catalog: %w", err)
		}
		if err == nil {
			d.health.SetAside = append(d.health.SetAside, aside+suffix)
		}
	}
	d.health.Rebuilt = v.rebuild
	if len(v.state.Damage) > 0 {
		v.renew = v.state.Damage[0]
		d.health.Lost = append(v.state.Damage, d.health.Lost...)
		d.log.Error("the catalog and its mirror are damaged: some changes of runs may be lost, and every key was revoked", "lost", d.health.Lost, "keys", d.health.Closed)
	}
	return d.put(made)
}

// put gives a database that was made the place of the one before.
func (d *DB) put(made string) error {
	// A log or an index of it that belongs to another file would be taken for its own.
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(d.path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("put the catalog in its place: %w", err)
		}
	}
	if err := os.Rename(made, d.path); err != nil {
		return fmt.Errorf("put the catalog in its place: %w", err)
	}
	return wal.OS{}.SyncDir(filepath.Dir(d.path))
}

// build makes a database from the mirror, under another name.
func (d *DB) build(ctx context.Context, s *mirror.State) (path string, err error) {
	path = d.path + ".rebuilt"
	if err := makeEmpty(path); err != nil {
		return "", err
	}
	if err := using(path, vfsName, loading, func(db *sql.DB) error { return d.load(ctx, db, s) }); err != nil {
		return "", err
	}
	return path, syncFile(path)
}

func (d *DB) load(ctx context.Context, db *sql.DB, s *mirror.State) error {
	provider, err := migrations(db)
	if err != nil {
		return err
	}
	if _, err := provider.UpTo(ctx, s.Base.Schema); err != nil {
		return fmt.Errorf("make the tables: %w", err)
	}
	return inTransaction(ctx, db, func(tx *transaction, known map[string]*mirrored) error {
		partial := len(s.Damage) > 0
		store := func(r mirror.Row) error {
			err := storeRows(ctx, tx, known, []mirror.Row{r})
			if err == nil || !partial || ctx.Err() != nil || model.CodeOf(failure("", err)) == model.CodeDiskFull {
				return err
			}
			if len(d.health.Lost) < maxLost {
				d.health.Lost = append(d.health.Lost, err.Error())
			}
			return nil
		}
		got, err := mirror.Read(mirrorDir(d.path), store, func(_ mirror.Position, rows []mirror.Row) error {
			for _, r := range rows {
				if err := store(r); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		if partial {
			if err := errors.Join(d.salvage(ctx, known, s.Base.Schema, store), prune(ctx, tx)); err != nil {
				return err
			}
			// What revoked a key may be among what is lost.
			done, err := tx.ExecContext(ctx, `UPDATE keys SET revoked_ns = ? WHERE revoked_ns = 0`, time.Now().UnixNano())
			if err != nil {
				return err
			}
			closed, err := done.RowsAffected()
			if d.health.Closed = int(closed); err != nil {
				return err
			}
		}
		return setPosition(ctx, tx, got.Last)
	})
}

// catchUpFrom stores what only the mirror has.
func (d *DB) catchUpFrom(ctx context.Context, v *verdict) error {
	d.health.CaughtUp = len(v.missing)
	d.log.Info("the catalog catches up with its mirror", "changes", len(v.missing))
	return using(d.path, vfsName, loadingLog, func(db *sql.DB) error {
		return inTransaction(ctx, db, func(tx *transaction, known map[string]*mirrored) error {
			for _, m := range v.missing {
				if err := storeRows(ctx, tx, known, m.rows); err != nil {
					return err
				}
			}
			return setPosition(ctx, tx, v.missing[len(v.missing)-1].at)
		})
	})
}

// inTransaction runs work on a connection of its own.
func inTransaction(ctx context.Context, db *sql.DB, work func(*transaction, map[string]*mirrored) error) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	tx := &transaction{conn, map[string]*sql.Stmt{}}
	known, err := mirroredTables(ctx, conn)
	if err == nil {
		err = tables.Exec(ctx, tx, `BEGIN IMMEDIATE`)
	}
	if err == nil {
		err = work(tx, known)
	}
	if err == nil {
		err = tables.Exec(ctx, tx, `COMMIT`)
	}
	return errors.Join(err, tx.close())
}

// adoptPlain takes a database from before checksums: its rows make a mirror, and
// the mirror makes a database with checksums.
func (d *DB) adoptPlain(ctx context.Context, v *verdict) error {
	if v.state.Last.LSN > 0 || len(v.state.Damage) > 0 {
		// Somebody put an older catalog here; its mirror is not the one that is there.
		d.health.Renewed = "the catalog is of an older version"
		if err := d.setMirrorAside(); err != nil {
			return err
		}
	} else if err := os.RemoveAll(mirrorDir(d.path)); err != nil { // of a start that was cut short
		return fmt.Errorf("make the catalog's mirror: %w", err)
	}
	err := using(d.path, "", writing, func(db *sql.DB) error {
		if err := migrate(ctx, db); err != nil {
			return err
		}
		return createMirror(ctx, db, mirrorDir(d.path))
	})
	if err != nil {
		return err
	}
	s, err := mirror.Read(mirrorDir(d.path), nil, nil)
	if err != nil {
		return err
	}
	made, err := d.build(ctx, s)
	if err != nil {
		return fmt.Errorf("give the catalog checksums: %w", err)
	}
	return d.put(made)
}

// makeEmpty makes a database without tables.
func makeEmpty(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(emptyFile())
	return errors.Join(err, f.Sync(), f.Close(), wal.OS{}.SyncDir(filepath.Dir(path)))
}
