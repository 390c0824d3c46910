package wandb

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/catalog"
)

// TestSummaryOfManyKeys: a summary may have more keys that are no series than a batch has
// updates. The SDK would not send such a chunk again, nor anything after it.
func TestSummaryOfManyKeys(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.begins("run")
	const keys = 12_000
	for _, value := range []int{1, 2} {
		parts := []string{`"loss":0.5`, `"":3`}
		for i := range keys {
			parts = append(parts, fmt.Sprintf(`"best_%05d":%d`, i, value))
		}
		text := "{" + strings.Join(parts, ",") + "}"
		l.sends("run", map[string]any{"files": map[string]any{fileHistory: linesAt(value, plainRow(value, int64(value), `"loss":0.5`)), fileSummary: linesAt(0, text)}})
		if got := l.run("run")["summaryMetrics"]; got != text {
			t.Fatalf("the summary is %.100s", got)
		}
		found, last := 0, "summary/best"
		for cursor := ""; ; {
			var page []catalog.Attribute
			var err error
			if page, cursor, err = l.catalog.Attributes(t.Context(), l.id("run"), cursor); err != nil {
				t.Fatal(err)
			}
			for _, a := range page {
				if strings.HasPrefix(a.Path, last) {
					found++
				} else if strings.HasPrefix(a.Path, "summary/loss") {
					t.Error("a key of the history is an attribute")
				}
			}
			if cursor == "" {
				break
			}
		}
		if found != keys {
			t.Errorf("%d attributes for %d keys", found, keys)
		}
	}
}

// attributesUnder are the attributes of a run whose paths begin so.
func (l *lab) attributesUnder(name, prefix string) (paths []string) {
	l.t.Helper()
	for cursor, more := "", true; more; more = cursor != "" {
		page, next, err := l.catalog.Attributes(l.t.Context(), l.id(name), cursor)
		if err != nil {
			l.t.Fatal(err)
		}
		for _, a := range page {
			if strings.HasPrefix(a.Path, prefix) {
				paths = append(paths, a.Path)
			}
		}
		cursor = next
	}
	return paths
}

// A key that a user set in the summary by hand is an attribute until it is logged.
func TestSummaryKeyThatIsLoggedLater(t *testing.T) {
	t.Parallel()
	summaryOf := func(text string) map[string]any {
		return map[string]any{"files": map[string]any{fileSummary: linesAt(0, text)}}
	}
	const both, worst = `{"best":0,"parts/a":{"b":1},"worst":1}`, "summary/worst"
	for name, between := range map[string]func(l *lab){
		"at once":          func(*lab) {},
		"another receiver": func(l *lab) { l.renew() },
		"restart":          func(l *lab) { l.restart() },
		"a chunk that fails": func(l *lab) {
			l.fs.Limit(l.fs.Used() + 1)
			if w := l.stream(t.Context(), "run", historyAt(2, plainRow(3, 3))); w.Code == http.StatusOK {
				t.Error("a full disk took a chunk")
			}
			l.fs.Limit(0)
		},
	} {
		for when, logs := range map[string]func(l *lab){
			"rows, then the summary": func(l *lab) {
				l.sends("run", historyAt(1, plainRow(2, 2, `"best":0`, `"parts/a":7`)))
				l.sends("run", summaryOf(`{"best":0,"parts/a":7,"worst":1,"_step":2}`))
			},
			"both in one chunk": func(l *lab) {
				chunk := summaryOf(`{"best":0,"parts/a":7,"worst":1,"_step":2}`)
				chunk["files"].(map[string]any)[fileHistory] = linesAt(1, plainRow(2, 2, `"best":0`, `"parts/a":7`)) //nolint:forcetypeassert // a test may
				l.sends("run", chunk)
			},
			"the summary as before": func(l *lab) {
				l.sends("run", historyAt(1, plainRow(2, 2, `"best":0`, `"parts/a":7`)))
				l.sends("run", summaryOf(both))
			},
			"the summary of the public API": func(l *lab) {
				l.sends("run", historyAt(1, plainRow(2, 2, `"best":0`, `"parts/a":7`)))
				l.upsert("run", map[string]any{"summary": `{"worst":1}`})
			},
		} {
			t.Run(name+", "+when, func(t *testing.T) {
				l := newLab(t)
				l.begins("run")
				l.sends("run", historyAt(0, plainRow(1, 1)))
				l.sends("run", summaryOf(both))
				if got := fmt.Sprint(l.attributesUnder("run", "summary/")); got != "[summary/best summary/parts/a/b summary/worst]" {
					t.Fatalf("set by hand: %s", got)
				}
				between(l)
				logs(l)
				if got := fmt.Sprint(l.attributesUnder("run", "summary/")); got != "["+worst+"]" {
					t.Errorf("logged: %s", got)
				}
			})
		}
	}
}

// A summary of keys that were logged all the time is one update, however many they are: the SDK
// sends one with most chunks.
func TestUpdatesOfASummary(t *testing.T) {
	t.Parallel()
	const keys = 10_000
	text := func(step int) string {
		parts := []string{fmt.Sprintf(`"_step":%d,"best":%d`, step, step/4)}
		for i := range keys {
			parts = append(parts, fmt.Sprintf(`"loss_%05d":%d`, i, step))
		}
		return "{" + strings.Join(parts, ",") + "}"
	}
	l := newLab(t)
	l.begins("run")
	send := func(step int) {
		t.Helper()
		line := text(step)
		l.sends("run", map[string]any{"files": map[string]any{
			fileHistory: linesAt(step, strings.Replace(line, fmt.Sprintf(`"best":%d,`, step/4), "", 1)), fileSummary: linesAt(0, line),
		}})
	}
	updates := func(step int) int {
		t.Helper()
		v, release := l.to.lives.acquire(l.id("run"), place{"w", "p", "run"})
		defer release()
		if err := l.to.load(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		all, err := l.to.setSummary(t.Context(), v, false, text(step), nil)
		if err != nil {
			t.Fatal(err)
		}
		v.close() // they are not stored
		return len(all)
	}
	send(0)
	send(1)
	if n := len(l.attributesUnder("run", "summary/")); n != 1 {
		t.Fatalf("%d attributes, want that of best", n)
	}
	for _, next := range []struct {
		what       string
		step, want int
		before     func()
	}{
		{"the same", 1, 0, func() {}},
		{"the next one", 2, 1, func() { send(1) }},
		{"another value of an attribute", 4, 2, func() { send(1) }},
		{"the next one after a restart", 2, 1, l.restart},
	} {
		next.before()
		if n := updates(next.step); n != next.want {
			t.Errorf("%s: %d updates, want %d", next.what, n, next.want)
		}
	}
}
