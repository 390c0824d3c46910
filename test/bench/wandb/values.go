package main

import (
	"context"
	"fmt"
	"strconv"
	"time"
)

// cost is what values took.
type cost struct {
	values int
	cpu    time.Duration
	bytes  int64
	peak   int64
}

// values measures a value of the history beside the same value by line protocol, each on a
// fresh server, in turn.
func (b *bench) values(ctx context.Context) error {
	for _, shape := range []struct{ keys, rows int }{{1, 1_000_000}, {10, 300_000}, {100, 40_000}} {
		n := b.size(shape.rows, 2_000)
		keys := names(shape.keys)
		var by [2]cost
		for way := range by {
			var err error
			if by[way], err = b.sent(ctx, way == 0, keys, n); err != nil {
				return err
			}
		}
		w, l := by[0], by[1]
		row(fmt.Sprintf("%d keys and _runtime, %d rows", shape.keys, n), "%s a value; line protocol %s; ratio %.2f | %.2f B a value on disk; %.2f | peak %s; %s",
			each(w.cpu, w.values), each(l.cpu, l.values), float64(w.cpu)/float64(l.cpu), float64(w.bytes)/float64(w.values), float64(l.bytes)/float64(l.values), mib(w.peak), mib(l.peak))
	}
	return nil
}

func (b *bench) sent(ctx context.Context, wandb bool, keys []string, n int) (c cost, err error) {
	err = b.anew(ctx, func(s *server) error {
		k := s.client()
		if wandb {
			if err := k.begin(ctx, "values", "run", configOf(1, 2_000)); err != nil {
				return err
			}
		}
		for at := 0; at < n; at += 1_000 {
			if !wandb {
				if _, err := k.send(ctx, "/api/v2/write?org=values&bucket=values&precision=ns", linesOf(at, 1_000, keys)); err != nil {
					return err
				}
				continue
			}
			if err := k.stream(ctx, "values", "run", &chunk{first: at, lines: rows(at, 1_000, keys, noisy)}); err != nil {
				return err
			}
		}
		c.values, c.peak = (n+999)/1_000*1_000*(len(keys)+1), s.memory("VmHWM")
		if c.cpu, err = s.stop(); err != nil {
			return err
		}
		c.bytes, err = s.disk()
		return err
	})
	return c, err
}

// linesOf are the same values in InfluxDB's line protocol.
func linesOf(step, n int, keys []string) (out []byte) {
	for i := range n {
		out = append(out, "ml,run=run "...)
		for k, key := range keys {
			out = append(append(out, key...), '=')
			out = append(strconv.AppendFloat(out, noisy(k, step+i), 'g', -1, 64), ',')
		}
		out = append(out, "_runtime="...)
		out = append(strconv.AppendFloat(out, runtimeOf(step+i), 'g', -1, 64), ' ')
		out = append(strconv.AppendInt(out, int64((1.79e9+runtimeOf(step+i))*1e9), 10), '\n')
	}
	return out
}

// config measures when another reader sees a config that a process changed.
func (b *bench) config(ctx context.Context) error {
	return b.anew(ctx, func(s *server) error {
		writer, reader := s.client(), s.client()
		if err := writer.begin(ctx, "config", "run", configOf(0, 2_000)); err != nil {
			return err
		}
		var visible, whole []time.Duration
		for i := 1; i <= b.size(200, 20); i++ {
			want := configOf(i, 2_000)
			sent := make(chan error, 1)
			begin := time.Now()
			go func() {
				sent <- writer.upsert(ctx, map[string]any{"name": "run", "project": "config", "entity": entity, "config": want})
			}()
			err := <-sent
			answered := time.Since(begin)
			if err != nil {
				return err
			}
			var got struct {
				Project struct{ Run struct{ Config string } }
			}
			for got.Project.Run.Config != want {
				if err := reader.ask(ctx, `query Run($project: String!, $entity: String!, $name: String!) { project(name: $project, entityName: $entity) { run(name: $name) { id config } } }`,
					map[string]any{"project": "config", "entity": entity, "name": "run"}, &got); err != nil {
					return err
				}
			}
			whole, visible = append(whole, time.Since(begin)), append(visible, answered)
		}
		row("a config, from the first byte of UpsertBucket", "answered p50 %s, p99 %s; read by another client p50 %s, p99 %s", at(visible, 50), at(visible, 99), at(whole, 50), at(whole, 99))
		return nil
	})
}
