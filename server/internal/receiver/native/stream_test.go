package native_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wire"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

type everything struct{ denied atomic.Bool }

func (e *everything) Allow(context.Context, catalog.Scope, string, string) error {
	if e.denied.Load() {
		return model.Errorf(model.CodePermission, "not here")
	}
	return nil
}

func (e *everything) Reach(context.Context) (workspace, project string) { return "", "" }

func (e *everything) Publish(model.RunChange) {}

// full is an engine whose disk can be full.
type full struct {
	*local.Engine
	full atomic.Bool
}

func (f *full) Append(ctx context.Context, b *model.Batch) (model.Ack, error) {
	if f.full.Load() {
		return model.Ack{Mark: 99}, model.Errorf(model.CodeDiskFull, "the disk is full").WithHint("Free space.")
	}
	return f.Engine.Append(ctx, b)
}

type node struct {
	t      *testing.T
	engine *full
	auth   *everything
	ingest *ingest.Service
	reads  *query.Service
	conn   *grpc.ClientConn
}

func start(t *testing.T) *node {
	return startWith(t, func(d *query.RunDetail, _ int) ([]byte, error) { return json.Marshal(d.Name) }, nil)
}

func startWith(t *testing.T, document func(d *query.RunDetail, most int) ([]byte, error), reserve func(context.Context, int64) (func(), query.Admit, error)) *node {
	dir := t.TempDir()
	engine, err := local.Open(t.Context(), local.Config{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	db, err := sqlite.Open(t.Context(), filepath.Join(dir, "catalog.db"))
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, engine: &full{Engine: engine}, auth: &everything{}}
	log := slog.New(slog.DiscardHandler)
	in := ingest.New(ingest.Config{}, ingest.Deps{Points: n.engine, Updates: engine, Starts: engine, Catalog: db, Auth: n.auth, Live: n.auth, Now: time.Now, Log: log})
	reads := query.New(engine, db, n.auth, in, query.Limits{})
	n.ingest, n.reads = in, reads
	receiver := native.New(in, reads, native.Options{RunDocument: document, Reserve: reserve, Log: log})
	server := grpc.NewServer(grpc.ForceServerCodecV2(native.Codec{}), grpc.MaxRecvMsgSize(16<<20))
	receiver.Register(server)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var served sync.WaitGroup
	served.Go(func() {
		if err := server.Serve(listener); err != nil {
			t.Errorf("Serve: %v", err)
		}
	})
	// The client uses gRPC's own codec: the bytes are those of protobuf.
	n.conn, err = grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = n.conn.Close()
		server.Stop()
		served.Wait()
		if err := errors.Join(engine.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return n
}

// stream is a client's side.
type stream struct {
	t *testing.T
	grpc.BidiStreamingClient[kymogramv1.StreamRequest, kymogramv1.StreamResponse]
	opened model.OpenResult
}

func (n *node) raw() *stream {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	n.t.Cleanup(cancel)
	c, err := kymogramv1.NewIngestServiceClient(n.conn).Stream(ctx)
	if err != nil {
		n.t.Fatal(err)
	}
	return &stream{t: n.t, BidiStreamingClient: c}
}

func request(writer byte) model.OpenRequest {
	return model.OpenRequest{Writer: model.WriterID{writer}, Workspace: "team", Project: "project", RunName: "run", OrchestrationID: "job", WithStarts: true}
}

func open(request any, protocol uint32) *kymogramv1.StreamRequest {
	text, _ := json.Marshal(request)
	return &kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: &kymogramv1.Open{Request: text, Protocol: protocol}}}
}

func (n *node) open(writer byte) *stream {
	n.t.Helper()
	s := n.raw()
	s.send(open(request(writer), 1))
	m := s.receive()
	if m.GetOpened() == nil {
		n.t.Fatalf("no answer to the open: %v", m)
	}
	if err := json.Unmarshal(m.GetOpened().Result, &s.opened); err != nil {
		n.t.Fatal(err)
	}
	if m.GetOpened().Mark != s.opened.Mark {
		n.t.Errorf("two marks: %v", m)
	}
	return s
}

func (s *stream) send(m *kymogramv1.StreamRequest) {
	s.t.Helper()
	if err := s.Send(m); err != nil && !errors.Is(err, io.EOF) {
		s.t.Fatal(err)
	}
}

func (s *stream) batch(b *kymogramv1.Batch) {
	s.t.Helper()
	s.send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: b}})
}

func (s *stream) receive() *kymogramv1.StreamResponse {
	s.t.Helper()
	m, err := s.Recv()
	if err != nil {
		s.t.Fatalf("Recv: %v", err)
	}
	return m
}

func (s *stream) acked(mark uint64) *kymogramv1.Ack {
	s.t.Helper()
	m := s.receive()
	if m.GetAck() == nil || m.GetAck().Mark != mark {
		s.t.Fatalf("%v, want an ack of %d", m, mark)
	}
	return m.GetAck()
}

// failed expects a failure and the end of the stream behind it.
func (s *stream) failed(code model.Code) *kymogramv1.Failure {
	s.t.Helper()
	f := s.receive().GetFailure()
	if f == nil || f.Code != string(code) || f.Message == "" || f.Protocol != wire.Typed {
		s.t.Fatalf("%v, want %s", f, code)
	}
	if m, err := s.Recv(); !errors.Is(err, io.EOF) {
		s.t.Errorf("behind the failure: %v, %v", m, err)
	}
	return f
}

// ended closes the client's half and expects nothing more.
func (s *stream) ended() {
	s.t.Helper()
	if err := s.CloseSend(); err != nil {
		s.t.Fatal(err)
	}
	if m, err := s.Recv(); !errors.Is(err, io.EOF) {
		s.t.Errorf("at the end: %v, %v", m, err)
	}
}

// points is a batch of rows of series 1 with one record each; define adds its
// definition.
func points(define bool, first uint64, steps ...int64) *kymogramv1.Batch {
	g := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1, Values: steps}}, Columns: []*kymogramv1.Column{{Series: 1}}}
	for i, step := range steps {
		g.TimeNs, g.Seq = append(g.TimeNs, 1_000+step), append(g.Seq, uint32(i))
		g.Columns[0].Floats = append(g.Columns[0].Floats, float64(step))
	}
	b := &kymogramv1.Batch{First: first, Last: first + uint64(len(steps)) - 1, Groups: []*kymogramv1.RowGroup{g}}
	if define {
		b.Series = []*kymogramv1.SeriesDefinition{{Id: 1, Metric: "loss", Labels: map[string]string{"b": "2", "a": "1"}, Kind: 1}}
	}
	return b
}

func TestAStream(t *testing.T) {
	n := start(t)
	s := n.open(1)
	if !s.opened.Created || s.opened.RunName != "run" || !s.opened.StartsComplete {
		t.Errorf("opened %+v", s.opened)
	}
	// Pipelined: all are sent before the first ack is read.
	const batches = 50
	for i := range uint64(batches) {
		s.batch(points(i == 0, 2*i+1, int64(2*i), int64(2*i+1)))
	}
	for i := range uint64(batches) {
		if ack := s.acked(2*i + 2); ack.Stored != 2 || len(ack.Refused) > 0 {
			t.Errorf("ack %v", ack)
		}
	}
	s.send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Heartbeat{Heartbeat: &kymogramv1.Heartbeat{}}})
	s.batch(&kymogramv1.Batch{
		First: 101, Last: 105, Updates: []byte(`[{"op":"add_tags","tags":["x"],"seq":101},{"op":"close","text":"finished","seq":105}]`),
		Skipped: []*kymogramv1.Skipped{{First: 102, Last: 104, Reason: "torn", Points: 7}},
	})
	s.acked(105)
	s.batch(points(true, 1, 0, 1)) // a repeat
	if ack := s.acked(105); ack.Stored != 0 {
		t.Errorf("a repeat stored %d", ack.Stored)
	}
	s.ended()

	again := n.open(1)
	if again.opened.Mark != 105 || again.opened.Created || len(again.opened.Starts) != 1 || again.opened.Starts[0].Next != 2*batches {
		t.Errorf("opened again: %+v", again.opened)
	}
	again.batch(points(false, 106, 3)) // definitions live as long as the stream
	again.failed(model.CodeInvalid)
	n.read(s.opened.Run, 2*batches)
}

// read looks at what the stream left, through the other two services.
func (n *node) read(run model.RunID, count int) {
	n.t.Helper()
	ctx := n.t.Context()
	runs, queries := kymogramv1.NewRunServiceClient(n.conn), kymogramv1.NewQueryServiceClient(n.conn)
	list, err := runs.ListRuns(ctx, &kymogramv1.ListRunsRequest{Workspace: "team", Project: "project", Tag: "x", Status: "finished"})
	if err != nil || len(list.Runs) != 1 || list.Runs[0].Id != run.String() || list.Runs[0].Tags[0] != "x" {
		n.t.Errorf("ListRuns: %v, %v", list, err)
	}
	got, err := runs.GetRun(ctx, &kymogramv1.GetRunRequest{Id: run.String()})
	if err != nil || got.Run.Name != "run" || string(got.Detail) != `"run"` {
		n.t.Errorf("GetRun: %v, %v", got, err)
	}
	series, err := queries.ListSeries(ctx, &kymogramv1.ListSeriesRequest{Run: run.String(), Q: "^lo"})
	labels := map[string]string{"a": "1", "b": "2"}
	want := &kymogramv1.ListSeriesResponse{Series: []*kymogramv1.ListSeriesResponse_Series{{Metric: "loss", Scale: model.ScaleStep, Labels: labels, Kind: 1, Count: uint64(count)}}}
	if diff := cmp.Diff(want, series, protocmp.Transform()); err != nil || diff != "" {
		n.t.Errorf("ListSeries: %v (-want +got):\n%s", err, diff)
	}
	from := int64(10)
	selector := &kymogramv1.SeriesSelector{Run: run.String(), Metric: "loss", Labels: labels}
	page, err := queries.Points(ctx, &kymogramv1.PointsRequest{Series: selector, From: &from, Limit: 3})
	if err != nil || page.Next == "" || len(page.Writers) != 3 || page.Writers[0][0] != 1 {
		n.t.Fatalf("Points: %v, %v", page, err)
	}
	rows := &kymogramv1.RowGroup{TimeNs: []int64{1010, 1011, 1012}, Axes: []*kymogramv1.AxisColumn{{Axis: 1, Values: []int64{10, 11, 12}}}, Columns: []*kymogramv1.Column{{Floats: []float64{10, 11, 12}}}}
	if diff := cmp.Diff(rows, page.Rows, protocmp.Transform()); diff != "" {
		n.t.Errorf("Points (-want +got):\n%s", diff)
	}
	buckets, err := queries.Buckets(ctx, &kymogramv1.BucketsRequest{Series: selector, N: 4})
	sum := uint64(0)
	for _, c := range buckets.GetCount() {
		sum += c
	}
	if err != nil || len(buckets.Lo) > 4 || sum != uint64(count) {
		n.t.Errorf("Buckets: %v, %v", buckets, err)
	}
	if _, err := runs.GetRun(ctx, &kymogramv1.GetRunRequest{Id: "x"}); err == nil {
		n.t.Error("a bad id was taken")
	}
	if _, err := runs.DeleteRun(ctx, &kymogramv1.DeleteRunRequest{Id: run.String(), Now: true}); err != nil {
		n.t.Errorf("DeleteRun: %v", err)
	}
	if _, err := runs.GetRun(ctx, &kymogramv1.GetRunRequest{Id: run.String()}); err == nil {
		n.t.Error("the run is there after its deletion")
	}
}

func TestRefusalsAreInTheAck(t *testing.T) {
	n := start(t)
	s := n.open(1)
	b := points(true, 1, 0, -5, 2)
	b.Last, b.Updates = 5, []byte(`[{"op":"set_attribute","path":"p","value":{"type":"what","value":1},"seq":4},{"op":"add_tags","tags":["t"],"seq":5}]`)
	s.batch(b)
	ack := s.acked(5)
	if ack.Stored != 2 || len(ack.Refused) != 2 || ack.Refused[0].Seq != 2 || ack.Refused[0].Code != string(model.CodeBadRecord) || ack.Refused[1].Seq != 4 {
		t.Errorf("ack %v", ack)
	}
	s.batch(&kymogramv1.Batch{
		First: 6, Last: 6, Series: []*kymogramv1.SeriesDefinition{{Id: 2, Metric: strings.Repeat("x", 5000), Kind: 1}},
		Groups: []*kymogramv1.RowGroup{{TimeNs: []int64{1}, Seq: []uint32{0}, Columns: []*kymogramv1.Column{{Series: 2, Floats: []float64{1}}}}},
	})
	if ack := s.acked(6); len(ack.Refused) != 1 || ack.Refused[0].Code != string(model.CodeLimit) {
		t.Errorf("ack %v", ack)
	}
	s.ended()
}

// A stream of protocol 2 refuses what it cannot read with the words of protocol 1.
func TestUnreadableUpdatesAreRefused(t *testing.T) {
	n := start(t)
	r := request(1)
	first, err := wire.Open(&r, wire.Typed)
	if err != nil {
		t.Fatal(err)
	}
	old, s := n.open(2), n.raw()
	s.send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: first}})
	if opened := s.receive().GetOpened(); opened.GetTypedResult().GetRunName() != "run" || len(opened.GetResult()) > 0 {
		t.Errorf("opened %v", opened)
	}
	old.batch(&kymogramv1.Batch{First: 1, Last: 3, Updates: []byte(`[{"op":7,"seq":1},{"op":"future","seq":2},{"op":"add_tags","tags":["t"],"seq":3}]`)})
	s.batch(&kymogramv1.Batch{First: 1, Last: 3, TypedUpdates: []*kymogramv1.Update{{Op: "set_attribute", Path: "p", Value: &kymogramv1.Value{}, Seq: 1}, {Op: "future", Seq: 2}, {Op: "add_tags", Tags: []string{"t"}, Seq: 3}}})
	want := []*kymogramv1.Refusal{
		{Seq: 1, Code: string(model.CodeBadRecord), Message: `the update "unreadable" is not known`},
		{Seq: 2, Code: string(model.CodeBadRecord), Message: `the update "future" is not known`},
	}
	for name, ack := range map[string]*kymogramv1.Ack{"JSON": old.acked(3), "typed": s.acked(3)} {
		if diff := cmp.Diff(want, ack.Refused, protocmp.Transform()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	s.batch(&kymogramv1.Batch{First: 4, Last: 4, TypedUpdates: []*kymogramv1.Update{{Op: "close", Text: "finished", Seq: 4}}})
	s.acked(4) // the writer goes on
}

// What a newer client says of a new run is refused and counted; the writer opens, since
// its points wait for that.
func TestUnknownUpdatesOfAnOpen(t *testing.T) {
	n := start(t)
	future := model.Update{Op: "future", Path: "p"}
	for i, protocol := range []uint32{1, wire.Typed} {
		r := request(byte(10 + i))
		r.RunName, r.OrchestrationID = fmt.Sprintf("new-%d", protocol), fmt.Sprint(protocol)
		r.Initial = []model.Update{future, {Op: model.OpAddTags, Tags: []string{"t"}}, future}
		first, err := wire.Open(&r, protocol)
		if err != nil {
			t.Fatal(err)
		}
		want := uint64(2)
		if protocol == wire.Typed { // a value of a type that is not known here
			first.TypedRequest.Initial = append(first.TypedRequest.Initial, &kymogramv1.Update{Op: "set_attribute", Path: "q", Value: &kymogramv1.Value{}})
			want++
		}
		s := n.raw()
		s.send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: first}})
		answer := s.receive()
		if answer.GetOpened() == nil {
			t.Errorf("protocol %d: %v", protocol, answer)
			continue
		}
		s.batch(points(true, 1, 1, 2))
		s.acked(2)
		result, err := wire.ReadOpened(answer.GetOpened())
		if err != nil {
			t.Fatal(err)
		}
		run, err := n.reads.Run(t.Context(), result.Run, nil)
		if err != nil || !slices.Equal(run.Tags, []string{"t"}) || run.Ledger.Refused != want {
			t.Errorf("protocol %d: tags %v, %d refused, want %d, %v", protocol, run.Tags, run.Ledger.Refused, want, err)
		}
	}
}

func TestFailures(t *testing.T) {
	n := start(t)
	bad := request(2)
	bad.Project = "../x"
	taken := request(3)
	taken.OrchestrationID = "other"
	n.open(1).ended()
	for name, c := range map[string]struct {
		first *kymogramv1.StreamRequest
		code  model.Code
	}{
		"no open":         {&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: points(true, 1, 1)}}, model.CodeInvalid},
		"nothing":         {&kymogramv1.StreamRequest{}, model.CodeInvalid},
		"another version": {open(request(2), 2), model.CodeInvalid},
		"a newer version": {open(request(2), 3), model.CodeInvalid},
		"no JSON":         {&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: &kymogramv1.Open{Request: []byte("{"), Protocol: 1}}}, model.CodeInvalid},
		"a bad project":   {open(bad, 1), model.CodeInvalid},
		"a taken name":    {open(taken, 1), model.CodeRunExists},
	} {
		t.Run(name, func(t *testing.T) {
			s := n.raw()
			s.t = t
			s.send(c.first)
			s.failed(c.code)
		})
	}
	n.auth.denied.Store(true)
	s := n.raw()
	s.send(open(request(4), 1))
	s.failed(model.CodePermission)
}

func TestAGapCarriesTheMark(t *testing.T) {
	n := start(t)
	s := n.open(1)
	s.batch(points(true, 1, 0, 1))
	s.acked(2)
	s.batch(points(false, 9, 2))
	if f := s.failed(model.CodeGap); f.Mark != 2 {
		t.Errorf("the gap's mark is %d, want 2", f.Mark)
	}
	s = n.open(1)
	n.engine.full.Store(true)
	s.batch(points(true, 3, 2))
	if f := s.failed(model.CodeDiskFull); f.Mark != 0 || f.Hint == "" {
		t.Errorf("a full disk: %v", f)
	}
	n.engine.full.Store(false)
	s = n.open(1)
	s.batch(points(true, 3, 2))
	s.acked(3)
}

func TestANewerStreamEndsTheOlder(t *testing.T) {
	n := start(t)
	older := n.open(1)
	older.batch(points(true, 1, 0))
	older.acked(1)
	newer := n.open(1)
	older.failed(model.CodeSuperseded)
	newer.batch(points(true, 2, 1))
	newer.acked(2)
	newer.send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Gone{Gone: &kymogramv1.Gone{}}})
	newer.ended()
	got, err := kymogramv1.NewRunServiceClient(n.conn).GetRun(t.Context(), &kymogramv1.GetRunRequest{Id: newer.opened.Run.String()})
	if err != nil || got.Run.Status != string(model.StatusLost) {
		t.Errorf("after gone: %v, %v", got, err)
	}
}

func TestAnOversizeMessageIsRefused(t *testing.T) {
	n := start(t)
	s := n.open(1)
	s.batch(&kymogramv1.Batch{First: 1, Last: 1, Updates: make([]byte, 17<<20)})
	if _, err := s.Recv(); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("%v, want %s", err, codes.ResourceExhausted)
	}
}

func TestManyStreamsAtOnce(t *testing.T) {
	n := start(t)
	const writers, batches = 16, 25
	var group sync.WaitGroup
	for w := range byte(writers) {
		s := n.open(w + 1)
		group.Go(func() {
			for i := range int64(batches) {
				s.batch(points(i == 0, uint64(i+1), i))
			}
			for i := range uint64(batches) {
				if m, err := s.Recv(); err != nil || m.GetAck().GetMark() != i+1 {
					t.Errorf("writer %d: %v, %v", w, m, err)
				}
			}
		})
	}
	group.Wait()
	s := n.open(1)
	from, to := int64(math.MinInt64), int64(math.MaxInt64)
	page, err := kymogramv1.NewQueryServiceClient(n.conn).Points(t.Context(), &kymogramv1.PointsRequest{
		Series: &kymogramv1.SeriesSelector{Run: s.opened.Run.String(), Metric: "loss", Labels: map[string]string{"a": "1", "b": "2"}}, From: &from, To: &to,
	})
	if err != nil || len(page.Rows.TimeNs) != writers*batches {
		t.Errorf("%d points, want %d: %v", len(page.GetRows().GetTimeNs()), writers*batches, err)
	}
}

// TestAClientThatKnowsMore is counted: this server has an older copy of its data.
func TestAClientThatKnowsMore(t *testing.T) {
	n := start(t)
	opened := func(acked, want uint64) {
		t.Helper()
		s, m := n.raw(), open(request(1), 1)
		m.GetOpen().Acked = acked
		s.send(m)
		if got := s.receive().GetOpened(); got == nil || n.ingest.Stats().Ahead != want {
			t.Errorf("acknowledged %d: %v, %d are counted", acked, got, n.ingest.Stats().Ahead)
		}
	}
	opened(0, 0)
	s := n.open(1)
	s.batch(points(true, 1, 0))
	s.acked(1)
	opened(1, 0)
	opened(2, 1)
}
