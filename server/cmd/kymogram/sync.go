package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync/atomic"
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
	Spool      string  `json:"spool"`
	Delivered  uint64  `json:"points_delivered"`
	Refused    uint64  `json:"points_refused"`
	Renderings int64   `json:"renderings_uploaded"`
	Seconds    float64 `json:"seconds"`
	Left       left    `json:"left"`
	// Waiting is what is left, by program.
	Waiting []waiting `json:"waiting"`
	// Ended says why it ended while something was left.
	Ended string `json:"ended,omitempty"`
	Error string `json:"error,omitempty"`
}

// Why a sync ends before everything is delivered.
const (
	endedInterrupted = "interrupted"
	endedTimeout     = "the time is over"
	endedStuck       = "nothing moved for 30 s"
)

// left is what a spool still holds.
type left struct {
	Writers int    `json:"writers"`
	Records uint64 `json:"records"`
	Points  uint64 `json:"points"`
	Bytes   uint64 `json:"bytes"`
	// Renderings are videos that are not uploaded.
	Renderings int `json:"renderings"`
}

func (l left) String() string {
	if l.Renderings == 0 {
		return thousands(l.Points) + " points"
	}
	return fmt.Sprintf("%s points and %d videos", thousands(l.Points), l.Renderings)
}

func (l *left) add(list []waiting) {
	for i := range list {
		one := &list[i]
		l.Writers++
		l.Records += one.Records
		l.Points += one.Points
		l.Bytes += one.Bytes
		l.Renderings += one.Renderings
	}
}

func syncCommand(io stdio) *cobra.Command {
	var flags syncFlags
	cmd := &cobra.Command{
		Use:   "sync",
		Short: "Deliver what is left in the spool, then end",
		Long: `Deliver what programs left in the spool to the servers that their runs name.

What is delivered is freed as it goes. Ends with 0 when everything is delivered that was
there when it began; what a program logs meanwhile is its agent's again. Else it says what
is left and why. Run it again whenever it was interrupted: it goes on where it stopped, and
nothing is stored twice. Without --timeout it gives up after 30 s without progress.`,
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
	cmd.Flags().StringVar(&flags.key, "key", "", "API key for every server; runs that go on keep it")
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
	began := time.Now()
	parent := ctx
	if flags.timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, flags.timeout)
		defer cancel()
	}
	d := uplink.New(folder, uplink.Options{
		Kind: spool.KindSync, Version: version, Server: flags.server, Key: flags.key, Once: true, Env: io.env,
		Log: slog.New(slog.NewTextHandler(io.err, &slog.HandlerOptions{Level: slog.LevelWarn})), MaxBackoff: 2 * time.Second,
	})
	totals, err := watch(ctx, io, d, left{}, flags.timeout == 0)
	if err != nil {
		return err
	}
	if flags.key != "" && flags.server == "" {
		if err := keepKey(folder, flags.key); err != nil {
			return err
		}
	}
	report := syncReport{
		Spool: folder.Path, Delivered: totals.Acked, Refused: totals.Refused, Renderings: totals.Renderings,
		Seconds: time.Since(began).Seconds(), Error: totals.Error,
	}
	if report.Waiting, err = waitingIn(folder); err != nil {
		return err
	}
	if d.Over() { // what programs that go on logged since is the next deliverer's
		report.Waiting = slices.DeleteFunc(report.Waiting, func(one waiting) bool { return one.Live })
	}
	report.Left.add(report.Waiting)
	if report.Left.Writers > 0 {
		switch {
		case parent.Err() != nil:
			report.Ended = endedInterrupted
		case ctx.Err() != nil:
			report.Ended = endedTimeout
		default:
			report.Ended = endedStuck
		}
	}
	return report.print(io, flags.json)
}

// keepKey leaves a key that was taken to the agent of the runs that go on.
func keepKey(folder *spool.Folder, key string) error {
	ids, err := folder.Writers()
	if err != nil {
		return err
	}
	for _, id := range ids {
		open, err := spool.ReadOpen(folder.WriterPath(id))
		if err != nil {
			continue // delivered meanwhile, or damaged
		}
		status, err := spool.OpenStatus(folder.WriterPath(id))
		if err != nil {
			continue
		}
		page, err := status.Read()
		status.Close()
		if err != nil || page.State != spool.StateConnected {
			continue
		}
		if err := folder.SetKey(open.Server, key); err != nil {
			return err
		}
	}
	return nil
}

// watch runs the delivery and shows its progress; impatient ends it when nothing
// moves. before is what there is to deliver; it is counted meanwhile when it is empty.
func watch(ctx context.Context, io stdio, d *uplink.Deliverer, before left, impatient bool) (uplink.Totals, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	shown := startProgress(io, d, before)
	defer shown.end()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	last, moved, there := d.Totals(), time.Now(), left{}
	for {
		select {
		case err := <-ended:
			return d.Totals(), err
		case <-ticker.C:
		}
		now := d.Totals()
		if now.Acked != last.Acked || now.Refused != last.Refused || now.Writers != last.Writers || now.Renderings != last.Renderings {
			moved = time.Now()
		}
		last = now
		shown.show(now.Acked + now.Refused)
		if !impatient || time.Since(moved) <= syncPatience {
			continue
		}
		// Another program may deliver the spool, and we wait for it.
		if now, err := leftIn(d.Folder()); err == nil && now != there {
			there = now
			moved = time.Now()
			continue
		}
		cancel()
	}
}

// lineEvery is how often progress is told where no terminal shows a bar.
const lineEvery = 30 * time.Second

// syncProgress tells how a delivery goes: a bar on a terminal, elsewhere a line now
// and then. What there is to deliver is counted meanwhile.
type syncProgress struct {
	out   io.Writer
	total atomic.Uint64 // points; 0 while they are counted
	began time.Time
	bar   *progressbar.ProgressBar // nil without a terminal, and at first
	told  time.Time
}

func startProgress(io stdio, d *uplink.Deliverer, before left) *syncProgress {
	p := &syncProgress{out: io.err, began: time.Now(), told: time.Now()}
	p.total.Store(before.Points)
	if before == (left{}) {
		go p.count(d)
	}
	return p
}

func (p *syncProgress) count(d *uplink.Deliverer) {
	done := d.Totals()
	if found, err := leftIn(d.Folder()); err == nil {
		p.total.Store(done.Acked + done.Refused + found.Points)
	}
}

func (p *syncProgress) show(done uint64) {
	total := p.total.Load()
	if total == 0 {
		return
	}
	if isTerminal(p.out) {
		if p.bar == nil {
			p.bar = progressbar.NewOptions64(int64(total), progressbar.OptionSetWriter(p.out), progressbar.OptionSetDescription("points"),
				progressbar.OptionShowCount(), progressbar.OptionShowIts(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish())
		}
		_ = p.bar.Set64(int64(min(done, total)))
		return
	}
	if time.Since(p.told) < lineEvery {
		return
	}
	p.told = time.Now()
	line := fmt.Sprintf("%s of %s points", thousands(done), thousands(max(done, total)))
	if rate := float64(done) / time.Since(p.began).Seconds(); rate > 0 && total > done {
		line += fmt.Sprintf(", %s/s, %s left", thousands(uint64(rate)), time.Duration(float64(total-done)/rate*float64(time.Second)).Round(time.Second))
	}
	fmt.Fprintln(p.out, line)
}

func (p *syncProgress) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}

// leftIn counts what no server has acked yet. A run that is open and delivered so
// far has nothing left.
func leftIn(folder *spool.Folder) (left, error) {
	var out left
	list, err := waitingIn(folder)
	out.add(list)
	return out, err
}

var errLeft = errors.New("not everything is delivered")

func (r *syncReport) print(io stdio, asJSON bool) error {
	var err error
	if asJSON {
		err = printJSON(io.out, r)
	} else {
		_, err = fmt.Fprintf(io.out, "%s points delivered in %s, %s refused, %s left in %s\n", thousands(r.Delivered),
			time.Duration(r.Seconds*float64(time.Second)).Round(100*time.Millisecond), thousands(r.Refused), r.Left, r.Spool)
		if err == nil {
			err = printWaiting(io.out, r.Waiting)
		}
	}
	if err != nil || r.Left.Writers == 0 {
		return err
	}
	if r.Ended == endedInterrupted {
		return fmt.Errorf("%w: %s; run it again, it goes on where it stopped", errLeft, r.Ended)
	}
	return fmt.Errorf("%w: %s", errLeft, first(r.Error, r.Ended))
}
