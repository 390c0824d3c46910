package records_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/records"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

func keyOf(t testing.TB, n byte) *wallet.Key {
	t.Helper()
	k, err := wallet.NewKey([32]byte{n, 1})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// long is a server with a long log of some runs, which it makes as it is asked.
type long struct {
	t        testing.TB
	runs     int
	keys     []*wallet.Key
	hashes   []state.Hash // of each record
	requests int
	most     uint64 // bytes of the heap while a request was answered
	limit    int    // leaves of an answer
	subnets  bool   // each run is of its own
	hidden   int    // a run that it shows to nobody; 0: none
	half     bool   // it shows that run to readers without a chain
	gone     bool   // it shows no log
	changed  int    // a leaf that it shows as another one; 0: none
}

func newLong(t testing.TB, size, runs int) *long {
	t.Helper()
	s := &long{t: t, runs: runs, limit: 10_000}
	for i := range runs {
		s.keys = append(s.keys, keyOf(t, byte(i)))
	}
	for i := range size {
		s.hashes = append(s.hashes, state.HashOf(s.record(i)))
	}
	return s
}

func (s *long) of(i int) state.Record {
	run := i % s.runs
	r := state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Hotkey: s.keys[run].Account(), Workspace: "lab", Project: "net", Run: fmt.Sprint("run", run)},
		Sequence: uint64(i/s.runs) + 1, TimeMs: 1_795_000_000_000, ExpiresMs: 1_795_000_000_001, PayloadType: state.ConfigPayload, PayloadHash: state.HashOf([]byte("{}")),
	}
	if s.subnets {
		r.Netuid = uint16(run)
	}
	if i >= s.runs {
		r.Previous = s.hashes[i-s.runs]
	}
	return r
}

func (s *long) record(i int) []byte {
	r := s.of(i)
	raw, err := r.Canonical()
	if err != nil {
		s.t.Fatal(err)
	}
	return raw
}

// root is that of RFC 9162, over the first leaves.
func (s *long) root(from, to int) [32]byte {
	if to-from == 1 {
		return sha256.Sum256(append([]byte{0}, s.record(from)...))
	}
	k := 1
	for k*2 < to-from {
		k *= 2
	}
	left, right := s.root(from, from+k), s.root(from+k, to)
	return sha256.Sum256(bytes.Join([][]byte{{1}, left[:], right[:]}, nil))
}

func (s *long) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.requests++
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	s.most = max(s.most, m.HeapAlloc)
	var doc any
	switch size := len(s.hashes); {
	case s.gone:
		w.WriteHeader(http.StatusNotFound)
		doc = map[string]any{"error": map[string]any{"code": "not_found", "message": "no record was signed in lab/net yet"}}
	case strings.HasSuffix(r.URL.Path, "/log/head"):
		doc = s.head(size)
	case strings.HasSuffix(r.URL.Path, "/log/leaves"):
		from, _ := strconv.Atoi(r.URL.Query().Get("from"))
		var leaves [][]byte
		for i := from; i < min(size, from+s.limit); i++ {
			if leaf := s.record(i); s.changed == 0 || i != s.changed {
				leaves = append(leaves, leaf)
			} else {
				leaves = append(leaves, s.record(i+1))
			}
		}
		doc = map[string]any{"leaves": leaves}
	case strings.HasSuffix(r.URL.Path, "/state"):
		doc = s.newest(r.URL.Query().Get("netuid"), r.URL.Query().Has("bare"))
	default:
		s.t.Errorf("%s was asked for", r.URL)
	}
	_ = json.NewEncoder(w).Encode(doc)
}

func (s *long) head(size int) *transparency.SignedHead {
	return transparency.Sign(transparency.Head{Workspace: "lab", Project: "net", Size: uint64(size), Root: s.root(0, size), TimeMs: 1},
		ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
}

func (s *long) newest(netuid string, bare bool) *state.Page {
	page := &state.Page{Entries: []state.Entry{}, Size: uint64(len(s.hashes)), Next: uint64(len(s.hashes))}
	for run := range s.runs {
		if of := strconv.Itoa(int(s.of(run).Netuid)); netuid != "" && netuid != of || s.hidden > 0 && run == s.hidden && (bare || !s.half) {
			continue
		}
		e, err := state.Seal(s.of(len(s.hashes)-s.runs+run), []byte("{}"), s.keys[(len(s.hashes)-s.runs+run)%s.runs])
		if err != nil {
			s.t.Fatal(err)
		}
		page.Entries = append(page.Entries, state.Entry{Envelope: *e, Notes: state.Notes{RunID: model.RunID{byte(run)}}})
	}
	return page
}

// A run that is hidden only from readers with a chain is hidden.
func TestTheAuditAsksAsAllReadersDo(t *testing.T) {
	for _, hidden := range []int{0, 7} {
		s := newLong(t, 30, 10)
		s.hidden, s.half = hidden, true
		server := httptest.NewServer(s)
		l := records.Log{Server: records.Server{Client: &remote.Client{Base: server.URL}}, Workspace: "lab", Project: "net"}
		report, err := l.Audit(t.Context(), "", false, silent)
		server.Close()
		if err != nil || report.OK() != (hidden == 0) || report.Shown != 10 {
			t.Fatalf("%+v %v", report, err)
		}
		if !report.OK() && (len(report.Findings) != 1 || report.Findings[0].Kind != records.Hidden || !strings.Contains(report.Findings[0].Reason, "with a chain")) {
			t.Errorf("%+v", report.Findings)
		}
	}
}

func silent(n int64) progress.Bar { return progress.Count(io.Discard, n, "leaves") }

// The audit of a long log needs few requests and no memory for the leaves, and the next
// one reads what came since.
func TestTheAuditOfALongLog(t *testing.T) {
	size := 100_000
	if testing.Short() {
		size = 40_000
	}
	s := newLong(t, size, 50)
	server := httptest.NewServer(s)
	defer server.Close()
	l := records.Log{Server: records.Server{Client: &remote.Client{Base: server.URL}}, Workspace: "lab", Project: "net"}
	path := filepath.Join(t.TempDir(), "audit.json")
	runtime.GC()
	var before runtime.MemStats
	runtime.ReadMemStats(&before)
	report, err := l.Audit(t.Context(), path, false, silent)
	if err != nil || !report.OK() || report.Size != uint64(size) || report.Runs != 50 || report.Shown != 50 {
		t.Fatalf("%+v %v", report, err)
	}
	if most := size/s.limit + 6; s.requests > most {
		t.Errorf("%d requests for %d leaves", s.requests, size)
	}
	if grown := int64(s.most) - int64(before.HeapAlloc); grown > 12<<20 {
		t.Errorf("the audit held %d bytes", grown)
	}
	if info, err := os.Stat(path); err != nil || info.Size() > 50<<10 {
		t.Errorf("the file of 50 runs has %d bytes: %v", info.Size(), err)
	}

	s.requests, s.limit = 0, 1
	again, err := l.Audit(t.Context(), path, false, silent)
	if err != nil || !again.OK() || again.From != uint64(size) || s.requests > 5 {
		t.Errorf("%+v %v, %d requests", again, err, s.requests)
	}
}

// A stranger can sign for every subnet: an audit asks for the lists of some and for one
// of all, and finds what is hidden in both.
func TestTheAuditOfManySubnets(t *testing.T) {
	for hidden, finds := range map[int]int{0: 0, 3: 1, 90: 1} {
		s := &long{t: t, runs: 120, limit: 10_000, subnets: true, hidden: hidden}
		for i := range s.runs {
			s.keys = append(s.keys, keyOf(t, byte(i)))
			s.hashes = append(s.hashes, state.HashOf(s.record(i)))
		}
		server := httptest.NewServer(s)
		l := records.Log{Server: records.Server{Client: &remote.Client{Base: server.URL}}, Workspace: "lab", Project: "net"}
		report, err := l.Audit(t.Context(), "", false, silent)
		server.Close()
		if err != nil || len(report.Findings) != finds || report.Shown != 120-finds || report.Unasked != 120-records.MaxSubnets {
			t.Errorf("%+v %v", report, err)
		}
		if finds > 0 && (report.Findings[0].Kind != records.Hidden || report.Findings[0].Run != fmt.Sprint("run", hidden)) {
			t.Errorf("%+v", report.Findings)
		}
		if s.requests > 2*records.MaxSubnets+6 {
			t.Errorf("%d requests for 120 subnets", s.requests)
		}
	}
}

// An audit with a file of before sees that an old leaf was changed when it is told to
// read again, and that a log is shown no more.
func TestTheAuditReadsAgain(t *testing.T) {
	s := newLong(t, 40, 4)
	server := httptest.NewServer(s)
	defer server.Close()
	l := records.Log{Server: records.Server{Client: &remote.Client{Base: server.URL}}, Workspace: "lab", Project: "net"}
	path := filepath.Join(t.TempDir(), "audit.json")
	for i, again := range []bool{false, true, true} {
		report, err := l.Audit(t.Context(), path, again, silent)
		if err != nil || !report.OK() || again && report.From != 0 {
			t.Fatalf("audit %d: %+v %v", i, report, err)
		}
	}
	s.changed = 5
	if report, err := l.Audit(t.Context(), path, false, silent); err != nil || !report.OK() || report.From != 40 {
		t.Errorf("what came since: %+v %v", report, err)
	}
	if _, err := l.Audit(t.Context(), path, true, silent); err == nil || !strings.Contains(err.Error(), "do not make the head") {
		t.Errorf("an old leaf was changed: %v", err)
	}
	s.gone = true
	if _, err := l.Audit(t.Context(), path, false, silent); err == nil || !strings.Contains(err.Error(), "a head of 40 records was seen: it hides the log") {
		t.Errorf("no log is shown: %v", err)
	}
	if _, err := l.Audit(t.Context(), "", false, silent); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("no log was ever seen: %v", err)
	}
}

// A leaf that follows nothing is told of by each audit, not only by the first.
func TestALeafThatFollowsNothingIsFoundAgain(t *testing.T) {
	s := newLong(t, 20, 2)
	s.hashes[9] = state.Hash{1} // leaf 11 names another record
	for i := 10; i < 20; i++ {
		s.hashes[i] = state.HashOf(s.record(i))
	}
	server := httptest.NewServer(s)
	defer server.Close()
	l := records.Log{Server: records.Server{Client: &remote.Client{Base: server.URL}}, Workspace: "lab", Project: "net"}
	path := filepath.Join(t.TempDir(), "audit.json")
	for range 2 {
		report, err := l.Audit(t.Context(), path, false, silent)
		if err != nil || len(report.Findings) != 1 || report.Findings[0].Kind != records.BadLeaf || !strings.Contains(report.Findings[0].Reason, "leaf 11, sequence 6, follows no record") {
			t.Fatalf("%+v %v", report, err)
		}
	}
}

// What a file proves, and whether it speaks for the record.
func TestVerifyingAFileOfOneRecord(t *testing.T) {
	now := time.UnixMilli(1_795_000_000_000)
	for name, c := range map[string]struct {
		shift time.Duration
		want  state.Verdict
		ok    bool
	}{
		"fresh":   {0, state.Verified, true},
		"expired": {-2 * time.Hour, state.Stale, false},
		"future":  {2 * time.Hour, state.Stale, false},
	} {
		at := uint64(now.Add(c.shift).UnixMilli())
		e, err := state.Seal(state.Record{
			Place:    state.Place{Netuid: 27, Role: state.Miner, Workspace: "lab", Project: "net", Run: "r"},
			Sequence: 1, TimeMs: at, ExpiresMs: at + 3_600_000, PayloadType: state.ConfigPayload,
		}, []byte(`{}`), keyOf(t, 1))
		if err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), "record.json")
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		report, err := records.VerifyFile(t.Context(), path, records.Options{Now: func() time.Time { return now }})
		if exported := withNotes(t, path, e); report != nil && (exported.History == nil || !exported.OK()) {
			t.Errorf("%s: a history of one record: %+v", name, exported)
		}
		if err != nil || report.Verdict != c.want || report.OK() != c.ok {
			t.Errorf("%s: %+v %v", name, report, err)
		}
	}
}

// withNotes is the report on an export of one record: it may be old, like any history.
func withNotes(t *testing.T, path string, e *state.Envelope) *records.FileReport {
	t.Helper()
	text, err := json.Marshal(state.Entry{Envelope: *e, Notes: state.Notes{Index: 7}})
	if err == nil {
		err = os.WriteFile(path, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	report, err := records.VerifyFile(t.Context(), path, records.Options{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return report
}
