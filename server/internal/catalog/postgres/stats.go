package postgres

import (
	"sync/atomic"

	"github.com/kymogram/kymogram/server/internal/psql"
)

// Stats is what this server did with the database since its start.
type Stats struct {
	Heard          uint64 // notices of other servers
	Told           uint64 // notices of news; those of keys and deleted runs are part of their transaction
	Broken         uint64 // times that the connection which hears others failed
	Reads, Commits psql.Pool
}

// counts is what Stats adds up.
type counts struct {
	heard, told, broken atomic.Uint64
}

// Stats asks nobody.
func (d *DB) Stats() Stats {
	return Stats{
		Heard: d.counts.heard.Load(), Told: d.counts.told.Load(), Broken: d.counts.broken.Load(),
		Reads: psql.PoolOfSQL(d.reader.DB), Commits: psql.PoolOfSQL(d.writer),
	}
}
