package main

import (
	"context"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

const tableSteps = 40

// tableMetrics are those of each run of a table.
var tableMetrics = [...]string{"train/loss", "eval/loss", "eval/accuracy", "throughput"}

// tabled fills a project as a table shows it, and measures what its page asks for.
func tabled(ctx context.Context, r *report, s *server, n int) error {
	if _, err := s.boot(ctx); err != nil {
		return err
	}
	defer s.kill()
	mark := filepath.Join(s.folder, "filled")
	if _, err := os.Stat(mark); err != nil {
		if err := fillTable(ctx, s, n); err != nil {
			return err
		}
		if err := os.WriteFile(mark, nil, 0o600); err != nil {
			return err
		}
	}
	return tables(ctx, r, s, n)
}

func fillTable(ctx context.Context, s *server, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range senders {
		conn, err := dial(s)
		if err != nil {
			return err
		}
		defer conn.Close()
		group.Go(func() error {
			for i := next.Add(1) - 1; i < int64(n); i = next.Add(1) - 1 {
				if err := tableRun(ctx, conn, s, int(i)); err != nil {
					return fmt.Errorf("run %d: %w", i, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// tableRun is a run of a sweep: a learning rate, a model and a seed decide its curves.
func tableRun(ctx context.Context, conn *grpc.ClientConn, s *server, n int) error {
	random := mathrand.New(mathrand.NewPCG(uint64(n), 7))
	rate := []float64{0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3}[random.IntN(8)]
	name := []string{"gpt-small", "gpt-medium", "mamba", "rwkv", "=1+1"}[random.IntN(5)]
	set := func(path string, v *model.Value) model.Update {
		return model.Update{Op: model.OpSetAttribute, Path: "config/" + path, Value: v}
	}
	st, err := open(ctx, conn, s, "table", fmt.Sprintf("%s-%06d", name, n),
		set("lr", model.FloatValue(rate)), set("model", model.StringValue(name)), set("seed", model.IntValue(int64(n%10))),
		set("dropout", model.FloatValue(float64(random.IntN(4))/10)), model.Update{Op: model.OpSetTags, Tags: []string{[]string{"sweep", "baseline"}[random.IntN(2)]}})
	if err != nil {
		return err
	}
	g := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1}}}
	columns := make([][]float64, len(tableMetrics))
	floor := 1 + math.Abs(math.Log10(rate)+2) + 0.3*random.Float64()
	for i := range int64(tableSteps) {
		g.TimeNs = append(g.TimeNs, firstTime+int64(n)*1e9+i*1e8)
		g.Axes[0].Values = append(g.Axes[0].Values, i*100)
		loss := floor + 6*math.Exp(-float64(i)/10) + 0.05*random.NormFloat64()
		for m, v := range []float64{loss, loss + 0.1 + 0.05*random.NormFloat64(), 1 / (1 + loss), 1000 + 50*random.NormFloat64()} {
			columns[m] = append(columns[m], v)
		}
	}
	var defs []*kymogramv1.SeriesDefinition
	for m, metric := range tableMetrics {
		defs = append(defs, define(m, metric))
		g.Columns = append(g.Columns, &kymogramv1.Column{Series: uint32(m + 1), Floats: columns[m]})
	}
	end := model.StatusFinished
	if n%17 == 0 {
		end = model.StatusFailed
	}
	if err := st.send(g, defs, []model.Update{{Op: model.OpClose, Text: string(end)}}); err != nil {
		return err
	}
	return st.CloseSend()
}

// tables reads what the table of all runs asks for.
func tables(ctx context.Context, r *report, s *server, n int) error {
	const runs, groups = "runs", "groups"
	const hidden = "not tag=archived"
	for _, q := range []struct {
		what, path string
		query      url.Values
	}{
		{"a page of 500", runs, url.Values{"limit": {"500"}, "q": {hidden}}},
		{"… where eval/loss<1.5", runs, url.Values{"limit": {"500"}, "q": {hidden + " (eval/loss<1.5)"}}},
		{"… where at(eval/loss, 1000)<3.5", runs, url.Values{"limit": {"500"}, "q": {hidden + " (at(eval/loss, 1000)<3.5)"}}},
		{"… by min(eval/loss)", runs, url.Values{"limit": {"500"}, "sort": {"min(eval/loss)"}, "q": {hidden}}},
		{"… with the column at(eval/loss, 1000)", runs, url.Values{"limit": {"500"}, "column": {"at(eval/loss, 1000)"}}},
		{"count and best of all", groups, url.Values{"limit": {"1"}, "q": {hidden}, "column": {"min(eval/loss)", "max(eval/accuracy)"}}},
		{"group by lr, 4 columns", groups, url.Values{"by": {"config/lr"}, "q": {hidden}, "column": {"min(eval/loss)", "max(eval/accuracy)", "last(train/loss)", "last(throughput)"}}},
		{"group by lr and model, 4 columns", groups, url.Values{"by": {"config/lr", "config/model"}, "column": {"min(eval/loss)", "max(eval/accuracy)", "last(train/loss)", "last(throughput)"}}},
		{"group by tag, 1 column", groups, url.Values{"by": {"tag"}, "column": {"min(eval/loss)"}}},
		{"group by status, 1 column", groups, url.Values{"by": {"status"}, "column": {"min(eval/loss)"}}},
	} {
		if err := read(ctx, r, s, q.what, count(n)+" runs", "/api/v1/projects/"+workspace+"/table/"+q.path, q.query, `"runs"`); err != nil {
			return err
		}
	}
	return wholeTable(ctx, r, s, n)
}

// wholeTable reads all rows as CSV, and how much memory that takes.
func wholeTable(ctx context.Context, r *report, s *server, n int) error {
	before, err := s.memory("VmHWM")
	if err != nil {
		return err
	}
	text, took, used, err := s.timed(ctx, "/api/v1/projects/"+workspace+"/table/runs", url.Values{
		"format": {"csv"}, "column": {"name", "status", "config/lr", "config/model", "min(eval/loss)", "max(eval/accuracy)", "last(train/loss)"},
	})
	if err != nil {
		return err
	}
	after, err := s.memory("VmHWM")
	if err != nil {
		return err
	}
	if rows := strings.Count(string(text), "\n") - 1; rows != n {
		return fmt.Errorf("the CSV file has %d rows, want %d", rows, n)
	}
	r.line("all rows as CSV, 7 columns", count(n)+" runs", "%s, server CPU %s, %s, peak memory %.0f → %.0f MB", milli(took), milli(used), kilo(len(text)), float64(before)/1e6, float64(after)/1e6)
	return nil
}
