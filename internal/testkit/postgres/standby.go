package postgres

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Standby copies a server and follows it. A commit of the first is answered only when the
// second has it.
func (s *Server) Standby(t testing.TB) *Server {
	t.Helper()
	other := Prepare(t)
	other.follow(t, s)
	return other
}

func (s *Server) follow(t testing.TB, primary *Server) {
	t.Helper()
	s.run(t, "pg_basebackup", "--pgdata", s.Data(), "--host", "127.0.0.1", "--port", strconv.Itoa(primary.Port), "--username", "postgres", "--write-recovery-conf", "--checkpoint", "fast", "--no-sync")
	s.Serve(t)
	primary.Do(t, "ALTER SYSTEM SET synchronous_standby_names = '*'")
	primary.Do(t, "SELECT pg_reload_conf()")
	for end := time.Now().Add(time.Minute); strings.TrimSpace(primary.Do(t, "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'")) != "1"; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the standby does not follow")
		}
	}
}

// Promote makes a standby a server that takes writes.
func (s *Server) Promote(t testing.TB) {
	t.Helper()
	s.Do(t, "SELECT pg_promote()")
}

// Pair is a primary and a standby that follows it, which take turns.
type Pair struct{ Primary, Standby *Server }

// StartPair makes an empty database and its standby.
func StartPair(t testing.TB) *Pair {
	t.Helper()
	primary := Start(t)
	return &Pair{primary, primary.Standby(t)}
}

// URL is a new schema at both.
func (p *Pair) URL(t testing.TB) string {
	t.Helper()
	host := fmt.Sprintf("127.0.0.1:%d", p.Primary.Port)
	return strings.Replace(p.Primary.URL(t), host, fmt.Sprintf("%s,127.0.0.1:%d", host, p.Standby.Port), 1)
}

// Failover promotes the standby. The primary that was must be gone or frozen: it is ended, and
// follows the new one, at its old address.
func (p *Pair) Failover(t testing.TB) {
	t.Helper()
	p.Standby.Promote(t)
	p.Primary.Kill()
	p.Primary, p.Standby = p.Standby, p.Primary
	if err := os.RemoveAll(p.Standby.Data()); err != nil {
		t.Fatal(err)
	}
	p.Standby.follow(t, p.Primary)
}
