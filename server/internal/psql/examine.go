package psql

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
)

// State is how a database stands.
type State struct {
	Took            time.Duration // to answer
	Version         string
	Skew            time.Duration // how far its clock is ahead of ours
	Connections     int           // in use, of all programs
	MostConnections int
	// Acknowledged is synchronous_commit: off acknowledges what is not on disk.
	Acknowledged string
	Standbys     int
	// Synchronous: a commit waits for a standby (synchronous_standby_names).
	Synchronous bool
}

// Examine looks at a database, and changes nothing. It fails where no primary answers.
func Examine(ctx context.Context, place string) (s State, err error) {
	config, err := Parse(place)
	if err != nil {
		return s, err
	}
	Settle(config)
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return s, unreachable(place, err)
	}
	defer func() { err = errors.Join(err, conn.Close(context.WithoutCancel(ctx))) }()
	began := time.Now()
	var clock float64
	if err := conn.QueryRow(ctx, `SELECT current_setting('server_version'), extract(epoch FROM clock_timestamp())::float8`).Scan(&s.Version, &clock); err != nil {
		return s, unreachable(place, err)
	}
	s.Took = time.Since(began)
	s.Skew = time.Unix(0, int64(clock*1e9)).Sub(began.Add(s.Took / 2))
	err = conn.QueryRow(ctx, `SELECT (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL), current_setting('max_connections')::int, current_setting('synchronous_commit'),
		(SELECT count(*) FROM pg_stat_replication), current_setting('synchronous_standby_names') <> ''`).
		Scan(&s.Connections, &s.MostConnections, &s.Acknowledged, &s.Standbys, &s.Synchronous)
	if err != nil {
		return s, unreachable(place, err)
	}
	return s, nil
}

// unreachable leaves out what the driver says of the address.
func unreachable(place string, err error) error {
	return model.Errorf(model.CodeUnavailable, "%s: %v", Named(place), err).
		WithHint("Look whether it runs, and at host, user and password: PGPASSWORD or ~/.pgpass.")
}
