package wandb

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// writersOf are the writers of a run whose SDK begins so, oldest first.
func (l *lab) writersOf(name, sdk string) (list []catalog.WriterInfo) {
	l.t.Helper()
	run, err := l.query.Run(l.t.Context(), l.id(name), nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for w, err := range run.Writers {
		if err != nil {
			l.t.Fatal(err)
		}
		if strings.HasPrefix(w.SDK, sdk) {
			list = append(list, w)
		}
	}
	return list
}

// A disk that is full anywhere in a turn leaves it half done: some processes have a writer of
// the new attempt, some have not, some have both. The next request finishes it: each process
// is there once, in the new attempt, and the run ends with them.
func TestTurnOnAFullDisk(t *testing.T) {
	t.Parallel()
	ends := map[string]any{"complete": true, "exitcode": 0}
	cut := map[string]int{} // what turns left behind
	for limit := int64(0); ; limit += 32 {
		l := newLab(t)
		l.begins("run")
		l.sends("run", historyAt(0, plainRow(1, 1)))
		l.sends("run", ends)
		l.begins("run")
		l.begins("run") // beside it: neither has said a word
		again := historyAt(0, plainRow(2, 1))
		l.fs.Limit(l.fs.Used() + limit)
		code := l.stream(t.Context(), "run", again).Code
		l.fs.Limit(0)
		all := l.writersOf("run", processSDK)
		cut[fmt.Sprint(len(all), slices.IndexFunc(all, isOpen))]++
		if limit%64 == 0 {
			l.restart()
		}
		l.sends("run", again)
		var open []string
		for _, w := range l.writersOf("run", processSDK) {
			if isOpen(w) {
				open = append(open, fmt.Sprintf("process %d of attempt %d", *w.Rank, w.Attempt))
			}
		}
		slices.Sort(open)
		if got := strings.Join(open, ", "); got != "process 0 of attempt 2, process 1 of attempt 2" {
			t.Errorf("a disk with %d bytes: %s", limit, got)
		}
		for range 2 {
			l.sends("run", ends)
		}
		if run := l.run("run"); run["state"] != "finished" || run["historyLineCount"] != 1.0 {
			t.Errorf("a disk with %d bytes: the run is %v and has %v rows", limit, run["state"], run["historyLineCount"])
		}
		if code == http.StatusOK {
			break
		}
	}
	if len(cut) < 4 { // nothing was done, the first has both, the second, all was done
		t.Errorf("writers and the first that is open: %v", cut)
	}
}

func isOpen(w catalog.WriterInfo) bool { return w.State == model.WriterOpen }

// An attempt that another client opens is no turn: the process of W&B goes on where it is.
func TestAttemptOfAnotherClient(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.begins("run")
	l.sends("run", historyAt(0, plainRow(1, 1)))
	native, err := l.ingest.Join(t.Context(), model.OpenRequest{Writer: newWriter(), Workspace: "w", Project: "p", RunName: "run", ResumeStrategy: model.ResumeAllow, SDK: "go/1"})
	if err != nil || native.Opened.Attempt != 2 {
		t.Fatalf("%+v, %v", native, err)
	}
	native.Close()
	for range 3 {
		l.restart()
		l.sends("run", map[string]any{}) // a heartbeat
		if all := l.writersOf("run", processSDK); len(all) != 1 || all[0].Attempt != 1 || !isOpen(all[0]) {
			t.Fatalf("%+v", all)
		}
	}
	if all := l.writersOf("run", "go/"); len(all) != 1 || !isOpen(all[0]) {
		t.Errorf("the other client: %+v", all)
	}
}

// An import turns to a new attempt where its run had failed. Whatever of that a full disk cuts
// off, the run ends as its source says, and what ended before stays as it was.
func TestImportOnAFullDisk(t *testing.T) {
	t.Parallel()
	cut := map[int]bool{}
	for limit, taken := int64(0), false; !taken; limit += 32 {
		l := newLab(t)
		imports := func(state string) []struct{ Message string } {
			in := map[string]any{"key": "team/proj/run", "createdAt": "2026-01-02T03:04:05Z", "endedAt": "2026-01-02T04:04:05Z", "state": state}
			return l.ask(`mutation($in: In) { upsertBucket(input: $in) { inserted } }`, map[string]any{"in": map[string]any{"name": "run", "modelName": "p", "entityName": "w", "imported": in}}).Errors
		}
		must := func(state string) {
			t.Helper()
			if failed := imports(state); len(failed) > 0 {
				t.Fatal(failed)
			}
		}
		must("")
		l.sends("run", historyAt(0, plainRow(1, 1)))
		must("failed")
		l.fs.Limit(l.fs.Used() + limit)
		taken = len(imports("")) == 0
		l.fs.Limit(0)
		cut[len(l.writersOf("run", ""))] = true
		if limit%64 == 0 {
			l.restart()
		}
		must("")
		l.sends("run", historyAt(1, plainRow(2, 2)))
		must("finished")
		var ends []string
		for _, w := range l.writersOf("run", processSDK) {
			ends = append(ends, fmt.Sprint(w.Attempt, " ", w.State))
		}
		if run := l.run("run"); run["state"] != "finished" || ends[0] != "1 failed" || slices.ContainsFunc(ends, func(e string) bool { return strings.HasSuffix(e, "open") }) {
			t.Errorf("a disk with %d bytes: %v, %v", limit, run["state"], ends)
		}
	}
	if len(cut) < 2 { // an attempt without a process, one with it
		t.Errorf("writers that were left: %v", cut)
	}
}

// An error anywhere in a rewind leaves the run as it was, or the rewind is done: there is no
// attempt that nobody asked for with success, and no row is hidden by one.
func TestRewindWithAnError(t *testing.T) {
	t.Parallel()
	document, err := json.Marshal(map[string]any{"query": `mutation { rewindRun(input: {runName: "run", entityName: "w", projectName: "p", metricName: "_step", metricValue: 1}) { rewoundRun { id } } }`})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for n := int64(0); n < 40; n++ {
		l := newLab(t)
		l.begins("run")
		l.begins("run")
		l.sends("run", historyAt(0, plainRow(1, 1), plainRow(2, 2), plainRow(3, 3)))
		ctx := t.Context()
		if n%2 == 0 { // the disk is full
			l.fs.Limit(l.fs.Used() + 16*n + 1)
		} else { // the client goes
			short := &cut{Context: ctx, done: make(chan struct{})}
			short.left.Store(n)
			ctx = short
		}
		w := l.do(ctx, http.MethodPost, "/graphql", document)
		l.fs.Limit(0)
		failed := strings.Contains(w.Body.String(), `"errors"`)
		if n%4 < 2 {
			l.restart()
		}
		l.sends("run", historyAt(0, plainRow(4, 4)))
		run, err := l.query.Run(t.Context(), l.id("run"), nil)
		if err != nil {
			t.Fatal(err)
		}
		outcome := fmt.Sprintf("failed %v, attempts %d, rows %v", failed, len(run.Order), l.run("run")["historyLineCount"])
		seen[outcome]++
		switch outcome {
		case "failed true, attempts 1, rows 4", "failed false, attempts 2, rows 2":
		case "failed true, attempts 2, rows 2": // whose client went before the answer
			if n%2 == 0 {
				t.Errorf("a disk with %d bytes: %s", 16*n+1, outcome)
			}
		default:
			t.Errorf("error %d: %s", n, outcome)
		}
	}
	if len(seen) != 3 {
		t.Errorf("the outcomes are %v, want three", seen)
	}
}
