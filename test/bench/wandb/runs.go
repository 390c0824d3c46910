package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"
)

const runsQuery = `query Runs($project: String!, $entity: String!, $cursor: String, $perPage: Int = 50, $order: String, $filters: JSONString) {
  project(name: $project, entityName: $entity) { internalId runCount(filters: $filters) readOnly
    runs(filters: $filters, after: $cursor, first: $perPage, order: $order) {
      edges { node { id tags name displayName sweepName state group jobType commit readOnly createdAt heartbeatAt description notes user { name username } %s } cursor }
      pageInfo { endCursor hasNextPage } } } }`

// listedRuns is what a page of runs is read into.
type listedRuns struct {
	Project struct {
		RunCount int
		Runs     struct {
			Edges    []struct{ Node struct{ Name string } }
			PageInfo struct {
				EndCursor   string
				HasNextPage bool
			}
		}
	}
}

// runs measures a project of many runs.
func (b *bench) runs(ctx context.Context) error {
	return b.anew(ctx, func(s *server) error {
		made := 0
		for _, total := range []int{b.size(10_000, 200), b.size(100_000, 400)} {
			n := total - made
			cpu, err := s.used(func() error { return s.make(ctx, made, n) })
			if err != nil {
				return err
			}
			made = total
			row(fmt.Sprintf("runs %d to %d: begin, 3 rows, summary, end", total-n, total), "%s a run | resident %s, peak %s", each(cpu, n), mib(s.memory("VmRSS")), mib(s.memory("VmHWM")))
			if err := s.lists(ctx, total); err != nil {
				return err
			}
		}
		return nil
	})
}

// make logs short runs, eight at once.
func (s *server) make(ctx context.Context, from, n int) error {
	var next atomic.Int64
	keys := names(3)
	return together(8, func(int) error {
		c := s.client()
		for {
			i := int(next.Add(1)) - 1
			if i >= n {
				return nil
			}
			i += from
			run := fmt.Sprintf("run%07d", i)
			if err := c.begin(ctx, "many", run, configOf(i, 2_000)); err != nil {
				return err
			}
			k := &chunk{lines: rows(0, 3, keys, noisy), files: [][]byte{summary(fmt.Sprintf(`{"%s":%g,"best":%g,"_step":2}`, keys[0], noisy(0, 2), noisy(i, i)))}, rest: done}
			if i%10 == 0 {
				k.rest = `,"complete":true,"exitcode":1`
			}
			if err := c.stream(ctx, "many", run, k); err != nil {
				return err
			}
		}
	})
}

// lists asks for pages.
func (s *server) lists(ctx context.Context, total int) error {
	c := s.client()
	filter := `{"$and":[{"config.lr.value":{"$lt":0.002}},{"state":"finished"}]}`
	old := fmt.Sprintf(runsQuery, "config systemMetrics summaryMetrics historyLineCount historyKeys")
	lazy := fmt.Sprintf(runsQuery, "")
	for _, q := range []struct {
		what, document, order, filters string
		page                           int
	}{
		{"first 50 runs by age (0.31)", lazy, "+created_at", "{}", 50},
		{"first 50 runs by age, with config, summary and keys (0.19)", old, "+created_at", "{}", 50},
		{"first 50, config.lr < 0.002 and finished", lazy, "+created_at", filter, 50},
		{"first 50, the newest first", lazy, "-created_at", "{}", 50},
		{"first 50 by summary_metrics.best", lazy, "-summary_metrics.best", "{}", 50},
	} {
		var got listedRuns
		ask := func(times int) (time.Duration, error) {
			return s.used(func() error {
				for range times {
					if err := c.ask(ctx, q.document, map[string]any{"project": "many", "entity": entity, "perPage": q.page, "order": q.order, "filters": q.filters}, &got); err != nil {
						return err
					}
				}
				return nil
			})
		}
		first, err := ask(1) // what it reads from the disk, the others find in memory
		if err != nil {
			return err
		}
		const times = 10
		cpu, err := ask(times)
		if err != nil {
			return err
		}
		row(fmt.Sprintf("of %d: %s", total, q.what), "the first time %s, then %s | %d of %d runs", each(first, 1), each(cpu, times), len(got.Project.Runs.Edges), got.Project.RunCount)
	}
	for _, q := range []struct {
		what, document, filters string
		page                    int
	}{
		{"by age", lazy, "{}", 1_000},
		{"by age", lazy, "{}", 50},
		{"filtered", lazy, filter, 1_000},
		{"filtered", lazy, filter, 50},
	} {
		seen := 0
		cpu, err := s.used(func() (err error) {
			seen, err = c.paged(ctx, q.document, q.filters, q.page)
			return err
		})
		if err != nil {
			return err
		}
		row(fmt.Sprintf("of %d: all pages %s by %d", total, q.what, q.page), "%s in all, %s a run that is listed | %d runs", each(cpu, 1), each(cpu, seen), seen)
	}
	row(fmt.Sprintf("of %d: after the lists", total), "resident %s, peak %s", mib(s.memory("VmRSS")), mib(s.memory("VmHWM")))
	return nil
}

// paged reads all pages, and checks that no run comes twice.
func (c *client) paged(ctx context.Context, document, filters string, page int) (int, error) {
	seen := map[string]bool{}
	variables := map[string]any{"project": "many", "entity": entity, "perPage": page, "order": "+created_at", "filters": filters}
	for {
		var got listedRuns
		if err := c.ask(ctx, document, variables, &got); err != nil {
			return 0, err
		}
		for _, e := range got.Project.Runs.Edges {
			if seen[e.Node.Name] {
				return 0, fmt.Errorf("%s is on two pages", e.Node.Name)
			}
			seen[e.Node.Name] = true
		}
		if !got.Project.Runs.PageInfo.HasNextPage {
			if len(seen) != got.Project.RunCount {
				return 0, fmt.Errorf("%d runs on the pages, %d counted", len(seen), got.Project.RunCount)
			}
			return len(seen), nil
		}
		variables["cursor"] = got.Project.Runs.PageInfo.EndCursor
	}
}
