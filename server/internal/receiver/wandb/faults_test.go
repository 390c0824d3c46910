package wandb

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// numbered repeats a text, with its number in place of each #, as the elements of an array.
func numbered(size int, text string) string {
	var b strings.Builder
	b.WriteByte('[')
	for i := 0; b.Len() < size; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strings.ReplaceAll(text, "#", strconv.Itoa(i)))
	}
	return b.String() + "]"
}

// hostile are bodies of file_stream of about a size, which ask for as much memory as they
// can.
func hostile(size int) map[string]string {
	file := func(name, content string) string {
		return `{"files":{"` + name + `":{"offset":0,"content":` + content + `}}}`
	}
	wide := strings.Trim(numbered(size/2, `\"k#\":1`), "[]")
	return map[string]string{
		"empty lines":     file(fileHistory, numbered(size, `""`)),
		"empty rows":      file(fileHistory, numbered(size, `"{}"`)),
		"rows":            file(fileHistory, numbered(size, `"{\"_step\":#,\"a\":1}"`)),
		"no steps":        file(fileHistory, numbered(size, `"{\"_timestamp\":#,\"a\":1}"`)),
		"forms":           file(fileHistory, numbered(size, `"{\"_step\":#,\"a#\":1}"`)),
		"texts":           file(fileHistory, numbered(size, `"{\"_step\":#,\"a#\":\"\"}"`)),
		"one step":        file(fileHistory, numbered(min(size, 40_000), `"{\"_step\":1,\"a\":#}"`)),
		"falling steps":   file(fileHistory, numbered(size, `"{\"_step\":1,\"a\":1}","{\"_step\":#,\"a\":2}"`)),
		"wide":            file(fileHistory, `["{\"_step\":0,`+wide+`}"]`),
		"deep":            file(fileHistory, `["{\"a\":`+strings.Repeat("[", size/2)+strings.Repeat("]", size/2)+`}"]`),
		"leaves":          file(fileHistory, `["{\"_step\":0,\"a\":{`+wide+`}}"]`),
		"events":          file(fileEvents, numbered(size, `"{\"system.a\":1}"`)),
		"forms of events": file(fileEvents, numbered(size, `"{\"system.#\":1}"`)),
		"a wide event":    file(fileEvents, `["{`+strings.ReplaceAll(wide, `"k`, `"system.k`)+`}"]`),
		"printed":         file(fileConsole, numbered(size, `""`)),
		"numbers":         file(fileConsole, numbered(size, `1`)),
		"summary":         file(fileSummary, `["{`+wide+`}"]`),
		"summaries":       file(fileSummary, numbered(size, `"{}"`)),
	}
}

func TestMemoryOfAChunk(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	for name, body := range hostile(1 << 20) {
		if testing.Short() && name != "forms" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			l.begins("run")
			counted := uint64(costOfChunk(int64(len(body))))
			code := 0
			peak := cost.Peak(counted, func() {
				code = l.do(t.Context(), http.MethodPost, "/files/w/p/run/file_stream", []byte(body)).Code
			})
			t.Logf("%d: %d MB for %d MB, %d MB are counted", code, peak>>20, len(body)>>20, counted>>20)
			if peak > counted || code >= http.StatusInternalServerError {
				t.Errorf("%d: %d kB of memory, %d kB are counted", code, peak>>10, counted>>10)
			}
		})
	}
}

func TestMemoryOfADocument(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	const size = 1 << 20
	for name, variables := range map[string]string{
		"lists": numbered(size, `[]`), "objects": numbered(size, `{}`), "numbers": numbered(size, `1`), "texts": numbered(size, `""`),
		"an object": "{" + strings.Trim(numbered(size, `"#":1`), "[]") + "}",
	} {
		t.Run(name, func(t *testing.T) {
			l := newLab(t)
			body := []byte(`{"query":"{viewer{id}}","variables":{"a":` + variables + `}}`)
			counted := uint64(costOfDocument(body))
			peak := cost.Peak(counted, func() { l.do(t.Context(), http.MethodPost, "/graphql", body) })
			t.Logf("%d MB for %d MB, %d MB are counted", peak>>20, len(body)>>20, counted>>20)
			if peak > counted {
				t.Errorf("%d kB of memory, %d kB are counted", peak>>10, counted>>10)
			}
		})
	}
}

// What no SDK sends is refused, or taken as far as it says something; never a 5xx.
func TestHostileChunks(t *testing.T) {
	l := newLab(t)
	l.begins("run")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	for range 64 {
		_, _ = z.Write(make([]byte, 1<<20))
	}
	_ = z.Close()
	if w := l.do(t.Context(), http.MethodPost, "/files/w/p/run/file_stream", packed.Bytes(), "Content-Encoding", "gzip"); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("a bomb: %d %s", w.Code, w.Body)
	}
	for name, body := range hostile(10 << 10) {
		if w := l.do(t.Context(), http.MethodPost, "/files/w/p/run/file_stream", []byte(body)); w.Code != http.StatusOK {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
	for body, want := range map[string]int{
		``: 200, ` `: 200, `{}`: 200, `null`: 400, `[]`: 400, `1`: 400, `{`: 400, "\x00": 400, `{"files":null}`: 200, `{"files":1}`: 200, `{"files":{}}`: 200,
		`{"files":{"other.txt":{"offset":0,"content":["x"]}}}`:                                             400,
		`{"files":{"wandb-history.jsonl":null}}`:                                                           200,
		`{"files":{"wandb-history.jsonl":{"offset":1e300,"content":[]}}}`:                                  200,
		`{"files":{"wandb-history.jsonl":{"offset":"x","content":{"a":1}}}}`:                               200,
		`{"files":{"wandb-history.jsonl":{"content":[1,null,{},[],"","x","{}","{\"_step\":-1}"]}}}`:        200,
		`{"files":{"wandb-history.jsonl":{"content":["{\"_step\":4611686018427387903,\"a\":1}"]}}}`:        200,
		`{"files":{"wandb-history.jsonl":{"content":["{\"a\":2}","{\"_step\":1e19}","{\"_step\":0.5}"]}}}`: 200,
		`{"files":{"output.log":{"offset":9007199254740992,"content":["a","b"]}}}`:                         200,
		`{"files":{"output.log":{"offset":-5,"content":["a","\ud800\u0000"]}}}`:                            200,
		`{"files":{"wandb-events.jsonl":{"content":["{\"system.\":1,\"system.x\":NaN}","[]"]}}}`:           200,
		`{"files":{"wandb-summary.json":{"content":["1","{\"a\":NaN}"]}}}`:                                 200,
		`{"files":{"wandb-summary.json":{"content":["x"]}}}`:                                               200,
		`{"complete":"yes","exitcode":"x","dropped":-1,"failed":[]}`:                                       200,
		`{"dropped":1e300,"dropped":NaN}`:                                                                  200,
		`{"a":` + strings.Repeat("[", 100_000) + `}`:                                                       400,
	} {
		if w := l.do(t.Context(), http.MethodPost, "/files/w/p/run/file_stream", []byte(body)); w.Code != want {
			t.Errorf("%.80s: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	for path, want := range map[string]int{
		"/files/w/p/none/file_stream": 404, "/files/w/none/run/file_stream": 404, "/files/%00/p/run/file_stream": 400, "/files/w/" + strings.Repeat("p", 5000) + "/run/file_stream": 400,
	} {
		if w := l.do(t.Context(), http.MethodPost, path, []byte(`{}`)); w.Code != want {
			t.Errorf("%.80s: %d %s, want %d", path, w.Code, w.Body, want)
		}
	}
}

// Whatever types the input of a mutation has, the answer is 200 with an error or data.
func TestHostileDocuments(t *testing.T) {
	l := newLab(t)
	bucket := l.begins("run")
	odd := []any{nil, true, 1, -1.5, 1e300, "", "x", "\x00", strings.Repeat("x", 2000), []any{}, []any{1, nil}, map[string]any{}, map[string]any{"a": []any{}}, "{", "[]", "1", "NaN", `{"a":NaN}`, `{"a":{"value":1}}`, `{"_wandb":1}`, `{"_wandb":{"value":[]}}`, strings.Repeat("[", 5000), bucket["id"]}
	for f, field := range []string{"id", "name", "project", "entity", "groupName", "displayName", "notes", "config", "summary", "host", "program", "tags"} {
		for i, value := range odd {
			if field != "config" && i%3 != f%3 {
				continue
			}
			v := map[string]any{"name": "run", "project": "p", "entity": "w", field: value}
			l.ask(upsertDocument, v)
		}
	}
	for _, mutation := range []string{"rewindRun", "deleteRun", "createRunFiles", "deleteFiles", "upsertModel", "stopRun", "nothing"} {
		for _, field := range []string{"runName", "entityName", "projectName", "metricName", "metricValue", "id", "files", "name"} {
			for i, value := range odd {
				if i%4 != len(mutation+field)%4 {
					continue
				}
				in := map[string]any{"runName": "run", "entityName": "w", "projectName": "p", "metricName": "_step", "metricValue": 3, field: value}
				if mutation == "deleteRun" && value == bucket["id"] {
					continue
				}
				l.ask(`mutation($in: In){`+mutation+`(input: $in){success}}`, map[string]any{"in": in})
			}
		}
	}
	for _, field := range []string{"runs", "run", "bucket", "runCount"} {
		for _, name := range []string{"name", "filters", "order", "first", "after"} {
			for i, value := range odd {
				if i%4 != len(field+name)%4 {
					continue
				}
				l.ask(`query($v: V){project(name:"p",entityName:"w"){`+field+`(`+name+`:$v){id edges{node{id history(samples:$v) sampledHistory(specs:$v) events(samples:$v) files(first:$v,names:$v){edges{node{id}}}}}}}}`, map[string]any{"v": value})
			}
		}
	}
	for _, body := range []string{``, `null`, `[]`, `{}`, `{"query":1}`, `{"query":"{a}","variables":[]}`, `{"query":"` + strings.Repeat("{a", 10_000) + `"}`, strings.Repeat("[", 1_000_000)} {
		if w := l.do(t.Context(), http.MethodPost, "/graphql", []byte(body)); w.Code != http.StatusOK || !bytes.Contains(w.Body.Bytes(), []byte(`"errors"`)) {
			t.Errorf("%.80s: %d %s", body, w.Code, w.Body)
		}
	}
	l.sends("run", historyAt(0, plainRow(1, 1))) // the run is still one
}

// A key that lacks a right changes nothing.
func TestRights(t *testing.T) {
	l := newLab(t)
	l.deny(catalog.ScopeRead, true)
	if a := l.ask(upsertDocument, map[string]any{"name": "run", "project": "p", "entity": "w"}); len(a.Errors) != 1 || !strings.Contains(a.Errors[0].Message, "no read in w/p") {
		t.Errorf("a key that may not read: %v", a)
	}
	l.deny(catalog.ScopeRead, false)
	if _, err := l.catalog.FindRun(t.Context(), "w", "p", "run"); err == nil {
		t.Error("it left a run behind")
	}
	bucket := l.begins("run")
	l.sends("run", historyAt(0, plainRow(1, 1)))
	l.deny(catalog.ScopeIngest, true)
	l.pass(2 * time.Second) // a right is looked at again each second
	if w := l.stream(t.Context(), "run", historyAt(1, plainRow(2, 2))); w.Code != http.StatusForbidden {
		t.Errorf("a chunk of a revoked key: %d %s", w.Code, w.Body)
	}
	for _, document := range []string{
		`mutation{upsertBucket(input:{id:"` + bucket["id"].(string) + `",displayName:"x"}){inserted}}`, //nolint:forcetypeassert // a test may
		`mutation{upsertBucket(input:{name:"new",modelName:"p",entityName:"w"}){inserted}}`,
		`mutation{rewindRun(input:{runName:"run",entityName:"w",projectName:"p",metricName:"_step",metricValue:0}){rewoundRun{id}}}`,
		`mutation{createRunFiles(input:{runName:"run",entityName:"w",projectName:"p",files:["a"]}){runID}}`,
	} {
		if a := l.ask(document, nil); len(a.Errors) != 1 || !strings.Contains(a.Errors[0].Message, "no ingest in w/p") {
			t.Errorf("%s: %v", document, a)
		}
	}
	l.deny(catalog.ScopeIngest, false)
	l.deny(catalog.ScopeAdmin, true)
	if a := l.ask(`mutation{deleteRun(input:{id:"`+bucket["id"].(string)+`"}){success}}`, nil); len(a.Errors) != 1 { //nolint:forcetypeassert // a test may
		t.Errorf("a delete: %v", a)
	}
	if run := l.run("run"); run["historyLineCount"] != 1.0 || run["state"] != "running" {
		t.Errorf("%v", run)
	}
	l.sends("run", historyAt(1, plainRow(2, 2)))
}

// A run that is deleted refuses for good; restored, it goes on; purged, its name is free.
func TestDeletedInMidStream(t *testing.T) {
	l := newLab(t)
	id := l.begins("run")["id"]
	l.sends("run", historyAt(0, plainRow(1, 1)))
	run := l.id("run")
	if err := l.ingest.DeleteRun(t.Context(), run, false); err != nil {
		t.Fatal(err)
	}
	if w := l.stream(t.Context(), "run", historyAt(1, plainRow(2, 2))); w.Code != http.StatusGone && w.Code != http.StatusNotFound {
		t.Errorf("a chunk of a deleted run: %d %s", w.Code, w.Body)
	}
	if err := l.ingest.RestoreRun(t.Context(), run); err != nil {
		t.Fatal(err)
	}
	l.sends("run", historyAt(1, plainRow(2, 2)))
	if got := l.stored("run", []int64{1, 2}); len(got) != 2 {
		t.Errorf("%q", got)
	}
	l.want(`mutation($id: ID!){deleteRun(input:{id:$id}){success}}`, map[string]any{"id": id})
	if err := l.ingest.DeleteRun(t.Context(), run, true); err != nil {
		t.Fatal(err)
	}
	if w := l.stream(t.Context(), "run", historyAt(1, plainRow(3, 3))); w.Code != http.StatusNotFound && w.Code != http.StatusGone {
		t.Errorf("a chunk of a purged run: %d %s", w.Code, w.Body)
	}
	if l.begins("run")["id"] == id {
		t.Error("the purged run is back")
	}
	l.sends("run", historyAt(0, plainRow(9, 1)))
	if got := l.stored("run", []int64{1, 2, 3}); len(got) != 1 || rowName(got[0]) != "9@1" {
		t.Errorf("%q", got)
	}
}

func TestEnds(t *testing.T) {
	complete := func(code int) map[string]any { return map[string]any{"complete": true, "exitcode": code} }
	l := newLab(t)
	state := func(name, want string) {
		t.Helper()
		if got := l.run(name)["state"]; got != want {
			t.Errorf("%s is %v, want %s", name, got, want)
		}
	}
	l.begins("twice")
	l.sends("twice", historyAt(0, plainRow(1, 1)))
	state("twice", "running")
	for range 3 {
		l.sends("twice", complete(0))
		state("twice", "finished")
	}
	l.begins("failed")
	l.sends("failed", complete(3))
	state("failed", "failed")
	l.begins("failed") // again, without a new row: as wandb sync of the whole
	l.sends("failed", complete(0))
	state("failed", "finished")
	l.begins("failed-again")
	l.sends("failed-again", historyAt(0, plainRow(1, 1)))
	l.sends("failed-again", complete(1))
	l.begins("failed-again")
	state("failed-again", "running")
	l.sends("failed-again", historyAt(0, plainRow(1, 1))) // nothing new
	l.sends("failed-again", complete(0))
	state("failed-again", "finished")

	l.begins("killed")
	l.sends("killed", historyAt(0, plainRow(1, 1)))
	l.settle()
	l.pass(11 * time.Minute)
	if err := expire(l); err != nil {
		t.Fatal(err)
	}
	state("killed", "crashed")
	l.begins("killed")
	l.sends("killed", historyAt(0, plainRow(2, 2)))
	l.sends("killed", complete(0))
	state("killed", "finished")

	l.begins("answer-lost") // and sent again
	l.begins("answer-lost")
	l.sends("answer-lost", historyAt(0, plainRow(1, 1)))
	l.sends("answer-lost", complete(0))
	state("answer-lost", "finished")

	l.begins("one-killed") // and opened again at once, without a resume
	l.sends("one-killed", historyAt(0, plainRow(1, 1)))
	l.begins("one-killed")
	l.pass(time.Minute)
	l.sends("one-killed", historyAt(1, plainRow(2, 1)))
	l.pass(time.Minute)
	l.sends("one-killed", historyAt(2, plainRow(3, 2)))
	l.sends("one-killed", complete(0))
	state("one-killed", "finished")

	l.begins("two")
	l.sends("two", historyAt(0, plainRow(1, 1)))
	l.begins("two")
	l.sends("two", historyAt(7, plainRow(2, 1)))
	l.sends("two", map[string]any{"files": map[string]any{fileHistory: linesAt(1, plainRow(3, 2))}, "complete": true, "exitcode": 0})
	state("two", "running")
	l.sends("two", map[string]any{"files": map[string]any{fileHistory: linesAt(8, plainRow(4, 2))}, "complete": true, "exitcode": 0})
	state("two", "finished")
	if n := l.run("two")["historyLineCount"]; n != 4.0 {
		t.Errorf("%v rows", n)
	}
}

// More rows of one step than there are lanes are counted as refused, and none replaces
// another.
func TestManyRowsOfAStep(t *testing.T) {
	l := newLab(t)
	l.begins("run")
	var all []string
	for i := range maxLanes + 10 {
		all = append(all, plainRow(i, 5))
	}
	l.sends("run", historyAt(0, all[:300]...))
	l.sends("run", historyAt(0, all...))
	got := l.stored("run", []int64{5})
	slices.SortFunc(got, func(a, b string) int { return strings.Compare(rowName(a), rowName(b)) })
	if len(slices.Compact(got)) != maxLanes {
		t.Errorf("%d rows", len(got))
	}
	detail, err := l.query.Run(t.Context(), l.id("run"), nil)
	if err != nil || detail.Ledger.Dropped != 10 {
		t.Errorf("%+v, %v", detail.Ledger, err)
	}
}

// Rows with and without steps may come in one chunk.
func TestNumberedRows(t *testing.T) {
	l := newLab(t)
	l.begins("run")
	var all []string
	for i := range 6 {
		text := plainRow(i, 1)
		if i%2 == 0 {
			text = strings.Replace(text, `"_step":1,`, "", 1)
		}
		all = append(all, text)
	}
	for range 3 {
		l.sends("run", historyAt(0, all...))
	}
	run := l.run("run")
	values := map[string]bool{}
	for _, line := range run["history"].([]any) { //nolint:forcetypeassert // a test may
		name, _, _ := strings.Cut(rowName(line.(string)), "@") //nolint:forcetypeassert // a test may
		values[name] = true
	}
	if len(values) != 6 || run["historyLineCount"] != 6.0 {
		t.Errorf("%v", run["history"])
	}
}

// Windows of a chunk are as one: rows of all of them are there once, also when they come again.
func TestWindows(t *testing.T) {
	l := newLab(t)
	l.begins("run")
	var all, printed []string
	for i := range windowLines + 500 {
		all = append(all, fmt.Sprintf(`{"v":%d,"_step":%d}`, i, i%(windowLines-7)))
		printed = append(printed, fmt.Sprint("line ", i))
	}
	chunk := map[string]any{"files": map[string]any{fileHistory: linesAt(0, all...), fileConsole: linesAt(0, printed...)}}
	for range 2 {
		l.sends("run", chunk)
	}
	run := l.run("run")
	if run["historyLineCount"] != float64(len(all)) || run["logLineCount"] != float64(len(all)) {
		t.Errorf("%v rows, %v lines, want %d", run["historyLineCount"], run["logLineCount"], len(all))
	}
	for array, want := range map[string]int{`[]`: 0, `["a"]`: 1, `["` + strings.Repeat("x", windowBytes+5) + `","b"]`: 2} {
		n := 0
		for window := range windows([]byte(array)) {
			n += len(window)
		}
		if n != want {
			t.Errorf("%d lines, want %d", n, want)
		}
	}
}

// A life that nobody used for long is closed; many lives at once stay bounded.
func TestSweep(t *testing.T) {
	l := newLab(t)
	l.begins("run")
	l.sends("run", historyAt(0, plainRow(1, 1)))
	l.pass(lifeIdle)
	_, release := l.to.lives.acquire([16]byte{1}, place{})
	release()
	if len(l.to.lives.by) != 1 {
		t.Errorf("%d lives", len(l.to.lives.by))
	}
	l.sends("run", historyAt(1, plainRow(2, 2)))
	held := []func(){}
	for i := range lifeMost + 50 {
		_, release := l.to.lives.acquire([16]byte{2, byte(i >> 8), byte(i)}, place{})
		if i < 10 {
			held = append(held, release)
			continue
		}
		release()
	}
	if n := len(l.to.lives.by); n > lifeMost {
		t.Errorf("%d lives", n)
	}
	for _, release := range held {
		release()
	}
	l.sends("run", historyAt(2, plainRow(3, 3)))
	if n := l.run("run")["historyLineCount"]; n != 3.0 {
		t.Errorf("%v rows", n)
	}
}

// Chunks of one run at the same time are as if one came after the other.
func TestParallelChunks(t *testing.T) {
	l := newLab(t)
	l.begins("run")
	done := make(chan int)
	for c := range 8 {
		go func() {
			var all []string
			for i := range 20 {
				all = append(all, plainRow(c*100+i, int64(i)))
			}
			body, _ := json.Marshal(historyAt(0, all...))
			for range 2 {
				w := l.do(t.Context(), http.MethodPost, "/files/w/p/run/file_stream", body)
				done <- w.Code
			}
		}()
	}
	for range 16 {
		if code := <-done; code != http.StatusOK {
			t.Error(code)
		}
	}
	if n := l.run("run")["historyLineCount"]; n != 160.0 {
		t.Errorf("%v rows", n)
	}
}
