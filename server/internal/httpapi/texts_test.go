package httpapi_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// Pages of long texts are counted by what they may hold, however few rows were asked
// for. Other callers still get theirs, and no text is left out.
func TestPagesOfTextsAreCountedByBytes(t *testing.T) {
	const page, texts, size = 6 << 20, 20, 1 << 20
	l := newLab(t, httpapi.Options{Stall: time.Hour, Memory: 4 * page, Page: page})
	w := l.writer("run", nil)
	text := func(i int) string { return strings.Repeat(string(rune('a'+i)), size-i) }
	for i := range texts {
		w.log(model.NewSeriesKey(fmt.Sprintf("last/%02d", i), "", nil), point{timeNs: 1, value: text(i)})
		w.log(model.NewSeriesKey("all", "", nil), point{timeNs: int64(1 + i), value: text(i)})
	}
	const readers = 5
	for range readers {
		l.unread("greedy", w.path("points?metric=all&limit=20"))
		l.unread("greedy", w.path("series?limit=50"))
	}
	eventually(t, "the greedy caller waits", func() bool { s := l.api.Stats(); return s.Waiting == 2*readers-1 && s.Bytes >= page })
	if rows := l.api.Stats().Bytes; rows > page+page/4 {
		t.Errorf("%d bytes are held", rows)
	}
	found := 0
	for next := ""; ; {
		list, size := l.listedTexts(t, w.path("series?limit=50"+next))
		for _, s := range list.Series {
			if strings.HasPrefix(s.Metric, "last/") {
				if s.Last.Value != text(found) {
					t.Errorf("%s ends with a text of %d bytes", s.Metric, len(s.Last.Value))
				}
				found++
			}
		}
		if size > 9<<20 {
			t.Errorf("a page of %d MiB", size>>20)
		}
		if list.Next == "" {
			break
		}
		next = "&cursor=" + url.QueryEscape(list.Next)
	}
	if found != texts {
		t.Errorf("%d texts of %d", found, texts)
	}
}

type listOfTexts struct {
	Series []struct {
		Metric string
		Last   struct{ Value string }
	}
	Next string
}

func (l *lab) listedTexts(t *testing.T, path string) (out listOfTexts, size int64) {
	t.Helper()
	size = l.asOther(t, path, &out)
	return out, size
}

// asOther reads a document as another caller than the greedy one.
func (l *lab) asOther(t *testing.T, path string, out any) (size int64) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.http.URL+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Caller", "other")
	answer, err := l.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	decoder := json.NewDecoder(answer.Body)
	if err := decoder.Decode(out); err != nil {
		t.Fatal(answer.Status, err)
	}
	return decoder.InputOffset()
}

// Lists of runs and documents of runs with long texts are counted and bounded too, and
// nothing is left out.
func TestRunsOfLongTexts(t *testing.T) {
	const page, runs, attributes, size = 6 << 20, 9, 20, 60_000
	l := newLab(t, httpapi.Options{Stall: time.Hour, Memory: 4 * page, Page: page})
	text := strings.Repeat("\x01<", size/2)
	for i := range runs {
		l.writer(fmt.Sprintf("run-%02d", i), func(r *model.OpenRequest) {
			for a := range attributes {
				r.Initial = append(r.Initial, model.Update{Op: model.OpSetAttribute, Path: fmt.Sprintf("config/%02d", a), Value: model.StringValue(text)})
			}
			for range attributes * (i / (runs - 1)) { // the last run has events
				r.Initial = append(r.Initial, model.Update{Op: model.OpLog, Path: "e", Text: text})
			}
		})
	}
	const list = "/api/v1/projects/lab/digits/runs?sort=name&limit=50"
	const readers = 5
	for range readers {
		l.unread("greedy", list)
	}
	eventually(t, "the greedy caller waits", func() bool { s := l.api.Stats(); return s.Waiting >= readers-1 && s.Bytes >= page })
	if rows := l.api.Stats().Bytes; rows > page+page/4 {
		t.Errorf("%d bytes are held", rows)
	}
	var last string
	found := 0
	for next := ""; ; {
		var doc listOfRuns
		n := l.asOther(t, list+next, &doc)
		for _, r := range doc.Runs {
			if r.Name != fmt.Sprintf("run-%02d", found) || len(r.Config) != attributes || r.Config["07"] != text {
				t.Errorf("run %d is %s with %d values", found, r.Name, len(r.Config))
			}
			last = r.ID
			found++
		}
		if n > 6*9<<20 { // a control character is six bytes of JSON
			t.Errorf("a page of %d MiB", n>>20)
		}
		if doc.Next == "" {
			break
		}
		next = "&cursor=" + url.QueryEscape(doc.Next)
	}
	if found != runs {
		t.Errorf("%d runs of %d", found, runs)
	}
	l.wholeDocument(t, last, attributes, text)
}

func (l *lab) wholeDocument(t *testing.T, run string, attributes int, text string) {
	t.Helper()
	var doc struct {
		Attributes []struct{ Path, Value string }
		Events     []struct{ Text string }
	}
	a := l.do(http.MethodGet, "/api/v1/runs/"+run, nil, "")
	if err := json.Unmarshal(a.body, &doc); err != nil || len(doc.Attributes) != attributes || len(doc.Events) != attributes {
		t.Fatalf("%d attributes, %d events, %v", len(doc.Attributes), len(doc.Events), err)
	}
	for i, at := range doc.Attributes {
		if at.Path != fmt.Sprintf("config/%02d", i) || at.Value != text || doc.Events[i].Text != text {
			t.Errorf("attribute or event %d is not as it was", i)
		}
	}
}

type listOfRuns struct {
	Runs []struct {
		ID, Name string
		Config   map[string]string
	}
	Next string
}
