package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// eventReader reads one stream of events.
type eventReader struct {
	t     *testing.T
	lines *bufio.Scanner
	close func()
}

// sse is one event, or a comment.
type sse struct{ event, id, data, comment, retry string }

func (l *lab) stream(q url.Values, lastID string) *eventReader {
	l.t.Helper()
	t := l.t.(*testing.T)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, l.http.URL+"/api/v1/live?"+q.Encode(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if lastID != "" {
		r.Header.Set("Last-Event-ID", lastID)
	}
	response, err := l.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%s %v", response.Status, response.Header)
	}
	reader := &eventReader{t: t, lines: bufio.NewScanner(response.Body), close: func() { cancel(); response.Body.Close() }}
	t.Cleanup(reader.close)
	if first, ok := reader.next(); !ok || first.retry == "" {
		t.Fatalf("the stream begins with %+v", first)
	}
	return reader
}

func (r *eventReader) next() (e sse, ok bool) {
	for r.lines.Scan() {
		line := r.lines.Text()
		if line == "" {
			return e, true
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			e.event = value
		case "id":
			e.id = value
		case "data":
			e.data = value
		case "retry":
			e.retry = value
		case "":
			e.comment = line
		default:
			r.t.Errorf("unknown field %q", line)
		}
	}
	return e, false
}

// until reads events up to the first that fits.
func (r *eventReader) until(fits func(sse) bool) sse {
	r.t.Helper()
	for {
		e, ok := r.next()
		if !ok {
			r.t.Fatalf("the stream ended: %v", r.lines.Err())
		}
		if fits(e) {
			return e
		}
	}
}

func points(n int) func(sse) bool {
	return func(e sse) bool { return strings.Contains(e.data, fmt.Sprintf(`"points":%d,`, n)) }
}

func TestLiveTellsOfPoints(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w, other := l.writer("run", nil), l.writer("other", nil)
	byRun, byProject := l.stream(values("run", w.run.String()), ""), l.stream(values("project", "lab/digits"), "")
	key := model.NewSeriesKey("loss", "", nil)
	other.log(key, steps(0, 9, func(int) any { return 1.0 })...)
	w.log(key, steps(0, 3, func(int) any { return 1.0 })...)
	e := byRun.until(points(3))
	doc := decode(t, []byte(e.data))
	if e.event != "run" || doc["run"] != w.run.String() || text(doc["series"]) != "1" || doc["status"] != "running" || e.id == "" {
		t.Errorf("got %+v", e)
	}
	byProject.until(points(9))
}

func TestLiveContinuesBehindLastEventID(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	key := model.NewSeriesKey("loss", "", nil)
	first := l.stream(values("run", w.run.String()), "")
	w.log(key, steps(0, 3, func(int) any { return 1.0 })...)
	seen := first.until(points(3))
	first.close()
	w.log(key, steps(3, 2, func(int) any { return 1.0 })...)
	// The change fell between the two streams.
	l.stream(values("run", w.run.String()), seen.id).until(points(5))
}

func TestLiveResetsWhereEventsWereLost(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	for _, lastID := range []string{"1", "not-a-number", strconv.FormatUint(1<<63, 10)} {
		e, ok := l.stream(values("run", w.run.String()), lastID).next()
		if !ok || e.event != "reset" || e.data != "{}" || e.id == "" {
			t.Errorf("Last-Event-ID %s: %+v", lastID, e)
		}
	}
}

func TestLiveBeatsAndEndsWithTheServer(t *testing.T) {
	l := newLab(t, httpapi.Options{Heartbeat: 5 * time.Millisecond})
	w := l.writer("run", nil)
	s := l.stream(values("run", w.run.String()), "")
	s.until(func(e sse) bool { return e.comment != "" })
	l.drain()
	for {
		if _, ok := s.next(); !ok {
			break
		}
	}
	if err := s.lines.Err(); err != nil {
		t.Errorf("the stream broke off: %v", err)
	}
}
