package ledger

import (
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/psql"
	"github.com/kymogram/kymogram/server/internal/timing"
)

// knownWithin is how long the database may take to say how late it is.
const knownWithin = time.Second

// Stats is what this server did with the ledger since its start.
type Stats struct {
	Commits     timing.Stats
	Taken, Lost uint64        // leases
	Servers     int           // that work, at the last sign of this one
	Skew        time.Duration // how far PostgreSQL's clock was ahead then
	Pool        psql.Pool
}

// counts is what Stats adds up.
type counts struct {
	commits     timing.Acts
	taken, lost atomic.Uint64
	servers     atomic.Int64
	skew        atomic.Int64
}

// Stats asks nobody.
func (l *Ledger) Stats() Stats {
	c := &l.counts
	return Stats{
		Commits: c.commits.Stats(), Taken: c.taken.Load(), Lost: c.lost.Load(), Servers: int(c.servers.Load()), Skew: time.Duration(c.skew.Load()),
		Pool: psql.PoolOf(l.pool),
	}
}

// committed counts a commit that ends; deferred.
func (c *counts) committed(began time.Time, lost *map[model.RunID]bool, err *error) {
	c.commits.End(began, err)
	if *err == nil {
		c.lost.Add(uint64(len(*lost)))
	}
}

// beat notes what the database said: its clock, and the servers that work.
func (c *counts) beat(began time.Time, clock float64, servers int64) {
	c.servers.Store(servers)
	if took := time.Since(began); took < knownWithin { // else nobody knows when it looked at its clock
		c.skew.Store(int64(time.Unix(0, int64(clock*1e9)).Sub(began.Add(took / 2))))
	}
}
