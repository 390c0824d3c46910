package growth

import (
	"context"
	"testing"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

func blank() *kymogramv1.Batch { return &kymogramv1.Batch{} }

// streams grows a batch of a stream.
func streams(batch func(n int) *kymogramv1.Batch, updates func(n int) []model.Update) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		w, b := l.writer(opening("r")), batch(n)
		var u []model.Update
		if updates != nil {
			u = updates(n)
		}
		return func() { w.send(b, u...) }
	}
}

func empty(int) *kymogramv1.Batch { return blank() }

// batch of some series and points.
func batch(series, points int) *kymogramv1.Batch {
	return &kymogramv1.Batch{
		Series: collect(series, func(i int) *kymogramv1.SeriesDefinition { return definition(i, text(i, "m%d")) }),
		Groups: []*kymogramv1.RowGroup{group(series, 0, points)},
	}
}

// labelled is a batch of one series with n labels.
func labelled(n int) *kymogramv1.Batch {
	b := batch(1, 1)
	b.Series[0].Labels = map[string]string{}
	for i := range n {
		b.Series[0].Labels[text(i, "k%d")] = "v"
	}
	return b
}

// relative is a batch whose steps count from where the series end.
func relative(n int) *kymogramv1.Batch {
	b := batch(n, 1)
	b.Groups[0].Axes[0].Relative = true
	return b
}

// skipping is a batch of n rows behind n ranges that it skips.
func skipping(n int) *kymogramv1.Batch {
	b := batch(1, n)
	for i := range n {
		at := uint64(n + 2*i)
		b.Skipped = append(b.Skipped, &kymogramv1.Skipped{First: at + 2, Last: at + 2})
	}
	return b
}

// calls makes one call with the admin key.
func calls(prepare func(*lab, int) string, call func(ctx context.Context, l *lab, run string) error) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		id := prepare(l, n)
		ctx := metadata.AppendToOutgoingContext(l.t.Context(), "authorization", "Bearer "+l.key)
		return func() {
			if err := call(ctx, l, id); err != nil {
				l.t.Fatal(err)
			}
		}
	}
}

func listRuns(ctx context.Context, l *lab, _ string) error {
	_, err := kymogramv1.NewRunServiceClient(l.conn).ListRuns(ctx, &kymogramv1.ListRunsRequest{Workspace: "w", Project: "p", Limit: 1000})
	return err
}

func getRun(ctx context.Context, l *lab, run string) error {
	_, err := kymogramv1.NewRunServiceClient(l.conn).GetRun(ctx, &kymogramv1.GetRunRequest{Id: run})
	return err
}

func deleteRun(ctx context.Context, l *lab, run string) error {
	_, err := kymogramv1.NewRunServiceClient(l.conn).DeleteRun(ctx, &kymogramv1.DeleteRunRequest{Id: run})
	return err
}

func listSeries(ctx context.Context, l *lab, run string) error {
	_, err := kymogramv1.NewQueryServiceClient(l.conn).ListSeries(ctx, &kymogramv1.ListSeriesRequest{Run: run, Limit: 10_000})
	return err
}

func selector(run string) *kymogramv1.SeriesSelector {
	return &kymogramv1.SeriesSelector{Run: run, Metric: "m0"}
}

func points(ctx context.Context, l *lab, run string) error {
	_, err := kymogramv1.NewQueryServiceClient(l.conn).Points(ctx, &kymogramv1.PointsRequest{Series: selector(run), Limit: 100_000})
	return err
}

func buckets(ctx context.Context, l *lab, run string) error {
	_, err := kymogramv1.NewQueryServiceClient(l.conn).Buckets(ctx, &kymogramv1.BucketsRequest{Series: selector(run), N: 100})
	return err
}

// export sends data points of OpenTelemetry.
func export(l *lab, n int) func() {
	var request metrics.MetricsData
	if err := proto.Unmarshal(exportOf("r", "m", collect(n, func(i int) []byte { return dataPoint(began, "k", text(i, "v%d")) })...), &request); err != nil {
		l.t.Fatal(err)
	}
	ctx := metadata.AppendToOutgoingContext(l.t.Context(), "authorization", "Bearer "+l.key)
	return func() {
		if err := l.conn.Invoke(ctx, exportMethod, &request, &metrics.MetricsData{}); err != nil {
			l.t.Fatal(err)
		}
	}
}

const exportMethod = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"

func methods() []row[*lab] {
	const stream, runService, query = "/kymogram.v1.IngestService/Stream", "/kymogram.v1.RunService/", "/kymogram.v1.QueryService/"
	return []row[*lab]{
		{call: stream, grows: "points", n: 10_000, run: streams(func(n int) *kymogramv1.Batch { return batch(1, n) }, nil)},
		{call: stream, grows: "series", n: 3_000, run: streams(func(n int) *kymogramv1.Batch { return batch(n, 1) }, nil)},
		{call: stream, grows: "skipped ranges", n: 8_000, run: streams(skipping, nil)},
		{call: stream, grows: "labels", n: 500, run: streams(labelled, nil)},
		{call: stream, grows: "attributes", n: 500, run: streams(empty, attributes)},
		{call: stream, grows: "environments", n: 500, run: streams(empty, environments)},
		{call: stream, grows: "updates of tags", n: 200, run: streams(empty, func(n int) []model.Update {
			return collect(n, func(i int) model.Update {
				return model.Update{Op: model.OpAddTags, TimeNs: began, Tags: []string{text(i, "t%d")}}
			})
		})},
		{call: stream, grows: "batches", n: 50, run: func(l *lab, n int) func() {
			w := l.writer(opening("r"))
			return func() {
				w.send(batch(1, 1))
				for i := range n {
					w.send(&kymogramv1.Batch{Groups: []*kymogramv1.RowGroup{group(1, i+1, 1)}})
				}
			}
		}},
		{call: stream, grows: "series of a second writer", n: 1_000, run: func(l *lab, n int) func() {
			l.writer(opening("r")).send(relative(n))
			w, b := l.writer(opening("r")), relative(n)
			return func() { w.send(b) }
		}},
		{call: stream, grows: "streams", n: 50, run: func(l *lab, n int) func() {
			return func() {
				for range n {
					l.writer(opening("r")).send(batch(1, 1))
				}
			}
		}},
		{call: runService + "ListRuns", grows: "runs", n: 50, run: calls(runs, listRuns)},
		{call: runService + "GetRun", grows: "attributes", n: 500, run: calls(described(attributes), getRun)},
		{call: runService + "GetRun", grows: "environments", n: 500, run: calls(described(environments), getRun)},
		{call: runService + "GetRun", grows: "attempts", n: 50, run: calls(attempts, getRun)},
		{call: runService + "DeleteRun", grows: "series", n: 1_000, run: calls(filled(ofSeries), deleteRun)},
		{call: query + "ListSeries", grows: "series", n: 1_000, run: calls(filled(ofSeries), listSeries)},
		// Past 1 MiB an answer does not fit into gRPC's pooled buffers: at 2,500 both sizes do.
		{call: query + "Points", grows: "points", n: 2_500, run: calls(filled(ofPoints), points)},
		{call: query + "Buckets", grows: "points", n: 20_000, run: calls(filled(ofPoints), buckets)},
		{call: exportMethod, grows: "series", n: 2_000, run: export},
	}
}

func TestMethods(t *testing.T) { measure(t, methods()) }
