package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	mathrand "math/rand/v2"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wire"
)

const (
	workspace    = "scale"
	seriesPerRun = 9 // with a wide run of 100,000, 100,000 runs make 1,000,000 series
	stepsPerRun  = 20
	senders      = 8
	callers      = 64 // that open runs
	firstTime    = 1_700_000_000_000_000_000
	atOnce       = 10_000 // series of a wide run in one batch
	longBatch    = 50_000
)

// fill sends everything and waits until the server has it in its segments.
func fill(ctx context.Context, r *report, s *server, size size) error {
	for _, n := range size.runs {
		begin := time.Now()
		points, err := loadMany(ctx, s, fmt.Sprintf("runs-%d", n), n, seriesPerRun, stepsPerRun, stepsPerRun)
		if err != nil {
			return err
		}
		r.ingest(count(n)+" runs", points, time.Since(begin))
	}
	largest := fmt.Sprintf("runs-%d", size.runs[len(size.runs)-1])
	for _, n := range size.wide {
		project := largest
		if n*seriesPerRun > size.runs[len(size.runs)-1]*seriesPerRun { // one by itself: the project has a million already
			project = "wide"
		}
		begin := time.Now()
		points, err := loadWide(ctx, s, project, n)
		if err != nil {
			return err
		}
		r.ingest("a run of "+count(n)+" series", points, time.Since(begin))
	}
	for _, n := range size.long {
		begin := time.Now()
		if err := loadLong(ctx, s, n); err != nil {
			return err
		}
		r.ingest("a series of "+count(n)+" points", n, time.Since(begin))
	}
	_, err := loadMany(ctx, s, "ml", 1, 50, 2_000, 100)
	return err
}

// stream is one writer's.
type stream struct {
	kymogramv1.IngestService_StreamClient
	next uint64
}

func dial(s *server) (*grpc.ClientConn, error) {
	return grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
}

func open(ctx context.Context, conn *grpc.ClientConn, s *server, project, run string, initial ...model.Update) (*stream, error) {
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.key)
	client, err := kymogramv1.NewIngestServiceClient(conn).Stream(ctx)
	if err != nil {
		return nil, err
	}
	var id model.WriterID
	if _, err := rand.Read(id[:]); err != nil {
		return nil, err
	}
	first, err := wire.Open(&model.OpenRequest{Writer: id, Workspace: workspace, Project: project, RunName: run, Initial: initial}, wire.Typed)
	if err != nil {
		return nil, err
	}
	if err := client.Send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: first}}); err != nil {
		return nil, err
	}
	m, err := client.Recv()
	if err == nil && m.GetOpened() == nil {
		err = fmt.Errorf("open of %s/%s was answered with %v", project, run, m)
	}
	return &stream{client, 1}, err
}

// send sends rows of columns and waits until they are on disk.
func (s *stream) send(g *kymogramv1.RowGroup, defs []*kymogramv1.SeriesDefinition, updates []model.Update) error {
	b := &kymogramv1.Batch{First: s.next, Last: s.next + uint64(len(g.TimeNs)) - 1, Series: defs, Groups: []*kymogramv1.RowGroup{g}}
	for i := range g.TimeNs {
		g.Seq = append(g.Seq, uint32(i))
	}
	if len(updates) > 0 {
		b.Last++
		updates[0].Seq = b.Last
		if err := wire.PutUpdates(b, updates, wire.Typed); err != nil {
			return err
		}
	}
	s.next = b.Last + 1
	if err := s.Send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: b}}); err != nil {
		return err
	}
	m, err := s.Recv()
	if err != nil {
		return err
	}
	if ack := m.GetAck(); ack == nil || len(ack.Refused) > 0 || ack.Stored != uint64(len(g.TimeNs)*len(g.Columns)) {
		return fmt.Errorf("a batch was answered with %v", m)
	}
	return nil
}

// openMany opens runs, each by a stream of its own over one of a few connections.
func openMany(ctx context.Context, s *server, project string, runs int) error {
	var conns [senders]*grpc.ClientConn
	for i := range conns {
		conn, err := dial(s)
		if err != nil {
			return err
		}
		defer conn.Close()
		conns[i] = conn
	}
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for caller := range callers {
		group.Go(func() error {
			for n := next.Add(1) - 1; n < int64(runs); n = next.Add(1) - 1 {
				st, err := open(ctx, conns[caller%senders], s, project, fmt.Sprintf("run-%06d", n))
				if err == nil {
					err = st.CloseSend()
				}
				if err != nil {
					return fmt.Errorf("run %d of %s: %w", n, project, err)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// loadMany makes runs of a few series each, with an attribute to sort by.
func loadMany(ctx context.Context, s *server, project string, runs, series, steps, perBatch int) (points int, err error) {
	conn, err := dial(s)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	var next atomic.Int64
	for range senders {
		group.Go(func() error {
			for n := next.Add(1) - 1; n < int64(runs); n = next.Add(1) - 1 {
				if err := loadRun(ctx, conn, s, project, int(n), series, steps, perBatch); err != nil {
					return fmt.Errorf("run %d of %s: %w", n, project, err)
				}
			}
			return nil
		})
	}
	return runs * series * steps, group.Wait()
}

func loadRun(ctx context.Context, conn *grpc.ClientConn, s *server, project string, n, series, steps, perBatch int) error {
	random := mathrand.New(mathrand.NewPCG(uint64(n), 4))
	lr := model.Update{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(math.Pow(10, -5*random.Float64()))}
	st, err := open(ctx, conn, s, project, fmt.Sprintf("run-%06d", n), lr)
	if err != nil {
		return err
	}
	loss := newLoss(random)
	for from := 0; from < steps; from += perBatch {
		g := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1}}}
		rows := min(perBatch, steps-from)
		for i := range rows {
			g.TimeNs = append(g.TimeNs, firstTime+int64(n)*1e9+int64(from+i)*1e8)
			g.Axes[0].Values = append(g.Axes[0].Values, int64(from+i))
		}
		var defs []*kymogramv1.SeriesDefinition
		for i := range series {
			if from == 0 {
				defs = append(defs, define(i, fmt.Sprintf("train/metric_%02d", i)))
			}
			g.Columns = append(g.Columns, &kymogramv1.Column{Series: uint32(i + 1), Floats: loss.take(rows)})
		}
		var updates []model.Update
		if from+perBatch >= steps {
			updates = []model.Update{{Op: model.OpClose, Text: string(model.StatusFinished)}}
		}
		if err := st.send(g, defs, updates); err != nil {
			return err
		}
	}
	return st.CloseSend()
}

func define(i int, name string) *kymogramv1.SeriesDefinition {
	return &kymogramv1.SeriesDefinition{Id: uint32(i + 1), Metric: name, Kind: uint32(model.KindFloat)}
}

// loadWide makes a run of many series, each of two points, as a log of every
// layer's gradient does.
func loadWide(ctx context.Context, s *server, project string, n int) (points int, err error) {
	conn, err := dial(s)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	st, err := open(ctx, conn, s, project, wideName(n))
	if err != nil {
		return 0, err
	}
	loss := newLoss(mathrand.New(mathrand.NewPCG(uint64(n), 5)))
	for from := 0; from < n; from += atOnce {
		g := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1, Values: []int64{0, 1}}}, TimeNs: []int64{firstTime, firstTime + 1e9}}
		var defs []*kymogramv1.SeriesDefinition
		for i := from; i < min(from+atOnce, n); i++ {
			defs = append(defs, define(i, wideMetric(i)))
			g.Columns = append(g.Columns, &kymogramv1.Column{Series: uint32(i + 1), Floats: loss.take(2)})
		}
		if err := st.send(g, defs, nil); err != nil {
			return points, err
		}
		points += 2 * len(defs)
	}
	return points, st.CloseSend()
}

func wideName(n int) string { return fmt.Sprintf("wide-%d", n) }

func wideMetric(i int) string {
	return fmt.Sprintf("layer_%04d/head_%02d/grad_norm_%d", i/1000, i/10%100, i%10)
}

func loadLong(ctx context.Context, s *server, n int) error {
	l, err := openLong(ctx, s, n)
	if err != nil {
		return err
	}
	defer l.conn.Close()
	for l.at < n {
		if err := l.write(min(longBatch, n-l.at)); err != nil {
			return err
		}
	}
	return l.CloseSend()
}

// long is a run of one series that goes on.
type long struct {
	*stream
	conn *grpc.ClientConn
	loss *loss
	at   int // points
}

func openLong(ctx context.Context, s *server, n int) (*long, error) {
	conn, err := dial(s)
	if err != nil {
		return nil, err
	}
	st, err := open(ctx, conn, s, "long", fmt.Sprintf("long-%d", n))
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return &long{st, conn, newLoss(mathrand.New(mathrand.NewPCG(uint64(n), 6))), 0}, nil
}

func (l *long) write(rows int) error {
	g := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1}}, Columns: []*kymogramv1.Column{{Series: 1, Floats: l.loss.take(rows)}}}
	for i := range rows {
		g.TimeNs = append(g.TimeNs, firstTime+int64(l.at+i)*1e6)
		g.Axes[0].Values = append(g.Axes[0].Values, int64(l.at+i))
	}
	var defs []*kymogramv1.SeriesDefinition
	if l.at == 0 {
		defs = append(defs, define(0, "loss"))
	}
	l.at += rows
	return l.send(g, defs, nil)
}

// loss is a noisy random walk with a full mantissa.
type loss struct {
	random *mathrand.Rand
	level  float64
}

func newLoss(random *mathrand.Rand) *loss { return &loss{random, 1 + 3*random.Float64()} }

func (l *loss) take(n int) []float64 {
	out := make([]float64, n)
	for i := range out {
		l.level *= 1 + 0.001*l.random.NormFloat64()
		out[i] = l.level * (1 + 0.05*l.random.NormFloat64())
	}
	return out
}
