package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/uplink"
)

// syncPatience is how long a sync without --timeout goes on without progress.
const syncPatience = 30 * time.Second

type syncFlags struct {
	spool, server, key string
	timeout            time.Duration
	json               bool
}

// syncReport is what sync --json prints.
type syncReport struct {
	Spool     string `json:"spool"`
	Delivered uint64 `json:"points_delivered"`
	Refused   uint64 `json:"points_refused"`
	Left      left   `json:"left"`
	Error     string `json:"error,omitempty"`
}

// left is what a spool still holds.
type left struct {
	Writers int    `json:"writers"`
	Records uint64 `json:"records"`
	Points  uint64 `json:"points"`
	// Renderings are videos that are not uploaded.
	Renderings int `json:"renderings"`
}

func (l left) String() string {
	if l.Renderings == 0 {
		return fmt.Sprintf("%d points", l.Points)
	}
	return fmt.Sprintf("%d points and %d videos", l.Points, l.Renderings)
}

func syncCommand(io stdio) *cobra.Command {
	var flags syncFlags
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Deliver what is left in the spool, then end",
		Long: `Deliver what programs left in the spool to the servers that their runs name.

Ends with 0 when nothing is left. Without --timeout it gives up after 30 s without progress.`,
		Example: `  kymogram sync
  kymogram sync --spool /data/spool --timeout 10m
  kymogram sync --server https://kymogram.example.org --key KEY`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if flags.timeout < 0 {
				return usagef("--timeout is a time such as 30s, not %s", flags.timeout)
			}
			return runSync(cmd.Context(), io, flags)
		},
	}
	cmd.Flags().StringVar(&flags.spool, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else as kymogram doctor says)")
	cmd.Flags().StringVar(&flags.server, "server", "", "deliver to this server instead of the one that each run names")
	cmd.Flags().StringVar(&flags.key, "key", "", "API key for every server")
	cmd.Flags().DurationVar(&flags.timeout, "timeout", 0, "give up after this time")
	cmd.Flags().BoolVar(&flags.json, "json", false, "print a JSON object")
	return cmd
}

func runSync(ctx context.Context, io stdio, flags syncFlags) error {
	if flags.server != "" {
		server, err := uplink.ParseServer(flags.server)
		if err != nil {
			return usageError{err}
		}
		flags.server = server
	}
	folder, err := openSpool(io, flags.spool)
	if err != nil {
		return err
	}
	before, err := leftIn(folder)
	if err != nil {
		return err
	}
	if flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flags.timeout)
		defer cancel()
	}
	d := uplink.New(folder, uplink.Options{
		Kind: spool.KindSync, Version: version, Server: flags.server, Key: flags.key, Once: true, Env: io.env,
		Log: slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn})), MaxBackoff: 2 * time.Second,
	})
	totals, err := watch(ctx, io, d, before, flags.timeout == 0)
	if err != nil {
		return err
	}
	after, err := leftIn(folder)
	if err != nil {
		return err
	}
	report := syncReport{Spool: folder.Path, Delivered: totals.Acked, Refused: totals.Refused, Left: after, Error: totals.Error}
	return report.print(io, flags.json)
}

// watch runs the delivery and shows its progress; impatient ends it when nothing
// moves.
func watch(ctx context.Context, io stdio, d *uplink.Deliverer, before left, impatient bool) (uplink.Totals, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	bar := pointsBar(io.err, before.Points)
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last, moved := d.Totals(), time.Now()
	for {
		select {
		case err := <-ended:
			_ = bar.Finish()
			return d.Totals(), err
		case <-ticker.C:
		}
		now := d.Totals()
		if now.Acked != last.Acked || now.Refused != last.Refused || now.Writers != last.Writers || now.Renderings != last.Renderings {
			moved = time.Now()
		}
		if impatient && time.Since(moved) > syncPatience {
			cancel()
		}
		last = now
		_ = bar.Set64(int64(min(now.Acked+now.Refused, before.Points)))
	}
}

// pointsBar is a bar on a terminal and nothing elsewhere.
func pointsBar(w io.Writer, points uint64) *progressbar.ProgressBar {
	if !isTerminal(w) || points == 0 {
		return progressbar.DefaultSilent(int64(points))
	}
	return progressbar.NewOptions64(int64(points), progressbar.OptionSetWriter(w), progressbar.OptionSetDescription("points"),
		progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
}

// leftIn counts what no server has acked yet. A run that is open and delivered so
// far has nothing left.
func leftIn(folder *spool.Folder) (left, error) {
	var out left
	ids, err := folder.Writers()
	if err != nil {
		return out, err
	}
	for _, id := range ids {
		backlog, err := uplink.Left(folder, id)
		if errors.Is(err, os.ErrNotExist) {
			continue // delivered meanwhile
		}
		if err != nil {
			return out, err
		}
		if backlog.Records == 0 && backlog.Renderings == 0 && backlog.Live {
			continue
		}
		out.Writers++
		out.Records += backlog.Records
		out.Points += backlog.Points
		out.Renderings += backlog.Renderings
	}
	return out, nil
}

var errLeft = errors.New("not everything is delivered")

func (r syncReport) print(io stdio, asJSON bool) error {
	var err error
	if asJSON {
		err = printJSON(io.out, r)
	} else {
		_, err = fmt.Fprintf(io.out, "%d points delivered, %d refused, %s left in %s\n", r.Delivered, r.Refused, r.Left, r.Spool)
	}
	if err != nil || r.Left.Writers == 0 {
		return err
	}
	if r.Error != "" {
		return fmt.Errorf("%w: %s", errLeft, r.Error)
	}
	return errLeft
}
