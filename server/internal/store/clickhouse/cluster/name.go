package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// Whose points these are is a row of no run on the first shard: its writer is the name of the
// store. No read of a run meets it, and its log position, 0, never counts.

// NameBytes is how long a name is: as long as that of a writer.
const NameBytes = 16

// ofNoRun is the condition of such rows.
const ofNoRun = "run = toFixedString('', 16)"

// Names are those of stores that servers of the first shard have, and whether all of them
// answered: one that is late, or new, has none.
func (c *Cluster) Names(ctx context.Context) (out [][]byte, all bool, err error) {
	var failed []error
	for _, r := range c.shards[0] {
		var names []string
		if err := r.note(r.conn.QueryRow(ctx, "SELECT groupUniqArray(writer) FROM "+c.local()+" WHERE "+ofNoRun).Scan(&names)); err != nil {
			failed = append(failed, fmt.Errorf("read whose points %s has: %w", r.address, err))
		}
		for _, name := range names {
			out = append(out, []byte(name))
		}
	}
	if len(failed) == len(c.shards[0]) {
		return nil, false, errors.Join(failed...)
	}
	return out, len(failed) == 0, nil
}

// Name gives the points a name.
func (c *Cluster) Name(ctx context.Context, name []byte) error {
	writer := "toFixedString(unhex('" + hex.EncodeToString(name) + "'), 16)"
	err := c.Insert(ctx, 1, ofNoRun+" AND writer = "+writer, func(ctx context.Context, db driver.Conn, table string) error {
		return db.Exec(ctx, "INSERT INTO "+table+" (run, writer) SELECT toFixedString('', 16), "+writer)
	})
	if err != nil {
		return fmt.Errorf("name the points: %w", err)
	}
	return nil
}

// Ping fails where no server of a shard answers.
func (c *Cluster) Ping(ctx context.Context) error {
	for i, shard := range c.shards {
		var failed []error
		if slices.ContainsFunc(shard, func(r *replica) bool {
			err := r.note(r.conn.Ping(ctx))
			failed = append(failed, err)
			return err == nil
		}) {
			continue
		}
		return fmt.Errorf("no server of shard %d answers: %w", i+1, errors.Join(failed...))
	}
	return nil
}
