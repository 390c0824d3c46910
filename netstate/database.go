package netstate

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"
)

// schema is the compute subnet's, and below it what records need. Both languages
// and the subnet's own programs open the same file.
const schema = `
CREATE TABLE IF NOT EXISTS miner (uid INTEGER PRIMARY KEY, ss58_address TEXT UNIQUE);
CREATE TABLE IF NOT EXISTS miner_details (id INTEGER PRIMARY KEY, hotkey TEXT UNIQUE, details TEXT, no_specs_count INTEGER DEFAULT 0);
CREATE TABLE IF NOT EXISTS tb (id INTEGER PRIMARY KEY, hotkey TEXT, details TEXT);
CREATE TABLE IF NOT EXISTS challenge_details (uid INTEGER, ss58_address TEXT, success BOOLEAN, elapsed_time REAL, difficulty INTEGER,
	created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP,
	FOREIGN KEY (uid) REFERENCES miner(uid) ON DELETE CASCADE, FOREIGN KEY (ss58_address) REFERENCES miner(ss58_address) ON DELETE CASCADE);
CREATE INDEX IF NOT EXISTS idx_uid ON challenge_details (uid);
CREATE INDEX IF NOT EXISTS idx_ss58_address ON challenge_details (ss58_address);
CREATE TABLE IF NOT EXISTS blacklist (id INTEGER PRIMARY KEY, hotkey TEXT UNIQUE, details TEXT);
CREATE TABLE IF NOT EXISTS allocation (id INTEGER PRIMARY KEY, hotkey TEXT UNIQUE, details TEXT);
CREATE TABLE IF NOT EXISTS wandb_runs (hotkey TEXT PRIMARY KEY, run_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS pog_stats (id INTEGER PRIMARY KEY AUTOINCREMENT, hotkey TEXT, gpu_name TEXT, num_gpus INTEGER,
	created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS stats (uid INTEGER PRIMARY KEY, hotkey TEXT NOT NULL, gpu_specs TEXT, score REAL, allocated BOOLEAN, own_score BOOLEAN,
	reliability_score REAL, created_at TIMESTAMP DEFAULT CURRENT_TIMESTAMP);
CREATE TABLE IF NOT EXISTS state_self (id INTEGER PRIMARY KEY CHECK (id = 1), machine BLOB NOT NULL, identity TEXT NOT NULL DEFAULT '');
CREATE TABLE IF NOT EXISTS state_sequence (place TEXT PRIMARY KEY, last INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS state_pending (place TEXT, name TEXT, value TEXT NOT NULL, PRIMARY KEY (place, name));
CREATE TABLE IF NOT EXISTS state_seen (place TEXT PRIMARY KEY, hash TEXT NOT NULL, envelope TEXT NOT NULL, counted INTEGER NOT NULL DEFAULT 0);
CREATE TABLE IF NOT EXISTS state_proof (place TEXT PRIMARY KEY, proof TEXT NOT NULL);
`

// busyMs is how long a process waits for another one's transaction.
const busyMs = 30_000

// ComputeDb is a participant's local database, as the compute subnet has it: who was
// challenged with what result, and which run is ours. It also holds what signed
// records need: this machine's number, sequences, changes that wait, and what was seen of others. It is
// safe for concurrent use, also by several processes, of both languages.
//
// It holds the secret that encrypted specs are read with: let no other user open it.
type ComputeDb struct {
	mu   sync.Mutex
	conn *sql.Conn
	lane uint64 // of this process, see nextSequence
}

// OpenComputeDb takes one connection of a SQLite database and makes the tables that
// it lacks. Any driver of database/sql will do, such as modernc.org/sqlite.
func OpenComputeDb(ctx context.Context, db *sql.DB) (*ComputeDb, error) {
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, fmt.Errorf("open the local database: %w", err)
	}
	var lane [4]byte
	_, _ = rand.Read(lane[:]) // never fails
	d := &ComputeDb{conn: conn, lane: uint64(binary.BigEndian.Uint32(lane[:])) % lanes}
	if err := d.prepare(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("prepare the local database: %w", err), conn.Close())
	}
	return d, nil
}

func (d *ComputeDb) prepare(ctx context.Context) error {
	// A sequence that a record leaves with must be on disk: synchronous is full.
	for _, line := range []string{
		fmt.Sprintf("PRAGMA busy_timeout = %d", busyMs), "PRAGMA journal_mode = WAL", "PRAGMA synchronous = FULL", "PRAGMA trusted_schema = OFF",
	} {
		if err := d.patient(ctx, line); err != nil {
			return err
		}
	}
	return d.write(ctx, func(tx execer) error {
		if _, err := tx.ExecContext(ctx, schema); err != nil {
			return err
		}
		if err := countingSeen(ctx, tx); err != nil {
			return err
		}
		machine := make([]byte, 16)
		_, _ = rand.Read(machine) // never fails
		_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO state_self (id, machine) VALUES (1, ?)", machine)
		return err
	})
}

// countingSeen adds a column to what programs of before made: whether the hotkey of a
// record counted when it was read. A record that did not is a note, see strangers.go.
func countingSeen(ctx context.Context, tx execer) error {
	var there bool
	err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM pragma_table_info('state_seen') WHERE name = 'counted'").Scan(&there)
	if err == nil && !there {
		_, err = tx.ExecContext(ctx, "ALTER TABLE state_seen ADD COLUMN counted INTEGER NOT NULL DEFAULT 0")
	}
	return err
}

// patient repeats a pragma: the change to WAL does not wait for other processes by itself.
func (d *ComputeDb) patient(ctx context.Context, line string) (err error) {
	for range 200 {
		if _, err = d.conn.ExecContext(ctx, line); err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
	return err
}

// Close gives the connection back. The *sql.DB stays the caller's.
func (d *ComputeDb) Close() error { return d.conn.Close() }

// execer is what runs inside a transaction.
type execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// write runs act in a transaction that other processes wait for from its beginning.
func (d *ComputeDb) write(ctx context.Context, act func(execer) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.conn.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		return err
	}
	err := act(d.conn)
	if err == nil {
		_, err = d.conn.ExecContext(ctx, "COMMIT")
	}
	if err != nil { // ctx may have ended: the rollback is due all the same
		_, back := d.conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		return errors.Join(err, back)
	}
	return nil
}

// exec is a transaction of one statement.
func (d *ComputeDb) exec(ctx context.Context, query string, args ...any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, err := d.conn.ExecContext(ctx, query, args...)
	return err
}

// row reads one row into dest; false when there is none.
func (d *ComputeDb) row(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	err := d.conn.QueryRowContext(ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// rows reads all rows, each by scan.
func (d *ComputeDb) rows(ctx context.Context, query string, args []any, scan func(*sql.Rows) error) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	rows, err := d.conn.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := scan(rows); err != nil {
			return err
		}
	}
	return rows.Err()
}
