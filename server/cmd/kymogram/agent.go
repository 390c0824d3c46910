package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/daemon"
	"github.com/kymogram/kymogram/server/internal/delivery"
	"github.com/kymogram/kymogram/server/internal/expose"
)

// agentIdle is how long an agent that a program started stays without work.
const agentIdle = 60 * time.Second

type agentFlags struct {
	spool    string
	idle     time.Duration
	detached bool
	kind     string
	metrics  string
	expose   []string
	chain    agentChain
}

func agentCommand(io stdio) *cobra.Command {
	var flags agentFlags
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Deliver what programs log on this machine",
		Long: `Deliver the spool of this machine to the servers that its runs name.

The Python package starts an agent by itself; it ends a minute after the last run.
One that a person starts takes the spool over and stays until it is stopped.

With --metrics it answers GET /metrics for Prometheus: what the agent delivers and
what the machine does, and of what programs log only the groups that --expose names.
A group is what comes before the first slash of a metric's name.

With --chain it registers that endpoint on the Bittensor chain, and again when its
version or address changes, or once a day; /metrics says how that goes.`,
		Example: `  kymogram agent                       deliver until Ctrl-C
  kymogram agent --idle 10m            end ten minutes after the last run
  kymogram agent --detached            go on in the background, log to SPOOL/agent.log
  kymogram agent --metrics 127.0.0.1:9464 --expose torchelastic --expose train
  kymogram agent --metrics 0.0.0.0:9101 --chain wss://HOST --netuid 27 --wallet default/miner1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.idle < 0 {
				return usagef("--idle is a time such as 60s, not %s", flags.idle)
			}
			if len(flags.expose) > 0 && flags.metrics == "" {
				return usagef("--expose needs the address to expose at: --metrics HOST:PORT")
			}
			if err := flags.chain.check(flags.metrics); err != nil {
				return err
			}
			return runAgent(cmd.Context(), io, flags)
		},
	}
	flags.chain.addTo(cmd.Flags())
	cmd.Flags().StringVar(&flags.spool, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else as kymogram doctor says)")
	cmd.Flags().DurationVar(&flags.idle, "idle", 0, "end this long after no run is open and nothing is left; 0 stays (detached: 1m0s)")
	cmd.Flags().BoolVar(&flags.detached, "detached", false, "go on in the background")
	cmd.Flags().StringVar(&flags.metrics, "metrics", "", "answer GET /metrics at HOST:PORT (default: no endpoint)")
	cmd.Flags().StringArrayVar(&flags.expose, "expose", nil, "a group of metrics that the endpoint makes public; may be repeated")
	cmd.Flags().StringVar(&flags.kind, "kind", string(spool.KindPerson), "who started it")
	_ = cmd.Flags().MarkHidden("kind") // fails only for a flag that is not there
	return cmd
}

func runAgent(ctx context.Context, io stdio, flags agentFlags) error {
	folder, err := delivery.Open(io.env, flags.spool)
	if err != nil {
		return err
	}
	kind := spool.HolderKind(flags.kind)
	if flags.detached {
		return detach(io, folder, flags)
	}
	if kind != spool.KindPerson && kind != spool.KindAgent {
		return usagef("--kind is %s or %s", spool.KindPerson, spool.KindAgent)
	}
	log := slog.New(slog.NewTextHandler(io.err, nil))
	if kind == spool.KindAgent {
		file, err := uplink.OpenLog(agentLog(folder), 1, 2)
		if err != nil {
			return err
		}
		defer file.Close()
		log = slog.New(slog.NewTextHandler(file, nil))
	}
	log.Info("agent", "spool", folder.Path, "pid", os.Getpid(), "version", version)
	err = deliver(ctx, io, folder, uplink.Options{Kind: kind, Version: version, Idle: flags.idle, Log: log, Env: io.env}, flags)
	if errors.Is(err, uplink.ErrHeld) && kind == spool.KindAgent {
		log.Info("not needed", "reason", err)
		return nil // whoever holds the spool delivers it
	}
	log.Info("agent ends", "error", err)
	return err
}

// deliver delivers the folder, and answers for metrics meanwhile where that is
// wanted.
func deliver(ctx context.Context, io stdio, folder *spool.Folder, opts uplink.Options, flags agentFlags) error {
	if flags.metrics == "" {
		return uplink.New(folder, opts).Run(ctx)
	}
	listener, err := expose.Listen(ctx, flags.metrics)
	if err != nil {
		return err
	}
	parts, err := flags.chain.parts(io, opts.Log, listener)
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	return expose.Serve(ctx, folder, opts, flags.expose, listener, parts...)
}

func agentLog(folder *spool.Folder) string { return filepath.Join(folder.Path, "agent.log") }

// detach starts this program again as an agent of its own.
func detach(io stdio, folder *spool.Folder, flags agentFlags) error {
	if flags.idle == 0 {
		flags.idle = agentIdle
	}
	args := []string{"agent", "--spool", folder.Path, "--idle", flags.idle.String(), "--kind", string(spool.KindAgent)}
	if flags.metrics != "" {
		if err := expose.Check(flags.metrics); err != nil {
			return err
		}
		args = append(args, "--metrics", flags.metrics)
	}
	for _, group := range flags.expose {
		args = append(args, "--expose", group)
	}
	pid, err := daemon.Start(agentLog(folder), append(args, flags.chain.args()...)...)
	if err == nil {
		fmt.Fprintf(io.err, "agent %d delivers %s\n", pid, folder.Path)
	}
	return err
}
