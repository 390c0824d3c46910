package agent

import (
	"errors"
	"log/slog"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/expose"
)

// An agent ends when it is idle. One that a program started logs to its file, and gives
// way to a person's, which another agent of a person hears of as an error.
func TestRun(t *testing.T) {
	folder, err := spool.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	run := func(kind spool.HolderKind) error {
		a := Agent{Folder: folder, Kind: kind, Idle: time.Millisecond, Version: "1", Env: func(string) string { return "" }, Err: &said}
		return a.Run(t.Context())
	}
	if err := run(spool.KindAgent); err != nil || said.Len() > 0 {
		t.Errorf("%v, on the terminal: %s", err, said.String())
	}
	if text, err := os.ReadFile(logOf(folder)); err != nil || !strings.Contains(string(text), `msg="agent ends" error=<nil>`) {
		t.Errorf("%v, in the log: %s", err, text)
	}
	if err := run(spool.KindPerson); err != nil || !strings.Contains(said.String(), "msg=agent ") {
		t.Errorf("%v, on the terminal: %s", err, said.String())
	}
	held, err := folder.Take(spool.Holder{PID: 1, Version: "1", Protocol: spool.Protocol, Kind: spool.KindPerson})
	if err != nil {
		t.Fatal(err)
	}
	if err := run(spool.KindAgent); err != nil {
		t.Errorf("it does not give way: %v", err)
	}
	if err := run(spool.KindPerson); !errors.Is(err, uplink.ErrHeld) {
		t.Errorf("two persons: %v", err)
	}
	held.Release()
}

// A part that cannot be made ends the agent and frees the address.
func TestParts(t *testing.T) {
	folder, err := spool.OpenFolder(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("no wallet")
	var bound net.Listener
	a := Agent{
		Folder: folder, Kind: spool.KindPerson, Env: func(string) string { return "" }, Err: new(strings.Builder), Metrics: "127.0.0.1:0",
		Parts: func(_ *slog.Logger, l net.Listener) ([]expose.Part, error) {
			bound = l
			return nil, refused
		},
	}
	if err := a.Run(t.Context()); !errors.Is(err, refused) {
		t.Error(err)
	}
	if err := expose.Check(bound.Addr().String()); err != nil {
		t.Error(err)
	}
}
