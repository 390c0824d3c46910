package httpapi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/statelog"
)

func stateLab(t *testing.T) *lab {
	t.Helper()
	states, err := statelog.Open(t.Context(), filepath.Join(t.TempDir(), "state.db"), time.Now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = states.Close() })
	return newLab(t, httpapi.Options{States: states})
}

// stateRecord signs a record of a run of the lab on top of another one.
func stateRecord(t testing.TB, run string, sequence uint64, previous state.Hash, payload string) *state.Envelope {
	t.Helper()
	key, err := wallet.NewKey([32]byte{7})
	if err != nil {
		t.Fatal(err)
	}
	now := uint64(time.Now().UnixMilli())
	e, err := state.Seal(state.Record{
		Place:    state.Place{Netuid: 27, Role: state.Validator, Workspace: "lab", Project: "digits", Run: run},
		Sequence: sequence, Previous: previous, TimeMs: now, ExpiresMs: now + 60_000, PayloadType: state.ConfigPayload,
	}, []byte(payload), key)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func asJSON(t testing.TB, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestStateRoutes(t *testing.T) {
	l := stateLab(t)
	doc := readDocument(t)
	r := l.writer("r", nil)
	path := "/api/v1/runs/" + r.run.String() + "/state"
	check := func(name, answer string) {
		t.Helper()
		for _, fault := range doc.check(doc.find(map[string]any(doc), "components", "schemas", name), decode(t, []byte(answer)), name) {
			t.Error(fault)
		}
	}
	first := stateRecord(t, "r", 5, state.Hash{}, `{"a":1}`)
	if a := l.do("GET", path, nil, ""); strings.TrimSpace(string(a.body)) != `{"head":null}` {
		t.Errorf("before the first record: %s", a.body)
	}
	a := l.do("POST", path, nil, asJSON(t, first))
	check("StateTaken", string(a.body))
	if a.status != http.StatusCreated || !strings.Contains(string(a.body), first.Hash().String()) {
		t.Fatalf("%d %s", a.status, a.body)
	}
	a = l.do("POST", path, nil, asJSON(t, stateRecord(t, "r", 6, state.Hash{}, `{}`)))
	check("StateConflict", string(a.body))
	if a.status != http.StatusConflict || !strings.Contains(string(a.body), "state_conflict") {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = l.do("POST", path, nil, asJSON(t, stateRecord(t, "other", 6, first.Hash(), `{}`)))
	if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), "state_refused") {
		t.Errorf("%d %s", a.status, a.body)
	}
	a = l.do("GET", path, nil, "")
	check("StateHead", string(a.body))
	var head struct{ Head *state.Entry }
	if err := json.Unmarshal(a.body, &head); err != nil || !head.Head.Envelope.Equal(first) || head.Head.RunID != r.run {
		t.Errorf("%+v %v", head.Head, err)
	}
	for _, list := range []string{path + "/history", "/api/v1/projects/lab/digits/state"} {
		a := l.do("GET", list, nil, "")
		check("StatePage", string(a.body))
		var page state.Page
		if err := json.Unmarshal(a.body, &page); err != nil || len(page.Entries) != 1 || page.Entries[0].Signature != first.Signature {
			t.Errorf("%s: %s %v", list, a.body, err)
		}
	}
	if a := l.do("GET", "/api/v1/projects/lab/digits/state", values("wait", "31"), ""); a.status != http.StatusBadRequest {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A body of 10 MB is refused after what an envelope can have.
func TestALargeRecordIsRefused(t *testing.T) {
	l := stateLab(t)
	r := l.writer("r", nil)
	body := fmt.Sprintf(`{"record":"","signature":"","payload":%q}`, bytes.Repeat([]byte("a"), 10<<20))
	a := l.do("POST", "/api/v1/runs/"+r.run.String()+"/state", nil, body)
	if a.status != http.StatusRequestEntityTooLarge {
		t.Errorf("%d %s", a.status, a.body)
	}
}

// A reader that waits sees a record as soon as it was taken.
func TestAWaitingReaderSeesTheRecord(t *testing.T) {
	l := stateLab(t)
	r := l.writer("r", nil)
	got := make(chan string, 1)
	go func() { got <- string(l.do("GET", "/api/v1/projects/lab/digits/state", values("wait", "30"), "").body) }()
	e := stateRecord(t, "r", 5, state.Hash{}, `{}`)
	if a := l.do("POST", "/api/v1/runs/"+r.run.String()+"/state", nil, asJSON(t, e)); a.status != http.StatusCreated {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if answer := <-got; !strings.Contains(answer, e.Hash().String()) {
		t.Errorf("it saw %s", answer)
	}
}
