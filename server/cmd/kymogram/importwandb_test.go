package main

import (
	"bytes"
	"cmp"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/migration"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

// wandbDoor is the W&B door of a kitchen, for a naive client.
type wandbDoor struct {
	*kitchen
	base, key string
}

func (k *kitchen) wandb() *wandbDoor {
	k.t.Helper()
	stored, err := os.ReadFile(filepath.Join(k.env["XDG_CONFIG_HOME"], "kymogram", "credentials.json"))
	if err != nil {
		k.t.Fatal(err)
	}
	var keys map[string]string
	if err := json.Unmarshal(stored, &keys); err != nil {
		k.t.Fatal(err)
	}
	return &wandbDoor{k, "http://" + k.address, keys["http://"+k.address]}
}

func (w *wandbDoor) do(method, address string, body []byte) (int, []byte) {
	w.t.Helper()
	q, err := http.NewRequestWithContext(w.t.Context(), method, address, bytes.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	if method != http.MethodPut {
		q.SetBasicAuth("api", w.key)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		w.t.Fatal(err)
	}
	defer answer.Body.Close()
	said, err := io.ReadAll(answer.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return answer.StatusCode, said
}

// ask asks GraphQL and gives the data.
func (w *wandbDoor) ask(document string, variables map[string]any) map[string]any {
	w.t.Helper()
	body, err := json.Marshal(map[string]any{"query": document, "variables": variables})
	if err != nil {
		w.t.Fatal(err)
	}
	code, said := w.do(http.MethodPost, w.base+"/graphql", body)
	var doc struct {
		Data   map[string]any
		Errors []any
	}
	if err := json.Unmarshal(said, &doc); err != nil || code != 200 || len(doc.Errors) > 0 {
		w.t.Fatalf("%s: %d %s %v", document, code, said, err)
	}
	return doc.Data
}

func at(v any, path ...string) any {
	for _, name := range path {
		inner, _ := v.(map[string]any)
		v = inner[name]
	}
	return v
}

func (w *wandbDoor) upsert(input map[string]any) map[string]any {
	w.t.Helper()
	data := w.ask(`mutation UpsertBucket($input: UpsertBucketInput!) { upsertBucket(input: $input) { bucket { id name } inserted } }`, map[string]any{"input": input})
	bucket, _ := at(data, "upsertBucket", "bucket").(map[string]any)
	return bucket
}

// stream sends a body of file_stream.
func (w *wandbDoor) stream(place, run string, files map[string][]string, more map[string]any) {
	w.t.Helper()
	doc := map[string]any{}
	maps.Copy(doc, more)
	inner := map[string]any{}
	for name, lines := range files {
		inner[name] = map[string]any{"offset": 0, "content": lines}
	}
	doc["files"] = inner
	body, err := json.Marshal(doc)
	if err != nil {
		w.t.Fatal(err)
	}
	if code, said := w.do(http.MethodPost, w.base+"/files/"+place+"/"+run+"/file_stream", body); code != 200 {
		w.t.Fatalf("file_stream: %d %s", code, said)
	}
}

func (w *wandbDoor) put(place, run, name string, content []byte) {
	w.t.Helper()
	entity, project, _ := strings.Cut(place, "/")
	data := w.ask(`mutation CreateRunFiles($e: String, $p: String, $r: String!, $f: [String!]!) { createRunFiles(input: {entityName: $e, projectName: $p, runName: $r, files: $f}) { files { name uploadUrl } } }`,
		map[string]any{"e": entity, "p": project, "r": run, "f": []string{name}})
	files, _ := at(data, "createRunFiles", "files").([]any)
	address, _ := at(files[0], "uploadUrl").(string)
	if code, said := w.do(http.MethodPut, address, content); code != 200 {
		w.t.Fatalf("PUT %s: %d %s", name, code, said)
	}
}

// logs makes a run as the SDK does: an init, lines of history and events, an end.
func (w *wandbDoor) logs(place, run string, rows int, step func(i int) int, more map[string]any) {
	w.t.Helper()
	entity, project, _ := strings.Cut(place, "/")
	input := map[string]any{
		"entityName": entity, "modelName": project, "name": run, "displayName": "shown " + run, "notes": "a note\nof " + run, "groupName": "g",
		"jobType": "train", "tags": []string{"one", "two"}, "host": "box", "jobProgram": "train.py", "commit": "abc",
		"config": `{"_wandb":{"value":{"cli_version":"0.31.0","t":{"2":[1],"12":"0.31.0"},"m":[{"1":"epoch","6":[3]}]}},"lr":{"value":0.1},"none":{"value":null},"nan":{"value":NaN},"nest":{"value":{"a":{"b":[1,2.50]},"c.d":1e3}}}`,
	}
	maps.Copy(input, more)
	w.upsert(input)
	var lines []string
	for i := range rows {
		lines = append(lines, rowOf(run, i, step(i)))
		if len(lines) == 2000 || i == rows-1 {
			w.stream(place, run, map[string][]string{"wandb-history.jsonl": lines}, nil)
			lines = lines[:0]
		}
	}
	var events []string
	for i := range 30 {
		events = append(events, fmt.Sprintf(`{"system.cpu":%d.5,"system.gpu.0.temp":%d,"_timestamp":%d.25,"_runtime":%d.25,"_wandb":true}`, i, 40+i, 1_700_000_000+15*i, 15*i))
	}
	w.stream(place, run, map[string][]string{
		"wandb-events.jsonl": events, "wandb-summary.json": {fmt.Sprintf(`{"_step":%d,"loss":NaN,"best":{"min":0.5},"_wandb":{"runtime":9}}`, rows)},
	}, map[string]any{"complete": true, "exitcode": len(run) % 2})
}

// rowOf is a row with everything that W&B's rows may hold.
func rowOf(run string, i, step int) string {
	r := fmt.Sprintf(`{"_step":%d,"_runtime":%d.125,"_timestamp":%d.7265129,"loss":%s,"n":%d`, step, i, 1_700_000_000+i, strconv.FormatFloat(1/float64(i+1), 'g', -1, 64), i)
	switch i % 7 {
	case 0:
		r += `,"bad":NaN,"worse":-Infinity,"text":"ü \ud83d\ude00 \\ \" \n"`
	case 1:
		r += `,"nested":{"a":{"b":1,"c":[1,{"d":null}]},"t":"x"}`
	case 2:
		r += `,"h":{"_type":"histogram","bins":[0,1,2],"values":[3,4]}`
	case 3:
		r += `,"img":{"_type":"image-file","path":"media/images/img_0_a.png","sha256":"` + run + `","size":4},"flag":true,"nothing":null`
	case 4:
		r += `,"big":9223372036854775807123,"exact":9007199254740993,"list":[1,"two",[3]],"":"empty","a/b.c":1`
	}
	return r + "}"
}

// everything reads a project as a naive client does: all that its runs have, by name. Ids,
// addresses and what the server counts of itself are left out.
func (w *wandbDoor) everything(place string) map[string]any {
	w.t.Helper()
	entity, project, _ := strings.Cut(place, "/")
	out := map[string]any{}
	for cursor := any(nil); ; {
		data := w.ask(`query R($e: String, $p: String, $after: String) { project(name: $p, entityName: $e) { runs(first: 3, after: $after, order: "+created_at") { edges { node {
			name displayName state tags group jobType sweepName commit createdAt notes config summaryMetrics historyLineCount eventsLineCount user { username }
			historyKeys history(minStep: 0, maxStep: 1000000000, samples: 10000) events(samples: 10000) fileCount files(first: 100) { edges { node { name url sizeBytes md5 } } } } cursor } pageInfo { endCursor hasNextPage } } } }`,
			map[string]any{"e": entity, "p": project, "after": cursor})
		edges, _ := at(data, "project", "runs", "edges").([]any)
		for _, e := range edges {
			run, _ := at(e, "node").(map[string]any)
			files := map[string]string{}
			list, _ := at(run, "files", "edges").([]any)
			for _, f := range list {
				address, _ := at(f, "node", "url").(string)
				code, content := w.do(http.MethodGet, address, nil)
				files[fmt.Sprint(at(f, "node", "name"))] = fmt.Sprintf("%d %v %v %x", code, at(f, "node", "sizeBytes"), at(f, "node", "md5"), content)
			}
			run["files"] = files
			out[fmt.Sprint(run["name"])] = run
		}
		info := at(data, "project", "runs", "pageInfo")
		if at(info, "hasNextPage") != true {
			return out
		}
		cursor = at(info, "endCursor")
	}
}

// same compares two projects.
func same(t *testing.T, from, to map[string]any) {
	t.Helper()
	if len(from) != len(to) || len(from) == 0 {
		t.Errorf("%d runs became %d", len(from), len(to))
	}
	for name, run := range from {
		want, _ := run.(map[string]any)
		got, _ := to[name].(map[string]any)
		for _, field := range slices.Sorted(maps.Keys(want)) {
			a, _ := json.Marshal(want[field])
			b, _ := json.Marshal(got[field])
			if !bytes.Equal(a, b) {
				n := 0
				for n < min(len(a), len(b)) && a[n] == b[n] {
					n++
				}
				n = max(n-40, 0)
				t.Errorf("%s: %s differs at %d of %d and %d bytes:\n%.300s\n%.300s", name, field, n, len(a), len(b), a[n:], b[n:])
			}
		}
	}
}

func (k *kitchen) copies(w *wandbDoor, args ...string) migration.Report {
	k.t.Helper()
	k.env["WANDB_API_KEY"], k.env["WANDB_BASE_URL"] = w.key, w.base
	var r migration.Report
	out := k.ok(append([]string{"import", "wandb", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil {
		k.t.Fatalf("import printed %q: %v", out, err)
	}
	return r
}

func states(r migration.Report) map[string]int {
	out := map[string]int{}
	for _, one := range r.Runs {
		out[one.State]++
	}
	return out
}

func plain(i int) int { return i }

// A copy of a project reads back as the project does, a second import changes nothing, and
// what grows is taken later.
func TestImportWandbCopiesAProject(t *testing.T) {
	t.Parallel()
	source, here := serveKitchen(t), serveKitchen(t)
	w := source.wandb()
	w.logs("team/proj", "aaaa1111", 2500, plain, nil)
	w.logs("team/proj", "bbbb222", 40, func(i int) int { return i * 40_000 }, map[string]any{"displayName": "sparse"})
	w.logs("team/proj", "cccc3333", 0, plain, map[string]any{"tags": []string{}, "notes": ""})
	for i := range 30 {
		w.logs("team/proj", fmt.Sprintf("many%02d", i), 1+i%3, plain, nil)
	}
	w.put("team/proj", "aaaa1111", "media/images/img ü%_0.png", []byte{0, 1, 2, 255})
	w.put("team/proj", "aaaa1111", "empty.txt", nil)
	w.put("team/proj", "aaaa1111", "large.bin", bytes.Repeat([]byte("0123456789"), 300_000))

	dry := here.copies(w, "--project", "team/proj", "--dry-run", "--files")
	if states(dry)[transfer.Imported] != 33 {
		t.Errorf("dry run: %v", states(dry))
	}
	if got := here.wandb().everything("team/proj"); len(got) > 0 {
		t.Errorf("a dry run made %d runs", len(got))
	}
	first := here.copies(w, "--project", "team/proj", "--files")
	if states(first)[transfer.Imported] != 33 || first.Files != 3 || first.FileBytes != 3_000_004 {
		t.Errorf("first import: %v, %d files of %d bytes", states(first), first.Files, first.FileBytes)
	}
	same(t, w.everything("team/proj"), here.wandb().everything("team/proj"))
	second := here.copies(w, "--project", "team/proj", "--files")
	if states(second)[transfer.Unchanged] != 33 || second.Files != 0 {
		t.Errorf("second import: %v, %d files", states(second), second.Files)
	}

	// The source goes on: rows, a file, a config, another end.
	w.stream("team/proj", "aaaa1111", map[string][]string{"wandb-history.jsonl": {rowOf("x", 5000, 5000), rowOf("x", 5001, 5001)}}, map[string]any{"complete": true, "exitcode": 0})
	w.put("team/proj", "aaaa1111", "large.bin", []byte("smaller"))
	w.upsert(map[string]any{"entityName": "team", "modelName": "proj", "name": "bbbb222", "notes": "later", "config": `{"lr":{"value":2}}`})
	third := here.copies(w, "--project", "team/proj", "--files")
	if s := states(third); s[transfer.Updated] != 2 || s[transfer.Unchanged] != 31 || third.Files != 1 {
		t.Errorf("third import: %v, %d files", s, third.Files)
	}
	same(t, w.everything("team/proj"), here.wandb().everything("team/proj"))

	// Some runs, into another project; a name that is missing is named.
	some := here.copies(w, "--project", "team/proj", "--to", "lab/other", "--run", "bbbb222,many03")
	if states(some)[transfer.Imported] != 2 {
		t.Errorf("some runs: %v", states(some))
	}
	filtered := here.copies(w, "--project", "team/proj", "--to", "lab/filtered", "--filter", `{"display_name":"sparse"}`)
	if len(filtered.Runs) != 1 || filtered.Runs[0].Run != "lab/filtered/bbbb222" {
		t.Errorf("filtered: %+v", filtered.Runs)
	}
	if code, out, errs := here.run("import", "wandb", "--project", "team/proj", "--run", "gone", "--to", "lab/other"); code != 1 || !strings.Contains(errs, "there is no run") {
		t.Errorf("a run that is not there: %d %s%s", code, out, errs)
	}

	// The whole entity.
	w.logs("team/second", "dddd4444", 3, plain, nil)
	all := here.copies(w, "--entity", "team", "--to", "whole")
	if states(all)[transfer.Imported] != 34 {
		t.Errorf("the entity: %v", states(all))
	}
	same(t, w.everything("team/second"), here.wandb().everything("whole/second"))
}

// A run of this name that was logged here is never touched.
func TestImportWandbLeavesOthersAlone(t *testing.T) {
	t.Parallel()
	source, here := serveKitchen(t), serveKitchen(t)
	w, own := source.wandb(), here.wandb()
	w.logs("team/proj", "aaaa1111", 3, plain, nil)
	own.logs("team/proj", "aaaa1111", 5, plain, map[string]any{"notes": "mine"})
	before := own.everything("team/proj")
	here.env["WANDB_API_KEY"], here.env["WANDB_BASE_URL"] = w.key, w.base
	if code, _, errs := here.run("import", "wandb", "--project", "team/proj"); code != 1 || !strings.Contains(errs, "does not come from this source") {
		t.Errorf("%d %s", code, errs)
	}
	same(t, before, own.everything("team/proj"))
}

// The key is found where the SDK has it, and what is wrong is said without it.
func TestImportWandbSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	source, here := serveKitchen(t), serveKitchen(t)
	w := source.wandb()
	w.logs("team/proj", "aaaa1111", 3, plain, nil)
	bad := strings.Repeat("0123456789", 4)
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(bad+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here.env["WANDB_BASE_URL"] = w.base
	for _, c := range []struct {
		env  string
		args []string
		code int
		says string
	}{
		{"", []string{"--project", "team/proj"}, 1, "wants an API key"},
		{bad, []string{"--project", "team/proj"}, 1, "refuses the key from WANDB_API_KEY"},
		{w.key, []string{"--project", "team/proj", "--key-file", file}, 1, "refuses the key from " + file},
		{w.key, []string{"--project", "team"}, 2, "no ENTITY/PROJECT"},
		{w.key, nil, 2, "import what?"},
		{w.key, []string{"--project", "team/proj", "--filter", "[]"}, 2, "no JSON object"},
		{w.key, []string{"--project", "team/proj", "--filter", `{"$bad":1}`}, 1, "$bad"},
		{w.key, []string{"--project", "team/proj", "--server", "ftp://x"}, 2, "no address"},
		{w.key, []string{"--project", "team/proj", "--kymogram", w.base}, 2, "source and the destination"},
		{w.key, []string{"--project", "team/proj", "--to", "not a name/x"}, 2, "--to"},
	} {
		here.env["WANDB_API_KEY"] = c.env
		code, out, errs := here.run(append([]string{"import", "wandb"}, c.args...)...)
		if code != c.code || !strings.Contains(errs, c.says) {
			t.Errorf("%v: %d %q, want %d %q", c.args, code, errs, c.code, c.says)
		}
		if strings.Contains(out+errs, bad) || strings.Contains(out+errs, w.key) {
			t.Errorf("%v: a key was printed: %s%s", c.args, out, errs)
		}
	}
	host, _, err := net.SplitHostPort(source.address)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here.env["HOME"], "_netrc"), []byte("machine "+host+" login user password "+w.key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	here.env["WANDB_API_KEY"] = ""
	here.ok("import", "wandb", "--project", "team/proj", "--json")
}

// unsure is a proxy that answers each n-th request with an error, or cuts it.
func unsure(t *testing.T, to string, every int64) string {
	t.Helper()
	target, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // files come through the proxy, too
	}}
	var n atomic.Int64
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		i := n.Add(1)
		if i%every != 0 {
			proxy.ServeHTTP(w, q)
			return
		}
		switch i / every % 4 {
		case 0:
			w.Header().Set("Retry-After", "0.01")
			http.Error(w, `{"error":"rate limit exceeded"}`, http.StatusTooManyRequests)
		case 1:
			w.Header().Set("RateLimit-Remaining", "0")
			w.Header().Set("RateLimit-Reset", "0.02")
			http.Error(w, "oops", http.StatusInternalServerError)
		case 2: // an answer that breaks off
			proxy.ServeHTTP(&cutting{ResponseWriter: w, left: 100}, q)
			panic(http.ErrAbortHandler)
		default: // nothing at all
			w.Header().Set("Retry-After", "0.01")
			http.Error(w, "later", http.StatusServiceUnavailable)
		}
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}

// cutting takes the first bytes of an answer.
type cutting struct {
	http.ResponseWriter
	left int
}

func (c *cutting) Write(p []byte) (int, error) {
	n := min(len(p), c.left)
	c.left -= n
	if _, err := c.ResponseWriter.Write(p[:n]); err != nil {
		return 0, err
	}
	c.ResponseWriter.(http.Flusher).Flush()
	return len(p), nil
}

// Both servers fail now and then: what is copied is what was there.
func TestImportWandbThroughFailures(t *testing.T) {
	t.Parallel()
	source, here := serveKitchen(t), serveKitchen(t)
	w := source.wandb()
	for i := range 4 {
		w.logs("team/proj", fmt.Sprintf("run%d", i), 3000+i, plain, nil)
		w.put("team/proj", fmt.Sprintf("run%d", i), "a.bin", bytes.Repeat([]byte{byte(i)}, 100_000))
	}
	want := w.everything("team/proj")
	through := *w
	through.base = unsure(t, w.base, 4)
	direct := here.env["KYMOGRAM_SERVER"]
	stored := here.wandb()
	here.env["KYMOGRAM_SERVER"], here.env["KYMOGRAM_API_KEY"] = unsure(t, direct, 3), stored.key
	report := here.copies(&through, "--project", "team/proj", "--files")
	if s := states(report); s[transfer.Imported]+s[transfer.Updated] != 4 {
		t.Errorf("%+v", report)
	}
	same(t, want, stored.everything("team/proj"))
	for name, run := range stored.everything("team/proj") {
		if n := at(run, "historyLineCount"); n != at(want[name], "historyLineCount") {
			t.Errorf("%s has %v rows", name, n)
		}
	}
}

// An import that is killed at any moment goes on where it stopped, and doubles nothing.
func TestImportWandbKilled(t *testing.T) {
	t.Parallel()
	source, here := serveKitchen(t), serveKitchen(t)
	w := source.wandb()
	for i := range 3 {
		w.logs("team/proj", fmt.Sprintf("run%d", i), 6000, func(i int) int { return i / 2 * 3 }, nil) // two rows a step
		w.put("team/proj", fmt.Sprintf("run%d", i), "a.bin", bytes.Repeat([]byte{byte(i)}, 3_000_000))
	}
	want, stored := w.everything("team/proj"), here.wandb()
	program, err := exec.LookPath("kymogram") // this binary, see TestMain
	if err != nil {
		t.Fatal(err)
	}
	kills, ends := 0, false
	for i := 0; i < 200 && !ends; i++ {
		cmd := exec.CommandContext(t.Context(), program, "import", "wandb", "--project", "team/proj", "--files")
		cmd.Env = []string{"HOME=" + t.TempDir(), "KYMOGRAM_SERVER=" + stored.base, "KYMOGRAM_API_KEY=" + stored.key, "WANDB_BASE_URL=" + w.base, "WANDB_API_KEY=" + w.key}
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		select {
		case err := <-done:
			if ends = true; err != nil {
				t.Fatalf("%v\n%s", err, out.String())
			}
		case <-time.After(time.Duration(150+150*i) * time.Millisecond):
			_ = cmd.Process.Kill()
			<-done
			kills++
		}
	}
	t.Logf("killed %d times", kills)
	if kills == 0 || !ends {
		t.Errorf("%d kills, ended: %v", kills, ends)
	}
	same(t, want, stored.everything("team/proj"))
	if s := states(here.copies(w, "--project", "team/proj", "--files")); s[transfer.Unchanged] != 3 {
		t.Errorf("after the kills: %v", s)
	}
}

// A run is taken at each stage of its life: while it runs, failed, resumed, rewound.
func TestImportWandbFollowsARun(t *testing.T) {
	t.Parallel()
	source, here := serveKitchen(t), serveKitchen(t)
	w, own := source.wandb(), here.wandb()
	const place, run = "team/proj", "abcd1234"
	step := func(want string, rows int) {
		t.Helper()
		if s := states(here.copies(w, "--project", place)); s[want] != 1 {
			t.Errorf("want %s: %v", want, s)
		}
		there := own.everything(place)
		same(t, w.everything(place), there)
		if n := at(there[run], "historyLineCount"); n != float64(rows) {
			t.Errorf("%v rows, want %d", n, rows)
		}
	}
	lines := func(from, to int, more map[string]any) {
		t.Helper()
		var all []string
		for i := from; i < to; i++ {
			all = append(all, rowOf(run, i, i))
		}
		w.stream(place, run, map[string][]string{"wandb-history.jsonl": all}, more)
	}
	id := w.upsert(map[string]any{"entityName": "team", "modelName": "proj", "name": run, "host": "box", "config": `{"lr":{"value":1}}`})["id"]
	lines(0, 10, nil)
	step(transfer.Imported, 10) // it runs
	step(transfer.Unchanged, 10)
	lines(10, 20, nil)
	step(transfer.Updated, 20)
	lines(20, 25, map[string]any{"complete": true, "exitcode": 1})
	step(transfer.Updated, 25)
	w.ask(`query R { model(name: "proj", entityName: "team") { bucket(name: "abcd1234", missingOk: true) { id } } }`, nil)
	w.upsert(map[string]any{"id": id, "entityName": "team", "modelName": "proj", "name": run, "host": "box", "config": `{"lr":{"value":1},"more":{"value":[]}}`})
	lines(25, 30, map[string]any{"complete": true, "exitcode": 0})
	step(transfer.Updated, 30)
	w.ask(`mutation W { rewindRun(input: {runName: "abcd1234", entityName: "team", projectName: "proj", metricName: "_step", metricValue: 7}) { rewoundRun { id } } }`, nil)
	w.upsert(map[string]any{"id": id, "entityName": "team", "modelName": "proj", "name": run, "host": "box", "config": `{"lr":{"value":3},"_wandb":{"value":{"branch_point":{"run_id":"abcd1234","step":7}}}}`})
	var other []string
	for i := 8; i < 12; i++ {
		other = append(other, rowOf("other", 50+i, i))
	}
	w.stream(place, run, map[string][]string{"wandb-history.jsonl": other}, map[string]any{"complete": true, "exitcode": 0})
	step(transfer.Updated, 12)
	step(transfer.Unchanged, 12)
}

// A source that gives at most so many rows of a page loses none, whatever its history is.
func TestImportWandbOfASamplingSource(t *testing.T) {
	t.Parallel()
	for _, most := range []int{1 << 30, 300} { // how many rows the source gives at most, whatever was asked for
		t.Run(strconv.Itoa(most), func(t *testing.T) { t.Parallel(); testSampling(t, most) })
	}
}

func testSampling(t *testing.T, most int) {
	here := serveKitchen(t)
	rows := map[int64]string{}
	for i := range int64(4321) {
		step := i
		if i > 3000 {
			step = 3000 + (i-3000)*997
		}
		rows[step] = rowOf("s", int(i), int(step))
	}
	steps := slices.Sorted(maps.Keys(rows))
	sum := md5.Sum([]byte("x"))
	var asked atomic.Int64
	server := fakeWandb(t, func(operation string, v map[string]any) any {
		switch operation {
		case "Runs(":
			return map[string]any{"runs": map[string]any{"edges": []any{map[string]any{"node": map[string]any{"name": "s", "historyLineCount": len(rows)}}}, "pageInfo": map[string]any{"hasNextPage": false}}}
		case "Runs":
			return map[string]any{"r0": map[string]any{
				"name": "s", "displayName": "S", "state": "finished", "createdAt": "2023-11-14T22:13:20", "heartbeatAt": "2023-11-14T23:00:00", "tags": nil,
				"config": `{"a":{"value":1}}`, "summaryMetrics": `{"_step":5}`, "historyLineCount": len(rows), "user": nil, "notes": nil, "description": "old notes",
			}}
		case "RunExtent":
			return map[string]any{"run": map[string]any{"historyLineCount": len(rows), "eventsLineCount": 0, "historyKeys": nil}}
		case "HistoryPage":
			asked.Add(1)
			from, to, samples := int64(v["minStep"].(float64)), int64(v["maxStep"].(float64)), int(v["pageSize"].(float64)) //nolint:forcetypeassert // what the import sends
			found := []string{}
			for _, step := range steps {
				if step >= from && step < to {
					found = append(found, rows[step])
				}
			}
			for len(found) > min(samples, most) { // as a sample of them
				found = slices.Delete(found, len(found)/2, len(found)/2+1)
			}
			return map[string]any{"run": map[string]any{"history": found}}
		case "RunFiles":
			return map[string]any{"run": map[string]any{"files": map[string]any{
				"edges": []any{map[string]any{"node": map[string]any{"name": "x", "url": "/x", "sizeBytes": "1", "md5": base64.StdEncoding.EncodeToString(sum[:])}}}, "pageInfo": map[string]any{},
			}}}
		}
		return nil
	})
	here.env["WANDB_API_KEY"], here.env["WANDB_BASE_URL"] = "k", server
	out := here.ok("import", "wandb", "--project", "team/proj", "--files")
	if !strings.Contains(out, "team/proj/s: imported, 4321 rows, 1 files") {
		t.Error(out)
	}
	run, _ := here.wandb().everything("team/proj")["s"].(map[string]any)
	history, _ := run["history"].([]any)
	got := map[int64]bool{}
	for _, line := range history {
		var row struct {
			Step int64 `json:"_step"`
		}
		if err := json.Unmarshal([]byte(strings.NewReplacer("NaN", "null", "-Infinity", "null").Replace(fmt.Sprint(line))), &row); err != nil {
			t.Fatal(err)
		}
		got[row.Step] = true
	}
	if len(history) != len(rows) || len(got) != len(rows) {
		t.Errorf("%d rows of %d steps, want %d", len(history), len(got), len(rows))
	}
	if run["notes"] != "old notes" || run["createdAt"] != "2023-11-14T22:13:20Z" || run["state"] != "finished" {
		t.Errorf("%v %v %v", run["notes"], run["createdAt"], run["state"])
	}
	t.Logf("%d pages", asked.Load())
}

// fakeWandb answers GraphQL operations by their names; "Runs(" is the list, "Runs" its runs.
func fakeWandb(t *testing.T, answer func(operation string, variables map[string]any) any) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method == http.MethodGet {
			_, _ = io.WriteString(w, "x")
			return
		}
		var request struct {
			Query     string         `json:"query"`
			Variables map[string]any `json:"variables"`
		}
		if err := json.NewDecoder(q.Body).Decode(&request); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		operation, _, _ := strings.Cut(strings.TrimPrefix(request.Query, "query "), "(")
		if operation == "Runs" && strings.Contains(request.Query, "runCount") || request.Variables["perPage"] != nil {
			operation = cmp.Or(operation, "Runs") + "("
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"data": map[string]any{"project": answer(operation, request.Variables)}})
	})}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return "http://" + listener.Addr().String()
}
