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
