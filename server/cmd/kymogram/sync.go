package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/delivery"
)

type syncFlags struct {
	delivery.Request
	spool string
	json  bool
}

func syncCommand(io stdio) *cobra.Command {
	var flags syncFlags
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Deliver what is left in the spool, then end",
		Long: `Deliver what programs left in the spool to the servers that their runs name.

What is delivered is freed as it goes. Ends with 0 when everything is delivered that was
there when it began; what a program logs meanwhile is its agent's again. Else it lists what
is left and why. An agent that delivered before continues then. Run it again whenever
it was interrupted: it resumes where it stopped, and nothing is stored twice. Without
--timeout it gives up after 30 s without progress.`,
		Example: `  kymogram sync
  kymogram sync --spool /data/spool --timeout 10m
  kymogram sync --server https://kymogram.example.org --key KEY`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.Timeout < 0 {
				return usagef("--timeout is a time such as 30s, not %s", flags.Timeout)
			}
			return runSync(cmd.Context(), io, flags)
		},
	}
	cmd.Flags().StringVar(&flags.spool, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else the one that kymogram doctor shows)")
	cmd.Flags().StringVar(&flags.Server, "server", "", "deliver to this server instead of the one that each run names")
	cmd.Flags().StringVar(&flags.Key, "key", "", "API key for every server; runs that go on keep it")
	cmd.Flags().Var(duration.Var(&flags.Timeout), "timeout", "give up after this time, such as 90s or 1h30m; 0 never")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print a JSON object")
	return cmd
}

func runSync(ctx context.Context, io stdio, flags syncFlags) error {
	if flags.Server != "" {
		server, err := uplink.ParseServer(flags.Server)
		if err != nil {
			return usageError{err}
		}
		flags.Server = server
	}
	folder, err := delivery.Open(io.env, flags.spool)
	if err != nil {
		return err
	}
	outcome, err := io.delivery().Sync(ctx, folder, flags.Request)
	return tell(io, flags.json, outcome, err)
}
