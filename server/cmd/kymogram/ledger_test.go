package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
)

// gate is a way to a server that lets so many bytes through, then waits.
type gate struct {
	target  string
	bytes   int64
	release chan struct{}
}

func (g *gate) serve(lis net.Listener) {
	for {
		client, err := lis.Accept()
		if err != nil {
			return
		}
		go g.pass(client)
	}
}

func (g *gate) pass(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", g.target)
	if err != nil {
		return
	}
	defer server.Close()
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(client, server); client.Close() })
	if n, _ := io.CopyN(server, client, g.bytes); n == g.bytes {
		<-g.release
		_, _ = io.Copy(server, client)
	}
	server.Close()
	both.Wait()
}

// ledger is that of `runs show`.
func (k *kitchen) ledger(run string) (logged, stored uint64, spooled *uint64) {
	k.t.Helper()
	var doc struct {
		Ledger struct {
			Logged, Stored uint64
			Spooled        *uint64
		}
	}
	code, out, _ := k.run("runs", "show", run, "--json")
	if code != 0 {
		return 0, 0, nil // not there yet
	}
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		k.t.Fatal(err)
	}
	return doc.Ledger.Logged, doc.Ledger.Stored, doc.Ledger.Spooled
}

func (k *kitchen) until(what string, is func() bool) {
	k.t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			k.t.Fatalf("it never came to: %s", what)
		}
	}
}

// TestLedgerTellsOfTheSpool: a backlog shows while the way to the server is
// blocked, and falls to 0.
func TestLedgerTellsOfTheSpool(t *testing.T) {
	const total = 300_000
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	k.logMany("backlog", total)
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{target: k.address, bytes: 3 << 20, release: make(chan struct{})}
	go g.serve(lis)
	t.Cleanup(func() { lis.Close() })
	k.env["KYMOGRAM_API_KEY"] = k.key()
	done := make(chan int, 1)
	go func() {
		code, _, _ := k.run("sync", "--server", "http://"+lis.Addr().String())
		done <- code
	}()
	const run = "default/default/backlog"
	k.until("a part is stored, the rest is spooled", func() bool {
		logged, stored, spooled := k.ledger(run)
		return spooled != nil && *spooled > 0 && stored > 0 && logged == total && stored+*spooled == total
	})
	close(g.release)
	k.until("everything is stored", func() bool {
		logged, stored, spooled := k.ledger(run)
		return spooled != nil && *spooled == 0 && stored == total && logged == total
	})
	if code := <-done; code != 0 {
		t.Errorf("sync ended with %d", code)
	}
	if out := k.ok("runs", "show", run); !strings.Contains(out, " 0 spooled, ") {
		t.Errorf("in the end: %s", out)
	}
}

// TestLedgerOfALostConnection: an open writer without a stream may hold anything.
func TestLedgerOfALostConnection(t *testing.T) {
	k := serveKitchen(t)
	id := k.logRun("cut")
	k.until("it is not known what is spooled", func() bool {
		_, stored, spooled := k.ledger(id)
		return stored == 3*batchSize && spooled == nil
	})
	if out := k.ok("runs", "show", id); !strings.Contains(out, " unknown spooled, ") {
		t.Error(out)
	}
}

// key is the admin key of the kitchen's user.
func (k *kitchen) key() string {
	k.t.Helper()
	doc, err := os.ReadFile(filepath.Join(k.env["XDG_CONFIG_HOME"], "kymogram", "credentials.json"))
	if err != nil {
		k.t.Fatal(err)
	}
	keys := map[string]string{}
	if err := json.Unmarshal(doc, &keys); err != nil {
		k.t.Fatal(err)
	}
	return keys["http://"+k.address]
}

// logMany logs points of one series while the server is away.
func (k *kitchen) logMany(name string, points int) {
	k.t.Helper()
	k.logSeries(name, "loss", points)
}

// logSeries logs 0, 1, … as a series while the server is away.
func (k *kitchen) logSeries(name, metric string, points int) {
	k.t.Helper()
	for _, v := range []string{"KYMOGRAM_ORCHESTRATION_ID", "KYMOGRAM_ATTEMPT", "KYMOGRAM_ATTEMPT_PID"} {
		k.t.Setenv(v, "")
	}
	k.t.Setenv("KYMOGRAM_SERVER", silentServer)
	ctx := context.Background()
	r, err := kymogram.Init(ctx, kymogram.Options{RunName: name, SpoolDir: k.spool(), NoUplink: true, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		k.t.Fatal(err)
	}
	for i := range points {
		if err := r.Log(metric, float64(i)); err != nil {
			k.t.Fatal(err)
		}
	}
	var left *kymogram.UndeliveredError
	if err := r.Close(ctx); !errors.As(err, &left) || left.Points != uint64(points) {
		k.t.Fatalf("close says %v", err)
	}
}
