package cluster

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
)

// State is how a server of ClickHouse stands.
type State struct {
	Shard   int // from 1
	Address string
	Err     error // it does not answer; what follows is not known then

	Took    time.Duration // to answer
	Version string
	Skew    time.Duration // how far its clock is ahead of ours, to about a second
	Table   bool          // the table of points is there
	Parts   uint64        // of the table
	Waiting uint64        // deletions that are an hour old and not done
	Replica *ReplicaState // nil without a cluster, or without the table
}

// ReplicaState is what a server knows of itself as a replica.
type ReplicaState struct {
	Readonly bool   // it has no ZooKeeper or Keeper, or lost its place there
	Late     uint64 // seconds
	Queue    uint64 // parts to fetch or merge
}

// Examine looks at all servers, and changes nothing. It fails where the address is none, or leads
// to no server.
func Examine(ctx context.Context, o Options) (list []State, err error) {
	c, err := locate(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	var all []*replica
	for i, shard := range c.shards {
		for _, r := range shard {
			list, all = append(list, State{Shard: i + 1, Address: r.address}), append(all, r)
		}
	}
	var group sync.WaitGroup
	for i, r := range all {
		group.Go(func() { list[i].Err = c.examine(ctx, r, &list[i]) })
	}
	group.Wait()
	return list, nil
}

func (c *Cluster) examine(ctx context.Context, r *replica, s *State) error {
	began := time.Now()
	var clock int64
	if err := r.conn.QueryRow(ctx, "SELECT version(), toInt64(toUnixTimestamp(now()))").Scan(&s.Version, &clock); err != nil {
		var said *clickhouse.Exception
		if errors.As(err, &said) {
			return said
		}
		return unreachable(err)
	}
	s.Took = time.Since(began)
	s.Skew = time.Unix(clock, 5e8).Sub(began.Add(s.Took / 2)) // the answer has whole seconds
	table := "database = currentDatabase() AND table = " + text(c.local())
	var found uint64
	if err := r.conn.QueryRow(ctx, "SELECT count() FROM system.tables WHERE database = currentDatabase() AND name = "+text(c.local())).Scan(&found); err != nil || found == 0 {
		return err
	}
	s.Table = true
	err := r.conn.QueryRow(ctx, "SELECT count() FROM system.parts WHERE active AND "+table).Scan(&s.Parts)
	if err == nil {
		err = r.conn.QueryRow(ctx, "SELECT count() FROM system.mutations WHERE NOT is_done AND create_time < now() - 3600 AND "+table).Scan(&s.Waiting)
	}
	if err != nil || c.name == "" {
		return err
	}
	s.Replica = &ReplicaState{}
	var readonly uint8
	err = r.conn.QueryRow(ctx, "SELECT toUInt8(is_readonly OR is_session_expired), toUInt64(absolute_delay), toUInt64(queue_size) FROM system.replicas WHERE "+table).
		Scan(&readonly, &s.Replica.Late, &s.Replica.Queue)
	s.Replica.Readonly = readonly != 0
	return err
}
