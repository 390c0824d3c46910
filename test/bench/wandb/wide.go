package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"
)

// wide measures many metrics: runs of many keys in one project, and one of more.
func (b *bench) wide(ctx context.Context) error {
	return b.anew(ctx, func(s *server) error {
		c, keys := s.client(), names(b.size(10_000, 100))
		n := b.size(100, 3)
		for i := range n {
			run := fmt.Sprintf("wide-%03d", i)
			if err := c.begin(ctx, "history", run, configOf(i, 2_000)); err != nil {
				return err
			}
		}
		for at, what := range []string{"the first row", "the second row"} {
			cpu, err := s.used(func() error {
				for i := range n {
					if err := c.stream(ctx, "history", fmt.Sprintf("wide-%03d", i), &chunk{first: at, lines: rows(at, 1, keys, noisy)}); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return err
			}
			row(fmt.Sprintf("%d runs of %d keys, %s", n, len(keys), what), "%s a value | resident %s, peak %s", each(cpu, n*len(keys)), mib(s.memory("VmRSS")), mib(s.memory("VmHWM")))
		}
		if err := c.summaries(ctx, "wide-000", keys); err != nil {
			return err
		}
		if err := c.wideReads(ctx, "wide-000", len(keys)); err != nil {
			return err
		}
		more := names(b.size(100_000, 1_000))
		if err := c.begin(ctx, "history", "widest", configOf(0, 2_000)); err != nil {
			return err
		}
		for at := range 3 {
			cpu, err := s.used(func() error {
				return c.stream(ctx, "history", "widest", &chunk{first: at, lines: rows(at, 1, more, noisy)})
			})
			if err != nil {
				return err
			}
			row(fmt.Sprintf("a run of %d keys, row %d", len(more), at+1), "%s a value | resident %s, peak %s", each(cpu, len(more)), mib(s.memory("VmRSS")), mib(s.memory("VmHWM")))
		}
		if err := c.summaries(ctx, "widest", more); err != nil {
			return err
		}
		return c.wideReads(ctx, "widest", len(more))
	})
}

func (c *client) wideReads(ctx context.Context, run string, keys int) error {
	of := fmt.Sprintf("a run of %d keys: ", keys)
	if err := c.read(ctx, of+"historyKeys", keysQuery, run, 3, nil, hasKeys); err != nil {
		return err
	}
	return c.read(ctx, of+"a page of 2 rows", pageQuery, run, 3, map[string]any{"minStep": 0, "maxStep": 2, "pageSize": 2}, lines(2))
}

// summaries sends the whole summary again and again, as the SDK does every 15 s.
func (c *client) summaries(ctx context.Context, run string, keys []string) error {
	const times = 5
	for _, what := range []struct {
		name  string
		extra int
	}{{"keys that are logged", 0}, {"a tenth of its keys set by hand", len(keys) / 10}} {
		var sum, took time.Duration
		for i := range times {
			all := map[string]any{"_step": i}
			for k, key := range keys {
				all[key] = noisy(k, i)
			}
			for k := range what.extra {
				all[fmt.Sprintf("best/metric_%05d", k)] = noisy(k, i+7)
			}
			text, err := json.Marshal(all)
			if err != nil {
				return err
			}
			body := (&chunk{files: [][]byte{summary(string(text))}}).body()
			cpu, err := c.used(func() error {
				one, err := timed(func() error { return c.streamRaw(ctx, "history", run, body) })
				took += one
				return err
			})
			if err != nil {
				return err
			}
			sum += cpu
		}
		row(fmt.Sprintf("a summary of %d keys, %s", len(keys)+what.extra, what.name), "%s each, %s a key (%s by the clock) | peak %s", each(sum, times), each(sum, times*(len(keys)+what.extra)), each(took, times), mib(c.memory("VmHWM")))
	}
	return nil
}
