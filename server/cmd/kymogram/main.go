// Command kymogram is the server, the agent and the command-line client of
// Kymogram. It parses flags, prints and wires: root.go lists the commands and the
// file of each, and what a command does lies in a package with its name. In go the
// arguments and what [stdio] holds of the process; out comes an exit code.
//
// This package is the only one that picks concrete back ends, in node.go for the
// server. No other package reads flags, writes to the terminal by itself or knows
// the exit codes. Start with root.go.
package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/delivery"
	"github.com/kymogram/kymogram/server/internal/progress"
)

// stdio is what a command may touch of the process around it.
type stdio struct {
	in       io.Reader
	out, err io.Writer
	env      func(string) string
}

// colour is wanted where a person reads, who has not refused it.
func (io stdio) colour() bool { return progress.IsTerminal(io.out) && io.env("NO_COLOR") == "" }

// delivery is what the spool's commands need of it.
func (io stdio) delivery() delivery.Process {
	return delivery.Process{Version: version, Env: io.env, Err: io.err, StartAgent: startAgent}
}

func main() {
	os.Exit(mainRun())
}

// mainRun ends its context on the first SIGINT or SIGTERM; a second one finds
// the default action again and ends the process at once.
func mainRun() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	uplink.RegisterZstd()
	return run(ctx, os.Args[1:], stdio{in: os.Stdin, out: os.Stdout, err: os.Stderr, env: os.Getenv})
}
