// Command scale fills a server with much of everything and measures what a user
// and an operator feel: `make bench-scale` (docs/scale.md has the table).
//
// It runs the real binary with its keys on, sends over the native protocol and
// reads over HTTP. A folder that was filled before is measured again as it is.
// load.go fills, measure.go asks.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// size is how much there is of everything. The largest of each list is the
// claim, the smaller ones show how cost grows.
type size struct {
	runs []int // projects of so many runs, of seriesPerRun series each
	wide []int // runs of so many series
	long []int // series of so many points
	d20  int   // runs of 50 series and 2,000 steps, killed while they are written
	open int   // runs that many callers open, and nothing else
}

func full() size {
	return size{runs: []int{1_000, 10_000, 100_000}, wide: []int{10_000, 100_000, 1_000_000}, long: []int{1_000_000, 10_000_000, 100_000_000}, d20: 200, open: 20_000}
}

func small() size {
	return size{runs: []int{10, 100, 1_000}, wide: []int{100, 1_000, 10_000}, long: []int{10_000, 100_000, 1_000_000}, d20: 4, open: 2_000}
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:])
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scale:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	binary := flags.String("binary", "bin/kymogram", "the server")
	folder := flags.String("folder", "", "keep the data here, and measure what is there; default: a temporary folder")
	quick := flags.Bool("quick", false, "a hundredth of everything: to see that it works")
	crash := flags.Bool("crash", true, "also kill a server that holds 20 M points")
	opens := flags.Bool("opens", false, "only open runs")
	rows := flags.Int("table", 0, "only fill a project of so many runs, and measure what its table asks for")
	lives := flags.String("live", "", "only draw series of so many points while they are written: 10000000,100000000")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s := full()
	if *quick {
		s = small()
	}
	if *folder == "" {
		made, err := os.MkdirTemp("", "kymogram-scale-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(made)
		*folder = made
	}
	r := &report{out: os.Stdout}
	if *rows > 0 {
		return tabled(ctx, r, &server{binary: *binary, folder: *folder}, *rows)
	}
	if *lives != "" {
		lengths, err := numbers(*lives)
		if err != nil {
			return err
		}
		return live(ctx, r, *binary, lengths)
	}
	if err := anew(ctx, *binary, func(srv *server) error { return opened(ctx, r, srv, s) }); err != nil || *opens {
		return err
	}
	if *crash {
		if err := anew(ctx, *binary, func(srv *server) error { return crashed(ctx, r, srv, s) }); err != nil {
			return err
		}
	}
	return filled(ctx, r, &server{binary: *binary, folder: *folder}, s)
}

// numbers reads a list.
func numbers(text string) (out []int, err error) {
	for part := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(part)
		if err != nil || n < 1_000 {
			return nil, fmt.Errorf("%q is no number of points, at least 1000", part)
		}
		out = append(out, n)
	}
	return out, nil
}

// opened opens runs from many callers at once.
func opened(ctx context.Context, r *report, srv *server, s size) error {
	if err := openMany(ctx, srv, "warm", s.open/10); err != nil {
		return err
	}
	begin := time.Now()
	if err := openMany(ctx, srv, "open", s.open); err != nil {
		return err
	}
	r.line("open", count(s.open)+" runs", "%.0f runs/s from %d callers", float64(s.open)/time.Since(begin).Seconds(), callers)
	return nil
}

// filled loads what is missing, then measures.
func filled(ctx context.Context, r *report, srv *server, s size) error {
	if _, err := srv.boot(ctx); err != nil {
		return err
	}
	defer srv.kill()
	mark := filepath.Join(srv.folder, "filled")
	if _, err := os.Stat(mark); err != nil {
		if err := fill(ctx, r, srv, s); err != nil {
			return err
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return err
		}
	}
	return measure(ctx, r, srv, s)
}

// crashed writes d20, kills the server in the middle of the last batches and
// times the next start to its first answer.
func crashed(ctx context.Context, r *report, srv *server, s size) error {
	points, err := loadMany(ctx, srv, "crash", s.d20, 50, 2_000, 100)
	if err != nil {
		return err
	}
	for range 3 {
		srv.kill()
		took, err := srv.boot(ctx)
		if err != nil {
			return err
		}
		r.line("start after kill -9", count(points)+" points", "%s to ready, %s to the first answer", took.ready, took.answer)
	}
	return nil
}
