package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// at is a percentile.
func at(all []time.Duration, percent int) string {
	if len(all) == 0 {
		return "none"
	}
	sorted := slices.Sorted(slices.Values(all))
	return fmt.Sprintf("%.1f ms", float64(sorted[min(len(sorted)-1, len(sorted)*percent/100)].Microseconds())/1e3)
}

// upsert measures UpsertBucket: new runs, and changes of a config.
func (b *bench) upsert(ctx context.Context) error {
	return b.anew(ctx, func(s *server) error {
		c := s.client()
		n := b.size(2_000, 50)
		made := 0
		create := func() error {
			for range n {
				made++
				if err := c.begin(ctx, "upsert", fmt.Sprintf("run-%06d", made), configOf(made, 2_000)); err != nil {
					return err
				}
			}
			return nil
		}
		change := func() error {
			for range n {
				made++
				if err := c.upsert(ctx, map[string]any{"name": "run-000001", "project": "upsert", "entity": entity, "config": configOf(made, 2_000)}); err != nil {
					return err
				}
			}
			return nil
		}
		for _, one := range []struct {
			what string
			do   func() error
		}{{"UpsertBucket that makes a run, config of 2 kB", create}, {"UpsertBucket that changes a config of 2 kB", change}} {
			cpu, err := s.used(one.do)
			if err != nil {
				return err
			}
			syncs, err := s.syncs(ctx, one.do)
			if err != nil {
				return err
			}
			row(one.what, "%s; %.2f syncs", each(cpu, n), float64(syncs)/float64(n))
		}
		return nil
	})
}

// back measures processes that log at equal steps into one run: their rows go back.
func (b *bench) back(ctx context.Context) error {
	keys := names(1)
	alone := 0.0
	for _, n := range []int{b.size(25_000, 1_000), b.size(100_000, 2_000)} {
		for _, processes := range []int{1, 4} {
			err := b.anew(ctx, func(s *server) error {
				clients := make([]*client, processes)
				for i := range clients {
					clients[i] = s.client()
					if err := clients[i].begin(ctx, "back", "run", configOf(i, 500)); err != nil {
						return err
					}
				}
				for from := 0; from < n; from += 1_000 {
					for i, c := range clients {
						k := &chunk{first: from, lines: rows(from, 1_000, keys, func(key, row int) float64 { return noisy(key+i*10, row) })}
						if err := c.stream(ctx, "back", "run", k); err != nil {
							return err
						}
					}
				}
				peak := s.memory("VmHWM")
				cpu, err := s.stop()
				per := float64(cpu) / float64(n*processes)
				if processes == 1 {
					alone = per
				}
				row(fmt.Sprintf("%d processes, %d rows each at equal steps", processes, n), "%.2f µs a row, %.2f times of one process | peak %s", per/1e3, per/alone, mib(peak))
				return err
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// together runs n jobs at once.
func together(n int, do func(i int) error) error {
	failed := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { failed[i] = do(i) })
	}
	all.Wait()
	return errors.Join(failed...)
}
