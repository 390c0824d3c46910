package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
)

func serve(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	s := httptest.NewServer(answer)
	t.Cleanup(s.Close)
	return s.URL
}

func TestErrorsSayWhoAnsweredAndWhatToDo(t *testing.T) {
	refusing := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"error":{"code":"not_found","message":"there is no run","hint":"look"}}`))
	})
	other := serve(t, func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", http.StatusBadGateway) })
	narrow := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "", http.StatusRequestHeaderFieldsTooLarge)
	})
	for _, tt := range []struct {
		base, flag string
		code       model.Code
		says, hint string
	}{
		{refusing, "", model.CodeNotFound, "there is no run", "look"},
		{other, "", model.CodeUnavailable, "the server at " + other + " answered 502 Bad Gateway, which is no answer of Kymogram", "is it another program, or a proxy?"},
		{other, "--server", model.CodeUnavailable, "no answer of Kymogram", "is it another program, or a proxy? check --server"},
		{narrow, "--server", model.CodeInvalid, "a name or a filter of the request is too long", ""},
		{"http://127.0.0.1:1", "", model.CodeUnavailable, "cannot reach the server at http://127.0.0.1:1: Get ", "start it with `kymogram serve`, or name another"},
		{"http://127.0.0.1:1", "--server", model.CodeUnavailable, "cannot reach the server at http://127.0.0.1:1: dial tcp", "start it with `kymogram serve`, or name another with --server or KYMOGRAM_SERVER"},
	} {
		c := &remote.Client{Base: tt.base, Flag: tt.flag}
		_, err := c.Document(t.Context(), http.MethodGet, "/x", nil)
		var e *model.Error
		if !errors.As(err, &e) || e.Code != tt.code || !strings.HasPrefix(e.Message, tt.says) && !strings.HasSuffix(e.Message, tt.says) || e.Hint != tt.hint {
			t.Errorf("%s %s: %+v", tt.base, tt.flag, err)
		}
	}
}

// busy refuses so many requests, then answers.
func busy(t *testing.T, status, times int) (base string, asked *int) {
	asked = new(int)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if *asked++; *asked <= times {
			w.Header().Set("Retry-After", "0")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(`{"error":{"code":"busy","message":"the server is busy","hint":"later"}}`))
			return
		}
		_, _ = fmt.Fprintf(w, `{"n":%d}`, len(body))
	}), asked
}

func TestABusyServerIsAskedAgain(t *testing.T) {
	for _, tt := range []struct {
		method        string
		status, times int
		asked         int
		fails         string
	}{
		{http.MethodGet, 429, 4, 5, ""},
		{http.MethodGet, 503, 1, 2, ""},
		{http.MethodPost, 429, 2, 3, ""},
		{http.MethodPost, 503, 1, 1, "the server is busy"}, // it may have been done
		{http.MethodGet, 429, 9, 5, "the server is busy (asked 5 times)"},
		{http.MethodGet, 500, 1, 1, "the server is busy"},
	} {
		base, asked := busy(t, tt.status, tt.times)
		c := &remote.Client{Base: base}
		var doc struct{ N int }
		err := c.Exchange(t.Context(), tt.method, "/api/v1/buckets", []int{1}, &doc)
		var e *model.Error
		switch {
		case *asked != tt.asked:
			t.Errorf("%+v: asked %d times", tt, *asked)
		case tt.fails == "" && (err != nil || doc.N != len("[1]")):
			t.Errorf("%+v: %v, %v", tt, err, doc)
		case tt.fails != "" && (!errors.As(err, &e) || e.Message != tt.fails || e.Hint != "later"):
			t.Errorf("%+v: %v", tt, err)
		}
	}
}

// A server is there, but speaks the other of HTTP and HTTPS, or by an authority that nobody knows.
func TestTLSIsNamedWhereItIsTheFault(t *testing.T) {
	quiet := log.New(io.Discard, "", 0)
	answer := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	secure, plain := httptest.NewUnstartedServer(answer), httptest.NewServer(answer)
	secure.Config.ErrorLog = quiet
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	mute, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = mute.Close() })
	go func() {
		for {
			c, err := mute.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 4096))
			_ = c.Close()
		}
	}()
	over := func(scheme, base string) string { return scheme + base[strings.Index(base, ":"):] }
	for base, want := range map[string]string{
		secure.URL:                       "set SSL_CERT_FILE",
		over("http", secure.URL):         "the port speaks TLS: try " + secure.URL,
		over("https", plain.URL):         "the port speaks no TLS: try " + plain.URL,
		"http://" + mute.Addr().String(): "may speak TLS: try https://" + mute.Addr().String(),
	} {
		_, err := (&remote.Client{Base: base, Flag: "--server"}).Send(t.Context(), http.MethodGet, "/api/v1/key", nil, nil)
		if e := model.Shown(err); e == nil || !strings.Contains(e.Hint, want) {
			t.Errorf("%s: %v, want %q", base, err, want)
		}
	}
}

func TestAnEndedContextIsNoFaultOfTheServer(t *testing.T) {
	ended, stop := context.WithCancel(t.Context())
	stop()
	c := &remote.Client{Base: "http://127.0.0.1:1"}
	if _, err := c.Document(ended, http.MethodGet, "/x", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a program: %v", err)
	}
	c.Flag = "--server"
	if _, err := c.Document(ended, http.MethodGet, "/x", nil); err == nil || err.Error() != "interrupted" {
		t.Errorf("a person: %v", err)
	}
}

// A server that never ends its answer fills nobody's memory, and holds nobody up.
func TestAnAnswerHasAnEnd(t *testing.T) {
	const most = 1 << 20
	blanks := strings.Repeat(" ", 32<<10)
	for what, pause := range map[string]time.Duration{"endless": 0, "drip": 20 * time.Millisecond} {
		sent := make(chan int, 2)
		at := serve(t, func(w http.ResponseWriter, r *http.Request) {
			n := 0
			for piece := blanks; r.Context().Err() == nil && n < 1<<30; n += len(piece) {
				if pause > 0 {
					piece = " "
					_ = http.NewResponseController(w).Flush()
				}
				if _, err := io.WriteString(w, piece); err != nil {
					break
				}
				time.Sleep(pause)
			}
			sent <- n
		})
		c := &remote.Client{Base: at, Most: most, Time: time.Minute}
		if pause > 0 {
			c.Time = 200 * time.Millisecond
		}
		var doc any
		for name, ask := range map[string]func() error{
			"Document": func() error { _, err := c.Document(t.Context(), http.MethodGet, "/x", nil); return err },
			"Exchange": func() error { return c.Exchange(t.Context(), http.MethodPost, "/x", nil, &doc) },
		} {
			if err := ask(); err == nil || (model.CodeOf(err) == model.CodeTooLarge) != (pause == 0) {
				t.Errorf("%s, %s: %v", what, name, err)
			}
			if n := <-sent; n >= 1<<30 {
				t.Errorf("%s, %s: %d MiB were taken", what, name, n>>20)
			}
		}
	}
}

func TestWhatIsSent(t *testing.T) {
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		var body map[string]int
		_ = json.NewDecoder(r.Body).Decode(&body)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"method": r.Method, "url": r.URL.String(), "key": r.Header.Get("Authorization"), "type": r.Header.Get("Content-Type"), "n": body["n"],
		})
	})
	c := &remote.Client{Base: base, Key: "secret"}
	var got map[string]any
	if err := c.Exchange(t.Context(), http.MethodPost, "/api/v1/keys", map[string]int{"n": 3}, &got); err != nil {
		t.Fatal(err)
	}
	if got["method"] != "POST" || got["url"] != "/api/v1/keys" || got["key"] != "Bearer secret" || got["type"] != "application/json" || got["n"] != 3.0 {
		t.Errorf("%v", got)
	}
}

// lists serves the numbers from 0 to n in pages; the cursor is the next one.
func lists(t *testing.T, n int) (base string, sizes *[]string) {
	sizes = new([]string)
	return serve(t, func(w http.ResponseWriter, r *http.Request) {
		*sizes = append(*sizes, r.URL.Query().Get("limit"))
		from, limit := number(r.URL.Query().Get("cursor")), number(r.URL.Query().Get("limit"))
		items := []int{}
		for i := from; i < min(n, from+limit); i++ {
			items = append(items, i)
		}
		var next any
		if from+limit < n {
			next, _ = json.Marshal(from + limit)
			next = string(next.([]byte))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"things": items, "next": next})
	}), sizes
}

func number(s string) (n int) {
	_ = json.Unmarshal([]byte(s), &n)
	return n
}

func TestListsFollowTheirPages(t *testing.T) {
	base, sizes := lists(t, 2500)
	c := &remote.Client{Base: base}
	list, err := c.List(t.Context(), "/things", "things", url.Values{}, 0)
	if err != nil || len(list.Items) != 2500 || list.Next != "" || len(*sizes) != 3 {
		t.Fatalf("%v, %v", err, *sizes)
	}
	list, err = c.List(t.Context(), "/things", "things", url.Values{"cursor": {"10"}}, 2)
	if err != nil || len(list.Items) != 2 || string(list.Items[0]) != "10" || list.Next != "12" {
		t.Fatalf("%v, %+v", err, list)
	}
	if doc, err := json.Marshal(list); err != nil || string(doc) != `{"next":"12","things":[10,11]}` {
		t.Errorf("%s, %v", doc, err)
	}
}

// The folder is that of the user, as the environment says.
func TestUserKey(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, ".config", "kymogram", "credentials.json")
	write := func(text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"http://localhost:7070":"k"}`)
	base, err := url.Parse("http://127.0.0.1:7070")
	if err != nil {
		t.Fatal(err)
	}
	for want, env := range map[string]map[string]string{"k": {"HOME": home}, "": {}} {
		if key, err := remote.UserKey(func(name string) string { return env[name] }, base); key != want || err != nil {
			t.Errorf("%v: %q, %v", env, key, err)
		}
	}
	write(`{`)
	var damaged *model.Error
	at := func(name string) string {
		return map[string]string{"XDG_CONFIG_HOME": filepath.Join(home, ".config")}[name]
	}
	if _, err := remote.UserKey(at, base); !errors.As(err, &damaged) || !strings.Contains(damaged.Hint, "--key") {
		t.Errorf("damaged: %v", err)
	}
}

// The golden file is written by the server's tests, and read in Python too.
func TestStoredKeyOfTheGoldenFile(t *testing.T) {
	golden, err := os.ReadFile("../../testdata/credentials/golden.json")
	if err != nil {
		t.Fatal(err)
	}
	config := t.TempDir()
	path := filepath.Join(config, "kymogram", "credentials.json")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, golden, 0o600)); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"http://[::1]:7070":        "0123456789abcdef0123456789abcdef01234567",
		"https://far.example":      "89abcdef0123456789abcdef0123456789abcdef",
		"http://far.example":       "",
		"https://far.example:7070": "",
	} {
		base, err := url.Parse(address)
		if err != nil {
			t.Fatal(err)
		}
		if key, err := remote.StoredKey(config, remote.Spellings(base)...); key != want || err != nil {
			t.Errorf("%s: %q, %v", address, key, err)
		}
	}
}

func TestStoredKey(t *testing.T) {
	config := t.TempDir()
	base, err := url.Parse("http://localhost:7070")
	if err != nil {
		t.Fatal(err)
	}
	if key, err := remote.StoredKey(config, remote.Spellings(base)...); key != "" || err != nil {
		t.Errorf("without a file: %q, %v", key, err)
	}
	path := filepath.Join(config, "kymogram", "credentials.json")
	write := func(text string) {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"http://127.0.0.1:7070":"k"}`)
	if key, err := remote.StoredKey(config, remote.Spellings(base)...); key != "k" || err != nil {
		t.Errorf("another spelling: %q, %v", key, err)
	}
	if key, err := remote.StoredKey(config, "http://other:7070"); key != "" || err != nil {
		t.Errorf("another host: %q, %v", key, err)
	}
	write(`{`)
	if _, err := remote.StoredKey(config, "x"); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("damaged: %v", err)
	}
}

func TestRunID(t *testing.T) {
	const id = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
	base := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(map[string]string{"id": strings.TrimPrefix(r.URL.Query().Get("run"), "w/p/")})
	})
	c := &remote.Client{Base: base}
	if got, err := c.RunID(t.Context(), id); got != id || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if got, err := c.RunID(t.Context(), "w/p/one"); got != "one" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := c.RunID(t.Context(), "w/p/"); err == nil {
		t.Error("an answer without an id")
	}
	if got := remote.RunPath("a/b", "points"); got != "/api/v1/runs/a%2Fb/points" {
		t.Error(got)
	}
}

// A list whose pages never end is an error: cursors that repeat, more bytes than an answer
// may have, pages without an entry, and one that takes its time.
func TestAListHasAnEnd(t *testing.T) {
	page := func(entry, next string) string { return fmt.Sprintf(`{"runs":[%s],"next":%q}`, entry, next) }
	long := `"` + strings.Repeat("x", 64<<10) + `"`
	for what, answer := range map[string]func(n int) string{
		"one cursor": func(int) string { return page(`1`, "again") },
		"new ones":   func(n int) string { return page(long, strconv.Itoa(n)) },
		"no entry":   func(n int) string { time.Sleep(time.Millisecond); return page("", strconv.Itoa(n)) },
	} {
		asked := 0
		at := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			asked++
			_, _ = io.WriteString(w, answer(asked))
		})
		c := &remote.Client{Base: at, Most: 1 << 20, Time: 2 * time.Second}
		if list, err := c.List(t.Context(), "/x", "runs", url.Values{}, 0); err == nil {
			t.Errorf("%s: %d entries", what, len(list.Items))
		} else if what != "no entry" && (model.CodeOf(err) != model.CodeTooLarge || asked > 20) {
			t.Errorf("%s: asked %d times, %v", what, asked, err)
		}
	}
}
