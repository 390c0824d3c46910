package main

import (
	"net/http"
	"strings"
	"testing"

	natskit "github.com/kymogram/kymogram/internal/testkit/nats"
)

// TestServerWithALog: points go through the log into ClickHouse, and are read. The doctor and
// /metrics look at the log, and a start without it is refused only while points wait there.
func TestServerWithALog(t *testing.T) {
	c := newCluster(t)
	log := natskit.URL(natskit.Start(t, 1)...)
	m := c.start(t.TempDir(), "--log", log)
	const lines = 30
	for i := range int64(lines) {
		if !c.line(m.address, "w", i+1) {
			t.Fatalf("line %d is refused", i+1)
		}
	}
	k := c.kitchen(m)
	k.drawn("default/lines/default", "w/v", lines)
	if says := k.ok("doctor", "cluster", "--store", c.points, "--catalog", c.catalog, "--log", log); !strings.Contains(says, "log") {
		t.Errorf("the doctor does not look at the log:\n%s", says)
	}
	var metrics strings.Builder
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+m.address+"/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+c.key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if err := answer.Write(&metrics); err != nil || !strings.Contains(metrics.String(), "\nkymogram_store_log_blocks 0\n") {
		t.Errorf("%v: the metrics are\n%.2000s", err, metrics.String())
	}
	m.kill()
	k = c.kitchen(c.start(t.TempDir()))
	k.drawn("default/lines/default", "w/v", lines)
}
