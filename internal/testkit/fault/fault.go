// Package fault does to the servers below Kymogram what may happen to them: they are killed,
// frozen, late, or another one takes over. In go the servers of a test; out comes a list, of which
// [Try] tries one or two at a time under the load of the test.
package fault

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/testkit/clickhouse"
	"github.com/kymogram/kymogram/internal/testkit/postgres"
)

// Fault is something that happens to a server, and its end.
type Fault struct {
	Of, Name   string
	Begin, End func()
}

const takesOver = "its standby takes over"

// Pair are the faults of two servers of PostgreSQL.
func Pair(t testing.TB, p *postgres.Pair) []Fault {
	t.Helper()
	kill, freeze, failover := func() { p.Primary.Kill() }, func() { p.Primary.Freeze(t) }, func() { p.Failover(t) }
	return []Fault{
		{"PostgreSQL", "killed", kill, func() { p.Primary.Serve(t) }},
		{"PostgreSQL", "frozen", freeze, func() { p.Primary.Thaw() }},
		{"PostgreSQL", "killed, and " + takesOver, kill, failover},
		{"PostgreSQL", "frozen, and " + takesOver, freeze, failover},
		{"the standby", "killed", func() { p.Standby.Kill() }, func() { p.Standby.Serve(t) }},
		{"the standby", "frozen", func() { p.Standby.Freeze(t) }, func() { p.Standby.Thaw() }},
	}
}

// Cluster are the faults of a cluster of ClickHouse, and of its ZooKeeper. Replicas may also get
// nothing for a table.
func Cluster(t testing.TB, c *clickhouse.Cluster, table string) []Fault {
	t.Helper()
	k := c.Keeper
	out := []Fault{
		{"ZooKeeper", "killed", k.Kill, func() { k.Serve(t) }},
		{"ZooKeeper", "frozen", func() { k.Freeze(t) }, func() { k.Thaw(t) }},
	}
	for i, s := range c.All() {
		of := fmt.Sprint("replica ", i+1)
		out = append(out,
			Fault{of, "killed", s.Kill, func() { s.Serve(t) }},
			Fault{of, "frozen", func() { s.Freeze(t) }, func() { s.Thaw(t) }},
			Fault{of, "late", func() { s.Do(t, "SYSTEM STOP FETCHES "+table) }, func() { s.Do(t, "SYSTEM START FETCHES "+table) }})
	}
	return out
}

// Rounds is what ROUNDS says, or otherwise.
func Rounds(otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv("ROUNDS")); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// Try lets faults happen, one or two at a time, each for as long as 3 s. After each round goesOn
// waits until work goes on.
func Try(t *testing.T, rounds int, all []Fault, goesOn func(when string)) {
	t.Helper()
	began := time.Now()
	for n := range rounds {
		round, now, names := time.Now(), some(all), []string{}
		for _, f := range now {
			names = append(names, f.Of+" is "+f.Name)
			f.Begin()
		}
		time.Sleep(time.Duration(200+rand.IntN(3000)) * time.Millisecond) // how long it lasts
		for _, f := range now {
			f.End()
		}
		what := strings.Join(names, ", and ")
		goesOn("after " + what)
		if t.Failed() {
			t.Fatalf("in round %d: %s", n+1, what)
		}
		t.Logf("round %d: %s; work went on %s after it began", n+1, what, time.Since(round).Round(time.Millisecond))
	}
	t.Logf("%d rounds in %s", rounds, time.Since(began).Round(time.Second))
}

// some is one fault, or two of different servers. The earlier in the list ends first: a
// ClickHouse of 2018 does not start without ZooKeeper.
func some(all []Fault) []Fault {
	first, second := rand.IntN(len(all)), rand.IntN(len(all))
	first, second = min(first, second), max(first, second)
	if a, b := all[first], all[second]; rand.IntN(2) == 0 || a.Of == b.Of || strings.HasSuffix(a.Name, takesOver) && b.Of == "the standby" {
		return all[first : first+1]
	}
	return []Fault{all[first], all[second]}
}
