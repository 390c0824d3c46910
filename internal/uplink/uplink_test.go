package uplink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/wire"
)

// cell is one stored value.
type cell struct {
	metric   string
	step     int64
	relative bool
	value    string
}

// server is a second implementation of the protocol: it keeps what it takes in
// plain maps and does harm on demand.
type server struct {
	kymogramv1.UnimplementedIngestServiceServer
	t    *testing.T
	addr string

	mu      sync.Mutex
	marks   map[model.WriterID]uint64
	cells   map[cell]int
	updates []model.Update
	skipped []model.Skipped
	opens   []model.OpenRequest
	gone    int
	key     string

	batch    func(n int) fault // what to do with the n-th batch
	batches  int
	openFail func(model.OpenRequest) *kymogramv1.Failure
	refuse   func(seq uint64) bool
	large    func(*kymogramv1.Batch) bool    // is refused as too large
	shared   []model.SharedWith              // in every ack
	heard    func(*kymogramv1.StreamRequest) // of every message behind the open
}

type fault int

const (
	none       fault = iota
	loseAck          // store, then break the stream without an ack
	reset            // break the stream before storing
	gap              // claim another mark
	superseded       // end the stream with stream_superseded
	diskFull
)

func startServer(t *testing.T) *server {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addr: "http://" + lis.Addr().String(), marks: map[model.WriterID]uint64{}, cells: map[cell]int{}}
	g := grpc.NewServer(grpc.MaxRecvMsgSize(16 << 20))
	kymogramv1.RegisterIngestServiceServer(g, s)
	go g.Serve(lis)
	t.Cleanup(g.Stop)
	return s
}

func (s *server) Stream(stream grpc.BidiStreamingServer[kymogramv1.StreamRequest, kymogramv1.StreamResponse]) error {
	if err := s.authorise(stream.Context()); err != nil {
		return err
	}
	first, err := stream.Recv()
	if err != nil {
		return err
	}
	protocol := first.GetOpen().GetProtocol()
	open, err := wire.ReadOpen(first.GetOpen())
	if err != nil {
		return status.Error(codes.InvalidArgument, err.Error())
	}
	if f := s.opened(open); f != nil {
		return stream.Send(&kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Failure{Failure: f}})
	}
	s.mu.Lock()
	result := model.OpenResult{Run: model.RunID{1}, RunName: open.RunName, Attempt: 1, Mark: s.marks[open.Writer]}
	s.mu.Unlock()
	opened, err := wire.Opened(&result, protocol)
	if err != nil {
		return err
	}
	if err := stream.Send(&kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	series := map[uint32]*kymogramv1.SeriesDefinition{}
	for {
		m, err := stream.Recv()
		if err != nil {
			return nil
		}
		if s.heard != nil {
			s.heard(m)
		}
		if m.GetGone() != nil {
			s.mu.Lock()
			s.gone++
			s.mu.Unlock()
		}
		if b := m.GetBatch(); b != nil {
			answer, err := s.take(open.Writer, protocol, b, series)
			if err != nil {
				return err
			}
			if err := stream.Send(answer); err != nil || answer.GetFailure() != nil {
				return err
			}
		}
	}
}

func (s *server) authorise(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	md, _ := metadata.FromIncomingContext(ctx)
	if s.key != "" && (len(md["authorization"]) == 0 || md["authorization"][0] != "Bearer "+s.key) {
		return status.Error(codes.Unauthenticated, "wrong key")
	}
	return nil
}

func (s *server) opened(open model.OpenRequest) *kymogramv1.Failure {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.opens = append(s.opens, open)
	if s.openFail != nil {
		return s.openFail(open)
	}
	return nil
}

func fail(code model.Code, mark uint64) *kymogramv1.StreamResponse {
	return &kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Failure{Failure: &kymogramv1.Failure{Code: string(code), Message: "test: " + string(code), Mark: mark}}}
}

func (s *server) take(w model.WriterID, protocol uint32, b *kymogramv1.Batch, series map[uint32]*kymogramv1.SeriesDefinition) (*kymogramv1.StreamResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, d := range b.Series {
		series[d.Id] = d
	}
	s.batches++
	f := none
	if s.batch != nil {
		f = s.batch(s.batches)
	}
	switch f {
	case reset:
		return nil, status.Error(codes.Unavailable, "reset")
	case gap:
		return fail(model.CodeGap, s.marks[w]), nil
	case superseded:
		return fail(model.CodeSuperseded, s.marks[w]), nil
	case diskFull:
		return fail(model.CodeDiskFull, s.marks[w]), nil
	}
	if s.large != nil && s.large(b) {
		return fail(model.CodeTooLarge, 0), nil
	}
	ack := &kymogramv1.Ack{}
	switch {
	case b.First == s.marks[w]+1:
		ack.Refused = s.store(b, series)
		s.marks[w] = b.Last
	case b.Last > s.marks[w]:
		return fail(model.CodeGap, s.marks[w]), nil
	}
	if f == loseAck {
		return nil, status.Error(codes.Unavailable, "the ack is lost")
	}
	ack.Mark = s.marks[w]
	err := wire.PutShared(ack, s.shared, protocol)
	return &kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Ack{Ack: ack}}, err
}

func (s *server) store(b *kymogramv1.Batch, series map[uint32]*kymogramv1.SeriesDefinition) (refused []*kymogramv1.Refusal) {
	updates, unreadable, err := wire.ReadUpdates(b)
	if err != nil || len(unreadable) > 0 {
		s.t.Errorf("updates: %v, unreadable %v", err, unreadable)
	}
	s.updates = append(s.updates, updates...)
	for _, k := range b.Skipped {
		s.skipped = append(s.skipped, model.Skipped{First: k.First, Last: k.Last, Reason: k.Reason, Points: k.Points})
	}
	bad := map[uint64]bool{}
	for _, g := range b.Groups {
		for row := range g.TimeNs {
			seq := b.First + uint64(g.Seq[row])
			if seq > b.Last {
				s.t.Errorf("row of sequence %d in a batch to %d", seq, b.Last)
			}
			if s.refuse != nil && s.refuse(seq) {
				bad[seq] = true
				continue
			}
			s.storeRow(g, row, series)
		}
	}
	for seq := range bad {
		refused = append(refused, &kymogramv1.Refusal{Seq: seq, Code: string(model.CodeLimit), Message: "too many"})
	}
	return refused
}

func (s *server) storeRow(g *kymogramv1.RowGroup, row int, series map[uint32]*kymogramv1.SeriesDefinition) {
	c := cell{step: -1}
	for _, a := range g.Axes {
		if len(a.Values) != len(g.TimeNs) {
			s.t.Errorf("axis of %d values, %d rows", len(a.Values), len(g.TimeNs))
		}
		if a.Axis == 1 {
			c.step, c.relative = a.Values[row], a.Relative
		}
	}
	for _, col := range g.Columns {
		d := series[col.Series]
		if d == nil {
			s.t.Errorf("series %d is not defined", col.Series)
			continue
		}
		c.metric = d.Metric
		switch model.Kind(d.Kind) {
		case model.KindFloat:
			c.value = fmt.Sprint(col.Floats[row])
		case model.KindInt:
			c.value = fmt.Sprint(col.Ints[row])
		case model.KindText:
			c.value = col.Texts[row]
		default:
			c.value = string(col.Documents[row])
		}
		s.cells[c]++
	}
}

func (s *server) stored() map[cell]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.cells)
}

// fixture is a folder with one writer of a few series.
type fixture struct {
	*testing.T
	folder *spool.Folder
	w      *spool.Writer
	want   map[cell]int
	series map[string]*spool.Series
}

func newFixture(t *testing.T, s *server) *fixture {
	t.Helper()
	folder, err := spool.OpenFolder(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, folder: folder, want: map[cell]int{}}
	f.open(s.addr)
	return f
}

func (f *fixture) open(addr string) {
	id := model.WriterID{byte(len(f.want)), 7}
	w, err := spool.Create(f.folder, addr, model.OpenRequest{Writer: id, RunName: "run"}, spool.WriterOptions{Cap: 1 << 30})
	if err != nil {
		f.Fatal(err)
	}
	f.w, f.series = w, map[string]*spool.Series{}
	f.Cleanup(func() { w.Close() })
}

func (f *fixture) of(kind model.Kind, name string) *spool.Series {
	f.Helper()
	if s, ok := f.series[name]; ok {
		return s
	}
	s, err := f.w.Series(kind, model.NewSeriesKey(name, "", nil))
	if err != nil {
		f.Fatal(err)
	}
	f.series[name] = s
	return s
}

func (f *fixture) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fixture) point(name string, step int64, v float64) {
	f.Helper()
	f.ok(f.w.Point(f.of(model.KindFloat, name), spool.FlagStep, step, 1, math.Float64bits(v)))
	f.want[cell{name, step, false, fmt.Sprint(v)}]++
}

func (f *fixture) close() {
	f.Helper()
	f.ok(f.w.Updates([]model.Update{{Op: model.OpClose, Text: "finished"}}))
	_, err := f.w.Close()
	f.ok(err)
}

// sync delivers the folder until nothing is left.
func (f *fixture) sync(opts Options) *Deliverer {
	f.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	opts.Once, opts.MaxBackoff = true, 100*time.Millisecond
	if opts.Kind == "" {
		opts.Kind = spool.KindSync
	}
	opts.Env = func(string) string { return "" }
	if testing.Verbose() {
		opts.Log = slog.New(slog.NewTextHandler(os.Stderr, nil))
	}
	d := New(f.folder, opts)
	f.ok(d.Run(ctx))
	if ctx.Err() != nil {
		f.Fatal("the delivery does not end")
	}
	return d
}

func (f *fixture) check(s *server) {
	f.Helper()
	if diff := cmp.Diff(f.want, s.stored(), cmp.AllowUnexported(cell{})); diff != "" {
		f.Errorf("stored (-want +got)\n%s", diff)
	}
}

func (f *fixture) checkEmpty() {
	f.Helper()
	if ids, err := f.folder.Writers(); err != nil || len(ids) != 0 {
		f.Errorf("left in the spool: %v %v", ids, err)
	}
}

func TestEveryRecordArrives(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	for i := range int64(100) {
		f.point("loss", i, float64(i)/3)
		f.point("acc", i, math.NaN())
	}
	f.ok(f.w.Point(f.of(model.KindInt, "tokens"), spool.FlagStep|spool.FlagRelative, 0, 1, math.MaxInt64))
	f.want[cell{"tokens", 0, true, fmt.Sprint(int64(math.MaxInt64))}]++
	f.ok(f.w.Document(f.of(model.KindText, "note"), 0, 0, 1, []byte("héllo")))
	f.want[cell{"note", -1, false, "héllo"}]++
	f.ok(f.w.Document(f.of(model.KindHistogram, "hist"), spool.FlagStep, 4, 1, []byte(`{"bin_edges":[0,1],"counts":[2]}`)))
	f.want[cell{"hist", 4, false, `{"bin_edges":[0,1],"counts":[2]}`}]++
	a, b := f.of(model.KindFloat, "a"), f.of(model.KindFloat, "b")
	for _, mode := range []uint8{spool.ModeLinear | spool.ModePerSeries, spool.ModeLinear | spool.ModePerSeries | spool.ModeRelative} {
		f.ok(f.w.Block([]*spool.Series{a, b}, &spool.Block{
			Kind: model.KindFloat, Rows: 3, Series: []uint32{a.ID, b.ID},
			Time: spool.Column{Mode: spool.ModeConstant, Values: []int64{1}},
			Axes: []spool.BlockAxis{{Axis: spool.AxisStep, Column: spool.Column{Mode: mode, Values: []int64{10, 20}}}},
			Values: []uint64{
				math.Float64bits(1), math.Float64bits(2), math.Float64bits(3), math.Float64bits(4), math.Float64bits(5), math.Float64bits(6),
			},
		}))
		for i := range int64(3) {
			f.want[cell{"a", 10 + i, mode&spool.ModeRelative != 0, fmt.Sprint(1 + i)}]++
			f.want[cell{"b", 20 + i, mode&spool.ModeRelative != 0, fmt.Sprint(4 + i)}]++
		}
	}
	f.close()
	d := f.sync(Options{})
	f.check(s)
	f.checkEmpty()
	if s.gone != 0 || len(s.updates) != 1 || s.updates[0].Op != model.OpClose || s.updates[0].Seq == 0 {
		t.Errorf("gone %d, updates %v", s.gone, s.updates)
	}
	if got := d.Totals(); got.Acked != uint64(200+3+12) || got.Writers != 0 {
		t.Errorf("totals %+v", got)
	}
}

// TestTotalsAreOwn: what an earlier deliverer brought to the server is not counted
// again.
func TestTotalsAreOwn(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	for i := range int64(3) {
		f.point("loss", i, 0.5)
	}
	if got := f.sync(Options{}).Totals(); got.Acked != 3 {
		t.Errorf("the first delivered %+v", got)
	}
	f.point("loss", 3, 0.5)
	f.point("loss", 4, 0.5)
	f.close()
	if got := f.sync(Options{}).Totals(); got.Acked != 2 {
		t.Errorf("the second delivered %+v", got)
	}
	f.check(s)
}

// TestSyncEndsBesideAProgramThatGoesOn: what was there is delivered, though more
// comes without an end.
func TestSyncEndsBesideAProgramThatGoesOn(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	for i := range int64(1000) {
		f.point("loss", i, 0.5)
	}
	stop, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for i := int64(1000); ; i++ {
			select {
			case <-stop:
				return
			default:
				f.point("loss", i, 0.5)
				time.Sleep(100 * time.Microsecond)
			}
		}
	}()
	d := New(f.folder, Options{Kind: spool.KindSync, Once: true})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	err := d.Run(ctx)
	close(stop)
	<-ended
	f.ok(err)
	if ctx.Err() != nil || !d.Over() {
		t.Error("it did not end by itself")
	}
	if got := d.Totals(); got.Acked < 1000 {
		t.Errorf("%d points delivered of the 1,000 that were there", got.Acked)
	}
	f.close()
	f.sync(Options{})
	f.check(s)
}

// TestSyncClosesWhatIsDelivered: a program that was killed and left no point that the
// server lacks is over for the server, too, and its folder goes.
func TestSyncClosesWhatIsDelivered(t *testing.T) {
	for name, points := range map[string]int64{"empty": 0, "delivered": 3} {
		t.Run(name, func(t *testing.T) {
			s := startServer(t)
			f := newFixture(t, s)
			for i := range points {
				f.point("loss", i, 0.5)
			}
			f.sync(Options{})
			_, err := f.w.Close() // what is left of a killed program, too: no lock
			f.ok(err)
			tries := 0
			s.openFail = func(model.OpenRequest) *kymogramv1.Failure {
				if tries++; tries > 3 {
					return nil
				}
				return &kymogramv1.Failure{Code: string(model.CodeBusy)}
			}
			d := New(f.folder, Options{Kind: spool.KindSync, Once: true, MaxBackoff: 100 * time.Millisecond})
			f.ok(d.Run(t.Context()))
			if got := d.Totals(); !d.Over() || got.Closed != 1 || got.Acked != 0 {
				t.Errorf("%+v", got)
			}
			f.check(s)
			f.checkEmpty()
		})
	}
}

// TestFaults: whatever the server does to batches, each point is stored once.
func TestFaults(t *testing.T) {
	for name, f := range map[string]fault{"lost acks": loseAck, "resets": reset, "gaps": gap, "superseded": superseded, "disk full": diskFull} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := startServer(t)
			s.batch = func(n int) fault {
				if n%2 == 1 && n < 10 {
					return f
				}
				return none
			}
			fx := newFixture(t, s)
			// Several batches: 2.4 MB of records.
			for i := range int64(60_000) {
				fx.point("loss", i, 0.5)
			}
			fx.close()
			fx.sync(Options{})
			fx.check(s)
			fx.checkEmpty()
		})
	}
}

func TestGone(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	f.point("loss", 0, 1)
	_, err := f.w.Close()
	f.ok(err)
	f.sync(Options{})
	f.check(s)
	f.checkEmpty()
	if s.gone != 1 {
		t.Errorf("gone was said %d times", s.gone)
	}
}

func TestRefusedRecordsAreKept(t *testing.T) {
	s := startServer(t)
	s.refuse = func(seq uint64) bool { return seq == 3 } // definition, point 0, point 1
	f := newFixture(t, s)
	for i := range int64(5) {
		f.point("loss", i, 0.5)
	}
	delete(f.want, cell{"loss", 1, false, "0.5"})
	f.close()
	d := f.sync(Options{})
	f.check(s)
	if got := d.Totals(); got.Acked != 4 || got.Refused != 1 {
		t.Errorf("totals %+v", got)
	}
	doc, err := os.ReadFile(filepath.Join(f.folder.Path, "rejected", f.w.ID.String()+".jsonl"))
	f.ok(err)
	var kept spool.Rejected
	f.ok(json.Unmarshal(doc, &kept))
	var r spool.Record
	f.ok(spool.Decode(kept.Record, &r))
	if kept.Seq != 3 || kept.Code != model.CodeLimit || r.Step != 1 {
		t.Errorf("kept %+v", kept)
	}
}

// TestSharedEnvironmentsAreTold: what the server says in an ack reaches the
// writer's folder, each pair once, and the count its status page.
func TestSharedEnvironmentsAreTold(t *testing.T) {
	rank := int64(3)
	s := startServer(t)
	s.shared = []model.SharedWith{{Env: "a", Writer: model.WriterID{9}, Host: "h", PID: 8, Rank: &rank}, {Env: "b", Writer: model.WriterID{9}, Host: "h", PID: 8}}
	f := newFixture(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- New(f.folder, Options{Kind: spool.KindSync, Env: func(string) string { return "" }}).Run(ctx)
	}()
	for i := range int64(3) {
		f.point("loss", i, 0.5)
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
			page, err := f.w.Status().Read()
			f.ok(err)
			if page.Acked == uint64(i+1) && page.Shared == 2 {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%+v", page)
			}
		}
	}
	got, err := spool.ReadShared(f.folder.WriterPath(f.w.ID))
	f.ok(err)
	if diff := cmp.Diff(s.shared, got); diff != "" {
		t.Error(diff)
	}
	cancel()
	f.ok(<-done)
	f.close()
	f.sync(Options{})
	f.checkEmpty()
}

func TestDeletedRun(t *testing.T) {
	s := startServer(t)
	s.openFail = func(model.OpenRequest) *kymogramv1.Failure {
		return &kymogramv1.Failure{Code: string(model.CodeRunDeleted), Message: "the run is deleted"}
	}
	f := newFixture(t, s)
	for i := range int64(5) {
		f.point("loss", i, 0.5)
	}
	f.close()
	d := f.sync(Options{})
	f.checkEmpty()
	doc, err := os.ReadFile(filepath.Join(f.folder.Path, "rejected", f.w.ID.String()+".jsonl"))
	f.ok(err)
	if n := strings.Count(string(doc), "\n"); n != 7 || d.Totals().Refused != 5 {
		t.Errorf("%d records kept, %+v", n, d.Totals())
	}
}

func TestTakenName(t *testing.T) {
	s := startServer(t)
	s.openFail = func(open model.OpenRequest) *kymogramv1.Failure {
		if open.Offline {
			return nil
		}
		return &kymogramv1.Failure{Code: string(model.CodeRunExists), Message: "taken"}
	}
	f := newFixture(t, s)
	f.point("loss", 0, 1)
	f.close()
	f.sync(Options{})
	f.check(s)
	if len(s.opens) != 2 || !s.opens[1].Offline {
		t.Errorf("opens %+v", s.opens)
	}
}

// TestWrongKeyIsNotFinal: the key is looked up anew for every try.
func TestWrongKeyIsNotFinal(t *testing.T) {
	s := startServer(t)
	s.key = "right"
	f := newFixture(t, s)
	f.point("loss", 0, 1)
	f.ok(f.folder.SetKey(s.addr, "wrong"))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for page := (spool.Page{}); page.State != spool.StateRefused; {
			page, _ = f.w.Status().Read()
		}
		if err := f.folder.SetKey(s.addr, "right"); err != nil {
			t.Error(err)
		}
	}()
	f.sync(Options{})
	<-done
	f.check(s)
	page, err := f.w.Status().Read()
	f.ok(err)
	if !strings.Contains(page.Error, "wrong key") || page.Mark != f.w.Last() || page.Acked != 1 || !strings.Contains(string(page.Answer), `"run_name":"run"`) {
		t.Errorf("page %+v answer %s", page, page.Answer)
	}
	// The writer lives: its folder stays, and later records follow.
	f.point("loss", 1, 1)
	f.close()
	f.sync(Options{})
	f.check(s)
	f.checkEmpty()
}

// TestOlderServer: numbers that a restored server lacks and we have deleted are
// reported as skipped.
func TestOlderServer(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	for i := range int64(20_000) { // more than the first segment
		f.point("loss", i, 1)
	}
	f.sync(Options{})
	f.check(s)
	s.mu.Lock()
	s.marks[f.w.ID], s.cells = 10, map[cell]int{}
	s.mu.Unlock()
	f.point("loss", 20_000, 1)
	f.close()
	f.sync(Options{})
	if len(s.skipped) != 1 || s.skipped[0].First != 11 || s.skipped[0].Reason != spool.ReasonRestored {
		t.Errorf("skipped %v", s.skipped)
	}
	got := s.stored()
	for step := int64(s.skipped[0].Last); step <= 20_000; step++ {
		if got[cell{"loss", step, false, "1"}] != 1 {
			t.Fatalf("step %d is missing", step)
		}
	}
}

// TestTakeover: a sync gets the folder from a process, which gets it back.
func TestTakeover(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	process := New(f.folder, Options{Kind: spool.KindProcess})
	ended := make(chan error, 1)
	go func() { ended <- process.Run(ctx) }()
	held := func(kind spool.HolderKind) {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
			if h, live, err := f.folder.Held(); err == nil && live && h.Kind == kind {
				return
			}
		}
		t.Fatalf("never held by %s", kind)
	}
	held(spool.KindProcess)
	f.point("loss", 0, 1)
	agent := New(f.folder, Options{Kind: spool.KindAgent})
	if err := agent.Run(ctx); !errors.Is(err, ErrHeld) {
		t.Errorf("an agent beside a process: %v", err)
	}
	f.sync(Options{})
	f.check(s)
	held(spool.KindProcess)
	f.point("loss", 1, 1)
	f.close()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if ids, _ := f.folder.Writers(); len(ids) == 0 {
			break
		}
	}
	f.check(s)
	f.checkEmpty()
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestAgentEndsWhenIdle(t *testing.T) {
	s := startServer(t)
	f := newFixture(t, s)
	f.point("loss", 0, 1)
	f.close()
	d := New(f.folder, Options{Kind: spool.KindAgent, Idle: 10 * time.Millisecond})
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	f.ok(d.Run(ctx))
	f.check(s)
	if ctx.Err() != nil {
		t.Error("it did not end")
	}
}

func TestTarget(t *testing.T) {
	tests := []struct{ server, http, grpc, want string }{
		{"http://h:1", "h:1", "h:1", "h:1"},
		{"http://h:1", "", "", "h:1"},
		{"https://h", "127.0.0.1:7070", "127.0.0.1:7070", "h:443"},
		{"http://h:1", "0.0.0.0:1", "0.0.0.0:2", "h:2"},
		{"http://h:1", "h:1", "g:2", "g:2"},
		{"http://h:1", "h:1", "[::]:2", "h:2"},
	}
	for _, tt := range tests {
		s, err := NewServer(tt.server, "")
		if err != nil {
			t.Fatal(err)
		}
		if got := s.target(Info{HTTP: tt.http, GRPC: tt.grpc}); got != tt.want {
			t.Errorf("%+v: %s", tt, got)
		}
	}
	for _, bad := range []string{"", "h", "ftp://h", "http://"} {
		if _, err := NewServer(bad, ""); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
