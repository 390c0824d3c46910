package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/records"
)

// edit changes the records under a running server, as its operator can.
func (k *kitchen) edit(statement string) {
	k.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(k.env["HOME"], "data", "state.db"))
	if err != nil {
		k.t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		k.t.Fatal(err)
	}
}

// twin sends a second record with the sequence of the newest one.
func (s *signer) twin(payload string) {
	s.t.Helper()
	s.seq--
	e := s.seal(payload)
	s.seq++
	c := &remote.Client{Base: s.k.env["KYMOGRAM_SERVER"], Key: strings.TrimSpace(string(s.k.adminKey()))}
	if err := c.Exchange(s.t.Context(), http.MethodPost, "/api/v1/runs/"+s.id+"/state", e, new(any)); err == nil {
		s.t.Fatal("a second record with one sequence was taken")
	}
}

// audited is what the command says as JSON.
func (k *kitchen) audited(args ...string) (r records.AuditReport) {
	k.t.Helper()
	code, out, errs := k.run(append([]string{"state", "audit", "lab/net", "--json"}, args...)...)
	if err := json.Unmarshal([]byte(out), &r); err != nil || (code == 0) != r.OK() {
		k.t.Fatalf("%d, %v\n%s%s", code, err, out, errs)
	}
	return r
}

// An honest server passes: with second records, deleted and purged runs, and while
// records arrive.
func TestTheAuditOfAnHonestServer(t *testing.T) {
	k := serveKitchen(t, "--state-log")
	seen := filepath.Join(t.TempDir(), "audit.json")
	k.fails("no record was signed", "state", "audit", "lab/net")
	a, b, c := k.signer(1), k.signer(2), k.signer(3)
	for i := range 3 {
		a.put(fmt.Sprintf(`{"a":%d}`, i))
		b.put(`{}`)
	}
	c.put(`{"c":1}`)
	k.says("7 leaves of 3 runs, 7 read now; 3 newest records shown", "state", "audit", "lab/net", "--seen", seen)
	k.says("7 leaves of 3 runs, 0 read now", "state", "audit", "lab/net", "--seen", seen)
	a.twin(`{"other":1}`)
	c.twin(`{"other":1}`)
	b.put(`{"b":1}`)
	if r := k.audited("--seen", seen); r.From != 7 || r.Size != 10 || r.Second != 2 || !r.OK() {
		t.Errorf("%+v", r)
	}

	// While records arrive.
	done := make(chan string)
	go func() {
		defer close(done)
		for range 6 {
			if code, out, errs := k.run("state", "audit", "lab/net", "--seen", seen); code != 0 {
				done <- out + errs
			}
		}
	}()
	for i, open := 0, true; open; i++ {
		b.put(fmt.Sprintf(`{"b":%d}`, i))
		a.put(`{}`)
		select {
		case said, more := <-done:
			if open = more; more {
				t.Error(said)
			}
		default:
		}
	}

	for i, s := range []*signer{b, c} {
		client := &remote.Client{Base: k.env["KYMOGRAM_SERVER"], Key: strings.TrimSpace(string(k.adminKey()))}
		response, err := client.Send(t.Context(), http.MethodDelete, "/api/v1/runs/"+s.id, map[string][]string{"now": {fmt.Sprint(i)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	k.says("deleted, by the server's word: run2", "state", "audit", "lab/net", "--seen", seen)
	k.says("deleted, by the server's word: run3", "state", "audit", "lab/net")
	var again struct {
		Run string `json:"run"`
	}
	c.send("/api/v1/open", json.RawMessage(`{"writer":"99999999999999999999999999999999","workspace":"lab","project":"net","run_name":"run3","resume_strategy":"allow","host":"h","pid":1,"opened_ns":1700000000000000000}`), &again)
	c.id, c.head = again.Run, nil // a run of this name, made again
	c.put(`{"again":1}`)
	k.says("of 3 runs", "state", "audit", "lab/net", "--seen", seen)
	k.says("continues", "state", "consistency", "lab/net", "--seen", seen)
}

// What an operator does to the records under its server is named.
func TestTheAuditOfAHostileServer(t *testing.T) {
	k := serveKitchen(t, "--state-log")
	seen := filepath.Join(t.TempDir(), "audit.json")
	a, b, c, d := k.signer(1), k.signer(2), k.signer(3), k.signer(4)
	for i := range 3 {
		for _, s := range []*signer{a, b, c, d} {
			s.put(fmt.Sprintf(`{"a":%d}`, i))
		}
	}
	k.says("12 leaves of 4 runs", "state", "audit", "lab/net", "--seen", seen)
	k.edit(`UPDATE runs SET idx = 4 WHERE idx = 8; DELETE FROM runs WHERE idx = 9; UPDATE records SET payload = '{"a":9}' WHERE idx = 10`)
	for _, args := range [][]string{{}, {"--seen", seen}, {"--seen", seen}} {
		r := k.audited(args...)
		want := []records.Finding{
			{Kind: records.Broken, Run: c.run, Hotkey: c.key.Account().String(), Reason: "changed after the signature"},
			{Kind: records.Hidden, Run: b.run, Hotkey: b.key.Account().String(), Reason: "the log has sequence 3 as leaf 9, and the server shows no record"},
			{Kind: records.RolledBack, Run: a.run, Hotkey: a.key.Account().String(), Reason: "shows sequence 2, and its log has sequence 3 as leaf 8"},
		}
		if len(r.Findings) != len(want) {
			t.Fatalf("%+v", r.Findings)
		}
		for i, f := range r.Findings {
			if f.Kind != want[i].Kind || f.Run != want[i].Run || f.Hotkey != want[i].Hotkey || !strings.Contains(f.Reason, want[i].Reason) {
				t.Errorf("%+v, want %+v", f, want[i])
			}
		}
	}
	k.fails("HIDDEN: run2: the log has sequence 3", "state", "audit", "lab/net")
	k.says("broken", "state", "show", "lab/net")
	k.edit(`UPDATE runs SET idx = 8 WHERE idx = 4; UPDATE records SET payload = '{"a":2}' WHERE idx = 10;
		INSERT INTO runs SELECT run, project, idx, 'validator', 27, (SELECT hotkey FROM runs WHERE idx = 8), 3, 0, 21, 0 FROM records WHERE idx = 9`)
	k.says("the newest record of every run", "state", "audit", "lab/net", "--seen", seen)

	k.edit(`UPDATE runs SET netuid = 3 WHERE idx = 9`) // readers ask for a subnet
	k.fails("HIDDEN: run2: the log has sequence 3", "state", "audit", "lab/net")
	k.edit(`UPDATE runs SET netuid = 27 WHERE idx = 9`)

	h := beforeServer(t, k)
	k.env["KYMOGRAM_API_KEY"] = strings.TrimSpace(string(k.adminKey()))
	k.env["KYMOGRAM_SERVER"] = h.URL
	var first struct{ Leaves []json.RawMessage }
	h.lie("/log/leaves", func(body string) string { // two leaves swapped
		if err := json.Unmarshal([]byte(body), &first); err != nil {
			t.Error(err)
		}
		first.Leaves[0], first.Leaves[1] = first.Leaves[1], first.Leaves[0]
		text, _ := json.Marshal(map[string]any{"leaves": first.Leaves})
		return string(text)
	})
	k.fails("do not make the head that it signed", "state", "audit", "lab/net")
	h.lie("/log/leaves", func(string) string { return `{"leaves":[]}` })
	k.fails("answered 0 leaves", "state", "audit", "lab/net")
	h.lie("/log/head", func(body string) string { return strings.Replace(body, `"size":12`, `"size":11`, 1) })
	k.fails("not signed by the log's key", "state", "audit", "lab/net", "--seen", seen)
	h.lie("/state", func(string) string { return `{"entries":[],"next":0,"more":true}` })
	k.fails("does not continue after", "state", "audit", "lab/net")

	// A record that is in no log.
	a.seq, a.head = 9, nil
	text, err := json.Marshal(a.seal(`{"unknown":1}`))
	if err != nil {
		t.Fatal(err)
	}
	h.lie("/state", func(body string) string {
		return strings.Replace(body, `"entries":[`, `"entries":[`+string(text)+`,`, 1)
	})
	k.fails("UNKNOWN: run1", "state", "audit", "lab/net", "--seen", seen)
	h.rewrite.Store(nil)

	write(t, seen, `{"size":3}`)
	k.fails("holds no head", "state", "audit", "lab/net", "--seen", seen)
	if err := os.Remove(seen); err != nil {
		t.Fatal(err)
	}
	k.says("12 records", "state", "head", "lab/net", "--seen", seen) // a head alone: the leaves must make it
	k.says("12 read now", "state", "audit", "lab/net", "--seen", seen)
}
