package cluster

import (
	"context"
	"hash/fnv"
	"slices"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// sendFor is how long an insert may take where another replica can take it.
	sendFor = 5 * time.Second
	// copyFor is how long it is waited for a second copy that is not demanded.
	copyFor = 2 * time.Second
	// Pauses between two looks.
	firstLook, longestLook = 5 * time.Millisecond, 50 * time.Millisecond
)

// Insert stores a block on a shard. Proof is a condition that a row of the block fulfils, and no
// other row; as a block is stored whole or not at all, a replica with this row has all. After an
// error it is not known what is stored.
func (c *Cluster) Insert(ctx context.Context, shard uint32, proof string, send func(ctx context.Context, db driver.Conn, table string) error) (err error) {
	defer c.counts.inserts.End(time.Now(), &err)
	list, err := c.shard(shard)
	if err != nil {
		return err
	}
	to := living(ctx, list, number(c.node))[0]
	if len(list) > 1 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, sendFor)
		defer cancel()
	}
	if err := to.note(send(ctx, metered{to.conn, &c.counts.rows}, c.local())); err != nil {
		return err
	}
	others := slices.DeleteFunc(slices.Clone(list), func(r *replica) bool { return r == to })
	if c.copies > 0 {
		return c.demand(ctx, others, proof)
	}
	if len(others) > 0 {
		c.hope(ctx, others, proof)
	}
	return nil
}

func number(s string) uint64 {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(s)) // it never fails
	return sum.Sum64()
}

// demand waits until as many replicas have the rows as are set.
func (c *Cluster) demand(ctx context.Context, others []*replica, proof string) error {
	if c.until(ctx, func() bool { return c.have(ctx, others, proof) >= c.copies-1 }) {
		return nil
	}
	return model.Errorf(model.CodeUnavailable, "the rows did not get to %d replicas of ClickHouse", c.copies).
		WithHint("Look at system.replicas for those that are away or late. copies=1 in the address goes on with one.")
}

// hope waits for a second copy as long as a replica may have it soon.
func (c *Cluster) hope(ctx context.Context, others []*replica, proof string) {
	ctx, cancel := context.WithTimeout(ctx, copyFor)
	defer cancel()
	one := true
	c.until(ctx, func() bool {
		timely := slices.DeleteFunc(slices.Clone(others), (*replica).isLate)
		timely = slices.DeleteFunc(timely, func(r *replica) bool { return !r.alive(ctx) })
		one = c.have(ctx, timely, proof) == 0
		return !one || len(timely) == 0
	})
	if one {
		c.counts.oneCopy.Add(1)
		for _, r := range others {
			r.delay()
		}
	}
	if c.single.Swap(one) != one {
		c.log.Warn("copies of new points changed", "only_one", one)
	}
}

// until asks again and again; false when the time is over.
func (c *Cluster) until(ctx context.Context, done func() bool) bool {
	for pause := firstLook; ; pause = min(2*pause, longestLook) {
		if done() {
			return true
		}
		wait := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			wait.Stop()
			return false
		case <-wait.C:
		}
	}
}

// have counts the replicas with a row.
func (c *Cluster) have(ctx context.Context, list []*replica, proof string) (n int) {
	for _, r := range list {
		var found uint64
		if r.alive(ctx) && r.note(r.conn.QueryRow(ctx, "SELECT count() FROM "+c.local()+" WHERE "+proof).Scan(&found)) == nil && found > 0 {
			n++
		}
	}
	return n
}
