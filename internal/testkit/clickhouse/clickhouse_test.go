package clickhouse_test

import (
	"testing"

	"github.com/kymogram/kymogram/internal/testkit/clickhouse"
)

// What a server was given is there after a crash.
func TestKilledAndServed(t *testing.T) {
	t.Parallel()
	server := clickhouse.Start(t)
	name := server.Database(t)
	server.Do(t, "CREATE TABLE "+name+".kept (x UInt8) ENGINE MergeTree ORDER BY x")
	server.Do(t, "INSERT INTO "+name+".kept VALUES (7)")
	server.Kill()
	server.Serve(t)
	if got := server.Do(t, "SELECT x FROM "+name+".kept"); got != "7\n" {
		t.Errorf("after a crash %q is there", got)
	}
}

// What a replica was given, the other one of its shard gets, also one that was away.
func TestCluster(t *testing.T) {
	t.Parallel()
	c := clickhouse.StartCluster(t)
	name := c.Database(t)
	for _, s := range c.All() {
		s.Do(t, "CREATE TABLE "+name+".kept (x UInt8) ENGINE ReplicatedMergeTree('/clickhouse/tables/{shard}/kept', '{replica}') ORDER BY x")
	}
	first, second := c.Shards[1][0], c.Shards[1][1]
	second.Kill()
	first.Do(t, "INSERT INTO "+name+".kept VALUES (7)")
	second.Serve(t)
	second.Do(t, "SYSTEM SYNC REPLICA "+name+".kept")
	if got := second.Do(t, "SELECT x FROM "+name+".kept"); got != "7\n" {
		t.Errorf("the replica that was away has %q", got)
	}
	if got := c.Shards[0][0].Do(t, "SELECT count() FROM "+name+".kept"); got != "0\n" {
		t.Errorf("the other shard has %q rows", got)
	}
}
