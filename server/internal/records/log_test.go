package records_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/records"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// path is the way from a leaf to the root of RFC 9162, over the leaves from on to to.
func (s *long) path(index, from, to int) (hashes []state.Hash) {
	if to-from == 1 {
		return []state.Hash{}
	}
	k := 1
	for k*2 < to-from {
		k *= 2
	}
	if index < from+k {
		return append(s.path(index, from, from+k), s.root(from+k, to))
	}
	return append(s.path(index, from+k, to), s.root(from, from+k))
}

// grown is a log that shows its head of some size, and proofs of single records.
type grown struct {
	*long
	shown int
	other int // it shows this leaf in place of any other one; 0: none
}

func (g *grown) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	index, _ := strconv.Atoi(r.URL.Query().Get("index"))
	if g.other > 0 {
		index = g.other
	}
	var doc any = g.head(g.shown)
	switch {
	case strings.HasSuffix(r.URL.Path, "/log/proof"):
		doc = map[string]any{"record": g.record(index), "hashes": g.path(index, 0, g.shown)}
	case strings.HasSuffix(r.URL.Path, "/log/consistency"): // from 8, a whole left half
		doc = map[string]any{"hashes": []state.Hash{g.root(8, g.shown)}}
	case strings.HasPrefix(r.URL.Path, "/api/v1/runs/"):
		e, err := state.Seal(g.of(5), []byte("{}"), g.keys[5%g.runs])
		if err != nil {
			g.t.Error(err)
		}
		doc = state.Newest{Head: &state.Entry{Envelope: *e, Notes: state.Notes{Index: 5}}}
	}
	_ = json.NewEncoder(w).Encode(doc)
}

func (g *grown) log(t *testing.T) records.Log {
	t.Helper()
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	return records.Log{Server: records.Server{Client: &remote.Client{Base: server.URL}}, Workspace: "lab", Project: "net"}
}

func TestAHeadIsFollowed(t *testing.T) {
	g := &grown{long: newLong(t, 12, 3), shown: 8}
	l, ctx := g.log(t), t.Context()
	path := filepath.Join(t.TempDir(), "head.json")
	for _, size := range []int{8, 12, 12} {
		g.shown = size
		head, err := l.Follow(ctx, path)
		if err != nil || head.Size != uint64(size) || head.Root != g.root(0, size) {
			t.Fatalf("%+v %v", head, err)
		}
	}
	var out, told bytes.Buffer
	show := records.Terminal{Out: &out, Err: &told}
	head, err := l.Compare(ctx, path)
	if err := show.Head("it holds\n", head, err); err != nil {
		t.Fatal(err)
	}
	want := "it holds\nlog     lab/net\nsize    12 records\nroot    " + state.Hash(g.root(0, 12)).String() + "\nsigned  1970-01-01T00:00:00Z\nkey     " + head.Key.String() + "\n"
	if out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
	out.Reset()
	show.JSON = true
	if err := show.Head("it holds\n", head, nil); err != nil {
		t.Fatal(err)
	}
	again := new(transparency.SignedHead)
	if err := json.Unmarshal(out.Bytes(), again); err != nil || again.Check() != nil || again.Root != head.Root {
		t.Errorf("%q %v", out.String(), err)
	}
	if err := os.WriteFile(path, []byte(`{"size":3,"key":"`+strings.Repeat("07", 32)+`"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for what, err := range map[string]error{"follow": second(l.Follow(ctx, path)), "compare": second(l.Compare(ctx, path))} {
		if model.CodeOf(err) != model.CodeInvalid || !strings.Contains(err.Error(), "holds no head or proof") {
			t.Errorf("%s a damaged file: %v", what, err)
		}
	}
	if _, err := l.Compare(ctx, path+".none"); err == nil {
		t.Error("a file that is not there was compared")
	}
}

func second[T any](_ T, err error) error { return err }

// A server that shows another history is caught with both heads as JSON, which anyone
// can check; a proof of before settles what two sizes cannot.
func TestAnotherHistoryIsCaught(t *testing.T) {
	g := &grown{long: newLong(t, 12, 3), shown: 12}
	l, ctx, folder := g.log(t), t.Context(), t.TempDir()
	headFile, proofFile := filepath.Join(folder, "head.json"), filepath.Join(folder, "proof.json")
	if _, err := l.Follow(ctx, headFile); err != nil {
		t.Fatal(err)
	}
	proof, err := l.Server.Prove(ctx, &records.Run{ID: runID, Workspace: "lab", Project: "net", Name: "run2"})
	if err != nil || proof.Index != 5 || !bytes.Equal(proof.Record, g.record(5)) {
		t.Fatalf("%+v %v", proof, err)
	}
	text, err := json.Marshal(proof)
	if err == nil {
		err = os.WriteFile(proofFile, text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Compare(ctx, proofFile); err != nil {
		t.Errorf("an honest log: %v", err)
	}

	changed := &grown{long: newLong(t, 13, 3), shown: 12}
	changed.keys[2] = keyOf(t, 77) // its records are another hotkey's
	for i := range changed.hashes {
		changed.hashes[i] = state.HashOf(changed.record(i))
	}
	l = changed.log(t)
	for file, size := range map[string]int{headFile: 12, proofFile: 13} {
		changed.shown = size
		head, failed := l.Compare(ctx, file)
		var out bytes.Buffer
		err := records.Terminal{Out: &out, Err: &out}.Head("it holds\n", head, failed)
		split := new(transparency.Split)
		if err == nil || json.Unmarshal(out.Bytes(), split) != nil {
			t.Fatalf("%s: %v %q", file, err, out.String())
		}
		if told, err := split.Check(); err != nil {
			t.Errorf("%s: what was printed proves nothing: %q %v", file, told, err)
		}
		path := filepath.Join(folder, "split.json")
		if err := os.WriteFile(path, out.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
		if report, err := records.VerifyFile(ctx, path, options()); err != nil || report.Kind != "split" || report.OK() {
			t.Errorf("%s: %+v %v", file, report, err)
		}
	}
	if records.Evidence(os.ErrNotExist) != nil {
		t.Error("any error is evidence")
	}
}

// A log that has another record than the run shows proves nothing for it.
func TestAProofOfAnotherRecord(t *testing.T) {
	g := &grown{long: newLong(t, 12, 3), shown: 12, other: 8}
	run := &records.Run{ID: runID, Workspace: "lab", Project: "net", Name: "run2"}
	if _, err := g.log(t).Server.Prove(t.Context(), run); err == nil {
		t.Error("a proof of another record was taken")
	}
}
