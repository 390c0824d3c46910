// Command netstate is a subnet in small: miners and validators as processes with
// keys of their own, which sign what they say of each other. Four of the five
// validators misbehave, each in its own way, and the Network page names them.
//
//	make demo-network               # watch it, Ctrl-C ends it
//	make demo-network ARGS=--once   # ends by itself
//	make demo-network ARGS=--chain  # hotkeys, permits and stake come from a chain
//
// The example is node.go: what an honest participant does with netstate, in public
// packages only. It reads its part from its standard input, joins and speaks.
// culprit.go has what the dishonest ones do, some of it with lower calls. The parent
// (network.go) makes keys and the truth and starts one process a node; chain.go runs
// the real Subtensor runtime for them (docs/chain.md).
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"
)

type options struct {
	binary, server, key, data, project, report, chain string
	miners                                            int
	every                                             time.Duration
	once, onChain                                     bool
}

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, "netstate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(args) == 1 && args[0] == nodeCommand {
		return runNode(ctx, os.Stdin, os.Stdout)
	}
	var o options
	flags := flag.NewFlagSet("netstate", flag.ContinueOnError)
	flags.StringVar(&o.binary, "kymogram", "bin/kymogram", "the program that serves")
	flags.StringVar(&o.server, "server", "", "a running server; empty starts one")
	flags.StringVar(&o.key, "key", os.Getenv("KYMOGRAM_API_KEY"), "its API key; empty asks credentials.json")
	flags.StringVar(&o.data, "data", ".demo/network", "the data folder of a server that is started")
	flags.StringVar(&o.project, "project", "demo/network", "WORKSPACE/PROJECT of the runs")
	flags.StringVar(&o.report, "report", "", "a file for what each node was told to say, as JSON")
	flags.IntVar(&o.miners, "miners", 50, "how many miners; at least 10")
	flags.DurationVar(&o.every, "every", 5*time.Second, "time between two statements of a node")
	flags.BoolVar(&o.once, "once", false, "end when every node has spoken and print what the server thinks")
	flags.BoolVar(&o.onChain, "chain", false, "run a chain too: the real Subtensor runtime says who is in the subnet")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if o.miners < 10 {
		return errors.New("-miners is at least 10: the lies need some to be about")
	}
	return demo(ctx, o)
}
