package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// rate measures many processes that log at once, each with the cadence of the SDK.
func (b *bench) rate(ctx context.Context) error {
	const (
		processes = 50
		cadence   = 15 * time.Second
		keys      = 10
	)
	perMinute := b.size(1_000_000, 100_000)
	rowsEach := perMinute / (processes * (keys + 1)) * int(cadence/time.Second) / 60
	ticks := max(b.size(12, 2), 2)
	return b.anew(ctx, func(s *server) error {
		var mu sync.Mutex
		var took []time.Duration
		begin := time.Now()
		cpu, err := s.used(func() error {
			return together(processes, func(i int) error {
				c, run := s.client(), fmt.Sprintf("run-%02d", i)
				if err := c.begin(ctx, "rate", run, configOf(i, 2_000)); err != nil {
					return err
				}
				names := names(keys)
				for t := range ticks {
					next := begin.Add(time.Duration(t)*cadence + time.Duration(i)*cadence/processes)
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(time.Until(next)):
					}
					k := &chunk{first: t * rowsEach, lines: rows(t*rowsEach, rowsEach, names, noisy), files: [][]byte{summary(fmt.Sprintf(`{"_step":%d,"best":%g}`, t*rowsEach, noisy(i, t)))}}
					body := k.body()
					one, err := timed(func() error { return c.streamRaw(ctx, "rate", run, body) })
					if err != nil {
						return err
					}
					mu.Lock()
					took = append(took, one)
					mu.Unlock()
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		wall, values := time.Since(begin), processes*ticks*rowsEach*(keys+1)
		row(fmt.Sprintf("%d processes, %d rows of %d values every %s each", processes, rowsEach, keys+1, cadence), "%.0f values a minute; %.1f %% of a core, %s a value; file_stream p50 %s, p99 %s, most %s | resident %s, peak %s",
			float64(values)/wall.Minutes(), 100*cpu.Seconds()/wall.Seconds(), each(cpu, values), at(took, 50), at(took, 99), at(took, 100), mib(s.memory("VmRSS")), mib(s.memory("VmHWM")))
		return nil
	})
}
