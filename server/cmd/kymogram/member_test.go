package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
	chkit "github.com/kymogram/kymogram/internal/testkit/clickhouse"
	pgkit "github.com/kymogram/kymogram/internal/testkit/postgres"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/config"
)

// engines are what servers share.
type engines struct {
	t                     *testing.T
	points, catalog, blob string
	database              *pgkit.Server
	clickhouse            *chkit.Server
	key                   string
	program               string // another binary than this one
}

func newCluster(t *testing.T) *engines {
	t.Helper()
	c := &engines{t: t, clickhouse: chkit.Any(t), database: pgkit.Any(t), key: strings.Repeat("0f", 20)}
	c.points, c.catalog = c.otherPoints(), c.database.URL(t)
	backend := s3mem.New()
	if err := backend.CreateBucket("files"); err != nil {
		t.Fatal(err)
	}
	service := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(service.Close)
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	c.blob = "s3://files/team?endpoint=" + service.URL
	return c
}

// otherPoints is a new database of ClickHouse.
func (c *engines) otherPoints() string {
	return "clickhouse://default@" + strings.Join(c.clickhouse.Addrs, ",") + "/" + c.clickhouse.Database(c.t)
}

// member is a server of a cluster, a process of its own.
type member struct {
	cmd     *exec.Cmd
	address string
	folder  string
}

func (c *engines) start(folder string, more ...string) *member {
	c.t.Helper()
	return c.serve(folder, append([]string{"--store", c.points, "--catalog", c.catalog, "--blob", c.blob}, more...)...)
}

// serve starts a server of a folder.
func (c *engines) serve(folder string, more ...string) *member {
	c.t.Helper()
	m := &member{folder: folder}
	args := append([]string{"serve", "--data", folder, "--http", "127.0.0.1:0"}, more...)
	m.cmd = exec.CommandContext(context.Background(), cmp.Or(c.program, "kymogram"), args...)
	m.cmd.Env = append(os.Environ(), "HOME="+c.t.TempDir(), "XDG_CONFIG_HOME="+c.t.TempDir(), "KYMOGRAM_ADMIN_KEY="+c.key)
	log, err := os.Create(filepath.Join(c.t.TempDir(), "log"))
	if err != nil {
		c.t.Fatal(err)
	}
	m.cmd.Stderr = log
	out, err := m.cmd.StdoutPipe()
	if err == nil {
		err = m.cmd.Start()
	}
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		m.kill()
		if text, err := os.ReadFile(log.Name()); c.t.Failed() {
			c.t.Logf("the server of %s: %v\n%s", folder, err, text)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if _, scan := fmt.Sscanf(line, "ready http=%s", &m.address); err != nil || scan != nil {
		text, _ := os.ReadFile(log.Name()) // is there
		c.t.Fatalf("serve said %q, %v\n%s", line, err, text)
	}
	return m
}

func (m *member) kill() {
	_ = m.cmd.Process.Kill() // it may have ended
	_ = m.cmd.Wait()
}

// kitchen is a user of a server.
func (c *engines) kitchen(m *member) *kitchen {
	return &kitchen{t: c.t, address: m.address, env: map[string]string{"HOME": c.t.TempDir(), "KYMOGRAM_SERVER": "http://" + m.address, "KYMOGRAM_API_KEY": c.key}}
}

// exported are the values of a run's points of all attempts: each with how often it is there.
func (k *kitchen) exported(run, metric string) map[float64]int {
	k.t.Helper()
	out := map[float64]int{}
	for line := range strings.Lines(k.ok("export", run, "--attempt", "all", "--metric", "^"+metric+"$")) {
		var p struct{ Value float64 }
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			k.t.Fatalf("%s: %v", line, err)
		}
		out[p.Value]++
	}
	return out
}

// TestServersOfAStore: writers write to two servers of one store, over the SDK's stream and as
// lines. One server is killed in the middle; the other goes on. What was acknowledged is there
// once, by what the writers say they had written.
func TestServersOfAStore(t *testing.T) {
	c := newCluster(t)
	first, second := c.start(t.TempDir()), c.start(t.TempDir())
	to := newSpread(t, first.address)
	run, err := kymogram.Init(t.Context(), kymogram.Options{
		Server: "http://" + to.address, APIKey: c.key, RunName: "sdk", OrchestrationID: "job", CloseTimeout: 2 * time.Minute,
		SpoolDir: t.TempDir(), NoEnvironment: true, NoSystemMetrics: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	half, lines := 500, int64(40)
	if os.Getenv("CLUSTER") != "" {
		half, lines = 50_000, 1000
	}
	logged := func(from, to int) {
		for i := from; i < to; i++ {
			if err := errors.Join(run.Log("loss", float64(i)), run.AddTags(fmt.Sprint("tag", i%7))); err != nil {
				t.Fatal(err)
			}
		}
	}
	logged(0, half)
	var writers sync.WaitGroup
	acked := make([]atomic.Int64, 4)
	var down atomic.Bool
	for w := range acked {
		writers.Go(func() {
			at := []string{first.address, second.address}
			for i := int64(1); i <= lines; {
				if down.Load() {
					at[0] = second.address
				}
				if c.line(at[int(i)%2], fmt.Sprintf("w%d", w), i) {
					acked[w].Store(i)
					i++
				}
			}
		})
	}
	k := c.kitchen(second)
	k.until("both writers are in the middle", func() bool {
		return acked[0].Load() >= 5 && strings.Contains(k.ok("runs", "list", "default"), "sdk") && len(k.exported("default/default/sdk", "loss")) > 0
	})
	first.kill()
	to.lead(second.address)
	down.Store(true)
	logged(half, 2*half)
	if err := run.Close(t.Context()); err != nil {
		t.Error(err)
	}
	writers.Wait()
	third := c.kitchen(c.start(t.TempDir())) // with a folder that knows nothing
	for _, reader := range []*kitchen{k, third} {
		reader.once("default/default/sdk", "loss", 0, 2*half)
		for w := range acked {
			reader.once("default/lines/default", fmt.Sprintf("w%d/v", w), 1, int(acked[w].Load())+1)
		}
		shown := reader.ok("runs", "show", "default/default/sdk")
		for tag := range 7 {
			if !strings.Contains(shown, fmt.Sprint("tag", tag)) {
				t.Errorf("tag%d is lost:\n%s", tag, shown)
			}
		}
	}
	again := c.kitchen(c.start(first.folder)) // as after a crash of the machine
	again.once("default/default/sdk", "loss", 0, 2*half)
}

// once compares with the numbers from a first one to below a last one.
func (k *kitchen) once(run, metric string, from, to int) {
	k.t.Helper()
	got := k.exported(run, metric)
	for i := from; i < to; i++ {
		if n := got[float64(i)]; n != 1 {
			k.t.Errorf("%s: %s %d is there %d times", run, metric, i, n)
		}
		delete(got, float64(i))
	}
	if len(got) > 0 {
		k.t.Errorf("%s: %s has %v, which nobody wrote", run, metric, got)
	}
}

// line writes a point and tells whether it was acknowledged.
func (c *engines) line(address, name string, n int64) bool {
	body := strings.NewReader(fmt.Sprintf("%s v=%d %d", name, n, n))
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodPost, "http://"+address+"/api/v2/write?bucket=lines", body)
	if err != nil {
		c.t.Error(err)
		return false
	}
	request.Header.Set("Authorization", "Token "+c.key)
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent && answer.StatusCode < 500 {
		text, _ := io.ReadAll(answer.Body) // what came of it
		c.t.Errorf("%s: %s", answer.Status, text)
	}
	return answer.StatusCode == http.StatusNoContent
}

// node is a server in this process that does not listen.
func (c *engines) node(folder string) *node {
	c.t.Helper()
	settings, err := config.Load("", func(string) string { return "" }, map[string]string{"data": folder, "http": "127.0.0.1:0", "store": c.points, "catalog": c.catalog, "blob": c.blob})
	if err != nil {
		c.t.Fatal(err)
	}
	n, err := openNode(c.t.Context(), settings, slog.New(slog.DiscardHandler))
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = n.close() })
	if _, err := n.keyring.Bootstrap(c.t.Context(), folder, c.key); err != nil {
		c.t.Fatal(err)
	}
	return n
}

// TestUpdatesThatAnotherServerStored: a server is killed between the store and the catalog. Its
// updates come into the catalog before those of the server that goes on with the run; also where
// none goes on.
func TestUpdatesThatAnotherServerStored(t *testing.T) {
	c := newCluster(t)
	killed, other := c.node(t.TempDir()), c.node(t.TempDir())
	p, err := other.keyring.Authenticate(t.Context(), c.key)
	if err != nil {
		t.Fatal(err)
	}
	ctx := auth.WithPrincipal(t.Context(), p)
	tags := func(first uint64, tags ...string) *model.Batch {
		return &model.Batch{First: first, Last: first, Updates: []model.Update{{Op: model.OpSetTags, Seq: first, Tags: tags}, {Op: model.OpLog, Seq: first, Path: tags[0], TimeNs: 1}}}
	}
	open := func(n *node, w byte) (*model.OpenResult, func(*model.Batch)) {
		t.Helper()
		s, err := n.ingest.Join(ctx, model.OpenRequest{Writer: model.WriterID{w}, Workspace: "w", Project: "p", RunName: fmt.Sprint("run", w)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return &s.Opened, func(b *model.Batch) {
			t.Helper()
			if _, err := s.Append(ctx, b); err != nil {
				t.Fatal(err)
			}
		}
	}
	expect := func(run model.RunID, tag string, events ...string) {
		t.Helper()
		d, err := other.catalog.GetRun(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range d.Events {
			got = append(got, e.Name)
		}
		if slices.Sort(got); !slices.Equal(got, events) || !slices.Equal(d.Tags, []string{tag}) {
			t.Errorf("tags %v, events %v, want %v and %v", d.Tags, got, tag, events)
		}
	}
	// Store them as the killed server did, without its catalog.
	stored := func(run model.RunID, b *model.Batch, w byte) {
		t.Helper()
		b.Run, b.Writer, b.Attempt = run, model.WriterID{w}, 1
		if _, err := killed.engine.Append(t.Context(), b); err != nil {
			t.Fatal(err)
		}
	}
	var runs []model.RunID
	// A stream that the other server has had open before.
	opened, _ := open(killed, 1)
	_, appendOther := open(other, 1)
	stored(opened.Run, tags(1, "a"), 1)
	appendOther(tags(2, "b"))
	expect(opened.Run, "b", "a", "b")
	runs = append(runs, opened.Run)
	// An open finds them.
	opened, _ = open(killed, 2)
	stored(opened.Run, tags(1, "c"), 2)
	open(other, 2)
	expect(opened.Run, "c", "c")
	runs = append(runs, opened.Run)
	// Nobody goes on with the run.
	opened, _ = open(killed, 3)
	stored(opened.Run, tags(1, "d"), 3)
	stored(opened.Run, tags(2, "e"), 3)
	if err := killed.close(); err != nil {
		t.Fatal(err)
	}
	schema := c.catalog[strings.Index(c.catalog, "search_path=")+len("search_path="):]
	c.database.Do(t, "UPDATE "+schema+".ledger_nodes SET seen = now() - interval '1 hour' WHERE folder = convert_to('"+killed.member.Node()+"', 'UTF8')")
	working, stop := context.WithCancel(ctx)
	ended := make(chan error)
	go func() { ended <- other.ingest.Run(working) }()
	(&kitchen{t: t}).until("the updates are taken over", func() bool {
		return strings.TrimSpace(c.database.Do(t, "SELECT count(*) FROM "+schema+".ledger_updates")) == "0"
	})
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	for i, tag := range []string{"b", "c"} {
		events := [][]string{{"a", "b"}, {"c"}}
		expect(runs[i], tag, events[i]...) // none comes twice
	}
	expect(opened.Run, "e", "d", "e")
}

// TestRefusedStores: a folder, a catalog and points that are not of one store are refused, each
// way. What looks into a folder for points or runs says where they are.
func TestRefusedStores(t *testing.T) {
	c := newCluster(t)
	m := c.start(t.TempDir())
	refused := func(says string, args ...string) {
		t.Helper()
		k := &kitchen{t: t, env: map[string]string{"HOME": t.TempDir()}}
		code, out, errs := k.run(args...)
		if code == 0 || !strings.Contains(errs, says) || strings.Contains(out+errs, "search_path=kymogram") {
			t.Errorf("%q: %d\n%s%s\nwant %q", args, code, out, errs, says)
		}
	}
	serve := func(folder string, more ...string) []string {
		return append([]string{"serve", "--data", folder, "--http", "127.0.0.1:0"}, more...)
	}
	refused("in use by another process", serve(m.folder, "--store", c.points, "--catalog", c.catalog, "--blob", c.blob)...)
	refused("the files of this store are in s3://files/team", serve(t.TempDir(), "--store", c.points, "--catalog", c.catalog)...)
	refused("the files of this store are in s3://files/team", serve(t.TempDir(), "--store", c.points, "--catalog", c.catalog, "--blob", strings.Replace(c.blob, "team", "other", 1))...)
	refused("does not have the points of this store", serve(t.TempDir(), "--store", c.otherPoints(), "--catalog", c.catalog, "--blob", c.blob)...)
	refused("has points of another store", serve(t.TempDir(), "--store", c.points, "--catalog", c.database.URL(t))...)
	refused("is the catalog of another server's data folder", serve(t.TempDir(), "--catalog", c.catalog)...)
	m.kill()
	refused("the points of "+m.folder+" are in clickhouse://", serve(m.folder, "--catalog", c.catalog)...)
	refused("the points of "+m.folder+" are in clickhouse://", serve(m.folder)...)
	for _, args := range [][]string{
		{"data", "stats"},
		{"data", "verify"},
		{"data", "repair"},
		{"data", "compact"},
		{"data", "backup", "--to", filepath.Join(t.TempDir(), "copy")},
		{"key", "list"},
		{"key", "create", "--name", "x", "--scope", "read"},
		{"migrate", "--catalog", c.catalog},
		{"migrate", "--back", "--catalog", c.catalog},
	} {
		refused("the points of "+m.folder+" are in clickhouse://", append(args, "--data", m.folder)...)
	}
	// A folder with points of its own, and its catalog.
	local, catalog := t.TempDir(), c.database.URL(t)
	k := serveKitchen(t, "--data", local, "--catalog", catalog)
	refused("has points, which a server with clickhouse://", serve(local, "--store", c.points, "--catalog", c.catalog)...)
	fresh := c.otherPoints()
	refused("is the catalog of another server's data folder", serve(t.TempDir(), "--store", fresh, "--catalog", catalog)...)
	if n := strings.TrimSpace(c.clickhouse.Do(t, "SELECT count() FROM "+fresh[strings.LastIndexByte(fresh, '/')+1:]+".points")); n != "0" {
		t.Errorf("the refused server left %s rows", n)
	}
	if keys := k.ok("key", "list"); !strings.Contains(keys, "admin") {
		t.Error(keys)
	}
}
