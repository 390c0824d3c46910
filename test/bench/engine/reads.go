package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// The reads that the targets name.
const (
	queryLong   = "10 M points → 1,000 buckets"
	querySeries = "one series of 2,000 points"
	queryLast   = "last values of 10,000 series"
)

const (
	readTimes  = 40 // per round, at least
	warmUps    = 5
	readFor    = 2 * time.Second // as long, at least: the clock of CPU time ticks in 10 ms
	wideSeries = 10_000
	widePoints = 20
)

// readRounds fills every server and asks in turns.
func readRounds(ctx context.Context, o options, r *report) error {
	names := strings.Split(o.servers, ",")
	var servers []server
	var asks []map[string]func(context.Context) error
	for _, name := range names {
		folder := filepath.Join(o.folder, "reads-"+name)
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return err
		}
		s := newServer(name, folder, o)
		if err := fill(ctx, s, o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		defer func() { _, _ = s.stop() }()
		ask, err := s.queries(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		servers, asks = append(servers, s), append(asks, ask)
	}
	for range o.rounds {
		for _, query := range []string{queryLong, querySeries, queryLast} {
			for i, name := range names {
				f, err := timeQuery(ctx, servers[i], asks[i][query])
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				r.addRead(name, query, f)
			}
		}
	}
	return nil
}

// fill writes the points, and starts the server anew so that nothing is read
// from what the ingest left in memory.
func fill(ctx context.Context, s server, o options) error {
	if err := s.boot(ctx); err != nil {
		return err
	}
	p := linesProtocol
	for _, job := range []struct {
		gen  *generator
		rows int
	}{
		{newGenerator(o.seed, 0), blockRows},
		{longGenerator(o.seed, longPoints), 20_000},
		{wideGenerator(o.seed, wideSeries, widePoints), 1},
	} {
		if _, err := send(ctx, s.target(p), p, []*generator{job.gen}, job.rows); err != nil {
			s.kill()
			return err
		}
	}
	if v, ok := s.(*victoria); ok {
		if err := v.settle(ctx); err != nil {
			return err
		}
	}
	if _, err := s.stop(); err != nil {
		return err
	}
	return s.boot(ctx)
}

// timeQuery asks in turn; the figures are the middle answer's time and the server's CPU for each.
func timeQuery(ctx context.Context, s server, ask func(context.Context) error) (readFigures, error) {
	for range warmUps {
		if err := ask(ctx); err != nil {
			return readFigures{}, err
		}
	}
	before, err := s.cpu()
	if err != nil {
		return readFigures{}, err
	}
	var took []time.Duration
	for begin := time.Now(); len(took) < readTimes || time.Since(begin) < readFor; {
		start := time.Now()
		if err := ask(ctx); err != nil {
			return readFigures{}, err
		}
		took = append(took, time.Since(start))
	}
	after, err := s.cpu()
	if err != nil {
		return readFigures{}, err
	}
	slices.Sort(took)
	return readFigures{p50: msOf(took[len(took)/2]), cpu: msOf(after-before) / float64(len(took))}, nil
}
