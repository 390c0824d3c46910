package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
	"github.com/kymogram/kymogram/server/internal/psql"
)

const (
	// patience is how long a write is tried again that met others, or found no server that
	// takes writes: a failover takes seconds.
	patience = 20 * time.Second
	// firstPause and longestPause are between two tries.
	firstPause   = time.Millisecond
	longestPause = 500 * time.Millisecond
)

// Write implements [tables.Database].
func (d *DB) Write(ctx context.Context, act string, f func(tx tables.Tx) error) error {
	var end time.Time
	for pause := firstPause; ; pause = min(2*pause, longestPause) {
		conn, err := d.writer.Conn(ctx) // in a turn of its own: to wait for others is no failure
		if end.IsZero() {
			end = time.Now().Add(patience)
		}
		if err == nil {
			err = errors.Join(d.try(ctx, conn, f), conn.Close())
		}
		if err == nil || !psql.Again(err) || time.Now().After(end) {
			return d.Failure(act, err)
		}
		// Between one half and all of it, so that those who met do not meet again.
		wait := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-ctx.Done():
			wait.Stop()
			return d.Failure(act, ctx.Err())
		case <-wait.C:
		}
	}
}

func (d *DB) try(ctx context.Context, conn *sql.Conn, f func(tx tables.Tx) error) error {
	// f ends a transaction whose caller is gone; the driver would cut the connection.
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), &sql.TxOptions{Isolation: sql.LevelSerializable})
	if err != nil {
		return err
	}
	if err := f(tx); err != nil {
		_ = tx.Rollback() // the connection may be gone
		return err
	}
	if err := tx.Commit(); err != nil {
		var said *pgconn.PgError
		if errors.As(err, &said) && !strings.HasPrefix(said.Code, "08") && !strings.HasPrefix(said.Code, "57") {
			return err
		}
		return psql.Unknown{Err: err} // also where a pool between lost the server
	}
	return nil
}

// Failure names the act and gives the errors that a caller can act on a code.
func (d *DB) Failure(act string, err error) error {
	var known *model.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("catalog: %s: %w", act, err)
	}
	var unknown psql.Unknown
	var said *pgconn.PgError
	switch {
	case errors.As(err, &said) && said.Code == "53100":
		return model.Errorf(model.CodeDiskFull, "catalog: %s: PostgreSQL's disk is full", act).WithHint("Free space there; writing goes on by itself.")
	case errors.As(err, &unknown), psql.Lost(err):
		d.log.Error("PostgreSQL cannot be reached", "act", act, "err", err)
		return model.Errorf(model.CodeUnavailable, "catalog: %s: PostgreSQL cannot be reached", act).
			WithHint("Look whether it runs and takes writes; clients keep what was not acknowledged, and send it again.")
	case errors.As(err, &said) && psql.Again(err):
		return model.Errorf(model.CodeUnavailable, "catalog: %s: PostgreSQL said: %s", act, said.Message).WithHint("Try again.")
	}
	return fmt.Errorf("catalog: %s: %w", act, err)
}
