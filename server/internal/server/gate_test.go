package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/share"
)

// caller is a connection that says where it comes from.
type caller struct {
	net.Conn
	from string
}

func (c caller) RemoteAddr() net.Addr {
	at, err := net.ResolveTCPAddr("tcp", c.from)
	if err != nil {
		panic(err)
	}
	return at
}

func knock(t *testing.T, g *gate, from string) (in net.Conn, answer string) {
	t.Helper()
	here, there := net.Pipe()
	t.Cleanup(func() { _ = here.Close(); _ = there.Close() })
	said := make(chan string, 1)
	go func() {
		buffer := make([]byte, len(refusal))
		n, _ := there.Read(buffer)
		said <- string(buffer[:n])
	}()
	conn, ok := g.enter(caller{here, from})
	if ok {
		return conn, ""
	}
	g.refuse(conn, func(tell func()) { go tell() })
	return nil, <-said
}

func TestConnectionsAreBounded(t *testing.T) {
	g := newGate(12, 3)
	enter := func(from, caller string) net.Conn {
		in, _ := knock(t, g, from)
		if in != nil {
			if _, err := g.hold(enteredOf(in), caller); err != nil {
				t.Error(err)
			}
		}
		return in
	}
	for range 3 {
		if enter("192.0.2.7:1", "a") == nil {
			t.Fatal("refused below the limit")
		}
	}
	if in, said := knock(t, g, "192.0.2.7:2"); in != nil || !strings.Contains(said, "503") || !strings.Contains(said, "Retry-After") {
		t.Errorf("a fourth of one address: %v, %q", in, said)
	}
	if in, _ := knock(t, g, "[::ffff:192.0.2.7]:2"); in != nil {
		t.Error("the same address in another form got in")
	}
	var proxied []net.Conn
	for i := range 9 { // behind a proxy on this machine all have its address
		in := enter("127.0.0.1:1", fmt.Sprint("key", i%3))
		if in == nil {
			t.Fatalf("connection %d of loopback was refused", i)
		}
		proxied = append(proxied, in)
	}
	if in, _ := knock(t, g, "192.0.2.8:1"); in != nil {
		t.Error("one more than there may be in all")
	}
	_ = proxied[0].Close()
	_ = proxied[0].Close() // twice is once
	if in, _ := knock(t, g, "192.0.2.8:1"); in == nil {
		t.Error("a connection that ended is still counted")
	}
	if open, _, refused, closed := g.figures(); open != 12 || refused != 3 || closed != 0 {
		t.Errorf("%d open, %d refused, %d closed", open, refused, closed)
	}
}

// room is a gate with connections that rest, by name.
type room struct {
	*gate
	t      *testing.T
	inside map[string]*entered
}

func newRoom(t *testing.T, most, each int) *room {
	return &room{newGate(most, each), t, map[string]*entered{}}
}

func (r *room) enter(from string, names ...string) {
	r.t.Helper()
	for _, name := range names {
		in, _ := knock(r.t, r.gate, from)
		if in == nil {
			r.t.Fatalf("%s found no place", name)
		}
		r.inside[name] = enteredOf(&peeked{Conn: in})
	}
}

func (r *room) wantGone(names ...string) {
	r.t.Helper()
	for name, c := range r.inside {
		if c.gone != slices.Contains(names, name) {
			r.t.Errorf("%s: closed is %v", name, c.gone)
		}
	}
	if open, _, _, closed := r.figures(); open != len(r.inside)-len(names) || closed != uint64(len(names)) {
		r.t.Errorf("%d are open, %d were closed", open, closed)
	}
}

// Who has rested longest makes way, and who begins a request has not rested.
func TestIdleConnectionsMakeWay(t *testing.T) {
	r := newRoom(t, 4, 2)
	r.enter("127.0.0.1:1", "a", "b", "c")
	r.enter("192.0.2.7:1", "d")
	r.touch(r.inside["a"])
	release, err := r.hold(r.inside["b"], "key")
	if err != nil {
		t.Fatal(err)
	}
	r.enter("127.0.0.1:1", "e")
	r.wantGone("c")
	release()
	r.enter("127.0.0.1:1", "f", "g")
	r.wantGone("c", "d", "a")
	r.enter("192.0.2.7:1", "h", "i") // in the places of e and b
	r.enter("192.0.2.7:1", "j")      // an address that has its part gives one of its own
	r.wantGone("c", "d", "a", "e", "b", "h")
}

// One caller may have nearly all connections while nobody else wants them. A caller with few
// then gets its part, one by one, from who has most; who has its part is refused.
func TestWhoHasMostMakesWay(t *testing.T) {
	const most = 32
	r := newRoom(t, most, 0)
	got := map[string]int{}
	use := func(caller string) (err error) {
		name := fmt.Sprint(caller, len(r.inside))
		r.enter("127.0.0.1:1", name)
		if _, err = r.hold(r.inside[name], caller); err == nil {
			got[caller]++
		}
		return err
	}
	for range most - most/sparePart {
		if err := use("greedy"); err != nil {
			t.Fatal(err)
		}
	}
	if err := use("greedy"); model.CodeOf(err) != model.CodeBusy {
		t.Errorf("the last ones are for others: %v", err)
	}
	for _, other := range []string{"b", "c"} {
		for range most / callerPart {
			if err := use(other); err != nil {
				t.Fatalf("%s has %d: %v", other, got[other], err)
			}
		}
		if err := use(other); model.CodeOf(err) != model.CodeBusy {
			t.Errorf("more than its part: %v", err)
		}
	}
	left := map[string]int{}
	for caller, own := range r.callers {
		left[caller] = own.Len()
	}
	if want := map[string]int{"greedy": 12, "b": 8, "c": 8}; !maps.Equal(left, want) {
		t.Errorf("they hold %v, want %v", left, want)
	}
}

// Several calls of a connection are one that is held, by who came first.
func TestAConnectionOfManyCalls(t *testing.T) {
	r := newRoom(t, 8, 0)
	r.enter("127.0.0.1:1", "a")
	c := r.inside["a"]
	first, err := r.hold(c, "key")
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.hold(c, "other")
	if err != nil {
		t.Fatal(err)
	}
	first()
	first()
	if r.held != 1 || r.resting.Len() != 0 {
		t.Errorf("%d held, %d rest", r.held, r.resting.Len())
	}
	second()
	if r.held != 0 || r.resting.Len() != 1 || len(r.callers) != 0 {
		t.Errorf("%d held, %d rest", r.held, r.resting.Len())
	}
	again, err := r.hold(c, "key")
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	again()
	if open, _, _, _ := r.figures(); open != 0 || r.held != 0 || r.resting.Len() != 0 || len(r.by) != 0 {
		t.Errorf("%d open, %d held, %d rest, %d addresses", open, r.held, r.resting.Len(), len(r.by))
	}
}

func TestCostOfABody(t *testing.T) {
	const mib = 1 << 20
	a := newAdmission(16*mib, config.Divide(0, 16*mib), 1000)
	for _, c := range []struct {
		length                int64
		contentType, encoding string
		want                  int64
	}{
		{100, "text/plain", "", leastCost},
		{mib, "text/plain", "", 4 * mib},
		{16 * mib, "text/plain", "identity", 64 * mib},
		{-1, "text/plain", "", 64 * mib},
		{17 * mib, "text/plain", "", 64 * mib},
		{10_000, "text/plain", "gzip", 10_320_000},
		{mib, "text/plain", "br", 64 * mib},
		{10_000, "application/x-protobuf", "snappy", 880_000},
		{10_000, "application/x-protobuf;proto=io.prometheus.write.v2.Request", "", 880_000},
		{mib, "application/x-protobuf", "Snappy", 64 * mib},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
		r.ContentLength = c.length
		r.Header.Set("Content-Type", c.contentType)
		r.Header.Set("Content-Encoding", c.encoding)
		if got := a.cost(r); got != c.want {
			t.Errorf("%+v costs %d", c, got)
		}
	}
}

// Where memory is small the widest lease is counted in full, and its caller is told so.
func TestMemoryOfRequests(t *testing.T) {
	const mib = 1 << 20
	a := newAdmission(16*mib, config.Divide(210*mib, 16*mib), 1000)
	if _, err := a.pool.Try(share.WithCaller(t.Context(), "a"), 64*mib); err != nil {
		t.Error(err)
	}
	_, err := a.pool.Try(share.WithCaller(t.Context(), "b"), 64*mib)
	var known *model.Error
	if !errors.As(err, &known) || !strings.Contains(known.Hint, "at most 100 % of the server's memory") {
		t.Errorf("a second body of 64 MiB: %+v", err)
	}
	if used := a.pool.Stats().Used; used != 64*mib {
		t.Errorf("%d bytes are counted", used)
	}
}

// A request without memory is told to come again: 429, and 503 for other systems'
// clients, since Prometheus drops what is answered with 429.
func TestRefusedForWantOfMemory(t *testing.T) {
	a := newAdmission(1<<20, config.Divide(0, 1<<20), 1000)
	a.pool = share.New("memory for requests", 4*leastCost, time.Millisecond)
	m := &mux{admission: a}
	handled := 0
	h := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { handled++ })
	ask := func(rule Rule, body string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		m.serve(w, httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body)).WithContext(share.WithCaller(t.Context(), "greedy")), rule, h)
		return w
	}
	leave, err := a.pool.Acquire(share.WithCaller(t.Context(), "greedy"), leastCost)
	if err != nil {
		t.Fatal(err)
	}
	for status, rule := range map[int]Rule{http.StatusTooManyRequests: {}, http.StatusServiceUnavailable: {Foreign: true}} {
		if w := ask(rule, "body"); w.Code != status || w.Header().Get("Retry-After") != "1" {
			t.Errorf("%+v: %d %v", rule, w.Code, w.Header())
		}
	}
	if ask(Rule{Large: true}, "body"); handled != 1 {
		t.Error("a stream of bytes to the disk needs no memory, but was refused")
	}
	leave()
	if ask(Rule{}, "body"); handled != 2 || a.pool.Stats().Used != 0 {
		t.Errorf("%d handled, %+v", handled, a.pool.Stats())
	}
}

type busyKeys struct{ auth.Keys }

func (busyKeys) FindKey(context.Context, [32]byte) (*auth.Key, error) {
	return nil, model.Errorf(model.CodeBusy, "no turn")
}

// The same holds where the catalog has no turn to look the key up.
func TestRefusedWhileItsKeyIsLookedUp(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	m := &mux{keyring: auth.New(busyKeys{}, time.Now, false), log: log, maxBody: 1 << 20}
	for status, rule := range map[int]Rule{http.StatusTooManyRequests: {Scope: auth.Ingest}, http.StatusServiceUnavailable: {Scope: auth.Ingest, Foreign: true}} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/", strings.NewReader("body"))
		r.Header.Set("Authorization", "Bearer "+strings.Repeat("a", 40))
		if _, err := m.guard(w, r, rule, nil); model.CodeOf(err) != model.CodeBusy || w.Code != status || w.Header().Get("Retry-After") == "" {
			t.Errorf("%+v: %d %v, %v", rule, w.Code, w.Header(), err)
		}
	}
}

// The SDK of W&B shows the errors of an answer, and no other text. What else there is stays as it is.
func TestARefusalOfGraphQLHasItsForm(t *testing.T) {
	m := &mux{keyring: auth.New(busyKeys{}, time.Now, false), log: slog.New(slog.DiscardHandler), maxBody: 1 << 20}
	for key, want := range map[string]string{strings.Repeat("a", 40): "no turn", "": "WANDB_API_KEY"} {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/graphql", strings.NewReader("body"))
		if key != "" {
			r.Header.Set("Authorization", "Bearer "+key)
		}
		_, err := m.guard(w, r, DefaultPolicy().HTTP["POST /graphql"], nil)
		var doc struct {
			Error  string
			Errors []struct{ Message string }
		}
		if failed := json.Unmarshal(w.Body.Bytes(), &doc); err == nil || failed != nil || len(doc.Errors) != 1 || doc.Error != doc.Errors[0].Message || !strings.Contains(doc.Error, want) {
			t.Errorf("%q: %d %s, %v, %v", key, w.Code, w.Body, err, failed)
		}
	}
	// Telemetry of the SDK itself comes without a key.
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/sdk/otel/v1/metrics", strings.NewReader(strings.Repeat("x", 1<<18)))
	if _, err := m.admit(r, DefaultPolicy().HTTP["POST /sdk/otel/v1/{what}"]); err != nil {
		t.Errorf("%d, %v", w.Code, err)
	}
}

func TestMessagesOfAStreamHoldMemoryUntilTheyAreAnswered(t *testing.T) {
	a := newAdmission(1<<20, config.Divide(0, 1<<20), 1000)
	var l leases
	for _, size := range []int{10, leastCost, 2 * leastCost} {
		if err := a.message(t.Context(), &l, size); err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []int64{3 * leastCost, 2 * leastCost, 0, 0} {
		if s := a.pool.Stats(); s.Used != want {
			t.Errorf("%d bytes are held, want %d", s.Used, want)
		}
		l.answered()
	}
	if err := a.message(t.Context(), &l, 1<<20); err != nil {
		t.Fatal(err)
	}
	l.close()
	if s := a.pool.Stats(); s.Used != 0 || s.Refused != 0 {
		t.Errorf("%+v", s)
	}
	a.pool = share.New("memory for requests", 1, time.Millisecond)
	if err := a.message(t.Context(), &l, leastCost-1); model.CodeOf(err) != "" {
		t.Error(err)
	}
}
