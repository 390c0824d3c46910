package cluster

import (
	"context"
	"fmt"
)

// Left counts rows on all replicas of a shard. It fails where one does not answer: rows that
// only that one has would come back with it.
func (c *Cluster) Left(ctx context.Context, shard uint32, where string) (n uint64, err error) {
	list, err := c.shard(shard)
	for _, r := range list {
		var found uint64
		if err := r.conn.QueryRow(ctx, "SELECT count() FROM "+c.local()+" WHERE "+where).Scan(&found); err != nil {
			return 0, fmt.Errorf("count rows at %s: %w", r.address, err)
		}
		n += found
	}
	return n, err
}

// Delete makes a shard delete rows, in its own time. What it was told before comes first: then
// nothing is done.
func (c *Cluster) Delete(ctx context.Context, shard uint32, where string) error {
	list, err := c.shard(shard)
	if err != nil {
		return err
	}
	for _, r := range list {
		var running uint64
		if err := r.conn.QueryRow(ctx, runningOf(c.local())).Scan(&running); err != nil {
			return fmt.Errorf("look for mutations at %s: %w", r.address, err)
		}
		if running > 0 {
			return nil
		}
	}
	if err := list[0].conn.Exec(ctx, "ALTER TABLE "+c.local()+" DELETE WHERE "+where); err != nil {
		return fmt.Errorf("delete rows at %s: %w", list[0].address, err)
	}
	return nil
}

// Bytes is how much the tables take on all disks.
func (c *Cluster) Bytes(ctx context.Context) (n uint64, err error) {
	for r := range c.replicas() {
		var here uint64
		if err := r.conn.QueryRow(ctx, bytesOf(c.local())).Scan(&here); err != nil {
			return 0, fmt.Errorf("ask %s for its size: %w", r.address, err)
		}
		n += here
	}
	return n, nil
}

// runningOf asks how much of a server is still to delete.
func runningOf(table string) string {
	return "SELECT count() FROM system.mutations WHERE database = currentDatabase() AND table = " + text(table) + " AND NOT is_done"
}

// bytesOf asks how much a table takes.
func bytesOf(table string) string {
	return "SELECT sum(bytes) FROM system.parts WHERE active AND database = currentDatabase() AND table = " + text(table)
}
