package wandb

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// lab is the receiver over a real engine and catalog. The disk of the engine is in memory,
// and time passes when the test says so.
type lab struct {
	t       testing.TB
	fs      *faultfs.FS
	dir     string
	engine  *local.Engine
	catalog *sqlite.DB
	ingest  *ingest.Service
	query   *query.Service
	to      *Receiver
	mux     *http.ServeMux
	maxBody int64

	mu     sync.Mutex
	at     time.Time
	denied map[catalog.Scope]bool // what the caller lacks
}

func newLab(t testing.TB) *lab {
	t.Helper()
	l := &lab{t: t, fs: faultfs.New(), dir: t.TempDir(), at: time.Unix(1_800_000_000, 0), denied: map[catalog.Scope]bool{}, maxBody: 8 << 20}
	l.start()
	t.Cleanup(func() { l.stop() })
	return l
}

// now is the clock of all parts. No two looks at it show the same time.
func (l *lab) now() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.at = l.at.Add(time.Microsecond)
	return l.at
}

func (l *lab) pass(d time.Duration) {
	l.mu.Lock()
	l.at = l.at.Add(d)
	l.mu.Unlock()
}

// deny takes a right away, or gives it back.
func (l *lab) deny(scope catalog.Scope, denied bool) {
	l.mu.Lock()
	l.denied[scope] = denied
	l.mu.Unlock()
}

// Allow is the lab's authorizer.
func (l *lab) Allow(_ context.Context, scope catalog.Scope, workspace, project string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.denied[scope] {
		return model.Errorf(model.CodePermission, "no %s in %s/%s", scope, workspace, project)
	}
	return nil
}

// Reach is everywhere.
func (l *lab) Reach(context.Context) (workspace, project string) { return "", "" }

// Publish is nobody who listens.
func (*lab) Publish(model.RunChange) {}

// store is where the engine keeps its files: in memory, for a benchmark on the disk.
func (l *lab) store() local.Config {
	if _, is := l.t.(*testing.B); is {
		return local.Config{Dir: filepath.Join(l.dir, "store"), Now: l.now}
	}
	return local.Config{Dir: "/store", FS: l.fs, Now: l.now}
}

func (l *lab) start() {
	l.t.Helper()
	var err error
	if l.engine, err = local.Open(context.Background(), l.store()); err != nil {
		l.t.Fatal(err)
	}
	if l.catalog, err = sqlite.Open(context.Background(), filepath.Join(l.dir, "catalog.db")); err != nil {
		l.t.Fatal(err)
	}
	l.ingest = ingest.New(ingest.Config{}, ingest.Deps{
		Points: l.engine, Updates: l.engine, Starts: l.engine, Roster: l.engine, Catalog: l.catalog, Views: l.catalog, Artifacts: l.catalog, Names: l.catalog,
		Auth: l, Live: l, Now: l.now, Log: slog.New(slog.DiscardHandler),
	})
	if err := l.ingest.Recover(context.Background()); err != nil {
		l.t.Fatal(err)
	}
	l.query = query.New(l.engine, l.catalog, l, l.ingest, query.Limits{Time: time.Hour})
	l.renew()
}

// renew makes another receiver, which knows nothing of what the one before had at hand.
func (l *lab) renew() {
	l.t.Helper()
	l.settle()
	blobs, err := dir.Open(filepath.Join(l.dir, "blobs"))
	if err != nil {
		l.t.Fatal(err)
	}
	signer, err := blob.NewSigner(bytes.Repeat([]byte{7}, 32), l.now)
	if err != nil {
		l.t.Fatal(err)
	}
	l.to = New(l.ingest, l.query, Options{
		MaxBody: l.maxBody, MaxFile: 1 << 20, Work: share.NewWide("memory", 256<<20, 64<<20, 0), Blobs: blobs, Signer: signer, Now: l.now, Log: slog.New(slog.DiscardHandler),
	})
	l.mux = http.NewServeMux()
	for pattern, h := range l.to.Handlers() {
		l.mux.Handle(pattern, h)
	}
}

func (l *lab) stop() {
	l.t.Helper()
	l.settle()
	if err := cmp.Or(l.engine.Close(), l.catalog.Close()); err != nil {
		l.t.Error(err)
	}
}

// restart is that of the whole server.
func (l *lab) restart() {
	l.t.Helper()
	l.stop()
	l.start()
}

// settle does what the server's background does when it ends: the catalog learns who was
// heard of.
func (l *lab) settle() {
	l.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := l.ingest.Run(ctx); err != nil {
		l.t.Error(err)
	}
}

// do sends a request.
func (l *lab) do(ctx context.Context, method, path string, body []byte, header ...string) *httptest.ResponseRecorder {
	l.t.Helper()
	q := httptest.NewRequest(method, path, bytes.NewReader(body)).WithContext(ctx)
	for i := 0; i < len(header); i += 2 {
		q.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	l.mux.ServeHTTP(w, q)
	return w
}

// answer is that of GraphQL.
type answer struct {
	Data   map[string]any
	Errors []struct{ Message string }
}

// ask sends a GraphQL document.
func (l *lab) ask(document string, variables map[string]any, header ...string) answer {
	l.t.Helper()
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		l.t.Fatal(err)
	}
	w := l.do(l.t.Context(), http.MethodPost, "/graphql", body, header...)
	var a answer
	if w.Code != http.StatusOK || json.Unmarshal(w.Body.Bytes(), &a) != nil {
		l.t.Fatalf("%d: %s", w.Code, w.Body)
	}
	return a
}

// want asks and fails on errors.
func (l *lab) want(document string, variables map[string]any, header ...string) map[string]any {
	l.t.Helper()
	a := l.ask(document, variables, header...)
	if len(a.Errors) > 0 {
		l.t.Fatalf("%s: %v", document, a.Errors)
	}
	return a.Data
}

const upsertDocument = `mutation UpsertBucket($id: String, $name: String, $project: String, $entity: String, $groupName: String, $displayName: String, $notes: String, $config: JSONString, $summary: JSONString, $host: String, $program: String, $tags: [String!]) {
	upsertBucket(input: {id: $id, name: $name, modelName: $project, entityName: $entity, groupName: $groupName, displayName: $displayName, notes: $notes, config: $config, summaryMetrics: $summary, host: $host, jobProgram: $program, tags: $tags}) {
		bucket { id name displayName config historyLineCount project { name entity { name } } } inserted } }`

// upsert is an UpsertBucket of a run of the project w/p; more is merged into its variables.
func (l *lab) upsert(name string, more map[string]any, header ...string) map[string]any {
	l.t.Helper()
	v := map[string]any{"name": name, "project": "p", "entity": "w"}
	for key, value := range more {
		v[key] = value
	}
	data := l.want(upsertDocument, v, header...)
	return data["upsertBucket"].(map[string]any)["bucket"].(map[string]any) //nolint:forcetypeassert // a test may
}

// begins is the UpsertBucket of a process of 0.31 that begins.
func (l *lab) begins(name string, header ...string) map[string]any {
	l.t.Helper()
	return l.upsert(name, map[string]any{"host": "box", "program": "train.py", "config": `{"_wandb":{"value":{"cli_version":"0.31.0","t":{"3":[1]}}}}`}, header...)
}

const runDocument = `query Run($name: String!, $from: Int, $to: Int) { project(name: "p", entityName: "w") { run(name: $name) {
	id state historyLineCount config summaryMetrics history(minStep: $from, maxStep: $to, samples: 10000) historyTail logLineCount eventsLineCount historyKeys } } }`

// run reads a run.
func (l *lab) run(name string) map[string]any {
	l.t.Helper()
	data := l.want(runDocument, map[string]any{"name": name, "from": 0})
	return data["project"].(map[string]any)["run"].(map[string]any) //nolint:forcetypeassert // a test may
}

// stream sends a chunk.
func (l *lab) stream(ctx context.Context, name string, chunk map[string]any, header ...string) *httptest.ResponseRecorder {
	l.t.Helper()
	body, err := json.Marshal(chunk)
	if err != nil {
		l.t.Fatal(err)
	}
	return l.do(ctx, http.MethodPost, "/files/w/p/"+name+"/file_stream", body, header...)
}

// sends is stream that must succeed.
func (l *lab) sends(name string, chunk map[string]any, header ...string) {
	l.t.Helper()
	if w := l.stream(l.t.Context(), name, chunk, header...); w.Code != http.StatusOK {
		l.t.Fatalf("%d: %s", w.Code, w.Body)
	}
}

// lines are a file of a chunk.
func linesAt(offset int, lines ...string) map[string]any {
	return map[string]any{"offset": offset, "content": append([]string{}, lines...)}
}

func historyAt(offset int, lines ...string) map[string]any {
	return map[string]any{"files": map[string]any{fileHistory: linesAt(offset, lines...)}}
}

func (l *lab) id(name string) model.RunID {
	l.t.Helper()
	id, err := l.catalog.FindRun(l.t.Context(), "w", "p", name)
	if err != nil {
		l.t.Fatal(err)
	}
	return id
}

// stored are all rows of a run, those too that another attempt hides.
func (l *lab) stored(name string, steps []int64) (lines []string) {
	l.t.Helper()
	found, err := row.Find(l.t.Context(), l.query, l.id(name), steps)
	if err != nil {
		l.t.Fatal(err)
	}
	for _, step := range steps {
		for _, r := range found[step] {
			lines = append(lines, string(r.Line))
		}
	}
	return lines
}

// plainRow is a row that no other equals.
func plainRow(value int, step int64, extra ...string) string {
	text := fmt.Sprintf(`{"v":%d,"_step":%d,"_runtime":%d.5,"_timestamp":%d.25`, value, step, value, 1_700_000_000+value)
	for _, e := range extra {
		text += "," + e
	}
	return text + "}"
}
