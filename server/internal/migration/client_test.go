package migration

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// asked is a client of a server that answers as a script says; its waits take no time and
// are noted.
type asked struct {
	*Client
	mu    sync.Mutex
	waits []time.Duration
}

func serve(t *testing.T, answers ...func(w http.ResponseWriter)) *asked {
	t.Helper()
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		answer := answers[0]
		if len(answers) > 1 {
			answers = answers[1:]
		}
		mu.Unlock()
		answer(w)
	}))
	t.Cleanup(server.Close)
	base, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	a := &asked{Client: NewClient(base, "the server", "secret-key", "a file", nil)}
	a.wait = func(ctx context.Context, d time.Duration) error {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.waits = append(a.waits, d)
		a.open = time.Time{}
		return ctx.Err()
	}
	return a
}

func says(code int, body string, headers ...string) func(w http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

func (a *asked) query(t *testing.T) (string, error) {
	t.Helper()
	var doc struct{ A string }
	err := a.Query(t.Context(), "query Q { a }", nil, 1<<20, &doc)
	return doc.A, err
}

// What may pass is asked again, as late as the server orders.
func TestClientAsksAgain(t *testing.T) {
	t.Parallel()
	done := says(200, `{"data":{"a":"yes"}}`)
	broken := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"data":{"a"`)
		panic(http.ErrAbortHandler)
	}
	for name, c := range map[string]struct {
		answers     []func(http.ResponseWriter)
		least, most time.Duration
	}{
		"429 with Retry-After":      {[]func(http.ResponseWriter){says(429, `{"error":"slow down"}`, "Retry-After", "7"), done}, 7 * time.Second, 7 * time.Second},
		"429 with a reset":          {[]func(http.ResponseWriter){says(429, "", "RateLimit-Remaining", "0", "RateLimit-Reset", "2.5"), done}, 2500 * time.Millisecond, 2500 * time.Millisecond},
		"503 with a date":           {[]func(http.ResponseWriter){says(503, "", "Retry-After", "Mon, 02 Jan 2006 15:04:05 GMT"), done}, time.Millisecond, time.Millisecond},
		"500":                       {[]func(http.ResponseWriter){says(500, "oops"), done}, 500 * time.Millisecond, time.Second},
		"cut off":                   {[]func(http.ResponseWriter){broken, done}, 500 * time.Millisecond, time.Second},
		"a wait of days is an hour": {[]func(http.ResponseWriter){says(429, "", "Retry-After", "1e9"), done}, time.Hour, time.Hour},
	} {
		a := serve(t, c.answers...)
		got, err := a.query(t)
		if got != "yes" || err != nil || len(a.waits) == 0 || a.waits[0] < c.least || a.waits[0] > c.most {
			t.Errorf("%s: %q, %v, waits %v", name, got, err, a.waits)
		}
	}
}

// A server that has no requests left is asked after its reset.
func TestClientHeedsLimits(t *testing.T) {
	t.Parallel()
	a := serve(t, says(200, `{"data":{"a":"1"}}`, "RateLimit-Remaining", "0.5", "RateLimit-Reset", "3"), says(200, `{"data":{"a":"2"}}`, "RateLimit-Remaining", "5", "RateLimit-Reset", "3"))
	for _, want := range []string{"1", "2", "2"} {
		if got, err := a.query(t); got != want || err != nil {
			t.Errorf("%q %v", got, err)
		}
	}
	if len(a.waits) != 1 || a.waits[0] > 3*time.Second || a.waits[0] < 2*time.Second {
		t.Errorf("waits %v", a.waits)
	}
}

// Other failures end at once, and no error shows the key.
func TestClientGivesUp(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(http.ResponseWriter)
		code   model.Code
		says   string
	}{
		"401":          {says(401, ""), model.CodeUnauthenticated, "refuses the key from a file"},
		"403":          {says(403, `{"errors":[{"message":"not yours"}]}`), model.CodePermission, "not yours"},
		"404":          {says(404, "nothing"), model.CodeNotFound, "404"},
		"413":          {says(413, ""), model.CodeTooLarge, "413"},
		"errors":       {says(200, `{"data":null,"errors":[{"message":"no such field"}]}`), model.CodeInvalid, "no such field"},
		"a page":       {says(200, "<html>"), model.CodeInvalid, "as a W&B server"},
		"another form": {says(200, `{"data":{"a":[1]}}`), model.CodeInvalid, "form"},
		"too large":    {says(200, `{"data":{"a":"`+strings.Repeat("x", 1<<20)+`"}}`), model.CodeTooLarge, "1 MiB"},
		"a redirect":   {says(302, "", "Location", "http://127.0.0.1:1/"), "", ""},
	} {
		a := serve(t, c.answer)
		_, err := a.query(t)
		if err == nil || len(a.waits) > 0 || c.code != "" && (model.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%s: %v after %v", name, err, a.waits)
		}
		if err != nil && strings.Contains(err.Error(), a.Key) {
			t.Errorf("%s: the key is in %q", name, err)
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	base, _ := url.Parse("http://" + listener.Addr().String())
	listener.Close()
	a := serve(t, says(200, ""))
	a.Base = base
	if _, err := a.query(t); model.CodeOf(err) != model.CodeUnavailable || len(a.waits) < 10 {
		t.Errorf("an absent server: %v after %d waits", err, len(a.waits))
	}
}

// Texts of an answer come one by one, and anew after a cut.
func TestClientTexts(t *testing.T) {
	t.Parallel()
	cut := func(w http.ResponseWriter) {
		w.Header().Set("Content-Length", "1000")
		_, _ = io.WriteString(w, `{"data":{"project":{"run":{"events":["a","b"`)
		panic(http.ErrAbortHandler)
	}
	a := serve(t, cut, says(200, `{"data":{"project":{"run":{"events":["a","b","c"]}}}}`))
	var got []string
	err := a.Texts(t.Context(), "query Q { a }", nil, "events", func() { got = nil }, func(line string) error {
		got = append(got, line)
		return nil
	})
	if err != nil || !slices.Equal(got, []string{"a", "b", "c"}) || len(a.waits) != 1 {
		t.Errorf("%v %v %v", got, err, a.waits)
	}
	a = serve(t, says(200, `{"data":null,"errors":[{"message":"no"}]}`))
	if err := a.Texts(t.Context(), "", nil, "events", func() {}, nil); err == nil || !strings.Contains(err.Error(), "no") {
		t.Error(err)
	}
}

// Whatever answers, the texts are those that a plain decoder finds, however they are cut.
func FuzzTexts(f *testing.F) {
	for _, seed := range []string{
		`{"data":{"project":{"run":{"events":["{\"a\":NaN}","ü"]}}}}`, `{"data":{"project":{"run":{"events":null}}}}`, `{"data":{"project":null}}`,
		`{"errors":[{"message":"x"}]}`, `{"data":{"project":{"run":{"events":[1]}}}}`, `[`, `"events"`, ``,
	} {
		f.Add(seed)
	}
	base, _ := url.Parse("http://127.0.0.1")
	c := NewClient(base, "the server", "", "", nil)
	f.Fuzz(func(t *testing.T, text string) {
		var whole, halves []string
		first := c.texts(json.NewDecoder(strings.NewReader(text)), "events", func(line string) error { whole = append(whole, line); return nil })
		second := c.texts(json.NewDecoder(iotest.OneByteReader(strings.NewReader(text))), "events", func(line string) error { halves = append(halves, line); return nil })
		if (first == nil) != (second == nil) || !slices.Equal(whole, halves) {
			t.Fatalf("%v %q, in parts %v %q", first, whole, second, halves)
		}
		var doc struct {
			Data struct {
				Project struct{ Run struct{ Events []string } }
			}
			Errors []json.RawMessage
		}
		if first != nil || json.Unmarshal([]byte(text), &doc) != nil || strings.Count(text, "events") != 1 || !strings.HasPrefix(text, `{"data":{"project":{"run":{"events":[`) {
			return
		}
		if !slices.Equal(whole, doc.Data.Project.Run.Events) {
			t.Fatalf("%q, a plain decoder finds %q", whole, doc.Data.Project.Run.Events)
		}
	})
}

// Numbers come as numbers, as texts, or not at all.
func FuzzCount(f *testing.F) {
	for _, seed := range []string{"1", `"12"`, "null", `""`, "1e300", "-1", "[]", `"NaN"`, "1.5"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var c count
		if err := json.Unmarshal([]byte(text), &c); err != nil && c != 0 {
			t.Fatalf("%q: %d and %v", text, c, err)
		}
		if c > 1<<53 || c < -1<<53 {
			t.Fatalf("%q is %d", text, c)
		}
		var e extent
		_ = json.Unmarshal([]byte(`{"historyKeys":`+text+`}`), &e)
		if last, ok := e.last(); ok && (last < -1 || last > 1<<62) {
			t.Fatalf("%q: %d", text, last)
		}
	})
}

func TestAgainEndsWithItsContext(t *testing.T) {
	t.Parallel()
	a := serve(t, says(503, ""))
	ctx, cancel := context.WithCancel(t.Context())
	a.wait = func(context.Context, time.Duration) error { cancel(); return ctx.Err() }
	if err := a.Query(ctx, "", nil, 1, new(any)); !errors.Is(err, ErrInterrupted) {
		t.Error(err)
	}
}
