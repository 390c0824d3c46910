package psql

import (
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Pool is how a pool of connections is used.
type Pool struct {
	InUse, Most int
	Waits       uint64        // times that no connection was free
	Waited      time.Duration // all together
}

// PoolOf is that of pgx.
func PoolOf(p *pgxpool.Pool) Pool {
	s := p.Stat()
	return Pool{InUse: int(s.AcquiredConns()), Most: int(s.MaxConns()), Waits: uint64(s.EmptyAcquireCount()), Waited: s.EmptyAcquireWaitTime()}
}

// PoolOfSQL is that of package sql.
func PoolOfSQL(db *sql.DB) Pool {
	s := db.Stats()
	return Pool{InUse: s.InUse, Most: s.MaxOpenConnections, Waits: uint64(s.WaitCount), Waited: s.WaitDuration}
}
