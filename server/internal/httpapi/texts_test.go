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
	const page, texts, size = 100_000, 20, 1 << 20
	l := newLab(t, httpapi.Options{Stall: time.Hour, RowsAtOnce: 4 * page, PageRows: page})
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
	eventually(t, "the greedy caller waits", func() bool { s := l.api.Stats(); return s.Waiting == 2*readers-1 && s.Rows >= page })
	if rows := l.api.Stats().Rows; rows > page+page/4 {
		t.Errorf("%d rows are held", rows)
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
	if err := decoder.Decode(&out); err != nil {
		t.Fatal(answer.Status, err)
	}
	return out, decoder.InputOffset()
}
