package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wire"
)

// protocol is how points are sent.
type protocol string

const (
	linesProtocol  protocol = "line protocol"
	remoteProtocol protocol = "remote write"
	nativeProtocol protocol = "native"
)

// target is where a protocol goes to.
type target struct {
	url          string
	header       map[string]string
	address, key string // of gRPC
}

// blockRows × seriesPerRun is 10,000 points a request for every protocol.
const blockRows = 200

// senders is how many connections send side by side: enough that one encodes
// while another waits for a sync.
const senders = 4

// send sends every generator's points, each over one connection in order, and
// returns how many there were.
func send(ctx context.Context, t target, p protocol, gens []*generator, rows int) (int, error) {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(senders)
	counts := make([]int, len(gens))
	for i, g := range gens {
		group.Go(func() (err error) {
			if p == nativeProtocol {
				counts[i], err = sendNative(ctx, t, g, rows, byte(i))
			} else {
				counts[i], err = sendHTTP(ctx, t, p, g, rows)
			}
			return err
		})
	}
	err := group.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return total, err
}

func sendHTTP(ctx context.Context, t target, p protocol, g *generator, rows int) (points int, err error) {
	var body, scratch []byte
	for b := g.next(rows); b != nil; b = g.next(rows) {
		if p == linesProtocol {
			body = lineBody(body[:0], b)
		} else {
			body, scratch = remoteBody(scratch, b)
		}
		if err := post(ctx, t, body); err != nil {
			return points, err
		}
		points += b.points()
	}
	return points, nil
}

func post(ctx context.Context, t target, body []byte) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.url, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range t.header {
		r.Header.Set(name, value)
	}
	_, err = do(r)
	return err
}

func fetch(ctx context.Context, url string, header map[string]string) ([]byte, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return do(r)
}

func do(r *http.Request) ([]byte, error) {
	var into bytes.Buffer
	err := read(r, &into)
	return into.Bytes(), err
}

func read(r *http.Request, into *bytes.Buffer) error {
	answer, err := client.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	_, err = into.ReadFrom(answer.Body)
	if err == nil && answer.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s %s: %s: %.300s", r.Method, r.URL.Path, answer.Status, into)
	}
	return err
}

// question asks the same thing again and again; what it reads goes into the same
// room, so that the client's own garbage is not in the time of the answer.
func question(name, url string, header map[string]string, want string) func(context.Context) error {
	var answer bytes.Buffer
	return func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
		if err != nil {
			return err
		}
		for name, value := range header {
			r.Header.Set(name, value)
		}
		answer.Reset()
		if err = read(r, &answer); err == nil && !bytes.Contains(answer.Bytes(), []byte(want)) {
			err = fmt.Errorf("%s: the answer lacks %q: %.200s", name, want, answer.Bytes())
		}
		return err
	}
}

func sendNative(ctx context.Context, t target, g *generator, rows int, writer byte) (points int, err error) {
	conn, err := grpc.NewClient(t.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+t.key)
	stream, err := kymogramv1.NewIngestServiceClient(conn).Stream(ctx)
	if err != nil {
		return 0, err
	}
	open, err := wire.Open(&model.OpenRequest{Writer: model.WriterID{1, writer}, Workspace: project, Project: project, RunName: g.run}, wire.Typed)
	if err != nil {
		return 0, err
	}
	err = stream.Send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: open}})
	if err != nil {
		return 0, err
	}
	if _, err := stream.Recv(); err != nil {
		return 0, err
	}
	for b := g.next(rows); b != nil; b = g.next(rows) {
		if err := stream.Send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: nativeBatch(b)}}); err != nil {
			return points, err
		}
		m, err := stream.Recv()
		if err != nil {
			return points, err
		}
		if ack := m.GetAck(); ack == nil || len(ack.Refused) > 0 || ack.Stored != uint64(b.points()) {
			return points, fmt.Errorf("%d points were answered with %v", b.points(), m)
		}
		points += b.points()
	}
	return points, stream.CloseSend()
}

func nativeBatch(b *block) *kymogramv1.Batch {
	out := &kymogramv1.Batch{First: uint64(b.first + 1), Last: uint64(b.first + len(b.timeNs))}
	g := &kymogramv1.RowGroup{TimeNs: b.timeNs, Axes: []*kymogramv1.AxisColumn{{Axis: 1}}}
	for row := range b.timeNs {
		g.Seq = append(g.Seq, uint32(row))
		g.Axes[0].Values = append(g.Axes[0].Values, int64(b.first+row))
	}
	for i, name := range b.names {
		if b.first == 0 {
			out.Series = append(out.Series, &kymogramv1.SeriesDefinition{Id: uint32(i + 1), Metric: name, Kind: uint32(model.KindFloat)})
		}
		g.Columns = append(g.Columns, &kymogramv1.Column{Series: uint32(i + 1), Floats: b.columns[i]})
	}
	out.Groups = []*kymogramv1.RowGroup{g}
	return out
}
