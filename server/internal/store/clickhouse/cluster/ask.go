package cluster

import (
	"context"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// settleFor is how long it is waited until a replica has what another one took.
const settleFor = time.Minute

// Ask puts a question to the replicas of a shard, until the answer of one holds.
func (c *Cluster) Ask(ctx context.Context, shard uint32, ask func(ctx context.Context, db driver.Conn, table string) (holds bool, err error)) (holds bool, err error) {
	list, err := c.shard(shard)
	if err != nil {
		return false, err
	}
	if c.name == "" {
		return ask(ctx, list[0].conn, c.local())
	}
	limit, cancel := context.WithTimeout(ctx, settleFor)
	defer cancel()
	c.until(limit, func() bool {
		for _, r := range living(limit, list, number(c.node)) {
			if holds, err = ask(limit, r.conn, c.local()); r.note(err) == nil && holds {
				return true
			}
		}
		return false
	})
	return holds, err
}
