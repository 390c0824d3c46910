package statelog

import (
	"context"
	"crypto/ed25519"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/psql"
)

//go:embed migrations/*.sql
var migrations embed.FS

const (
	// versions is the table that counts migrations.
	versions = "state_version"
	// connections are how many a server has. One of them writes.
	connections = 4
	// patience is how long a write is tried again that found no server that takes writes: a
	// failover takes seconds.
	patience = 20 * time.Second
	// pause is between two tries.
	pause = 100 * time.Millisecond
	// session is what each connection sets: a server that hangs holds up others for that long.
	session = `SET idle_in_transaction_session_timeout = '10s'; SET jit = off; SET max_parallel_workers_per_gather = 0`
)

// database is the place of records in PostgreSQL, which several servers share. It makes writes
// durable, and is repaired and copied with its own tools: there is no mirror.
type database struct {
	worded
	db  *sql.DB
	log *slog.Logger
}

// OpenShared opens the records in the database of a URL, see [psql.Parse], and makes their tables.
func OpenShared(ctx context.Context, place string, now func() time.Time, log *slog.Logger) (*Log, error) {
	config, err := psql.Parse(place)
	if err != nil {
		return nil, err
	}
	psql.Settle(config)
	d := &database{log: log}
	if err := psql.Migrate(ctx, config, migrations, versions); err != nil {
		return nil, d.failure("open the records", err)
	}
	d.db = stdlib.OpenDB(*config, stdlib.OptionAfterConnect(func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, session)
		return err
	}))
	d.db.SetMaxOpenConns(connections)
	d.db.SetMaxIdleConns(connections)
	d.db.SetConnMaxIdleTime(5 * time.Minute)
	d.worded = worded{d.db, &psql.Words{Rename: prefixTables}}
	return newLog(d, now, log), nil
}

// key is that of the Merkle log. The first server makes it, of a seed.
func (d *database) key(ctx context.Context, seed []byte) (ed25519.PrivateKey, error) {
	if _, err := d.db.ExecContext(ctx, `INSERT INTO state_key (id, seed) VALUES (0, $1) ON CONFLICT DO NOTHING`, seed); err != nil {
		return nil, err
	}
	return d.knownKey(ctx)
}

// knownKey is nil where no server made a key.
func (d *database) knownKey(ctx context.Context) (ed25519.PrivateKey, error) {
	var seed []byte
	err := d.db.QueryRowContext(ctx, `SELECT seed FROM state_key`).Scan(&seed)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// write implements [base]. What was done may be done again: a record that was taken is found,
// and rows that are there stay.
func (d *database) write(ctx context.Context, do func(tx *change) error) error {
	for end := time.Now().Add(patience); ; time.Sleep(pause) {
		err := d.try(context.WithoutCancel(ctx), do)
		var unknown psql.Unknown
		if err == nil || !psql.Again(err) && !errors.As(err, &unknown) || time.Now().After(end) || ctx.Err() != nil {
			return err
		}
		d.log.Warn("a write of state records is tried again", "err", err)
	}
}

// try runs a transaction in which each statement sees what others did before it: the first one
// waits for those who write to the same project.
func (d *database) try(ctx context.Context, do func(tx *change) error) error {
	tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	if err != nil {
		return err
	}
	if err := do(&change{transaction: wordedTx{worded{tx, d.words}, tx}}); err != nil {
		_ = tx.Rollback() // the connection may be gone
		return err
	}
	if err := tx.Commit(); err != nil {
		return psql.Unknown{Err: err}
	}
	return nil
}

// failure implements [base].
func (d *database) failure(act string, err error) error {
	var known *model.Error
	var conflict *state.Conflict
	var unknown psql.Unknown
	var said *pgconn.PgError
	switch {
	case errors.As(err, &known), errors.As(err, &conflict):
		return err
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
	case errors.As(err, &said) && said.Code == "53100":
		return model.Errorf(model.CodeDiskFull, "state records: %s: PostgreSQL's disk is full", act).WithHint("Free space there; writing goes on by itself.")
	case psql.Again(err), errors.As(err, &unknown):
		d.log.Error("PostgreSQL cannot be reached", "act", act, "err", err)
		return model.Errorf(model.CodeUnavailable, "state records: %s: PostgreSQL cannot be reached", act).
			WithHint("Look whether it runs and takes writes; signers send their records again.")
	}
	return fmt.Errorf("state records: %s: %w", act, err)
}

// renewable implements [base]: there is one key, and who replaces it forgets the heads.
func (*database) renewable(context.Context) error {
	return errors.New("another key than that of the database signed its heads")
}

// Close implements [base].
func (d *database) Close() error { return d.db.Close() }

// worded asks PostgreSQL what is written for SQLite.
type worded struct {
	in    querier
	words *psql.Words
}

// tableNames are the tables, where a query names them.
var tableNames = regexp.MustCompile(`\b(FROM|JOIN|INTO|UPDATE) (projects|records|runs|nodes|heads|cosignatures)\b`)

func prefixTables(text string) string { return tableNames.ReplaceAllString(text, "$1 state_$2") }

func (w worded) turn(text string, args []any) (string, []any) {
	q := w.words.Of(text)
	out := make([]any, len(q.Args))
	for i, at := range q.Args {
		out[i] = args[at]
	}
	return q.Text, out
}

// QueryContext is that of [sql.DB].
func (w worded) QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error) {
	text, args = w.turn(text, args)
	return w.in.QueryContext(ctx, text, args...)
}

// QueryRowContext is that of [sql.DB].
func (w worded) QueryRowContext(ctx context.Context, text string, args ...any) *sql.Row {
	text, args = w.turn(text, args)
	return w.in.QueryRowContext(ctx, text, args...)
}

// wordedTx also writes.
type wordedTx struct {
	worded
	tx *sql.Tx
}

// ExecContext is that of [sql.Tx].
func (w wordedTx) ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error) {
	text, args = w.turn(text, args)
	return w.tx.ExecContext(ctx, text, args...)
}
