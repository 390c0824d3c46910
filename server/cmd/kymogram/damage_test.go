package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

var (
	damages    = flag.Int("damages", 100, "how many damages of a data folder to try")
	damageSeed = flag.Uint64("damage-seed", 1, "which ones")
)

// museum is a data folder as a SIGKILL left it, and what it answered.
type museum struct {
	folder  string
	older   string // the same folder, some runs earlier
	secrets map[string]string
	urls    []string
	want    map[string]string
}

// TestDamage damages every file of a data folder, one place at a time. Each damage
// is named by verify, by the start or by the read that meets it, or changes no
// answer. One of the catalog changes none: it is healed. Two damages at a time, and older
// copies of files, need only be named. `make proof-damage` tries 5,000.
func TestDamage(t *testing.T) {
	m := newMuseum(t)
	tries := *damages
	if testing.Short() {
		tries = min(tries, 25)
	}
	var mu sync.Mutex
	counts := map[string]int{}
	var all sync.WaitGroup
	next := make(chan int)
	for range 4 {
		all.Go(func() {
			for i := range next {
				found := m.try(t, rand.New(rand.NewPCG(*damageSeed, uint64(i))))
				mu.Lock()
				counts[found]++
				mu.Unlock()
			}
		})
	}
	for i := range tries {
		next <- i
	}
	close(next)
	all.Wait()
	for _, found := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%5d %s", counts[found], found)
	}
	if !t.Failed() && counts["named"]+counts["named, and every answer is the same"] == 0 {
		t.Error("nothing was damaged")
	}
}

func newMuseum(t *testing.T) *museum {
	t.Helper()
	m := &museum{folder: filepath.Join(t.TempDir(), "killed"), older: filepath.Join(t.TempDir(), "older"), secrets: map[string]string{}}
	origin := filepath.Join(t.TempDir(), "data")
	n := m.open(t, origin, slog.DiscardHandler)
	m.furnish(t, n, 0, 3)
	if err := n.engine.(*local.Engine).Flush(t.Context()); err != nil { //nolint:forcetypeassert // it is one
		t.Fatal(err)
	}
	m.furnish(t, n, 3, 5)
	if err := n.close(); err != nil { // flushes, and SQLite's file takes over its log
		t.Fatal(err)
	}
	if err := os.CopyFS(m.older, os.DirFS(origin)); err != nil {
		t.Fatal(err)
	}
	n = m.open(t, origin, slog.DiscardHandler)
	m.furnish(t, n, 5, 8)
	if err := os.CopyFS(m.folder, os.DirFS(origin)); err != nil {
		t.Fatal(err)
	}
	if err := n.close(); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(t.TempDir(), "data")
	m.copyTo(t, copied)
	if s, err := data.Folder(copied).Survey(t.Context(), true, io.Discard); err != nil || !s.OK {
		t.Fatalf("without damage: %+v, %v", s, err)
	}
	var err error
	if m.want, err = m.answers(t, copied, slog.DiscardHandler); err != nil {
		t.Fatal(err)
	}
	for url, answer := range m.want {
		if failed(answer) || len(answer) < 20 {
			t.Fatalf("%s: %s", url, answer)
		}
	}
	return m
}

func (m *museum) copyTo(t *testing.T, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(m.folder)); err != nil {
		t.Fatal(err)
	}
	if err := filepath.WalkDir(to, func(path string, d fs.DirEntry, err error) error {
		mode := fs.FileMode(0o600)
		if err == nil && d.IsDir() {
			mode = 0o700
		}
		return errors.Join(err, os.Chmod(path, mode))
	}); err != nil {
		t.Fatal(err)
	}
}

func configOf(folder string) (config.Config, error) {
	return config.Load("", func(string) string { return "" }, map[string]string{"data": folder, "http": "127.0.0.1:0"})
}

// open opens a folder as a start does.
func (m *museum) open(t *testing.T, folder string, log slog.Handler) *node {
	t.Helper()
	c, err := configOf(folder)
	if err != nil {
		t.Fatal(err)
	}
	n, err := openNode(t.Context(), c, slog.New(log))
	if err != nil {
		t.Fatal(err)
	}
	if m.secrets["admin"], err = n.keyring.Bootstrap(t.Context(), folder, ""); err != nil {
		t.Fatal(err)
	}
	return n
}

// furnish logs runs with points, videos and all that the catalog knows.
func (m *museum) furnish(t *testing.T, n *node, from, to int) {
	t.Helper()
	p, err := n.keyring.Authenticate(t.Context(), m.secrets["admin"])
	if err != nil {
		t.Fatal(err)
	}
	ctx := auth.WithPrincipal(t.Context(), p)
	for i := from; i < to; i++ {
		m.run(ctx, t, n, i)
	}
	name := fmt.Sprintf("key %d", from)
	secret, key, err := n.keyring.Create(ctx, auth.KeySpec{Name: name, Scopes: []auth.Scope{auth.Read}, Workspace: "w", Project: "p"})
	if err != nil {
		t.Fatal(err)
	}
	m.secrets[name] = secret
	if from == 0 || from == 5 {
		if err := n.keyring.Revoke(ctx, key.ID); err != nil {
			t.Fatal(err)
		}
	}
}

func (m *museum) run(ctx context.Context, t *testing.T, n *node, i int) {
	t.Helper()
	video := bytes.Repeat([]byte{byte(i), 7}, 2000)
	hash := sha256.Sum256(video)
	if err := n.blobs.Put(ctx, blob.Hash(hash), bytes.NewReader(video)); err != nil {
		t.Fatal(err)
	}
	r := model.OpenRequest{
		Writer: model.WriterID{byte(i), 1}, Workspace: "w", Project: "p", RunName: fmt.Sprintf("run%d", i), OpenedNs: int64(1e18) + int64(i), SDK: "test/1",
		Initial: []model.Update{{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(float64(i) / 7)}},
	}
	if i > 0 {
		r.ForkFromRun = fmt.Sprintf("run%d", i-1)
	}
	s, err := n.ingest.Join(ctx, r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	const rows = 200
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}}
	values := make([]float64, rows)
	for k := range rows {
		g.Axes[0].Values = append(g.Axes[0].Values, int64(k))
		g.TimeNs, g.Seq = append(g.TimeNs, int64(1e18)+int64(k)), append(g.Seq, uint64(k+1))
		values[k] = float64(k*k%97) / float64(i+3)
	}
	g.Columns = []model.Column{{Series: model.SeriesKey{Metric: "loss", Scale: "ML_STEP"}, Kind: model.KindFloat, Floats: values}}
	b := &model.Batch{First: 1, Last: rows + 1, Groups: []model.RowGroup{g}, Updates: []model.Update{
		{Op: model.OpSetAttribute, Path: "note", Value: model.StringValue(strings.Repeat("note ", 20*i))},
		{Op: model.OpSetEnvAttribute, Env: "cart", Path: "seed", Value: model.IntValue(int64(i))},
		{Op: model.OpAddTags, Tags: []string{"good", fmt.Sprint("t", i)}},
		{Op: model.OpLog, Path: "hello", Text: "event", TimeNs: int64(1e18)},
		{Op: model.OpRendering, Rendering: &model.Rendering{ID: "v", Env: "cart", Episode: 1, TimeNs: 5, SHA256: hex.EncodeToString(hash[:])}},
		{Op: model.OpClose, Text: string(model.StatusFinished), TimeNs: int64(1e18) + 5},
	}}
	if ack, err := s.Append(ctx, b); err != nil || len(ack.Refused) > 0 {
		t.Fatalf("%+v, %v", ack, err)
	}
	if i%4 == 3 {
		if err := n.ingest.DeleteRun(ctx, s.Opened.Run, false); err != nil {
			t.Fatal(err)
		}
	}
	m.sign(ctx, t, n, s.Opened.Run, r.RunName)
	at := "/api/v1/runs/" + s.Opened.Run.String()
	m.urls = append(m.urls, at, at+"/state/history", at+"/series", at+"/points?metric=loss&limit=1000", at+"/buckets?metric=loss&n=20", at+"/renderings", "/blob/"+hex.EncodeToString(hash[:]))
	if i == 0 {
		m.urls = append(m.urls, "/api/v1/projects", "/api/v1/projects/w/p/runs", "/api/v1/projects/w/p/runs?deleted=1", "/api/v1/projects/w/p/runs?q=lr%3E0.2", "/api/v1/projects/w/p/runs?sort=lr", "/api/v1/projects/w/p/runs?q=run2")
	}
}

// sign puts a signed record on a run.
func (m *museum) sign(ctx context.Context, t *testing.T, n *node, id model.RunID, name string) {
	t.Helper()
	key, err := wallet.NewKey([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	r := state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: "w", Project: "p", Run: name},
		Sequence: 1, TimeMs: uint64(now.UnixMilli()), ExpiresMs: uint64(now.Add(time.Hour).UnixMilli()), PayloadType: state.ConfigPayload,
	}
	e, err := state.Seal(r, []byte(`{"lr":1}`), key)
	if err == nil {
		_, err = n.states.Put(ctx, &catalog.Run{ID: id, Workspace: "w", Project: "p", Name: name}, e)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// answers is what a naive reader takes down from a folder; an error is that the
// server does not start.
func (m *museum) answers(t *testing.T, folder string, log slog.Handler) (out map[string]string, err error) {
	t.Helper()
	c, err := configOf(folder)
	if err != nil {
		return nil, err
	}
	n, err := openNode(t.Context(), c, slog.New(log))
	if err != nil {
		return nil, err
	}
	defer n.close() // of a damaged folder: what it answered is what counts
	if _, err := n.keyring.Bootstrap(t.Context(), folder, ""); err != nil {
		return nil, err
	}
	out = map[string]string{}
	for name, secret := range m.secrets {
		p, err := n.keyring.Authenticate(t.Context(), secret)
		if out[name] = fmt.Sprintf("the key is good for %+v, %v", p, err); name == "admin" && err == nil {
			m.read(t, n, p, out)
		}
	}
	return out, nil
}

func (m *museum) read(t *testing.T, n *node, p *auth.Principal, out map[string]string) {
	t.Helper()
	mux := http.NewServeMux()
	for _, r := range httpapi.New(n.query, n.ingest, n.live, httpapi.Options{States: n.states}).Routes() {
		mux.Handle(r.Method+" "+r.Pattern, r.Handler)
	}
	blobs := blob.NewHandler(n.blobs, n.signer, 1<<20, n.query.MayReadBlob, n.fail)
	mux.Handle("/blob/{sha256}", blobs)
	for _, url := range m.urls {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequestWithContext(auth.WithPrincipal(t.Context(), p), http.MethodGet, url, nil))
		out[url] = fmt.Sprint(w.Code, " ", w.Body.String())
	}
}

func failed(answer string) bool { return strings.HasPrefix(answer, "5") }

// try damages one place of a copy. It says what came of it.
func (m *museum) try(t *testing.T, random *rand.Rand) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "data")
	defer os.RemoveAll(filepath.Dir(folder))
	m.copyTo(t, folder)
	what, done := m.harm(t, folder, random)
	if !done {
		return "no byte was changed"
	}
	survey, verr := data.Folder(folder).Survey(t.Context(), true, io.Discard)
	named := verr != nil || !survey.OK
	log := &warnings{}
	got, err := m.answers(t, folder, log)
	if err != nil {
		return "the server does not start, and says why"
	}
	named = named || log.count > 0
	var changed []string
	for url, want := range m.want {
		if got[url] != want {
			changed = append(changed, url)
			named = named || failed(got[url])
		}
	}
	slices.Sort(changed)
	switch {
	case len(changed) > 0 && !named:
		t.Errorf("SILENT: %s: %s\nis  %.600s\nwas %.600s", what, changed, got[changed[0]], m.want[changed[0]])
		return "SILENT"
	case len(changed) > 0 && !strings.Contains(what, " and ") && (strings.HasPrefix(what, "catalog.db") || strings.HasPrefix(what, "state.db")):
		t.Errorf("NOT HEALED: %s: %s\nis  %.600s\nwas %.600s", what, changed, got[changed[0]], m.want[changed[0]])
		return "NOT HEALED"
	case len(changed) > 0:
		return "named"
	case named:
		return "named, and every answer is the same"
	}
	return "every answer is the same"
}

// harm damages a folder once or twice, or puts older copies into it.
func (m *museum) harm(t *testing.T, folder string, random *rand.Rand) (what string, done bool) {
	t.Helper()
	switch kind := random.IntN(8); kind {
	case 0:
		one, changed := damage(t, folder, random)
		two, too := damage(t, folder, random)
		return one + " and " + two, changed || too
	case 1:
		return m.rollBack(t, folder, random)
	case 2:
		return losePair(t, folder, random)
	}
	return damage(t, folder, random)
}

// rollBack puts an older copy of a file, or of the catalog as a whole, in its place.
func (m *museum) rollBack(t *testing.T, folder string, random *rand.Rand) (what string, done bool) {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(m.older), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(name, "state.db") { // witnesses see an older one
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	what = names[random.IntN(len(names))]
	names = []string{what}
	if random.IntN(2) == 0 {
		what, names = "catalog.db with its log and its mirror", wholeCatalog(t, m.older)
		for _, name := range wholeCatalog(t, folder) {
			if err := os.Remove(filepath.Join(folder, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, name := range names {
		old, err := os.ReadFile(filepath.Join(m.older, name))
		now, _ := os.ReadFile(filepath.Join(folder, name)) // it may be gone by now
		done = done || !bytes.Equal(old, now)
		if err := errors.Join(err, os.MkdirAll(filepath.Dir(filepath.Join(folder, name)), 0o700), os.WriteFile(filepath.Join(folder, name), old, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return "older copies: " + what + " and nothing else", done
}

// wholeCatalog lists the files of a catalog and of its mirror.
func wholeCatalog(t *testing.T, folder string) (names []string) {
	t.Helper()
	if err := fs.WalkDir(os.DirFS(folder), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() && strings.HasPrefix(name, "catalog.db") {
			names = append(names, name)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return names
}

// losePair deletes, or cuts, a file with the one beside it that would tell.
func losePair(t *testing.T, folder string, random *rand.Rand) (what string, done bool) {
	t.Helper()
	pair := [][2]string{
		{"store/segments/LIST", "store/segments/*.kgs"}, {"store/wal/TIP", "store/wal/*.wal"}, {"catalog.db-mirror/*.wal", "catalog.db"}, {"catalog.db-wal", "catalog.db-mirror/*.wal"}, {"state.db", "state.db-mirror/*.wal"},
	}[random.IntN(5)]
	for i, pattern := range pair {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no %s: %v", pattern, err)
		}
		path := found[random.IntN(len(found))]
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if how := random.IntN(2); i == 1 && how == 0 && info.Size() > 0 {
			err = os.Truncate(path, random.Int64N(info.Size()))
		} else {
			err = os.Remove(path)
		}
		if err != nil {
			t.Fatal(err)
		}
		done = done || info.Size() > 0
	}
	return pair[0] + " is lost and " + pair[1], done
}

// warnings counts what a start logs besides news.
type warnings struct {
	mu    sync.Mutex
	count int
}

func (w *warnings) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelWarn }

func (w *warnings) Handle(context.Context, slog.Record) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.count++
	return nil
}

func (w *warnings) WithAttrs([]slog.Attr) slog.Handler { return w }
func (w *warnings) WithGroup(string) slog.Handler      { return w }

// damage harms one place of one file, each file as likely as any other.
func damage(t *testing.T, folder string, random *rand.Rand) (what string, done bool) {
	t.Helper()
	var files []string
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	path := files[random.IntN(len(files))]
	name, err := filepath.Rel(folder, path)
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kinds := []func([]byte, *rand.Rand) (string, []byte){flipped, truncated, zeroed, swapped, doubled}
	kind := random.IntN(len(kinds) + 1)
	if kind == len(kinds) {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		return name + " is deleted", true
	}
	if len(before) == 0 {
		return name + " is empty", false
	}
	how, after := kinds[kind](bytes.Clone(before), random)
	if err := os.WriteFile(path, after, 0o600); err != nil {
		t.Fatal(err)
	}
	return name + how, !bytes.Equal(before, after)
}

func flipped(b []byte, random *rand.Rand) (string, []byte) {
	at, bit := random.IntN(len(b)), random.IntN(8)
	b[at] ^= 1 << bit
	return fmt.Sprintf(": bit %d of byte %d", bit, at), b
}

func truncated(b []byte, random *rand.Rand) (string, []byte) {
	n := random.IntN(len(b))
	return fmt.Sprintf(" is cut at byte %d", n), b[:n]
}

// block is a range of a file as disks write it.
func block(b []byte, random *rand.Rand) (from, to int) {
	size := []int{512, 4096}[random.IntN(2)]
	from = random.IntN((len(b)+size-1)/size) * size
	return from, min(from+size, len(b))
}

func zeroed(b []byte, random *rand.Rand) (string, []byte) {
	from, to := block(b, random)
	clear(b[from:to])
	return fmt.Sprintf(": the bytes %d to %d are zero", from, to), b
}

func swapped(b []byte, random *rand.Rand) (string, []byte) {
	from, to := block(b, random)
	n := to - from
	other := random.IntN((len(b)-1)/n+1) * n
	if other+n > len(b) || other == from {
		return flipped(b, random)
	}
	one := bytes.Clone(b[from:to])
	copy(b[from:to], b[other:other+n])
	copy(b[other:other+n], one)
	return fmt.Sprintf(": %d bytes at %d and %d are swapped", n, from, other), b
}

func doubled(b []byte, random *rand.Rand) (string, []byte) {
	n := 1 + random.IntN(len(b))
	return fmt.Sprintf(": its last %d bytes are there twice", n), append(b, b[len(b)-n:]...)
}
