package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kymogram/kymogram/internal/testkit/cost"
	"github.com/kymogram/kymogram/internal/uplink"
)

// refusedCost is what a refused request may allocate, its client in this process included.
const refusedCost = 1 << 20

// leastCost measures more often where the client may have sent more than it had to before
// it heard of the refusal.
func leastCost(work func()) uint64 {
	least := cost.Allocated(work)
	for try := 0; try < 4 && least > refusedCost; try++ {
		least = min(least, cost.Allocated(work))
	}
	return least
}

// A request that is refused costs next to nothing, whatever it carries.
func TestARefusedRequestIsCheap(t *testing.T) {
	s, needs := serveNode(t, false), routeNeeds()
	s.addKeys()
	body := bytes.Repeat([]byte("m,a=b c=1\n"), 15<<20/10)
	for _, route := range append(s.Routes(), "POST /nowhere") {
		method, path, _ := strings.Cut(route, " ")
		n, ok := needs[route]
		if !ok {
			n = need{scope: "nobody", path: path}
		}
		if n.scope == "open" {
			continue
		}
		for _, caller := range []string{"none", "wrong", "revoked", "expired"} {
			s.checkCost(t, method, n.path, s.keys[caller], body)
		}
		if strings.HasSuffix(route, "write") { // the project is in the URL
			s.checkCost(t, method, n.path, s.keys["other workspace"], body)
		}
	}
}

// So does one that is too large, also of a key that may do everything.
func TestATooLargeRequestIsCheap(t *testing.T) {
	s, needs := serveNode(t, false), routeNeeds()
	s.addKeys()
	body := bytes.Repeat([]byte("m,a=b c=1\n"), 17<<20/10)
	for _, route := range s.Routes() {
		method, _, _ := strings.Cut(route, " ")
		if n := needs[route]; method == http.MethodPost && !strings.Contains(n.path, "/blobs/") {
			s.checkCost(t, method, n.path, s.keys["admin"], body)
		}
	}
}

func (s *served) checkCost(t *testing.T, method, path, key string, body []byte) {
	t.Helper()
	code := 0
	got := leastCost(func() { code = s.sendLarge(method, path, key, body) })
	unread := strings.HasPrefix(path, "/sdk/otel/") // what W&B's SDK says of itself: nothing of it is read, and so nothing refused
	if code < 400 && !unread || got > refusedCost {
		t.Errorf("%s %s: %d, %d kB are allocated for a body of %d MiB", method, path, code, got>>10, len(body)>>20)
	}
}

// sendLarge gives the status of a request; 499 where the server hung up on the body.
func (s *served) sendLarge(method, path, key string, body []byte) int {
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+strings.ReplaceAll(path, "RUN", s.run), bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/x-protobuf")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return 499
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// asIs sends bytes that were made before, so that the client allocates little.
type asIs struct{}

func (asIs) Name() string { return "proto" }
func (asIs) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(v.([]byte))}, nil
}
func (asIs) Unmarshal(mem.BufferSlice, any) error { return nil }

// nestedLabels is a question for a series with as many labels as fit.
func nestedLabels(size int) []byte {
	var labels []byte
	for i := 0; len(labels) < size; i++ {
		label := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), fmt.Sprint(i))
		labels = protowire.AppendBytes(protowire.AppendTag(labels, 4, protowire.BytesType), label)
	}
	return protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), labels)
}

func TestARefusedCallIsCheap(t *testing.T) {
	uplink.RegisterZstd()
	s := serveNode(t, false)
	s.addKeys()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asIs{})))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	message := nestedLabels(13_500_000)
	for _, method := range append(s.Methods(), "/kymogram.v1.QueryService/Nothing") {
		for _, caller := range []string{"none", "wrong", "revoked", "expired"} {
			for _, packed := range []string{"identity", "zstd"} {
				var err error
				got := leastCost(func() { err = call(t.Context(), conn, method, s.keys[caller], message, grpc.UseCompressor(packed)) })
				if err == nil || got > refusedCost {
					t.Errorf("%s as %s, %s: %s, %d kB are allocated", method, caller, packed, status.Code(err), got>>10)
				}
			}
		}
	}
}

func call(ctx context.Context, conn *grpc.ClientConn, method, key string, message []byte, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method, options...)
	if err != nil {
		return err
	}
	_ = stream.SendMsg(message) // the answer says why
	return stream.RecvMsg(nil)
}

// BenchmarkRefused is the processor time of a refused request, that of its client included;
// the server's part is at most a millisecond. Over HTTP the client costs more than that: the
// peer, a bare net/http server that answers at once, tells how much.
func BenchmarkRefused(b *testing.B) {
	s := serveNode(b, false)
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer bare.Close()
	peer := &served{t: b, address: bare.Listener.Addr().String()}
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(asIs{})))
	if err != nil {
		b.Fatal(err)
	}
	defer conn.Close()
	message, body := nestedLabels(13_500_000), bytes.Repeat([]byte("m,a=b c=1\n"), 15<<20/10)
	for name, refused := range map[string]func(){
		"gRPC Points":    func() { _ = call(b.Context(), conn, "/kymogram.v1.QueryService/Points", "", message) },
		"gRPC Stream":    func() { _ = call(b.Context(), conn, "/kymogram.v1.IngestService/Stream", "", message) },
		"influx":         func() { s.sendLarge(http.MethodPost, "/write?db=p", "", body) },
		"remote write":   func() { s.sendLarge(http.MethodPost, "/api/v1/write", "", body) },
		"buckets":        func() { s.sendLarge(http.MethodPost, "/api/v1/buckets", "", body) },
		"no such route":  func() { s.sendLarge(http.MethodPost, "/nowhere", "", body) },
		"peer":           func() { peer.sendLarge(http.MethodPost, "/write", "", body) },
		"no such method": func() { _ = call(b.Context(), conn, "/kymogram.v1.QueryService/Nothing", "", message) },
	} {
		b.Run(name, func(b *testing.B) {
			before := processTime(b)
			for b.Loop() {
				refused()
			}
			b.ReportMetric(float64((processTime(b)-before).Microseconds())/1000/float64(b.N), "cpu-ms/op")
		})
	}
}

func processTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
