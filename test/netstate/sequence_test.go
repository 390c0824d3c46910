package netstate_test

import (
	"bufio"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/kymogram/kymogram/chain"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/netstate"
)

// child is a process of its own that signs again and again until it is killed.
func child(path string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	pool, err := sql.Open("sqlite", path)
	fail(err)
	db, err := netstate.OpenComputeDb(ctx, pool)
	fail(err)
	wallet, err := chain.SeedWallet([32]byte{'k'})
	fail(err)
	if run := os.Getenv("NETSTATE_RUN"); run != "" { // another machine opened it
		_, err := db.SaveRunID(ctx, wallet.Hotkey(), run)
		fail(err)
	}
	node, err := netstate.Join(ctx, netstate.Options{
		DB: db, Wallet: wallet, Role: netstate.Validator, Netuid: netuid, Server: os.Getenv("NETSTATE_SERVER"),
		Run: runOptions(os.Getenv("NETSTATE_POINTS"), os.Getenv("NETSTATE_SPOOL")), Log: slog.New(slog.DiscardHandler), Now: frozen(),
	})
	fail(err)
	fmt.Println(node.RunID())
	if rounds, err := strconv.Atoi(os.Getenv("NETSTATE_ROUNDS")); err == nil {
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n') // both begin at once
		for i := range rounds {
			err := node.UpdateConfig(ctx, map[string]any{"count" + os.Getenv("NETSTATE_NAME"): i + 1})
			for tries := 0; model.CodeOf(err) == model.CodeStateConflict && tries < 20; tries++ { // the other was faster 64 times
				err = node.SignRun(ctx)
			}
			fail(err)
		}
		fail(node.Close(ctx))
		return
	}
	for i := 0; ; i++ {
		fail(node.UpdateConfig(ctx, map[string]any{"count" + os.Getenv("NETSTATE_NAME"): i}))
	}
}

// frozen is a clock that stands at NETSTATE_CLOCK, nil without it.
func frozen() func() time.Time {
	ms, err := strconv.ParseInt(os.Getenv("NETSTATE_CLOCK"), 10, 64)
	if err != nil {
		return nil
	}
	return func() time.Time { return time.UnixMilli(ms) }
}

// machine is a process with a database of its own that joins a run, and then waits for
// a line before it signs.
func (n *network) machine(name string, env ...string) (run string, start io.Writer, end func() error) {
	n.Helper()
	program, err := os.Executable()
	n.must(err)
	folder := n.TempDir()
	cmd := exec.CommandContext(n.Context(), program)
	cmd.Env = append(os.Environ(), append(env, "NETSTATE_CHILD="+filepath.Join(folder, "database.db"), "NETSTATE_SERVER="+n.url,
		"NETSTATE_POINTS="+n.server.Address, "NETSTATE_NAME="+name, "NETSTATE_SPOOL="+filepath.Join(folder, "spool"))...)
	cmd.Stderr = os.Stderr
	start, err = cmd.StdinPipe()
	n.must(err)
	out, err := cmd.StdoutPipe()
	n.must(err)
	n.must(cmd.Start())
	run, err = bufio.NewReader(out).ReadString('\n')
	n.must(err)
	return strings.TrimSpace(run), start, cmd.Wait
}

// Two machines with one hotkey sign at one millisecond, on top of one record, with
// different content, again and again. Nobody lies, so no vote and no change is lost.
func TestTwoMachinesOfOneHotkey(t *testing.T) {
	const rounds = 200
	n := newNetwork(t)
	clock := "NETSTATE_CLOCK=" + strconv.FormatInt(time.Now().UnixMilli(), 10)
	many := "NETSTATE_ROUNDS=" + strconv.Itoa(rounds)
	run, one, oneEnded := n.machine("0", clock, many)
	_, other, otherEnded := n.machine("1", clock, many, "NETSTATE_RUN="+run)
	fmt.Fprintln(one)
	fmt.Fprintln(other)
	n.must(errors.Join(oneEnded(), otherEnded()))
	signed, contested, races := map[uint64]state.Hash{}, map[state.Hash]bool{}, 0
	var newest *state.Envelope
	for _, e := range n.posted() {
		r, err := e.Open()
		n.must(err)
		if before, taken := signed[r.Sequence]; taken && before != e.Hash() {
			t.Fatalf("both machines signed sequence %d", r.Sequence)
		}
		if contested[r.Previous] {
			races++
		}
		signed[r.Sequence], contested[r.Previous], newest = e.Hash(), true, e
	}
	if races < rounds/10 {
		t.Errorf("only %d records were contested: the test shows nothing", races)
	}
	reader := n.join("reader", netstate.Miner, nil)
	list, err := reader.Verdicts(t.Context())
	n.must(err)
	if i := slices.IndexFunc(list, func(v netstate.RunVerdict) bool { return v.Run == run }); i < 0 || list[i].Verdict != "verified" {
		t.Errorf("%+v", list)
	}
	if want := fmt.Sprint(rounds); !strings.Contains(string(newest.Payload), `"count0":`+want) || !strings.Contains(string(newest.Payload), `"count1":`+want) {
		t.Errorf("a change is lost: %s", newest.Payload)
	}
	t.Logf("%d records, %d contested", len(signed), races)
}

// kills is how often a process is killed: 50 times, and 1,000 in the proof.
func kills(t *testing.T) int {
	t.Helper()
	n, err := strconv.Atoi(os.Getenv("NETSTATE_KILLS"))
	if err != nil {
		return 50
	}
	return n
}

// Two processes with one hotkey and one database, killed at random: every record
// that ever left them has a sequence of its own.
func TestSequencesOfKilledProcesses(t *testing.T) {
	n := newNetwork(t)
	program, err := os.Executable()
	n.must(err)
	folder := t.TempDir()
	db, total := filepath.Join(folder, "database.db"), kills(t)
	openDb(t, db)
	var group sync.WaitGroup
	for name := range 2 {
		group.Go(func() {
			random := rand.New(rand.NewPCG(1, uint64(name)))
			for life := range total / 2 {
				cmd := exec.CommandContext(t.Context(), program)
				cmd.Env = append(os.Environ(), "NETSTATE_CHILD="+db, "NETSTATE_SERVER="+n.url, "NETSTATE_POINTS="+n.server.Address, "NETSTATE_NAME="+strconv.Itoa(name),
					"NETSTATE_SPOOL="+filepath.Join(folder, "spool"+strconv.Itoa(name)))
				var said strings.Builder
				cmd.Stderr = &said
				out, err := cmd.StdoutPipe()
				if err == nil {
					err = cmd.Start()
				}
				if err != nil {
					t.Error(err)
					return
				}
				if life%4 > 0 { // else it may strike while it joins
					_, _ = bufio.NewReader(out).ReadString('\n')
				}
				time.Sleep(time.Duration(random.IntN(200)) * time.Millisecond) // when the kill strikes: no synchronisation
				_ = cmd.Process.Kill()
				_ = cmd.Wait() // killed
				if said.Len() > 0 {
					t.Errorf("process %d: %s", name, said.String())
				}
			}
		})
	}
	group.Wait()
	seen, records := map[uint64]state.Hash{}, 0
	for _, e := range n.posted() {
		r, err := e.Open()
		n.must(err)
		if before, taken := seen[r.Sequence]; taken && before != e.Hash() {
			t.Errorf("sequence %d was signed twice", r.Sequence)
		}
		seen[r.Sequence] = e.Hash()
		records++
	}
	if records < total/2 {
		t.Errorf("%d records in %d lives: too few to tell", records, total)
	}
	t.Logf("%d lives, %d records, %d sequences", total, records, len(seen))
}

// copyFile is a backup, and its restoration.
func copyDb(t *testing.T, from, to string) {
	t.Helper()
	pool, err := sql.Open("sqlite", from)
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.ExecContext(t.Context(), "VACUUM INTO ?", to); err != nil {
		t.Fatal(err)
	}
}

// A database that is restored from a backup, on a machine whose clock went back too,
// still gives out no sequence again: the server's record says more than it knows.
func TestARestoredBackup(t *testing.T) {
	n := newNetwork(t)
	folder := t.TempDir()
	live, saved := filepath.Join(folder, "live.db"), filepath.Join(folder, "saved.db")
	with := func(path string, back time.Duration) func(*netstate.Options) {
		return func(o *netstate.Options) {
			o.DB, o.Now = openDb(t, path), func() time.Time { return time.Now().Add(-back) }
		}
	}
	node := n.join("a", netstate.Validator, with(live, 0))
	copyDb(t, live, saved)
	for i := range 5 {
		n.must(node.UpdateConfig(t.Context(), map[string]any{"i": i}))
	}
	reader := n.join("r", netstate.Validator, nil)
	if _, err := reader.Verdicts(t.Context()); err != nil {
		t.Fatal(err)
	}
	restored := n.join("a", netstate.Validator, with(saved, time.Hour))
	n.must(restored.UpdateConfig(t.Context(), map[string]any{"i": 99}))
	last, seen := uint64(0), map[uint64]bool{}
	for _, e := range n.posted() {
		r, err := e.Open()
		n.must(err)
		if r.Hotkey != seedWallet(t, "a").Account() {
			continue
		}
		if seen[r.Sequence] || r.Sequence <= last {
			t.Errorf("sequence %d after %d", r.Sequence, last)
		}
		last, seen[r.Sequence] = r.Sequence, true
	}
	verdicts, err := reader.Verdicts(t.Context())
	n.must(err)
	for _, v := range verdicts {
		if v.Verdict != "verified" {
			t.Errorf("%+v", v)
		}
	}
}

// A server that shows an old record again, one of another run, or a changed one.
func TestAServerThatLies(t *testing.T) {
	n := newNetwork(t)
	ctx := t.Context()
	a := n.join("a", netstate.Validator, nil)
	reader := n.join("r", netstate.Validator, nil)
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "old")}))
	old := n.posted()[len(n.posted())-1]
	n.must(a.UpdateAllocatedHotkeys(ctx, []string{hotkey(t, "new")}))
	want := []string{hotkey(t, "new")}
	read := func() []string {
		got, err := reader.AllocatedHotkeys(ctx, netstate.Select{})
		n.must(err)
		return got
	}
	if got := read(); got[0] != want[0] {
		t.Fatalf("%v", got)
	}
	for name, tt := range map[string]struct {
		change func(e *state.Entry)
		says   string
	}{
		"rolled back": {func(e *state.Entry) { e.Envelope = *old }, "the signer is not at fault"},
		"moved":       {func(e *state.Entry) { e.Run = "elsewher" }, "moved from its place"},
		"changed": {func(e *state.Entry) {
			e.Payload = []byte(strings.Replace(string(e.Payload), "allocated", "penalized", 1))
		}, "changed after the signature"},
		"of nobody": {func(e *state.Entry) { e.Signature[7] ^= 1 }, "signature"},
	} {
		n.lie(func(r *http.Request, body []byte) []byte { return rewriteEntries(t, r, body, a.RunID(), tt.change) })
		n.must(a.SignRun(ctx)) // something new to tell of
		if got := read(); len(got) != 1 || got[0] != want[0] {
			t.Errorf("%s: %v", name, got)
		}
		n.lie(nil)
		verdicts, err := reader.Verdicts(ctx)
		n.must(err)
		found := false
		for _, v := range verdicts {
			found = found || (v.Verdict == "broken" || v.Verdict == "rollback") && strings.Contains(v.Reason, tt.says)
		}
		if !found {
			t.Errorf("%s: %+v", name, verdicts)
		}
	}
	// What the server says is our own record counts only when we signed it.
	n.lie(func(r *http.Request, body []byte) []byte {
		if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/state") || strings.Contains(r.URL.Path, "projects") {
			return body
		}
		var doc struct{ Head *state.Entry }
		n.must(json.Unmarshal(body, &doc))
		foreign, err := state.Seal(state.Record{
			Place:    state.Place{Netuid: netuid, Role: "validator", Workspace: "neuralinternet", Project: "opencompute", Run: a.RunID()},
			Sequence: 1 << 52, TimeMs: uint64(time.Now().UnixMilli()), ExpiresMs: uint64(time.Now().Add(time.Hour).UnixMilli()), PayloadType: "config/v1",
		}, []byte("{}"), seedWallet(t, "thief"))
		n.must(err)
		doc.Head.Envelope = *foreign
		return []byte(`{"head":` + text(t, doc.Head) + `}`)
	})
	copied := n.options("a", netstate.Validator)
	_, err := copied.DB.SaveRunID(ctx, hotkey(t, "a"), a.RunID())
	n.must(err)
	_, err = netstate.Join(ctx, copied)
	wantCode(t, err, "state_refused", "is not ours")
	n.lie(nil)
	for _, e := range n.posted() {
		if r, err := e.Open(); err != nil || r.Sequence >= 1<<52 {
			t.Errorf("a stranger's sequence was believed: %+v, %v", r, err)
		}
	}
}

func rewriteEntries(t *testing.T, r *http.Request, body []byte, run string, change func(*state.Entry)) []byte {
	t.Helper()
	if r.Method != http.MethodGet || !strings.HasSuffix(r.URL.Path, "/state") {
		return body
	}
	if !strings.Contains(r.URL.Path, "/projects/") {
		var newest state.Newest
		if err := json.Unmarshal(body, &newest); err != nil || newest.Head == nil || newest.Head.Run != run {
			return body
		}
		change(newest.Head)
		return []byte(text(t, newest))
	}
	var page state.Page
	if err := json.Unmarshal(body, &page); err != nil {
		t.Error(err)
		return body
	}
	for i := range page.Entries {
		if page.Entries[i].Run == run {
			change(&page.Entries[i])
		}
	}
	return []byte(text(t, page))
}
