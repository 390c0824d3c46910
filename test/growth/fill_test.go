package growth

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	"github.com/klauspost/compress/s2"
	"google.golang.org/grpc/metadata"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wire"
)

const began = 1_700_000_000_000_000_000 // the time of the first point

// repeat joins n texts that format makes.
func repeat(n int, format string) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// collect makes a list of n things.
func collect[T any](n int, one func(i int) T) []T {
	out := make([]T, n)
	for i := range out {
		out[i] = one(i)
	}
	return out
}

func document(v any) []byte {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // of a value of this package
	}
	return raw
}

func text(i int, format string) string { return fmt.Sprintf(format, i) }

// opening is a request that opens w/p/run with a writer of its own.
func opening(run string, initial ...model.Update) *model.OpenRequest {
	r := &model.OpenRequest{
		Workspace: "w", Project: "p", RunName: run, ResumeStrategy: model.ResumeAllow,
		OrchestrationID: "o", Host: "h", PID: 1, OpenedNs: began, Initial: initial,
	}
	_, _ = rand.Read(r.Writer[:]) // never fails, see crypto/rand
	_, _ = rand.Read(r.LocalRun[6:])
	return r
}

// open opens a run over HTTP and returns its id.
func (l *lab) open(run string, initial ...model.Update) string {
	l.t.Helper()
	return l.opened(opening(run, initial...))
}

func (l *lab) opened(r *model.OpenRequest) string {
	l.t.Helper()
	var answer struct{ Run string }
	if err := json.Unmarshal(l.ok("POST", "/api/v1/open", document(r)), &answer); err != nil || answer.Run == "" {
		l.t.Fatalf("open %s: %v", r.RunName, err)
	}
	return answer.Run
}

// writer is a native stream.
type writer struct {
	kymogramv1.IngestService_StreamClient
	l    *lab
	run  string
	next uint64
}

func (l *lab) writer(r *model.OpenRequest) *writer {
	l.t.Helper()
	ctx := metadata.AppendToOutgoingContext(l.t.Context(), "authorization", "Bearer "+l.key)
	client, err := kymogramv1.NewIngestServiceClient(l.conn).Stream(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	first, err := wire.Open(r, wire.Typed)
	if err != nil {
		l.t.Fatal(err)
	}
	w := &writer{IngestService_StreamClient: client, l: l, next: 1}
	answer := w.exchange(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: first}})
	var id model.RunID
	copy(id[:], answer.GetOpened().GetTypedResult().GetRun())
	w.run = id.String()
	return w
}

func (w *writer) exchange(m *kymogramv1.StreamRequest) *kymogramv1.StreamResponse {
	w.l.t.Helper()
	err := w.Send(m)
	var answer *kymogramv1.StreamResponse
	if err == nil {
		answer, err = w.Recv()
	}
	if err != nil {
		w.l.t.Fatalf("stream: %v", err)
	}
	if f := answer.GetFailure(); f != nil {
		w.l.t.Fatalf("stream: %v", f)
	}
	return answer
}

// send sends a batch and waits for its ack.
func (w *writer) send(b *kymogramv1.Batch, updates ...model.Update) {
	w.l.t.Helper()
	b.First, b.Last = w.next, w.next-1
	for _, g := range b.Groups {
		for range g.TimeNs {
			g.Seq = append(g.Seq, uint32(b.Last+1-b.First))
			b.Last++
		}
	}
	for _, s := range b.Skipped {
		b.Last = s.Last
	}
	for i := range updates {
		b.Last++
		updates[i].Seq = b.Last
	}
	if err := wire.PutUpdates(b, updates, wire.Typed); err != nil {
		w.l.t.Fatal(err)
	}
	w.next = b.Last + 1
	w.exchange(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: b}})
}

// definition names a series; its number begins at 1.
func definition(i int, metric string) *kymogramv1.SeriesDefinition {
	return &kymogramv1.SeriesDefinition{Id: uint32(i + 1), Metric: metric, Kind: uint32(model.KindFloat)}
}

// group has points of the series 1 to series at the steps from first on.
func group(series, first, points int) *kymogramv1.RowGroup {
	g := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1}}}
	for i := range points {
		g.TimeNs = append(g.TimeNs, began+int64(first+i)*1e6)
		g.Axes[0].Values = append(g.Axes[0].Values, int64(first+i))
	}
	for s := range series {
		values := collect(points, func(i int) float64 { return math.Sin(float64(i*(s+1)) / 7) })
		g.Columns = append(g.Columns, &kymogramv1.Column{Series: uint32(s + 1), Floats: values})
	}
	return g
}

// fill makes a run of some series m0, m1, … of some points each.
func (l *lab) fill(run string, series, points int) (id string) {
	l.t.Helper()
	w := l.writer(opening(run))
	const most = 200_000 // values of a batch
	for from, each := 0, max(most/series, 1); from < points; from += each {
		b := &kymogramv1.Batch{Groups: []*kymogramv1.RowGroup{group(series, from, min(each, points-from))}}
		if from == 0 {
			b.Series = collect(series, func(i int) *kymogramv1.SeriesDefinition { return definition(i, text(i, "m%d")) })
		}
		w.send(b)
	}
	_ = w.CloseSend()
	return w.run
}

// attributes are n attributes of a run.
func attributes(n int) []model.Update {
	return collect(n, func(i int) model.Update {
		return model.Update{Op: model.OpSetAttribute, TimeNs: began, Path: text(i, "config/a%d"), Value: model.IntValue(int64(i))}
	})
}

// environments are n RL environments of a run, each with one attribute.
func environments(n int) []model.Update {
	return collect(n, func(i int) model.Update {
		return model.Update{Op: model.OpSetEnvAttribute, TimeNs: began, Env: text(i, "env-%d"), Path: "seed", Value: model.IntValue(int64(i))}
	})
}

func tags(n int) []string { return collect(n, func(i int) string { return text(i, "tag-%d") }) }

// rendering is the i-th video of a run; its bytes are elsewhere.
func rendering(i int) model.Rendering {
	return model.Rendering{ID: text(i, "w-%d"), Env: "e", Episode: int64(i), SHA256: text(i, "%064x"), SizeBytes: 1, Frames: 1, TimeNs: began}
}

// field appends a protobuf field of bytes.
func field(to []byte, number byte, value []byte) []byte {
	to = append(to, number<<3|2)
	to = binary.AppendUvarint(to, uint64(len(value)))
	return append(to, value...)
}

func label(name, value string) []byte {
	return field(field(nil, 1, []byte(name)), 2, []byte(value))
}

// remote is a time series of a remote write 1.0.
func remote(labels [][]byte, samples int) (series []byte) {
	for _, l := range labels {
		series = field(series, 1, l)
	}
	for i := range samples {
		sample := binary.LittleEndian.AppendUint64([]byte{0x09}, math.Float64bits(float64(i)))
		sample = binary.AppendUvarint(append(sample, 0x10), uint64(began/1e6+i))
		series = field(series, 2, sample)
	}
	return series
}

// snappy is the body of a remote write of some time series.
func snappy(series ...[]byte) []byte {
	var raw []byte
	for _, s := range series {
		raw = field(raw, 1, s)
	}
	return s2.EncodeSnappy(nil, raw)
}

// attribute is a KeyValue of OpenTelemetry as the value of a field.
func attribute(of byte, name, value string) []byte {
	return field(nil, of, field(field(nil, 1, []byte(name)), 2, field(nil, 1, []byte(value))))
}

// dataPoint is a NumberDataPoint with an attribute.
func dataPoint(timeNs uint64, name, value string) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{3<<3 | 1}, timeNs)
	b = binary.LittleEndian.AppendUint64(append(b, 4<<3|1), math.Float64bits(1))
	return append(b, attribute(7, name, value)...)
}

// exportOf is an export of a gauge of a run.
func exportOf(run, metric string, points ...[]byte) []byte {
	var gauge []byte
	for _, p := range points {
		gauge = field(gauge, 1, p)
	}
	scope := field(nil, 2, field(field(nil, 1, []byte(metric)), 5, gauge))
	return field(nil, 1, field(field(nil, 1, attribute(1, "kymogram.run", run)), 2, scope))
}
