package ledger

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/server/internal/psql"
)

// State is what the ledger knows of the servers that share it.
type State struct {
	Made    bool // its tables are there: a server was started
	Alive   int  // servers that were seen within the last minute
	Waiting int  // batches whose updates the catalog does not have yet
	Left    int  // of those, of servers that are gone
	Runs    int64
	Points  int64
}

// Examine looks at the ledger of a database, and changes nothing.
func Examine(ctx context.Context, place string) (s State, err error) {
	config, err := psql.Parse(place)
	if err != nil {
		return s, err
	}
	psql.Settle(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return s, failure("connect", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	if err := conn.QueryRow(ctx, `SELECT to_regclass('ledger_store') IS NOT NULL`).Scan(&s.Made); err != nil || !s.Made {
		return s, failure("look for the ledger", err)
	}
	err = conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM (`+alive+`) a), (SELECT count(*) FROM ledger_updates), (SELECT count(*) FROM ledger_updates WHERE `+gone+`),
			(SELECT count(*) FROM ledger_runs WHERE NOT deleted), (SELECT coalesce(sum(points), 0)::bigint FROM ledger_runs WHERE NOT deleted)`).
		Scan(&s.Alive, &s.Waiting, &s.Left, &s.Runs, &s.Points)
	return s, failure("read the ledger", err)
}

// LogState is what the ledger knows of the log in front of ClickHouse.
type LogState struct {
	Backlog
	Log    string // which one it is; empty: there was none yet
	Secret []byte // of the store, nil where no server was started
}

// ExamineLog looks at the ledger of a database, and changes nothing.
func ExamineLog(ctx context.Context, place string) (s LogState, err error) {
	config, err := psql.Parse(place)
	if err != nil {
		return s, err
	}
	psql.Settle(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return s, failure("connect", err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	var made bool
	if err := conn.QueryRow(ctx, `SELECT to_regclass('ledger_blocks') IS NOT NULL`).Scan(&made); err != nil || !made {
		return s, failure("look for the log", err)
	}
	if err := conn.QueryRow(ctx, `SELECT coalesce(log, ''), secret FROM ledger_store`).Scan(&s.Log, &s.Secret); err != nil {
		return s, failure("look for the log", err)
	}
	var seconds float64
	err = conn.QueryRow(ctx, backlogOf).Scan(&s.Blocks, &seconds)
	s.Oldest = time.Duration(seconds * float64(time.Second))
	return s, failure("count blocks of the log", err)
}
