package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// mirrorDir is the folder of a database's mirror.
func mirrorDir(path string) string { return path + "-mirror" }

func readPosition(ctx context.Context, q tables.Querier) (mirror.Position, error) {
	var lsn, chain int64
	err := q.QueryRowContext(ctx, `SELECT lsn, chain FROM position WHERE id = 0`).Scan(&lsn, &chain)
	return mirror.Position{LSN: uint64(lsn), Chain: uint64(chain)}, err
}

func setPosition(ctx context.Context, tx *transaction, at mirror.Position) error {
	return tables.Exec(ctx, tx, `UPDATE position SET lsn = ?, chain = ? WHERE id = 0`, int64(at.LSN), int64(at.Chain))
}

// openMirror opens the mirror of a database that agrees with it.
func (d *DB) openMirror(ctx context.Context) (err error) {
	if d.mirror, err = mirror.Open(mirrorDir(d.path), d.log); err != nil {
		return err
	}
	d.openMark()
	if d.mirror.Unfinished {
		return d.checkpoint(ctx)
	}
	return nil
}

// begin begins a transaction that agrees with the mirror, which other processes write,
// too: who holds SQLite's lock is alone with it.
func (d *DB) begin(ctx context.Context) (err error) {
	for range meetings {
		if err := d.catchUp(ctx); err != nil {
			return err
		}
		if err := tables.Exec(ctx, d.tx, `BEGIN IMMEDIATE`); err != nil {
			return d.tx.abort(ctx, err)
		}
		if err = d.meetMirror(ctx); err == nil {
			return nil
		}
		if err = d.tx.abort(ctx, err); len(d.behind) == 0 {
			return err
		}
	}
	return err
}

// meetings is how often a transaction begins anew after it took over what the mirror
// has: other processes, too, may fail to commit on a full disk.
const meetings = 3

// meetMirror reads what another process wrote.
func (d *DB) meetMirror(ctx context.Context) error {
	at, err := readPosition(ctx, d.tx)
	if err == nil && (d.mirror == nil || d.guest || d.mirror.Last != at || d.mirror.Stale()) {
		return d.reopenMirror(at)
	}
	return err
}

// catchUp stores what the mirror has and the database refused. It is a transaction of
// its own, without foreign keys: rows come in any order, and to replace one must not
// delete those that name it.
func (d *DB) catchUp(ctx context.Context) (err error) {
	if len(d.behind) == 0 {
		return nil
	}
	if err := d.enforce(ctx, false); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.enforce(ctx, true)) }()
	if err := tables.Exec(ctx, d.tx, `BEGIN IMMEDIATE`); err != nil {
		return d.tx.abort(ctx, err)
	}
	if err := d.storeBehind(ctx); err != nil {
		return d.tx.abort(ctx, err)
	}
	if err := tables.Exec(ctx, d.tx, `COMMIT`); err != nil {
		return d.tx.abort(ctx, err)
	}
	d.behind = nil
	return nil
}

// storeBehind passes over what another process has stored meanwhile.
func (d *DB) storeBehind(ctx context.Context) error {
	at, err := readPosition(ctx, d.tx)
	if err != nil {
		return err
	}
	for _, m := range d.behind {
		if m.at.LSN <= at.LSN {
			continue
		}
		if err := storeRows(ctx, d.tx, d.touched.tables, m.rows); err != nil {
			return err
		}
		at = m.at
	}
	return setPosition(ctx, d.tx, at)
}

// enforce turns foreign keys on or off. SQLite does it as it parses, so the statement
// is not one that is kept.
func (d *DB) enforce(ctx context.Context, on bool) error {
	_, err := d.tx.conn.ExecContext(ctx, fmt.Sprintf(`PRAGMA foreign_keys = %t`, on))
	return err
}

func (d *DB) reopenMirror(at mirror.Position) (err error) {
	if d.mirror != nil {
		_ = d.mirror.Close() // all it wrote is durable
	}
	if d.mirror, err = mirror.Open(mirrorDir(d.path), d.log); err != nil {
		return err
	}
	if d.mirror.Last != at || len(d.mirror.Damage) > 0 {
		if d.behind, err = missingSince(mirrorDir(d.path), at); err != nil {
			return err
		}
		return model.Errorf(model.CodeUnavailable, "the catalog and its mirror disagree").
			WithHint("Restart the server, or run `kymogram data repair`: both make them agree again.")
	}
	return nil
}

// missingSince are the changes behind one that a mirror has: those of a process that
// could not commit them. There are none where the mirror is damaged or of another history.
func missingSince(dir string, at mirror.Position) (missing []missed, err error) {
	shared := false
	s, err := mirror.Read(dir, nil, func(pos mirror.Position, rows []mirror.Row) error {
		shared = shared || pos == at
		if pos.LSN > at.LSN {
			missing = append(missing, missed{pos, rows})
		}
		return nil
	})
	if err != nil || len(s.Damage) > 0 || s.Base == nil || !shared && s.Base.Position != at {
		return nil, err
	}
	return missing, nil
}

// maxTouched is after how many changed rows the file takes over SQLite's log: some
// megabytes of pages.
const maxTouched = 2000

// tidy lets the file take over a log that became large.
func (d *DB) tidy(ctx context.Context) {
	if d.since += len(d.touched.rows); d.since < maxTouched || d.guest || len(d.behind) > 0 {
		return
	}
	if err := d.checkpoint(context.WithoutCancel(ctx)); err != nil {
		d.log.Warn("the catalog's log was not taken over", "err", err)
	}
}

// checkpoint moves SQLite's log into the file. The mirror knows when: what is cut
// from a log that the file has taken over leaves a mixture of old and new pages.
func (d *DB) checkpoint(ctx context.Context) error {
	if err := d.alone(ctx, func() error { return d.mirror.BeginCheckpoint(ctx) }); err != nil {
		return err
	}
	d.since = 0
	// What a reader still needs of the log stays there; the next one takes it.
	if err := tables.Exec(ctx, d.tx, `PRAGMA wal_checkpoint(PASSIVE)`); err != nil {
		return err
	}
	return d.alone(ctx, func() error { return d.mirror.EndCheckpoint() })
}

// alone writes to the mirror while no other process does. The database is not changed.
func (d *DB) alone(ctx context.Context, write func() error) error {
	if err := d.begin(ctx); err != nil {
		return err
	}
	return d.tx.abort(ctx, write())
}

// MirrorBytes is what the mirror takes on disk.
func (d *DB) MirrorBytes() int64 {
	if m := d.currentMirror(); m != nil {
		return m.Size()
	}
	return 0
}

func (d *DB) currentMirror() *mirror.Mirror {
	defer d.writes.Turn()()
	return d.mirror
}

// Run keeps the mirror small until ctx ends.
func (d *DB) Run(ctx context.Context) error {
	tick := time.NewTicker(10 * time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		if err := d.Compact(ctx, false); err != nil && ctx.Err() == nil {
			d.log.Warn("the catalog's mirror was not made smaller", "err", err)
		}
	}
}

// Compact replaces the mirror's changes by a snapshot, when that pays or always.
func (d *DB) Compact(ctx context.Context, always bool) error {
	m := d.currentMirror()
	if m == nil || !always && !m.Due() {
		return nil
	}
	return snapshotOf(ctx, d.reader.DB, d.touched.tables, m.WriteSnapshot)
}

type snapshotWriter = func(ctx context.Context, h mirror.Header, rows mirror.Rows) error

// snapshotOf hands every row of a database, as of one moment, to write.
func snapshotOf(ctx context.Context, db *sql.DB, known map[string]*mirrored, write snapshotWriter) error {
	tx, err := db.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	h := mirror.Header{}
	if h.Position, err = readPosition(ctx, tx); err != nil {
		return fmt.Errorf("read the position: %w", err)
	}
	if h.Schema, err = schemaOf(ctx, tx); err != nil {
		return err
	}
	return write(ctx, h, everyRow(ctx, tx, known))
}

// schemaOf is the version of the tables; 0 when there are none.
func schemaOf(ctx context.Context, q tables.Querier) (version int64, err error) {
	err = q.QueryRowContext(ctx, `SELECT coalesce(max(version_id), 0) FROM goose_db_version WHERE is_applied`).Scan(&version)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read the database's version: %w", err)
	}
	return version, nil
}
