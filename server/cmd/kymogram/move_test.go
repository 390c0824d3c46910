package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/server/internal/data"
)

// migrate runs the command as a process of its own.
func (c *engines) migrate(folder string, more ...string) (moved data.Moved) {
	c.t.Helper()
	args := append([]string{"migrate", "--json", "--data", folder, "--store", c.points, "--catalog", c.catalog}, more...)
	out, err := exec.CommandContext(c.t.Context(), "kymogram", args...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		c.t.Fatalf("%q: %s", args, failed.Stderr)
	}
	if err := errors.Join(err, json.Unmarshal(out, &moved)); err != nil {
		c.t.Fatalf("%q: %v\n%s", args, err, out)
	}
	return moved
}

// TestMoveOfAServer: the points of a server move into a store while writers write, over the SDK's
// stream and as lines. The server is killed, the rest moves, and a server of the store goes on.
// What was acknowledged is there once, and tags too. With CLUSTER all of it moves back.
func TestMoveOfAServer(t *testing.T) {
	c := newCluster(t)
	source := c.serve(t.TempDir())
	way := newSpread(t, source.address)
	run, err := kymogram.Init(t.Context(), kymogram.Options{
		Server: "http://" + way.address, APIKey: c.key, RunName: "sdk", OrchestrationID: "job",
		SpoolDir: t.TempDir(), NoEnvironment: true, NoSystemMetrics: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	var stop atomic.Bool
	var writers sync.WaitGroup
	var logged atomic.Int64
	acked := make([]atomic.Int64, 3)
	writers.Go(func() {
		for i := 0; !stop.Load(); i++ {
			if err := errors.Join(run.Log("loss", float64(i)), run.AddTags(fmt.Sprint("tag", i%7))); err != nil {
				t.Error(err)
				return
			}
			logged.Store(int64(i) + 1)
			time.Sleep(time.Millisecond) // a training does other things, too
		}
	})
	for w := range acked {
		writers.Go(func() {
			for i := int64(1); !stop.Load(); {
				if c.line(way.address, fmt.Sprintf("w%d", w), i) {
					acked[w].Store(i)
					i++
				}
			}
		})
	}
	further := func(k *kitchen) {
		t.Helper()
		lines, points := acked[0].Load()+5, int(logged.Load())+50
		k.until("the writers go on", func() bool {
			if acked[0].Load() < lines || int(logged.Load()) < points {
				return false
			}
			_, arrived := k.exported("default/default/sdk", "loss")[float64(points-1)]
			return arrived
		})
	}
	k := c.kitchen(source)
	further(k)
	for range 2 {
		if moved := c.migrate(source.folder); moved.Final || moved.Copied.Points == 0 || moved.Catalog != nil {
			t.Errorf("beside the server %+v was moved", moved)
		}
		further(k)
	}
	c.refuses("its points are on their way from a data folder", "--data", t.TempDir(), "--store", c.points, "--catalog", c.catalog)
	source.kill()
	moved := c.migrate(source.folder)
	if !moved.Final || moved.Copied.Points == 0 || moved.Catalog == nil || moved.Aside == "" {
		t.Errorf("without the server %+v was moved", moved)
	}
	c.refuses("the points of "+source.folder+" are in clickhouse://", "--data", source.folder)
	if again := c.migrate(source.folder); !again.Already {
		t.Errorf("what is done is %+v", again)
	}
	member := c.start(source.folder)
	way.lead(member.address)
	k = c.kitchen(member)
	further(k)
	stop.Store(true)
	writers.Wait()
	if err := run.Close(context.WithoutCancel(t.Context())); err != nil {
		t.Error(err)
	}
	all := func(k *kitchen) {
		t.Helper()
		k.once("default/default/sdk", "loss", 0, int(logged.Load()))
		for w := range acked {
			k.drawn("default/lines/default", fmt.Sprintf("w%d/v", w), int(acked[w].Load()))
		}
		shown := k.ok("runs", "show", "default/default/sdk")
		for tag := range 7 {
			if !strings.Contains(shown, fmt.Sprint("tag", tag)) {
				t.Errorf("tag%d is lost:\n%s", tag, shown)
			}
		}
	}
	all(k)
	if os.Getenv("CLUSTER") == "" {
		return // the way back waits until the server counts as stopped
	}
	member.kill()
	if moved := c.migrate(source.folder, "--back"); !moved.Final || moved.Copied.Points == 0 {
		t.Errorf("%+v was moved back", moved)
	}
	c.refuses("were moved back into a data folder", "--data", t.TempDir(), "--store", c.points, "--catalog", c.catalog)
	all(c.kitchen(c.serve(source.folder)))
}

// TestMoveOfRecords: signed records move with the points, and their log goes on with the same key.
func TestMoveOfRecords(t *testing.T) {
	c := newCluster(t)
	at := c.serve(t.TempDir(), "--state-log")
	folder, seen := at.folder, filepath.Join(t.TempDir(), "head.json")
	p, last := c.join(at, 1), uint64(0)
	records := 0
	goesOn := func(server *member) {
		t.Helper()
		for n := range 3 {
			e, err := p.seal(c.client(server), 0, &last, fmt.Sprintf(`{"n":%d}`, n))
			if err == nil {
				_, err = p.put(c.client(server), e)
			}
			if err != nil {
				t.Fatal(err)
			}
			records++
		}
		k := c.kitchen(server)
		if records > 3 {
			k.says("continues", "state", "consistency", "lab/net", "--seen", seen)
		}
		k.says("records", "state", "head", "lab/net", "--seen", seen)
		k.says(" 0 faults", "state", "verify", "lab/net/"+p.name)
		if _, leaves := c.logOf(server); len(leaves) != records {
			t.Errorf("the log has %d records, %d were taken", len(leaves), records)
		}
	}
	goesOn(at)
	at.kill()
	if moved := c.migrate(folder); !moved.Final || moved.Records == nil || moved.Records.Records != int64(records) {
		t.Errorf("%+v was moved", moved)
	}
	at = c.start(folder, "--state-log")
	goesOn(at)
	if os.Getenv("CLUSTER") == "" {
		return // the way back waits until the server counts as stopped
	}
	at.kill()
	if moved := c.migrate(folder, "--back"); moved.Records == nil || moved.Records.Records != int64(records) {
		t.Errorf("%+v was moved back", moved)
	}
	goesOn(c.serve(folder, "--state-log"))
}

// drawn compares a curve with the numbers from 1 on. A line that was not acknowledged before a kill
// may be stored twice: the later one counts.
func (k *kitchen) drawn(run, metric string, last int) {
	k.t.Helper()
	n := 0
	for line := range strings.Lines(k.ok("export", run, "--metric", "^"+metric+"$")) {
		n++
		var p struct{ Value float64 }
		if err := json.Unmarshal([]byte(line), &p); err != nil || p.Value != float64(n) {
			k.t.Fatalf("%s: point %d of %s is %s, %v", run, n, metric, line, err)
		}
	}
	if n != last {
		k.t.Errorf("%s: %s has %d points, and %d were acknowledged", run, metric, n, last)
	}
}

// refuses starts a server that should not start.
func (c *engines) refuses(words string, args ...string) {
	c.t.Helper()
	k := &kitchen{t: c.t, env: map[string]string{"HOME": c.t.TempDir()}}
	code, _, errs := k.run(append([]string{"serve", "--http", "127.0.0.1:0"}, args...)...)
	if code == 0 || !strings.Contains(errs, words) {
		c.t.Errorf("%q: %d %s, want %q", args, code, errs, words)
	}
}
