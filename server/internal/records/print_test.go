package records_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/records"
)

// signedAt is when the records of these tests were signed; they expire an hour later.
var signedAt = time.UnixMilli(1_795_000_000_000)

// rig is a server that shows what a test wants of lab/net/r.
type rig struct {
	t        *testing.T
	server   records.Server
	run      *records.Run
	newest   state.Newest
	history  []state.Entry
	list     []state.Entry
	evidence []state.Evidence
	out, err bytes.Buffer
}

const runID = "0000000000000000000000000g"

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, run: &records.Run{ID: runID, Workspace: "lab", Project: "net", Name: "r"}, history: []state.Entry{}, list: []state.Entry{}}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		switch {
		case strings.HasSuffix(req.URL.Path, "/state/history"):
			_ = json.NewEncoder(w).Encode(state.Page{Entries: r.history, Next: 1 << 40})
		case strings.HasPrefix(req.URL.Path, "/api/v1/runs/"):
			_ = json.NewEncoder(w).Encode(r.newest)
		default:
			_ = json.NewEncoder(w).Encode(state.Page{Entries: r.list, Evidence: r.evidence, Next: 1 << 40})
		}
	}))
	t.Cleanup(s.Close)
	r.server = records.Server{Client: &remote.Client{Base: s.URL}}
	return r
}

func (r *rig) terminal(asJSON, colour bool) records.Terminal {
	r.out.Reset()
	r.err.Reset()
	return records.Terminal{Out: &r.out, Err: &r.err, JSON: asJSON, Colour: colour}
}

func options() records.Options {
	return records.Options{Now: func() time.Time { return signedAt.Add(time.Minute) }}
}

// entry is a record of lab/net/r behind another one, with nothing noted of it.
func (r *rig) entry(on *state.Entry, payload string, change ...func(*state.Record)) *state.Entry {
	r.t.Helper()
	at := uint64(signedAt.UnixMilli())
	record := state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: "lab", Project: "net", Run: "r"},
		Sequence: 5, Block: 9, TimeMs: at, ExpiresMs: at + 3_600_000, PayloadType: state.ConfigPayload,
	}
	if on != nil {
		record.Previous, record.Sequence = on.Envelope.Hash(), on.Sequence+1
	}
	for _, c := range change {
		c(&record)
	}
	e, err := state.Seal(record, []byte(payload), keyOf(r.t, 1))
	if err != nil {
		r.t.Fatal(err)
	}
	return &state.Entry{Envelope: *e, Notes: state.Notes{
		Sequence: record.Sequence, Run: "r", Role: record.Role, Digest: e.Hash(), Hotkey: keyOf(r.t, 1).Account().String(),
	}}
}

// prints compares what was printed, with HOTKEY and HASH for those of the first entry.
func (r *rig) prints(what string, e *state.Entry, want string) {
	r.t.Helper()
	got := strings.NewReplacer(keyOf(r.t, 1).Account().String(), "HOTKEY", e.Envelope.Hash().String(), "HASH").Replace(r.out.String())
	if got != want {
		r.t.Errorf("%s:\n%q\nwant\n%q", what, got, want)
	}
}

func (r *rig) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestARecordIsShown(t *testing.T) {
	r := newRig(t)
	e := r.entry(nil, `{"stats":{}}`)
	r.newest.Head = e
	r.must(r.terminal(false, false).ShowRun(t.Context(), r.server, r.run, options()))
	const rest = `
reason    hotkey HOTKEY signed sequence 5 for this place
hotkey    HOTKEY
role      validator
place     subnet 27, lab/net/r
sequence  5
signed    2026-11-18T11:06:40Z, block 9
expires   2026-11-18T12:06:40Z
machine   00000000000000000000000000000000
payload   config/v1, 0.0 KiB
hash      HASH
{"stats":{}}
`
	r.prints("plain", e, "verdict   verified"+rest)
	r.must(r.terminal(false, true).ShowRun(t.Context(), r.server, r.run, options()))
	r.prints("on a terminal", e, "verdict   \x1b[32mverified\x1b[0m"+rest)

	r.must(r.terminal(true, true).ShowRun(t.Context(), r.server, r.run, options()))
	var doc struct {
		Verdict, Reason, Run string
		RunID                string `json:"run_id"`
		Record               struct{ Sequence uint64 }
		Entry                json.RawMessage
	}
	r.must(json.Unmarshal(r.out.Bytes(), &doc))
	var kept state.Entry
	r.must(json.Unmarshal(doc.Entry, &kept))
	if doc.Verdict != "verified" || doc.Run != "r" || doc.Record.Sequence != 5 || kept.Envelope.Hash() != e.Envelope.Hash() || strings.Contains(r.out.String(), "\x1b") {
		t.Errorf("%s", r.out.String())
	}

	r.newest.Head = nil
	if err := r.terminal(false, false).ShowRun(t.Context(), r.server, r.run, options()); model.CodeOf(err) != model.CodeNotFound || r.out.Len() > 0 {
		t.Errorf("no record: %v, %s", err, r.out.String())
	}
}

// Columns are aligned, each verdict has its colour, and evidence turns it.
func TestAListIsShown(t *testing.T) {
	r := newRig(t)
	e, old := r.entry(nil, `{"a":1}`), r.entry(nil, `{}`, func(x *state.Record) { x.TimeMs, x.ExpiresMs, x.Run = 1, 2, "old" })
	r.list = []state.Entry{*e, *old}
	r.must(r.terminal(false, true).ShowProject(t.Context(), r.server, "lab", "net", options()))
	r.prints("a list", e, "ROLE       HOTKEY                                            RUN  SEQUENCE  RECEIVED  REASON                                                                                                VERDICT\n"+
		"validator  HOTKEY  r    5         -         hotkey HOTKEY signed sequence 5 for this place              \x1b[32mverified\x1b[0m\n"+
		"validator  HOTKEY  old  5         -         it expired 20775d11h7m40s ago, at 1970-01-01T00:00:00Z: its signer is silent, or this clock is ahead  \x1b[33mstale\x1b[0m\n")
	for machine, want := range map[byte]string{0: "\x1b[31mequivocated\x1b[0m", 1: "\x1b[33mshared_key\x1b[0m"} {
		twin := r.entry(nil, `{"a":1,"version":2}`, func(x *state.Record) { x.Machine[0] = machine })
		r.evidence = []state.Evidence{{RunID: e.RunID, Proof: state.Proof{A: &e.Envelope, B: &twin.Envelope}}}
		r.list = []state.Entry{*e}
		r.must(r.terminal(false, true).ShowProject(t.Context(), r.server, "lab", "net", options()))
		if !strings.HasSuffix(r.out.String(), want+"\n") {
			t.Errorf("%q, want %q", r.out.String(), want)
		}
	}
	r.list, r.evidence = nil, nil
	r.must(r.terminal(false, true).ShowProject(t.Context(), r.server, "lab", "net", options()))
	if r.err.String() != "no records\n" || strings.Count(r.out.String(), "\n") != 1 {
		t.Errorf("an empty list: %q %q", r.out.String(), r.err.String())
	}
	r.must(r.terminal(true, true).ShowProject(t.Context(), r.server, "lab", "net", options()))
	if r.out.String() != "[]\n" {
		t.Errorf("an empty list as JSON: %q", r.out.String())
	}
}

func TestAHistoryIsShown(t *testing.T) {
	r := newRig(t)
	e := r.entry(nil, `{"a":1}`)
	first, twin := r.entry(e, `{"a":2}`), r.entry(e, `{"a":3}`)
	e.Payload, e.Dropped = []byte{}, true
	first.Index, twin.Fork, twin.Index = 1, true, 2
	r.history = []state.Entry{*e, *first, *twin}
	r.must(r.terminal(false, true).History(t.Context(), r.server, r.run))
	hash := strings.Repeat(" ", 64)
	r.prints("a history", e, "SEQUENCE  INDEX  RECEIVED  PAYLOAD  HASH"+hash[2:]+"NOTE\n"+
		"5         0      -         0.0 KiB  HASH  payload dropped\n"+
		"6         1      -         0.0 KiB  "+first.Digest.String()+"  \n"+
		"6         2      -         0.0 KiB  "+twin.Digest.String()+"  second record with this sequence\n")

	r.must(r.terminal(true, false).History(t.Context(), r.server, r.run)) // lines that verify takes
	path := filepath.Join(t.TempDir(), "records.jsonl")
	r.must(os.WriteFile(path, r.out.Bytes(), 0o600))
	if err := r.terminal(false, true).VerifyFile(t.Context(), path, options()); !errors.Is(err, records.ErrCaught) {
		t.Errorf("an equivocation: %v", err)
	}
	if told := r.out.String(); !strings.HasPrefix(told, "lab/net/r: 3 records, 0 faults, 1 sequences signed twice, 1 payloads dropped\nnewest: \x1b[31mequivocated\x1b[0m: ") ||
		!strings.Contains(told, "\n\x1b[31mequivocated\x1b[0m: hotkey ") {
		t.Errorf("%q", told)
	}

	r.history = nil
	r.must(r.terminal(false, false).History(t.Context(), r.server, r.run))
	if r.out.String() != "SEQUENCE  INDEX  RECEIVED  PAYLOAD  HASH  NOTE\n" {
		t.Errorf("an empty history: %q", r.out.String())
	}
	r.must(r.terminal(true, false).History(t.Context(), r.server, r.run))
	if r.out.Len() > 0 {
		t.Errorf("an empty export: %q", r.out.String())
	}
	r.must(r.terminal(false, false).VerifyRun(t.Context(), r.server, r.run, options()))
	if r.out.String() != "lab/net/r: 0 records, 0 faults, 0 sequences signed twice\n" {
		t.Errorf("an empty history is verified: %q", r.out.String())
	}
}

// The end of a history may be old, and everything else is told with its sequence.
func TestAHistoryIsVerified(t *testing.T) {
	r := newRig(t)
	first := r.entry(nil, `{"a":1}`, func(x *state.Record) { x.ExpiresMs = x.TimeMs + 1 })
	r.history = []state.Entry{*first}
	r.must(r.terminal(false, false).VerifyRun(t.Context(), r.server, r.run, options()))
	r.prints("an old end", first, "lab/net/r: 1 records, 0 faults, 0 sequences signed twice\nnewest: stale: it expired 1m ago, at 2026-11-18T11:06:40Z: its signer is silent, or this clock is ahead\n")

	lost := r.entry(first, `{"a":2}`)
	last := r.entry(lost, `{"a":3}`)
	r.history = []state.Entry{*first, *last}
	if err := r.terminal(false, false).VerifyRun(t.Context(), r.server, r.run, options()); !errors.Is(err, records.ErrCaught) ||
		!strings.HasSuffix(r.out.String(), "\nsequence 7: it does not follow sequence 5: a record is missing or the history has a fork\n") {
		t.Errorf("%v %q", err, r.out.String())
	}
	if err := r.terminal(true, false).VerifyRun(t.Context(), r.server, r.run, options()); !errors.Is(err, records.ErrCaught) ||
		!strings.Contains(r.out.String(), `"faults":[{"sequence":7,"reason":"it does not follow`) || strings.Count(r.out.String(), "\n") != 1 {
		t.Errorf("%v %q", err, r.out.String())
	}
}

// Whatever a server writes beside a record, no byte of it commands a terminal.
func TestHostileTextsCommandNoTerminal(t *testing.T) {
	const evil = "\x1b[2J\x1b]0;owned\x07\r\b\x7f\u009b31m\nverified"
	r := newRig(t)
	e := r.entry(nil, `{"a":"\u001b[2J","b":"`+"\u009b\x7f"+`"}`)
	forged := *e
	forged.Record = []byte(evil) // nothing of it can be read: the server's notes are shown
	forged.Run, forged.Role, forged.Hotkey, forged.Reason = evil, evil, evil, evil
	r.newest.Head, r.list, r.history = e, []state.Entry{forged}, []state.Entry{*e, forged}
	lines := map[string]int{}
	shows := func(what string, most int, show func(records.Terminal) error) {
		t.Helper()
		err := show(r.terminal(false, false))
		if err != nil && !errors.Is(err, records.ErrCaught) {
			t.Fatalf("%s: %v", what, err)
		}
		lines[what] = strings.Count(r.out.String(), "\n")
		if lines[what] == 0 || most > 0 && lines[what] > most {
			t.Errorf("%s: %d lines: %q", what, lines[what], r.out.String())
		}
		for _, c := range r.out.String() {
			if c < ' ' && c != '\n' || c >= 0x7f && c < 0xa0 {
				t.Errorf("%s writes %q: %q", what, c, r.out.String())
				return
			}
		}
	}
	ctx := t.Context()
	shows("the list", 2, func(t records.Terminal) error { return t.ShowProject(ctx, r.server, "lab", "net", options()) })
	shows("the record", 12, func(t records.Terminal) error { return t.ShowRun(ctx, r.server, r.run, options()) })
	shows("the history", 3, func(t records.Terminal) error { return t.History(ctx, r.server, r.run) })
	shows("the check", 3, func(t records.Terminal) error { return t.VerifyRun(ctx, r.server, r.run, options()) })
	evilRun := &records.Run{ID: runID, Workspace: evil, Project: "net", Name: evil}
	shows("the check of a run that the server names", 4, func(t records.Terminal) error { return t.VerifyRun(ctx, r.server, evilRun, options()) })
	report := &records.AuditReport{Log: evil, Deleted: []string{evil}, Findings: []records.Finding{{Kind: records.Hidden, Run: evil, Reason: evil}}}
	shows("an audit", 3, func(t records.Terminal) error { return report.Print(t.Out, true) })
	shows("a file", 1, func(t records.Terminal) error {
		return (&records.FileReport{Kind: "record", Told: evil}).Print(t.Out, false)
	})
	if t.Failed() {
		t.Log(fmt.Sprint(lines))
	}
}
