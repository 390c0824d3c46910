package uplink

import (
	"bytes"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/testkit/recorded"
)

// scripted is a server that answers what a server of 97b6811 answered, and expects
// what its client sent, message by message.
type scripted struct {
	kymogramv1.UnimplementedIngestServiceServer
	t       *testing.T
	streams [][]recorded.Message // one after the other
}

func (s *scripted) Stream(stream grpc.BidiStreamingServer[kymogramv1.StreamRequest, kymogramv1.StreamResponse]) error {
	if len(s.streams) == 0 {
		s.t.Error("a stream too many")
		return nil
	}
	script := s.streams[0]
	s.streams = s.streams[1:]
	for _, m := range script {
		if m.FromServer {
			answer := &kymogramv1.StreamResponse{}
			if err := proto.Unmarshal(m.Data, answer); err != nil {
				return err
			}
			if err := stream.Send(answer); err != nil {
				return err
			}
			continue
		}
		want := &kymogramv1.StreamRequest{}
		if err := proto.Unmarshal(m.Data, want); err != nil {
			return err
		}
		got, err := stream.Recv()
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got, protocmp.Transform(), cmpopts.EquateNaNs()); diff != "" {
			s.t.Errorf("the client sent (-recorded +got):\n%s", diff)
		}
	}
	if len(s.streams) == 0 {
		_, _ = stream.Recv() // the client hangs up
	}
	return nil
}

// TestAnOldServer: a server of protocol 1 refuses the first open and then gets what
// a client of its time would send, down to the bytes of the JSON.
func TestAnOldServer(t *testing.T) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &scripted{t: t, streams: [][]recorded.Message{recorded.TooNew(), recorded.Second()}}
	g := grpc.NewServer()
	kymogramv1.RegisterIngestServiceServer(g, s)
	go g.Serve(lis)
	t.Cleanup(g.Stop)

	f := recordedFixture(t, "http://"+lis.Addr().String(), 2)
	f.everything()
	d := f.sync(Options{})
	f.checkEmpty()
	if got := d.Totals(); got.Acked != 7 || got.Refused != 1 || len(s.streams) != 0 {
		t.Errorf("totals %+v, %d streams left", got, len(s.streams))
	}
	kept, err := os.ReadFile(f.folder.RejectedPath(recordedOpen(2).Writer))
	if err != nil || bytes.Count(kept, []byte("\n")) != 2 {
		t.Errorf("rejected: %s, %v", kept, err)
	}
}

// recordedTime is when everything of the recorded program happened.
const recordedTime = 1_750_000_000_123_456_789

// recordedOpen is an open with everything in it.
func recordedOpen(writer byte) model.OpenRequest {
	number := func(n int64) *int64 { return &n }
	logger := uint64(math.MaxUint64)
	return model.OpenRequest{
		Writer: model.WriterID{writer, 9, 7}, Workspace: "team", Project: "recorded", RunName: "run", LocalRun: model.RunID{1, 2, 3},
		DisplayName: "A run", Experiment: "x", OrchestrationID: "job", ResumeStrategy: model.ResumeAllow, RestartCount: number(2),
		ParentAttempt: &model.WriterID{writer, 9, 8}, ResumeFromStep: number(0), LoggerID: &logger, Host: "host", PID: 4242, Rank: number(int64(writer)),
		Hotkey: "5F", OpenedNs: recordedTime, Ended: []model.WriterID{{9}}, SDK: "go/0.1.0", WithStarts: true,
		Initial: append(recordedValues("config/", model.Update{Op: model.OpSetAttribute}),
			model.Update{Op: model.OpAddTags, Tags: []string{"a", "b"}}, model.Update{Op: model.OpSetDescription, Text: "<first>"}),
	}
}

// recordedValues sets an attribute of every type.
func recordedValues(prefix string, u model.Update) (out []model.Update) {
	for name, v := range map[string]*model.Value{
		"bool": model.BoolValue(true), "int": model.IntValue(math.MinInt64), "small": model.IntValue(-7), "nan": model.FloatValue(math.NaN()), "inf": model.FloatValue(math.Inf(-1)),
		"third": model.FloatValue(1.0 / 3), "text": model.StringValue("héllo\n<&>"), "set": model.SetValue([]string{"y", "x", "y"}), "none": model.SetValue(nil), "time": model.TimeValue(recordedTime),
	} {
		u.Path, u.Value = prefix+name, v
		out = append(out, u)
	}
	slices.SortFunc(out, func(a, b model.Update) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// recordedFixture is a spool of a writer of the recorded program.
func recordedFixture(t *testing.T, addr string, writer byte) *fixture {
	t.Helper()
	folder, err := spool.OpenFolder(filepath.Join(t.TempDir(), "spool"))
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, folder: folder, series: map[string]*spool.Series{}}
	f.w, err = spool.Create(folder, addr, recordedOpen(writer), spool.WriterOptions{Cap: 1 << 30})
	f.ok(err)
	f.Cleanup(func() { f.w.Close() })
	return f
}

func (f *fixture) environment(from int64) {
	f.Helper()
	name := fmt.Sprint("env", from)
	s, err := f.w.Series(model.KindFloat, model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{model.LabelEnv: "e1"}))
	f.ok(err)
	f.series[name] = s
	f.ok(f.w.Block([]*spool.Series{s}, &spool.Block{
		Kind: model.KindFloat, Rows: 2, Series: []uint32{s.ID}, Time: spool.Column{Mode: spool.ModeExplicit, Values: []int64{recordedTime, recordedTime + 9e9}},
		Axes: []spool.BlockAxis{
			{Axis: spool.AxisRLStep, Column: spool.Column{Mode: spool.ModeConstant, Values: []int64{3}}},
			{Axis: spool.AxisEpisode, Column: spool.Column{Mode: spool.ModeConstant, Values: []int64{1}}},
			{Axis: spool.AxisEnvStep, Column: spool.Column{Mode: spool.ModeLinear, Values: []int64{from}}},
		},
		Values: []uint64{math.Float64bits(1.5), math.Float64bits(math.Inf(1))},
	}))
}

// everything logs a record of every kind; the server refuses the step -1 and the
// operation "future".
func (f *fixture) everything() {
	f.Helper()
	loss, episode := f.of(model.KindFloat, "train/loss"), int64(1)
	f.ok(f.w.Point(loss, spool.FlagStep, 7, recordedTime, math.Float64bits(0.5)))
	f.ok(f.w.Point(loss, spool.FlagStep, 8, recordedTime, math.Float64bits(math.NaN())))
	f.ok(f.w.Point(loss, spool.FlagStep, -1, recordedTime, math.Float64bits(1)))
	f.ok(f.w.Point(f.of(model.KindInt, "tokens"), spool.FlagStep|spool.FlagRelative, 0, recordedTime, math.MaxInt64))
	f.ok(f.w.Document(f.of(model.KindText, "note"), spool.FlagStep, 1, recordedTime, []byte("héllo")))
	f.ok(f.w.Document(f.of(model.KindHistogram, "hist"), spool.FlagStep, 4, recordedTime, []byte(`{"bin_edges":[0,1],"counts":[2]}`)))
	f.environment(10)
	at := model.Update{Op: model.OpSetAttribute, TimeNs: recordedTime}
	f.ok(f.w.Updates(recordedValues("late/", at)))
	f.ok(f.w.Updates(recordedValues("", model.Update{Op: model.OpSetEnvAttribute, TimeNs: recordedTime, Env: "e1", Episode: &episode})))
	f.ok(f.w.Updates([]model.Update{
		{Op: model.OpSetAttribute, TimeNs: recordedTime, Path: "late/bool"},
		{Op: model.OpSetAttribute, TimeNs: recordedTime, Path: "config/later", Value: model.IntValue(1), Initial: true},
	}))
	f.ok(f.w.Updates([]model.Update{{Op: model.OpAddTags, Tags: []string{"c"}}, {Op: model.OpRemoveTags, Tags: []string{"a"}}}))
	f.ok(f.w.Updates([]model.Update{{Op: model.OpSetDescription, Text: "second"}, {Op: model.OpSetDisplayName, Text: "Another name"}}))
	f.ok(f.w.Updates([]model.Update{{Op: model.OpLog, TimeNs: recordedTime, Path: "started", Text: "again", Value: model.SetValue([]string{"t"})}}))
	f.ok(f.w.Updates([]model.Update{{Op: "future", TimeNs: recordedTime, Path: "p", Value: model.BoolValue(false)}}))
	f.ok(f.w.Updates([]model.Update{{Op: model.OpDropped, TimeNs: recordedTime, Count: 12, Text: "the spool was full"}}))
	f.ok(f.w.Updates([]model.Update{{Op: model.OpRendering, TimeNs: recordedTime, Rendering: &model.Rendering{
		ID: "0009-1", Env: "e1", Episode: 1, Name: "front", SHA256: strings.Repeat("ab", 32), SizeBytes: 1 << 40, ContentType: "video/mp4", Frames: 30, FramesDropped: 2,
		FPS: 29.97, Width: 640, Height: 480, FirstRLStep: 3, LastRLStep: 4, Complete: true, Tags: []string{"t"},
		Marks: []model.RenderingMark{{Name: "fall", FromFrame: 3, ToFrame: 9}}, TimeNs: recordedTime,
	}}}))
	f.ok(f.w.Updates([]model.Update{{Op: model.OpClose, TimeNs: recordedTime + 9e9, Text: string(model.StatusFinished)}}))
	_, err := f.w.Close()
	f.ok(err)
}
