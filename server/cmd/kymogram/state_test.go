package main

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
)

// signer is a hotkey with a run on a server.
type signer struct {
	t    *testing.T
	k    *kitchen
	key  *wallet.Key
	run  string // its name
	id   string
	head *state.Envelope
	seq  uint64
}

func (k *kitchen) signer(n byte) *signer {
	k.t.Helper()
	seed := [32]byte(bytes.Repeat([]byte{n}, 32))
	key, err := wallet.NewKey(seed)
	if err != nil {
		k.t.Fatal(err)
	}
	folder := filepath.Join(k.env["HOME"], "wallets", "w", "hotkeys")
	account := key.Account()
	file := fmt.Sprintf(`{"secretSeed":"0x%s","ss58Address":%q,"publicKey":"0x%x"}`, hex.EncodeToString(seed[:]), account, account[:])
	if err := os.MkdirAll(folder, 0o700); err != nil {
		k.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, fmt.Sprint("h", n)), []byte(file), 0o600); err != nil {
		k.t.Fatal(err)
	}
	s := &signer{t: k.t, k: k, key: key, run: fmt.Sprintf("run%d", n)}
	var opened struct {
		Run string `json:"run"`
	}
	body := fmt.Sprintf(`{"writer":"%032x","workspace":"lab","project":"net","run_name":%q,"orchestration_id":%q,"resume_strategy":"allow","host":"h","pid":1,"opened_ns":1700000000000000000}`, n, s.run, s.run)
	s.send("/api/v1/open", json.RawMessage(body), &opened)
	s.id = opened.Run
	return s
}

func (s *signer) send(path string, body, into any) {
	s.t.Helper()
	c := &remote.Client{Base: s.k.env["KYMOGRAM_SERVER"], Key: strings.TrimSpace(string(s.k.adminKey()))}
	if err := c.Exchange(s.t.Context(), http.MethodPost, path, body, into); err != nil {
		s.t.Fatal(err)
	}
}

// seal signs the next record without sending it.
func (s *signer) seal(payload string) *state.Envelope {
	s.t.Helper()
	now := uint64(time.Now().UnixMilli())
	r := state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: "lab", Project: "net", Run: s.run},
		Sequence: s.seq + 1, TimeMs: now, ExpiresMs: now + 3_600_000, PayloadType: state.ConfigPayload,
	}
	if s.head != nil {
		r.Previous = s.head.Hash()
	}
	e, err := state.Seal(r, []byte(payload), s.key)
	if err != nil {
		s.t.Fatal(err)
	}
	return e
}

func (s *signer) put(payload string) {
	s.t.Helper()
	e := s.seal(payload)
	s.send("/api/v1/runs/"+s.id+"/state", e, new(any))
	s.head, s.seq = e, s.seq+1
}

func (k *kitchen) fails(says string, args ...string) (out string) {
	k.t.Helper()
	code, out, errs := k.run(args...)
	if code == 0 || !strings.Contains(out+errs, says) {
		k.t.Errorf("%v: %d\n%s%s\nwant %q", args, code, out, errs, says)
	}
	return out
}

func (k *kitchen) says(says string, args ...string) string {
	k.t.Helper()
	code, out, errs := k.run(args...)
	if code != 0 || !strings.Contains(out, says) {
		k.t.Errorf("%v: %d\n%s%s\nwant %q", args, code, out, errs, says)
	}
	return out
}

func TestStateCommands(t *testing.T) {
	k := serveKitchen(t, "--state-log")
	a, b := k.signer(1), k.signer(2)
	a.put(`{"stats":{"1":{"score":1}}}`)
	a.put(`{"stats":{"1":{"score":2}}}`)
	b.put(`{}`)
	file := func(name string) string { return filepath.Join(t.TempDir(), name) }

	k.says("verified", "state", "show", "lab/net/run1")
	k.says(a.key.Account().String(), "state", "show", "lab/net")
	k.says(`"verdict":"verified"`, "state", "show", a.id, "--json")
	k.says("broken", "state", "show", "lab/net/run1", "--netuid", "28")
	k.says(a.head.Hash().String(), "state", "history", "lab/net/run1")
	k.says("2 records, 0 faults", "state", "verify", "lab/net/run1")

	export := file("records.jsonl")
	k.says("", "state", "export", "lab/net/run1", "--output", export)
	k.says("2 records, 0 faults", "state", "verify", export)
	k.fails("exists", "state", "export", "lab/net/run1", "--output", export)
	text, err := os.ReadFile(export)
	if err != nil {
		t.Fatal(err)
	}
	changed := file("changed.jsonl")
	_, last, _ := strings.Cut(string(text), "\n")
	write(t, changed, last+last)
	k.fails("the beginning is missing", "state", "verify", changed)

	head, proof := file("head.json"), file("proof.json")
	k.says("3 records", "state", "head", "lab/net", "--seen", head)
	k.says("", "state", "prove", "lab/net/run1", "--output", proof)
	k.says("sequence 2 of validator", "state", "verify", proof)
	k.says("tree head: log lab/net", "state", "verify", head)
	b.put(`{"x":1}`)
	k.says("continues", "state", "consistency", "lab/net", "--seen", head)
	k.says("continues", "state", "consistency", "lab/net", "--seen", proof)
	k.says("4 records", "state", "head", "lab/net", "--seen", head, "--wallet", "w/h1", "--wallet-path", filepath.Join(k.env["HOME"], "wallets"))
	k.says("witness  "+a.key.Account().String(), "state", "head", "lab/net")
	k.fails("--seen FILE", "state", "head", "lab/net", "--wallet", "w/h1")
	k.fails("has no signed record", "state", "show", "lab/net/"+k.signer(3).run)

	twin := file("twin.json")
	text, err = json.Marshal(state.Proof{A: a.seal(`{"a":1}`), B: a.seal(`{"a":2}`)})
	if err != nil {
		t.Fatal(err)
	}
	write(t, twin, string(text))
	k.fails("equivocated", "state", "verify", twin)
	write(t, twin, strings.Replace(string(text), `"b"`, `"c"`, 1))
	k.fails("no record, proof", "state", "verify", twin)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// hostile is a server that rewrites its answers: a proxy before a real one.
type hostile struct {
	*httptest.Server
	rewrite atomic.Pointer[func(path string, body []byte) []byte]
}

func beforeServer(t *testing.T, k *kitchen) *hostile {
	t.Helper()
	h := new(hostile)
	behind := k.env["KYMOGRAM_SERVER"]
	h.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := http.NewRequestWithContext(r.Context(), r.Method, behind+r.URL.String(), r.Body)
		if err != nil {
			t.Error(err)
			return
		}
		request.Header = r.Header.Clone()
		request.Header.Del("Accept-Encoding")
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Error(err)
			return
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Error(err)
		}
		if f := h.rewrite.Load(); f != nil && response.StatusCode == http.StatusOK {
			body = (*f)(r.URL.Path, body)
		}
		w.WriteHeader(response.StatusCode)
		_, _ = w.Write(body)
	}))
	t.Cleanup(h.Close)
	return h
}

// lie makes the proxy rewrite the answers of one path.
func (h *hostile) lie(suffix string, change func(body string) string) {
	f := func(path string, body []byte) []byte {
		if strings.HasSuffix(path, suffix) {
			return []byte(change(string(body)))
		}
		return body
	}
	h.rewrite.Store(&f)
}

func TestAHostileServerIsCaughtByTheCommands(t *testing.T) {
	k := serveKitchen(t, "--state-log")
	a, b := k.signer(1), k.signer(2)
	a.put(`{"a":1}`)
	a.put(`{"a":2}`)
	b.put(`{}`)
	k.env["KYMOGRAM_API_KEY"] = strings.TrimSpace(string(k.adminKey()))
	of := func(run *signer) string { return k.says("", "state", "show", run.id, "--json") }
	entry := func(run *signer) string {
		var doc struct {
			Entry json.RawMessage `json:"entry"`
		}
		if err := json.Unmarshal([]byte(of(run)), &doc); err != nil {
			t.Fatal(err)
		}
		return `{"head":` + string(doc.Entry) + `}`
	}
	another := entry(b)
	seen, proof := filepath.Join(t.TempDir(), "seen.json"), filepath.Join(t.TempDir(), "proof.json")
	k.says("", "state", "head", "lab/net", "--seen", seen)
	k.says("", "state", "prove", "lab/net/run1", "--output", proof)
	other := serveKitchenWith(t, filepath.Join(k.env["HOME"], "data", "log.key"))
	h := beforeServer(t, k)
	k.env["KYMOGRAM_SERVER"] = h.URL

	h.lie("/state", func(string) string { return another })
	k.says("broken", "state", "show", "lab/net/run1") // a record moved
	h.lie("/state/history", func(body string) string {
		return strings.Replace(body, `"payload":"eyJhIjox`, `"payload":"eyJhIjoy`, 1)
	})
	k.fails("payload is not the signed one", "state", "verify", "lab/net/run1")
	h.lie("/state/history", func(body string) string { // the first record hidden
		var page state.Page
		if err := json.Unmarshal([]byte(body), &page); err != nil {
			t.Error(err)
		}
		page.Entries = page.Entries[1:]
		text, _ := json.Marshal(page)
		return string(text)
	})
	k.fails("the beginning is missing", "state", "verify", "lab/net/run1")
	h.lie("/log/head", func(body string) string { return strings.Replace(body, `"size":3`, `"size":4`, 1) })
	k.fails("not signed by the log's key", "state", "head", "lab/net")
	h.lie("/log/proof", func(body string) string { return strings.Replace(body, `"hashes":["`, `"hashes":["00`, 1) })
	k.fails("64 lower-case", "state", "prove", "lab/net/run1")
	h.lie("", func(body string) string { return strings.ReplaceAll(body, `"name":"run1"`, `"name":"run2"`) })
	k.fails("instead of", "state", "show", "lab/net/run1")

	// The server's other face: the same key over another history.
	h.rewrite.Store(nil)
	k.env["KYMOGRAM_SERVER"] = other.env["KYMOGRAM_SERVER"]
	k.env["KYMOGRAM_API_KEY"] = strings.TrimSpace(string(other.adminKey()))
	c, d := other.signer(1), other.signer(2)
	d.put(`{"other":1}`)
	d.put(`{"other":2}`)
	c.put(`{"other":3}`)
	k.says("", "state", "head", "lab/net")
	split := filepath.Join(t.TempDir(), "split.json")
	write(t, split, k.fails("two histories", "state", "consistency", "lab/net", "--seen", seen))
	k.fails("two roots", "state", "verify", split)
	c.put(`{"other":4}`)
	k.fails("its history was changed", "state", "consistency", "lab/net", "--seen", seen)
	write(t, split, k.fails("two histories: leaf 1", "state", "consistency", "lab/net", "--seen", proof))
	k.fails("leaf 1 is record", "state", "verify", split)
}

func (k *kitchen) adminKey() []byte {
	k.t.Helper()
	key, err := os.ReadFile(filepath.Join(cmp.Or(k.data, filepath.Join(k.env["HOME"], "data")), "admin.key"))
	if err != nil {
		k.t.Fatal(err)
	}
	return key
}

// serveKitchenWith is a server that signs its log with another one's key.
func serveKitchenWith(t *testing.T, keyFile string) *kitchen {
	t.Helper()
	key, err := os.ReadFile(keyFile)
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "log.key"), key, 0o600); err != nil {
		t.Fatal(err)
	}
	k := serveKitchen(t, "--state-log", "--data", folder)
	k.data = folder
	return k
}
