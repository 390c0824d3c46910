package httpapi_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// broken is a write path that fails in a way that callers must not see.
type broken struct{ httpapi.Ingest }

func (broken) Open(context.Context, model.OpenRequest) (*model.OpenResult, error) {
	return nil, errors.New("open /secret/path: input/output error")
}

func TestInternalErrorsStayInTheLog(t *testing.T) {
	var log strings.Builder
	api := httpapi.New(nil, broken{}, nil, httpapi.Options{Log: textLog(&log)})
	w := httptest.NewRecorder()
	for _, r := range api.Routes() {
		if r.Pattern == "/api/v1/open" {
			r.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodPost, r.Pattern, strings.NewReader(`{}`)))
		}
	}
	if w.Code != 500 || strings.Contains(w.Body.String(), "secret") || !strings.Contains(w.Body.String(), `"code":"internal"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if !strings.Contains(log.String(), "secret") {
		t.Errorf("the log says %q", log.String())
	}
}

func TestLargeAnswersAreCompressed(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 3000, func(i int) any { return float64(i) })...)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, l.http.URL+w.path("points?metric=loss"), nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip") // set by hand: the client then leaves the body as it is
	response, err := l.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if got := response.Header.Get("Content-Encoding"); got != "gzip" {
		t.Errorf("Content-Encoding is %q", got)
	}
}

// A request larger than all the rows that may be in memory takes them alone; a
// caller that leaves while it waits is told nothing.
func TestRowsAreRationed(t *testing.T) {
	l := newLab(t, httpapi.Options{Memory: 10})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 50, func(i int) any { return float64(i) })...)
	done := make(chan int)
	for range 8 {
		go func() {
			rows, _ := l.readRows(w.path("points"), values("metric", "loss"), "json", model.KindFloat)
			done <- len(rows)
		}()
	}
	for range 8 {
		if n := <-done; n != 50 {
			t.Errorf("%d rows", n)
		}
	}
}
