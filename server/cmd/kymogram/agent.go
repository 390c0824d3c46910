package main

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/server/internal/agent"
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
	collect  agentCollect
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

With --collect it logs what the machine does (processors, memory, disk, network,
graphics cards) into a run of its own; no program that trains is needed.

With --chain it registers that endpoint on the Bittensor chain, and again when its
version or address changes, or once a day; /metrics says how that goes.`,
		Example: `  kymogram agent                       deliver until Ctrl-C
  kymogram agent --idle 10m            end ten minutes after the last run
  kymogram agent --detached            go on in the background, log to SPOOL/agent.log
  kymogram agent --metrics 127.0.0.1:9464 --expose torchelastic --expose train
  kymogram agent --collect --collect-into team/machines
  kymogram agent --metrics 0.0.0.0:9101 --chain wss://HOST --netuid 27 --wallet default/miner1`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.idle < 0 {
				return usagef("--idle is a time such as 60s, not %s", duration.Text(flags.idle))
			}
			if len(flags.expose) > 0 && flags.metrics == "" {
				return usagef("--expose needs the address to expose at: --metrics HOST:PORT")
			}
			if err := flags.chain.check(flags.metrics); err != nil {
				return err
			}
			if err := flags.collect.check(); err != nil {
				return err
			}
			return runAgent(cmd, io, flags)
		},
	}
	flags.chain.addTo(cmd.Flags())
	flags.collect.addTo(cmd.Flags())
	cmd.Flags().StringVar(&flags.spool, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else the one that kymogram doctor shows)")
	cmd.Flags().Var(duration.Var(&flags.idle), "idle", "end this long after no run is open and nothing is left; 0 stays (detached: 1m)")
	cmd.Flags().BoolVar(&flags.detached, "detached", false, "go on in the background")
	cmd.Flags().StringVar(&flags.metrics, "metrics", "", "answer GET /metrics at HOST:PORT (default: no endpoint)")
	cmd.Flags().StringArrayVar(&flags.expose, "expose", nil, "a group of metrics that the endpoint makes public; may be repeated")
	cmd.Flags().StringVar(&flags.kind, "kind", string(spool.KindPerson), "who started it")
	_ = cmd.Flags().MarkHidden("kind") // fails only for a flag that is not there
	return cmd
}

func runAgent(cmd *cobra.Command, io stdio, flags agentFlags) error {
	open := delivery.Open
	if flags.collect.on {
		open = makeSpool // there may be no program that made it
	}
	folder, err := open(io.env, flags.spool)
	if err != nil {
		return err
	}
	if flags.detached {
		return detach(cmd, io, folder, flags)
	}
	if flags.kind != string(spool.KindPerson) && flags.kind != string(spool.KindAgent) {
		return usagef("--kind is %s or %s", spool.KindPerson, spool.KindAgent)
	}
	a := agent.Agent{
		Folder: folder, Kind: spool.HolderKind(flags.kind), Idle: flags.idle, Version: version, Env: io.env, Err: io.err,
		Metrics: flags.metrics, Groups: flags.expose,
		Parts: func(log *slog.Logger, listener net.Listener) ([]expose.Part, error) {
			return flags.chain.parts(io, log, listener)
		},
	}
	host, err := os.Hostname()
	if err != nil {
		return err
	}
	return flags.collect.during(cmd.Context(), folder, host, a.Run)
}

// startAgent starts an agent of a folder as programs do.
func startAgent(folder *spool.Folder) error {
	_, err := agent.Start(folder, "agent", "--spool", folder.Path, "--idle", agentIdle.String(), "--kind", string(spool.KindAgent))
	return err
}

// detach starts this program again as an agent of its own, with the flags of this one.
func detach(cmd *cobra.Command, io stdio, folder *spool.Folder, flags agentFlags) error {
	if flags.metrics != "" {
		if err := expose.Check(flags.metrics); err != nil {
			return err
		}
	}
	args := []string{"agent", "--spool", folder.Path, "--idle", duration.Text(cmp.Or(flags.idle, agentIdle)), "--kind", string(spool.KindAgent)}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains([]string{"spool", "idle", "kind", "detached"}, f.Name) {
			return
		}
		values := []string{f.Value.String()}
		if list, ok := f.Value.(pflag.SliceValue); ok {
			values = list.GetSlice()
		}
		for _, value := range values {
			args = append(args, "--"+f.Name+"="+value)
		}
	})
	pid, err := agent.Start(folder, args...)
	if err == nil {
		fmt.Fprintf(io.err, "agent %d delivers %s\n", pid, folder.Path)
	}
	return err
}
