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
	readTimes  = 40 // per round
	warmUps    = 5
	wideSeries = 10_000
	widePoints = 20
)

// readRounds fills every server and asks in turns.
func readRounds(ctx context.Context, o options, r *report) error {
	names := strings.Split(o.servers, ",")
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
		asks = append(asks, ask)
	}
	for range o.rounds {
		for _, query := range []string{queryLong, querySeries, queryLast} {
			for i, name := range names {
				p50, err := timeQuery(ctx, asks[i][query])
				if err != nil {
					return fmt.Errorf("%s: %w", name, err)
				}
				r.addRead(name, query, p50)
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

func timeQuery(ctx context.Context, ask func(context.Context) error) (time.Duration, error) {
	var took []time.Duration
	for i := range warmUps + readTimes {
		start := time.Now()
		if err := ask(ctx); err != nil {
			return 0, err
		}
		if i >= warmUps {
			took = append(took, time.Since(start))
		}
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
