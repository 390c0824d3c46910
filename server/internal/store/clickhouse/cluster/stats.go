package cluster

import (
	"context"
	"sync/atomic"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/server/internal/timing"
)

// Stats is what this server asked of ClickHouse since its start.
type Stats struct {
	Servers     int
	Unreachable int          // of those: their last answer was a failure
	Inserts     timing.Stats // with the wait for a second copy
	Rows        uint64       // that a server took, also those that do not count
	OneCopy     uint64       // inserts that were answered without a second copy in time
	Checks      uint64       // questions to replicas for how much of a run they have
	Refused     uint64       // reads that found no replica with all of a run
}

// counts is what Stats adds up.
type counts struct {
	inserts                timing.Acts
	rows, oneCopy, refused atomic.Uint64
}

// Stats costs the same whatever is stored.
func (c *Cluster) Stats() Stats {
	s := Stats{Inserts: c.counts.inserts.Stats(), Rows: c.counts.rows.Load(), OneCopy: c.counts.oneCopy.Load(), Refused: c.counts.refused.Load()}
	for r := range c.replicas() {
		s.Servers++
		s.Checks += r.checks.Load()
		if r.hasFailed() {
			s.Unreachable++
		}
	}
	return s
}

// hasFailed reports whether the last answer was a failure.
func (r *replica) hasFailed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.heard.IsZero() && !r.away.IsZero()
}

// metered counts the rows that a server takes.
type metered struct {
	driver.Conn
	rows *atomic.Uint64
}

// PrepareBatch implements [driver.Conn].
func (c metered) PrepareBatch(ctx context.Context, query string, o ...driver.PrepareBatchOption) (driver.Batch, error) {
	b, err := c.Conn.PrepareBatch(ctx, query, o...)
	if err != nil {
		return nil, err
	}
	return meteredBatch{b, c.rows}, nil
}

type meteredBatch struct {
	driver.Batch
	rows *atomic.Uint64
}

// Send implements [driver.Batch].
func (b meteredBatch) Send() error {
	n := b.Rows()
	err := b.Batch.Send()
	if err == nil {
		b.rows.Add(uint64(n))
	}
	return err
}
