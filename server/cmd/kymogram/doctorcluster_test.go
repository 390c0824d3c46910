package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	chkit "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
)

// The doctor of a cluster tells of each engine: before a server was started, while one works, and
// when an engine is away. It makes no table.
func TestDoctorOfACluster(t *testing.T) {
	c := newCluster(t)
	c.clickhouse = chkit.Start(t) // it is killed
	c.points = c.otherPoints()
	k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir(), "KYMOGRAM_BLOB": c.blob, "KYMOGRAM_CATALOG": c.catalog}}
	says := func(out string, want ...string) {
		t.Helper()
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%q is not in\n%s", w, out)
			}
		}
	}
	look := []string{"doctor", "cluster", "--store", c.points}
	for range 2 { // the first made nothing
		says(k.ok(look...), "no table of points yet", "none was started", "no server has used it yet", "ok    database answers in", "there is none: a disk")
	}
	m := c.start(t.TempDir())
	says(k.ok(look...), "parts: ", "1 alive; 0 points of 0 runs", "s3://files/team/ answers")
	says(k.ok(append(look, "--json")...), `"name":"points","ok":true`, `"ok":true}`)
	m.kill()
	c.clickhouse.Kill()
	says(k.fails("1 of 5 checks failed: points", look...), "FAIL  points", "ClickHouse cannot be reached", "ok    database")
	says(k.fails("database", "doctor", "cluster", "--catalog", "postgres://nobody@127.0.0.1:1/x"), "FAIL  database", "Look whether it runs")
	k.env = map[string]string{"HOME": t.TempDir()}
	k.fails("there is nothing to look at", "doctor", "cluster")
	for flag, place := range map[string]string{"--store": "http://me:secret@here", "--catalog": "mysql://me:secret@here", "--blob": "file://me:secret@here"} {
		if code, out, errs := k.run("doctor", "cluster", flag, place); code != 2 || strings.Contains(out+errs, "secret") || !strings.Contains(errs, "://") {
			t.Errorf("%s %s: %d\n%s%s", flag, place, code, out, errs)
		}
	}
}

// The doctor of a cluster names the server whose clock is an hour off, and by how much.
func TestDoctorNamesAClock(t *testing.T) {
	c := newCluster(t)
	c.clickhouse, c.database = chkit.Start(t), pgkit.Start(t)
	c.points, c.catalog = c.otherPoints(), c.database.URL(t)
	k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
	look := []string{"doctor", "cluster", "--store", c.points, "--catalog", c.catalog}
	k.ok(look...)
	c.clickhouse.Kill()
	c.clickhouse.Ahead(t, time.Hour)
	c.clickhouse.Serve(t)
	anHour := `(1h|59m59\.\d+s|1h0m\d\.\d+s)`
	if says, want := k.fails("1 of 4 checks failed: points", look...), "this clock and that of "+c.clickhouse.Addrs[0]+" differ by "+anHour; !regexp.MustCompile(want).MatchString(says) {
		t.Errorf("%s is not in\n%s", want, says)
	}
	c.database.Kill()
	c.database.Ahead(t, -time.Hour)
	c.database.Serve(t)
	if says, want := k.fails("2 of 4 checks failed", look...), "this clock and PostgreSQL's differ by -"+anHour; !regexp.MustCompile(want).MatchString(says) {
		t.Errorf("%s is not in\n%s", want, says)
	}
}
