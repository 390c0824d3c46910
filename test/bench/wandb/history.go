package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

const (
	pageQuery    = `query HistoryPage($project: String!, $entity: String!, $name: String!, $minStep: Int64!, $maxStep: Int64!, $pageSize: Int!) { project(name: $project, entityName: $entity) { run(name: $name) { history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize) } } }`
	fullQuery    = `query RunFullHistory($project: String!, $entity: String!, $name: String!, $samples: Int) { project(name: $project, entityName: $entity) { run(name: $name) { history(samples: $samples) } } }`
	sampledQuery = `query RunSampledHistory($project: String!, $entity: String!, $name: String!, $specs: [JSONString!]!) { project(name: $project, entityName: $entity) { run(name: $name) { sampledHistory(specs: $specs) } } }`
	keysQuery    = `query RunHistoryKeys($project: String!, $entity: String!, $name: String!) { project(name: $project, entityName: $entity) { run(name: $name) { historyKeys } } }`
)

// historyOf is the answer to all four.
type historyOf struct {
	Project struct {
		Run struct {
			History        []string
			SampledHistory [][]json.RawMessage
			HistoryKeys    json.RawMessage
		}
	}
}

// read asks for something a few times.
func (c *client) read(ctx context.Context, what, document, run string, times int, variables map[string]any, check func(*historyOf) error) error {
	all := map[string]any{"project": "history", "entity": entity, "name": run}
	for k, v := range variables {
		all[k] = v
	}
	var took time.Duration
	cpu, err := c.used(func() error {
		for range times {
			var got historyOf
			one, err := timed(func() error { return c.ask(ctx, document, all, &got) })
			if err != nil {
				return err
			}
			if took += one; check(&got) != nil {
				return check(&got)
			}
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	row(what, "%s (%s by the clock) | resident %s, peak %s", each(cpu, times), each(took, times), mib(c.memory("VmRSS")), mib(c.memory("VmHWM")))
	return nil
}

func lines(n int) func(*historyOf) error {
	return func(h *historyOf) error {
		if got := len(h.Project.Run.History); got != n {
			return fmt.Errorf("%d rows for %d", got, n)
		}
		return nil
	}
}

// fill logs rows into a run, some a request, as fast as the server takes them.
func (c *client) fill(ctx context.Context, run string, keys []string, n, chunkRows int, each func(at int) error) error {
	for from := 0; from < n; from += chunkRows {
		if err := c.stream(ctx, "history", run, &chunk{first: from, lines: rows(from, chunkRows, keys, noisy)}); err != nil {
			return err
		}
		if each != nil {
			if err := each(from + chunkRows); err != nil {
				return err
			}
		}
	}
	return nil
}

// long measures runs of many steps.
func (b *bench) long(ctx context.Context) error {
	for _, shape := range []struct{ keys, rows int }{{1, 500_000}, {1, 5_000_000}, {10, 5_000_000}} {
		n := b.size(shape.rows, 20_000)
		n -= n % 10_000
		err := b.anew(ctx, func(s *server) error { return s.longRun(ctx, names(shape.keys), n) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *server) longRun(ctx context.Context, keys []string, n int) error {
	c, of := s.client(), fmt.Sprintf("%d steps of %d keys", n, len(keys))
	if err := c.begin(ctx, "history", "long", configOf(1, 2_000)); err != nil {
		return err
	}
	var halves [2]time.Duration
	half, err := s.cpu()
	if err != nil {
		return err
	}
	err = c.fill(ctx, "long", keys, n, 10_000, func(at int) (err error) {
		if at == n/2 || at == n {
			now, err := s.cpu()
			if err != nil {
				return err
			}
			halves[at/n], half = now-half, now
		}
		return nil
	})
	if err != nil {
		return err
	}
	row(of+": ingest, 10,000 rows a request", "%s a row in the first half, %s in the second | peak %s", each(halves[0], n/2), each(halves[1], n/2), mib(s.memory("VmHWM")))
	page := func(from int) map[string]any {
		return map[string]any{"minStep": from, "maxStep": from + 1_000, "pageSize": 1_000}
	}
	for _, q := range []struct {
		what, document string
		variables      map[string]any
		check          func(*historyOf) error
	}{
		{"a page of 1,000 at the end", pageQuery, page(n - 1_000), lines(1_000)},
		{"a page of 1,000 in the middle", pageQuery, page(n / 2), lines(1_000)},
		{"history(samples=500)", fullQuery, map[string]any{"samples": 500}, lines(500)},
		{"sampledHistory of a key, 500", sampledQuery, map[string]any{"specs": []string{fmt.Sprintf(`{"keys":[%q,"_step"],"samples":500}`, keys[0])}}, func(h *historyOf) error {
			if len(h.Project.Run.SampledHistory) != 1 || len(h.Project.Run.SampledHistory[0]) == 0 {
				return errors.New("no rows")
			}
			return nil
		}},
		{"historyKeys", keysQuery, nil, hasKeys},
	} {
		if err := c.read(ctx, of+": "+q.what, q.document, "long", 5, q.variables, q.check); err != nil {
			return err
		}
	}
	if err := c.scan(ctx, of, n, len(keys)); err != nil {
		return err
	}
	cpu, err := s.used(func() error { return c.fill(ctx, "long", keys, n, 10_000, nil) })
	if err != nil {
		return err
	}
	row(of+": all rows again", "%s a row | peak %s", each(cpu, n), mib(s.memory("VmHWM")))
	return c.read(ctx, of+": a page of 1,000 after it", pageQuery, "long", 5, page(n/2), lines(1_000))
}

func hasKeys(h *historyOf) error {
	if len(h.Project.Run.HistoryKeys) < 20 {
		return errors.New("no keys")
	}
	return nil
}

// scan reads every row as scan_history does: pages of 1,000 steps.
func (c *client) scan(ctx context.Context, of string, n, keys int) error {
	seen, base := 0, c.memory("VmHWM")
	cpu, err := c.used(func() error {
		for from := 0; from < n; from += 1_000 {
			var got historyOf
			if err := c.ask(ctx, pageQuery, map[string]any{"project": "history", "entity": entity, "name": "long", "minStep": from, "maxStep": from + 1_000, "pageSize": 1_000}, &got); err != nil {
				return err
			}
			seen += len(got.Project.Run.History)
		}
		return nil
	})
	if err == nil && seen != n {
		err = fmt.Errorf("scan_history gave %d rows of %d", seen, n)
	}
	row(of+": scan_history of all", "%s a row, %s a value | peak before %s, after %s", each(cpu, n), each(cpu, n*(keys+1)), mib(base), mib(c.memory("VmHWM")))
	return err
}
