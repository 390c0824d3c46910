package cluster

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
)

// Whose points these are is a row of no run on the first shard: its writer is the name of the
// store. No read of a run meets it, and its log position, 0, never counts.

// NameBytes is how long a name is: as long as that of a writer.
const NameBytes = 16

// ofNoRun is the condition of such rows.
const ofNoRun = "run = toFixedString('', 16)"

// Names are those of stores that a server of the first shard has. Where one has none, another is
// asked: it may be late.
func (c *Cluster) Names(ctx context.Context) (all [][]byte, err error) {
	for _, r := range living(ctx, c.shards[0], 0) {
		var names []string
		err = r.note(r.conn.QueryRow(ctx, "SELECT groupUniqArray(writer) FROM "+c.local()+" WHERE "+ofNoRun).Scan(&names))
		if err != nil {
			continue
		}
		for _, name := range names {
			all = append(all, []byte(name))
		}
		if len(all) > 0 {
			return all, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("read whose points there are: %w", err)
	}
	return nil, nil
}

// Name gives the points a name.
func (c *Cluster) Name(ctx context.Context, name []byte) error {
	at := living(ctx, c.shards[0], 0)[0]
	statement := fmt.Sprintf("INSERT INTO %s (run, writer) SELECT toFixedString('', 16), toFixedString(unhex('%s'), 16)", c.local(), hex.EncodeToString(name))
	if err := at.note(at.conn.Exec(ctx, statement)); err != nil {
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
