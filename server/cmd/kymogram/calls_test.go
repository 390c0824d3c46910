package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
)

// locked starts a server in a process of its own that asks for keys.
func locked(t *testing.T) (s *killable, d desk, admin string) { return lockedWith(t, 0) }

// lockedWith starts one that has so many file descriptors.
func lockedWith(t *testing.T, files int) (s *killable, d desk, admin string) {
	t.Helper()
	s = &killable{t: t, data: t.TempDir(), keys: true, files: files}
	s.start()
	t.Cleanup(s.kill)
	raw, err := os.ReadFile(filepath.Join(s.data, "admin.key"))
	if err != nil {
		t.Fatal(err)
	}
	return s, desk{t, s.address}, string(bytes.TrimSpace(raw))
}

func (d desk) addKey(admin, name, scope string) string {
	d.t.Helper()
	return d.want(http.StatusCreated, "POST", "/api/v1/keys", admin, fmt.Sprintf(`{"name":%q,"scopes":[%q]}`, name, scope))["key"].(string)
}

// plainHTTP2 sends requests of any shape over HTTP/2 without TLS, each over a connection of its own client.
func plainHTTP2(t *testing.T) *http.Client {
	only := new(http.Protocols)
	only.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: only}
	t.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// One key with 100 unread answers of gRPC holds a quarter of the memory for them. Each
// ends as a visible error, and another key's reads go on.
func TestUnreadCallsHoldAQuarter(t *testing.T) {
	if testing.Short() {
		t.Skip("it makes a gigabyte of answers")
	}
	s, d, admin := locked(t)
	const points, rows, calls = 200_000, 180_000, 100
	d.want(http.StatusNoContent, "POST", "/api/v2/write?bucket=b&org=o", admin, string(denseLines("long", points)))
	run := d.want(http.StatusOK, "GET", "/api/v1/resolve?run=o/b/long", admin, "")["id"].(string)
	list := d.want(http.StatusOK, "GET", "/api/v1/runs/"+run+"/series", admin, "")["series"].([]any)
	series := &kymogramv1.SeriesSelector{Run: run, Metric: list[0].(map[string]any)["metric"].(string)}
	greedy, other := d.addKey(admin, "greedy", "read"), d.addKey(admin, "other", "read")

	connect := func(key string) (context.Context, *grpc.ClientConn) {
		conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return metadata.AppendToOutgoingContext(t.Context(), "authorization", "Bearer "+key), conn
	}
	var unread []grpc.ClientStream
	for range calls / 10 {
		ctx, conn := connect(greedy)
		for range 10 {
			stream, err := conn.NewStream(ctx, &grpc.StreamDesc{}, kymogramv1.QueryService_Points_FullMethodName)
			if err != nil {
				t.Fatal(err)
			}
			question := &kymogramv1.PointsRequest{Series: series, Axis: "time_ns", Limit: rows}
			if err := errors.Join(stream.SendMsg(question), stream.CloseSend()); err != nil {
				t.Fatal(err)
			}
			unread = append(unread, stream)
		}
	}
	const quarter = 16 << 20
	d.until(time.Minute, "an answer waits for its reader", func() bool { return d.metricAs(admin, "kymogram_call_answer_bytes") > 1<<20 })
	ctx, conn := connect(other)
	client := kymogramv1.NewQueryServiceClient(conn)
	beside := 0
	d.until(time.Minute, "every unread call has ended", func() bool {
		held := d.metricAs(admin, "kymogram_call_answer_bytes")
		if held > quarter {
			t.Fatalf("one key holds %v bytes", held)
		}
		answer, err := client.Buckets(ctx, &kymogramv1.BucketsRequest{Series: series, Axis: "time_ns", N: 1000})
		if err != nil || len(answer.Count) != 1000 {
			t.Fatalf("another key's buckets: %v", err)
		}
		if held > 0 {
			beside++
		}
		return d.metricAs(admin, "kymogram_calls") == 0
	})
	failed := 0
	for _, stream := range unread {
		if err := stream.RecvMsg(new(kymogramv1.PointsResponse)); err != nil {
			failed++
		}
	}
	if failed < calls-2 || beside == 0 || d.metricAs(admin, "kymogram_calls_stalled_total") == 0 {
		t.Errorf("%d of %d unread calls tell their end; %d reads beside them, %v stalled", failed, calls, beside, d.metricAs(admin, "kymogram_calls_stalled_total"))
	}
	if peak := s.peakMiB(); peak > 1024 {
		t.Errorf("the server took %d MiB", peak)
	} else {
		t.Logf("peak %d MiB, %d calls failed, %d reads beside them", peak, failed, beside)
	}
}

// halfMessage is a body of gRPC that promises a message of size and never sends its end.
type halfMessage struct {
	io.Reader
	rest *io.PipeReader
}

func newHalfMessage(size int) halfMessage {
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(size))
	rest, _ := io.Pipe()
	return halfMessage{io.MultiReader(bytes.NewReader(head), bytes.NewReader(make([]byte, size-1)), rest), rest}
}

// Close ends what sends it.
func (h halfMessage) Close() error { return h.rest.Close() }

// Messages that never end take a bounded amount of memory, whoever sends them, and the
// messages of another key arrive.
func TestHalfMessagesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it sends a gigabyte")
	}
	s, d, admin := locked(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	const messages, size = 200, 15 << 19
	var ended atomic.Int64
	var all sync.WaitGroup
	send := func(client *http.Client, key string) {
		address := "http://" + s.address + kymogramv1.IngestService_Stream_FullMethodName
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, address, newHalfMessage(size))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header = http.Header{"Content-Type": {"application/grpc"}, "Te": {"trailers"}, "Authorization": {"Bearer " + key}}
		response, err := client.Do(r)
		if err == nil {
			_, _ = io.Copy(io.Discard, response.Body)
			response.Body.Close()
		}
		ended.Add(1)
	}
	for _, key := range []string{d.addKey(admin, "greedy", "ingest"), "wrong"} {
		for range messages / 20 {
			client := plainHTTP2(t)
			for range 20 {
				all.Go(func() { send(client, key) })
			}
		}
	}
	conn, err := grpc.NewClient(s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	as := metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+admin)
	for range 5 { // a large message of another key is read, and refused for what it says
		stream, err := kymogramv1.NewIngestServiceClient(conn).Stream(as)
		if err != nil {
			t.Fatal(err)
		}
		batch := &kymogramv1.Batch{Updates: make([]byte, 4<<20)}
		if err := stream.Send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: batch}}); err != nil {
			t.Fatal(err)
		}
		if answer, err := stream.Recv(); err != nil || answer.GetFailure().GetCode() != "invalid_argument" {
			t.Fatalf("%v, %v", answer, err)
		}
	}
	all.Wait()
	peak := s.peakMiB()
	t.Logf("peak %d MiB, %d calls ended", peak, ended.Load())
	if peak > 1024 {
		t.Errorf("the server took %d MiB", peak)
	}
	if ended.Load() != 2*messages || ctx.Err() != nil {
		t.Errorf("%d of %d calls have ended", ended.Load(), 2*messages)
	}
	if d.metricAs(admin, "kymogram_message_refused_total") == 0 {
		t.Error("no refusal is counted")
	}
}
