package participant_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wallet"
	"github.com/kymogram/kymogram/netstate"
	"github.com/kymogram/kymogram/server/internal/participant"
)

type answer struct {
	ID     int64
	Result json.RawMessage
	Error  *struct{ Code, Message, Hint string }
	Sign   string
}

// serve sends lines and reads what comes out.
func serve(t *testing.T, o participant.Options, lines ...string) (out []answer, err error) {
	t.Helper()
	var text bytes.Buffer
	o.Log = slog.New(slog.DiscardHandler)
	err = participant.Serve(t.Context(), strings.NewReader(strings.Join(lines, "\n")+"\n"), &text, o)
	for line := range strings.Lines(text.String()) {
		var a answer
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		out = append(out, a)
	}
	return out, err
}

// A call that fails ends nothing: each has its answer, in order.
func TestCallsThatFailHaveAnAnswerEach(t *testing.T) {
	o := participant.Options{Inventory: func(context.Context) (netstate.Inventory, error) {
		return netstate.Inventory{}, model.Errorf(model.CodeUnavailable, "no inventory").WithHint("look again")
	}}
	out, err := serve(t, o,
		`{"id":1,"method":"verdicts","params":{}}`,
		`{"id":2,"method":"no_such","params":{}}`,
		`{"id":3,"method":"update_stats","params":{"stats":7}}`,
		`{"id":4,"method":"perf_info"}`,
		`{"id":5,"method":"join","params":{"hotkey":"not an address"}}`)
	if err != nil || len(out) != 5 {
		t.Fatalf("%+v %v", out, err)
	}
	for i, says := range []string{"join comes first", `no method "no_such"`, "the arguments of update_stats", "no inventory", "address"} {
		if a := out[i]; a.ID != int64(i+1) || a.Error == nil || !strings.Contains(a.Error.Message, says) || string(a.Result) != "null" {
			t.Errorf("%d: %+v, want %q", i, a, says)
		}
	}
	if e := out[3].Error; e.Code != string(model.CodeUnavailable) || e.Hint != "look again" {
		t.Errorf("%+v", e)
	}
}

// A line that is no JSON cannot be answered: it ends the child, with the reason.
func TestALineThatIsNoJSONEndsTheChild(t *testing.T) {
	out, err := serve(t, participant.Options{}, `{"id":1,"method":"verdicts"}`, `hello`, `{"id":2,"method":"verdicts"}`)
	if err == nil || !strings.Contains(err.Error(), "not JSON") || len(out) != 1 {
		t.Errorf("%+v %v", out, err)
	}
}

var errNoDatabase = errors.New("no database")

// What fails in join leaves a session that can join again.
func TestAJoinThatFailsCanBeTriedAgain(t *testing.T) {
	key, err := wallet.NewKey([32]byte{1})
	if err != nil {
		t.Fatal(err)
	}
	asked := 0
	o := participant.Options{OpenDb: func(context.Context, string) (*netstate.ComputeDb, error) {
		asked++
		return nil, errNoDatabase
	}}
	join := `{"id":1,"method":"join","params":{"hotkey":"` + key.Account().String() + `","role":"miner"}}`
	out, err := serve(t, o, join, join, `{"id":2,"method":"refresh"}`)
	if err != nil || len(out) != 3 || asked != 2 {
		t.Fatalf("%+v %v, asked %d times", out, err, asked)
	}
	for _, a := range out[:2] {
		if a.Error == nil || !strings.Contains(a.Error.Message, "no database") {
			t.Errorf("%+v", a)
		}
	}
	if out[2].Error == nil || !strings.Contains(out[2].Error.Message, "join comes first") {
		t.Errorf("%+v", out[2])
	}
}
