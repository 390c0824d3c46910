package main

import (
	"cmp"
	"context"
	"log/slog"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/server/internal/scrape"
)

type scrapeFlags struct {
	connection
	netuid             int
	workspace, project string
	spool              string
	every              time.Duration
	once               bool
}

func scrapeCommand(io stdio) *cobra.Command {
	var f scrapeFlags
	cmd := &cobra.Command{
		Use:   "scrape",
		Short: "Log what the nodes of a Bittensor subnet expose",
		Long: `Ask the server for the endpoints of a subnet (/sd/bittensor), scrape them as
Prometheus does, and log the values. Each node is a run named after its hotkey.
Each family is a metric with the same labels. up is 1 or 0. A target may
cost 10 s, 8 MiB and 20,000 values, and redirects are not followed.`,
		Example: `  kymogram scrape --netuid 27
  kymogram scrape --netuid 27 --project nodes --every 1m
  kymogram scrape --netuid 27 --once --json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.netuid < 0 || f.netuid > 65535 {
				return usagef("which subnet? give --netuid N")
			}
			if f.every < time.Second {
				return usagef("--every is %s, it must be a second or more", duration.Text(f.every))
			}
			return f.run(cmd.Context(), io)
		},
	}
	f.addTo(cmd)
	cmd.Flags().IntVar(&f.netuid, "netuid", -1, "number of the subnet")
	cmd.Flags().StringVar(&f.workspace, "workspace", "", "workspace of the runs (default KYMOGRAM_WORKSPACE, else default)")
	cmd.Flags().StringVar(&f.project, "project", "", "project of the runs (default subnet-N)")
	cmd.Flags().StringVar(&f.spool, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else the one that kymogram doctor shows)")
	f.every = 30 * time.Second
	cmd.Flags().Var(duration.Var(&f.every), "every", "time between two scrapes")
	cmd.Flags().BoolVar(&f.once, "once", false, "scrape once, deliver and end")
	return cmd
}

func (f *scrapeFlags) run(ctx context.Context, io stdio) error {
	server, err := f.dial(io)
	if err != nil {
		return err
	}
	netuid := strconv.Itoa(f.netuid)
	s := scrape.New(scrape.Options{
		Every: f.every, Version: version, Env: io.env, Log: slog.New(slog.NewTextHandler(io.err, nil)),
		Run: kymogram.Options{
			Server: server.Base, APIKey: server.Key, Workspace: f.workspace, SpoolDir: f.spool, ResumeStrategy: kymogram.ResumeAllow,
			Project: cmp.Or(f.project, "subnet-"+netuid), NoEnvironment: true, NoSystemMetrics: true,
		},
		Find: scrape.Find(server, netuid),
	})
	if !f.once {
		return s.Run(ctx)
	}
	total, err := s.Once(ctx)
	return tell(io, f.json, total, err)
}
