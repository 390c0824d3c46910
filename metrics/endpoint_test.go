package metrics_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthv1 "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/kymogram/kymogram/internal/testkit/prometheus"
	"github.com/kymogram/kymogram/metrics"
)

// node is an endpoint with everything that it can have.
func node(t *testing.T) *metrics.Endpoint {
	t.Helper()
	smi := filepath.Join(t.TempDir(), "nvidia-smi")
	if err := os.WriteFile(smi, []byte("#!/bin/sh\necho '0, NVIDIA H200, 37, 1024, 4096, 41, 75.50, 1980'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	e := metrics.NewEndpoint(metrics.EndpointOptions{Version: "1.2.3", NvidiaSMI: smi, Log: slog.New(slog.DiscardHandler), Now: func() time.Time {
		now = now.Add(2 * time.Second)
		return now
	}})
	e.SetState(metrics.StateReady)
	e.Validated(300*time.Millisecond, nil)
	e.Validated(2*time.Second, errStep)
	e.SetScores(map[uint16]float64{7: 0.5, 65535: 0})
	e.WeightsSet()
	x := e.Exposition()
	for _, d := range []metrics.Data{
		{Group: "g", Name: "f.<locals>.x.count", Value: 2},
		{Group: "g", Name: "step.duration.ms", Value: 20},
		{Group: "g", Name: "quote\" back\\slash\nline \xff", Value: -1},
	} {
		if err := x.Emit(d); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// start serves an endpoint with all its limits.
func start(t *testing.T, e *metrics.Endpoint) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return listener.Addr().String()
}

func scrape(t *testing.T, e *metrics.Endpoint, accept string) *httptest.ResponseRecorder {
	t.Helper()
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", accept)
	e.Handler().ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	return w
}

func wantLines(t *testing.T, text string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no line %q", line)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// The families that seed 001 lists.
func TestFamilies(t *testing.T) {
	e := node(t)
	text := scrape(t, e, "").Body.String()
	// The kernel has to count a tick, and a busy machine starts a program late.
	for !strings.Contains(text, "\nkymogram_node_cpu_utilization_ratio ") || !strings.Contains(text, "gpu_id") {
		text = scrape(t, e, "").Body.String()
	}
	wantLines(
		t, text,
		`kymogram_node_info{version="1.2.3"} 1`,
		`kymogram_node_state{state="ready"} 1`, `kymogram_node_state{state="starting"} 0`,
		`kymogram_node_validations_total{result="success"} 1`, `kymogram_node_validations_total{result="failure"} 1`,
		`kymogram_node_validation_duration_seconds_sum 2.3`,
		`kymogram_node_score{uid="65535"} 0`, `kymogram_node_score{uid="7"} 0.5`,
		`kymogram_node_gpu_utilization_ratio{gpu_id="0",gpu_name="NVIDIA H200"} 0.37`,
		`kymogram_node_gpu_memory_used_bytes{gpu_id="0",gpu_name="NVIDIA H200"} 1.073741824e+09`,
		`kymogram_node_gpu_sm_clock_hertz{gpu_id="0",gpu_name="NVIDIA H200"} 1.98e+09`,
		`kymogram_node_collect_errors_total 0`,
		`kymogram_metric_events_total{group="g",name="f.<locals>.x.count"} 2`,
		`kymogram_metric_duration_seconds_bucket{group="g",name="step.duration.ms",le="0.05"} 1`,
		`kymogram_metric_duration_seconds_bucket{group="g",name="step.duration.ms",le="0.01"} 0`,
		`kymogram_metric_duration_seconds_sum{group="g",name="step.duration.ms"} 0.02`,
		`kymogram_metric{group="g",name="quote\" back\\slash\nline `+"\ufffd"+`"} -1`,
	)
	for _, family := range []string{"cpu_utilization_ratio", "memory_used_bytes", "disk_free_bytes", "last_validation_timestamp_seconds", "start_time_seconds"} {
		if !strings.Contains(text, "\nkymogram_node_"+family+" ") {
			t.Errorf("no family %s", family)
		}
	}
	open := scrape(t, e, "application/openmetrics-text; version=1.0.0")
	if !strings.HasPrefix(open.Header().Get("Content-Type"), "application/openmetrics-text") || !strings.HasSuffix(open.Body.String(), "# EOF\n") {
		t.Errorf("%v\n%s", open.Header(), open.Body)
	}
}

// Nothing is public that was not chosen: no group, and nothing before it happened.
func TestAPlainEndpointTellsOnlyOfItself(t *testing.T) {
	e := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true})
	text := scrape(t, e, "").Body.String()
	for _, absent := range []string{"kymogram_metric", "kymogram_node_score", "kymogram_node_cpu", "kymogram_node_last", "group="} {
		if strings.Contains(text, absent) {
			t.Errorf("%s is there:\n%s", absent, text)
		}
	}
}

func TestPromtoolFindsNoFault(t *testing.T) {
	e := node(t)
	served := httptest.NewServer(e.HTTP(http.NotFoundHandler()))
	defer served.Close()
	if _, err := http.Get(served.URL); err != nil {
		t.Fatal(err)
	}
	scrape(t, e, "")
	if out := prometheus.Promtool(t, ".", scrape(t, e, "").Body.String(), "check", "metrics"); out != "" {
		t.Fatal(out)
	}
}

func TestRequestsOfNetHTTP(t *testing.T) {
	e := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /runs/{id}", func(w http.ResponseWriter, r *http.Request) {
		if r.PathValue("id") == "gone" {
			w.WriteHeader(http.StatusGone)
		}
		if _, ok := w.(http.Flusher); !ok {
			t.Error("the writer cannot flush")
		}
	})
	served := httptest.NewServer(e.HTTP(mux))
	defer served.Close()
	for _, path := range []string{"/runs/1", "/runs/2", "/runs/gone", "/else/" + strings.Repeat("x", 50)} {
		response, err := http.Get(served.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
	}
	text := scrape(t, e, "").Body.String()
	wantLines(
		t, text,
		`kymogram_node_requests_total{code="200",protocol="http",route="GET /runs/{id}"} 2`,
		`kymogram_node_requests_total{code="410",protocol="http",route="GET /runs/{id}"} 1`,
		`kymogram_node_requests_total{code="404",protocol="http",route="other"} 1`,
		`kymogram_node_request_duration_seconds_count{protocol="http",route="GET /runs/{id}"} 3`,
	)
}

func TestAPanicIsAFailedRequest(t *testing.T) {
	e := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true})
	mux := http.NewServeMux()
	mux.HandleFunc("GET /boom", func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	served := httptest.NewServer(e.HTTP(mux))
	defer served.Close()
	if _, err := http.Get(served.URL + "/boom"); err == nil {
		t.Fatal("the panic was answered")
	}
	func() {
		defer func() {
			if recover() != "boom" {
				t.Error("the panic does not go on")
			}
		}()
		_, _ = e.Unary(t.Context(), nil, &grpc.UnaryServerInfo{FullMethod: "/a.B/C"}, func(context.Context, any) (any, error) { panic("boom") })
	}()
	wantLines(
		t, scrape(t, e, "").Body.String(),
		`kymogram_node_requests_total{code="500",protocol="http",route="GET /boom"} 1`,
		`kymogram_node_requests_total{code="Internal",protocol="grpc",route="/a.B/C"} 1`,
	)
}

func TestRequestsOfGRPC(t *testing.T) {
	e := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true})
	server := grpc.NewServer(grpc.UnaryInterceptor(e.Unary), grpc.StreamInterceptor(e.Stream))
	healthv1.RegisterHealthServer(server, health.NewServer())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	client := healthv1.NewHealthClient(conn)
	for _, name := range []string{"", "", "unknown"} {
		_, err := client.Check(t.Context(), &healthv1.HealthCheckRequest{Service: name})
		if want := map[bool]codes.Code{true: codes.NotFound}[name != ""]; status.Code(err) != want {
			t.Fatal(err)
		}
	}
	watched, cancel := context.WithCancel(t.Context())
	stream, err := client.Watch(watched, &healthv1.HealthCheckRequest{})
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	conn.Close()
	server.GracefulStop()
	wantLines(
		t, scrape(t, e, "").Body.String(),
		`kymogram_node_requests_total{code="OK",protocol="grpc",route="/grpc.health.v1.Health/Check"} 2`,
		`kymogram_node_requests_total{code="NotFound",protocol="grpc",route="/grpc.health.v1.Health/Check"} 1`,
		`kymogram_node_requests_total{code="Canceled",protocol="grpc",route="/grpc.health.v1.Health/Watch"} 1`,
		`kymogram_node_request_duration_seconds_count{protocol="grpc",route="/grpc.health.v1.Health/Check"} 3`,
	)
}

func TestOnlyMetricsIsServed(t *testing.T) {
	address := start(t, metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true, Log: slog.New(slog.DiscardHandler)}))
	for request, want := range map[string]int{
		"GET /metrics": 200, "HEAD /metrics": 200, "GET /metrics?x=1": 200,
		"POST /metrics": 405, "PUT /metrics": 405, "DELETE /metrics": 405,
		"GET /": 404, "GET /metrics/": 404, "GET /debug/pprof/": 404, "GET //metrics": 404, "GET /metrics/../metrics": 404,
	} {
		if got := raw(t, address, request+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); !strings.HasPrefix(got, fmt.Sprintf("HTTP/1.1 %d ", want)) {
			t.Errorf("%s: %.60q, want %d", request, got, want)
		}
	}
	huge := "GET /metrics HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n"
	got, err := ask(address, huge)
	for err != nil { // the server ends the connection, and what it said may be lost with it
		got, err = ask(address, huge)
	}
	if !strings.HasPrefix(got, "HTTP/1.1 431 ") {
		t.Errorf("a header of 64 KiB: %.60q", got)
	}
}

// ask sends bytes and reads the first line that comes back.
func ask(address, request string) (string, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

// raw is ask for a request that has to be answered.
func raw(t *testing.T, address, request string) string {
	t.Helper()
	line, err := ask(address, request)
	if err != nil {
		t.Error(err)
	}
	return line
}

func TestScrapesAreLimited(t *testing.T) {
	now := time.Unix(0, 0)
	e := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true, Now: func() time.Time { return now }})
	passed := func() (n int) {
		for range 100 {
			w := httptest.NewRecorder()
			e.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
			switch w.Code {
			case http.StatusOK:
				n++
			case http.StatusTooManyRequests:
				if w.Header().Get("Retry-After") != "1" {
					t.Fatal("no Retry-After")
				}
			default:
				t.Fatal(w.Code)
			}
		}
		return n
	}
	if n := passed(); n != 20 {
		t.Fatalf("%d scrapes at once", n)
	}
	now = now.Add(time.Second / 2)
	if n := passed(); n != 10 {
		t.Fatalf("%d scrapes after half a second", n)
	}
}

// Connections that say nothing are no more than 32, and the next one waits for its
// turn instead of being served beside them.
func TestConnectionsAreLimited(t *testing.T) {
	address := start(t, metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true, Log: slog.New(slog.DiscardHandler)}))
	var idle []net.Conn
	for range 32 {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		idle = append(idle, conn)
	}
	answered := make(chan string, 1)
	go func() { answered <- raw(t, address, "GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n") }()
	select {
	case got := <-answered:
		t.Fatalf("the 33rd connection was served: %q", got)
	case <-time.After(100 * time.Millisecond): // longer than an answer takes; never a failure when it is not
	}
	idle[0].Close()
	if got := <-answered; !strings.HasPrefix(got, "HTTP/1.1 200 ") {
		t.Fatal(got)
	}
}

func TestServeSaysThatAnAddressIsTaken(t *testing.T) {
	e := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true, Log: slog.New(slog.DiscardHandler)})
	address := start(t, e)
	if err := metrics.Serve(t.Context(), address, e); err == nil || !strings.Contains(err.Error(), address) {
		t.Fatal(err)
	}
}

func TestExpositionRefusesWhatCannotBeCounted(t *testing.T) {
	e := metrics.NewEndpoint(metrics.EndpointOptions{NoMachine: true})
	reg, _ := newRegistry(t, 20_000)
	reg.Configure(e.Exposition())
	reg.PutMetric("a.count", -1)
	reg.PutMetric("a.duration.ms", -1)
	for i := range 10_000 {
		reg.PutMetric(fmt.Sprint("gauge ", i), 1)
	}
	if err := reg.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The two names that were refused count, so two gauges are too many.
	if c := reg.Counts()[0]; c.Failed != 4 || c.Emitted != 9_998 {
		t.Fatalf("%+v", c)
	}
}

// A real Prometheus reads the endpoint as this package means it.
func TestPrometheusScrapes(t *testing.T) {
	address := start(t, node(t))
	config := "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: node\n  static_configs: [{targets: ['" + address + "']}]\n"
	p := prometheus.Start(t, config, nil)
	// The cards come late where a program starts late.
	p.Await(`kymogram_node_gpu_power_watts{gpu_id="0"}`, func(s []prometheus.Sample) bool { return len(s) == 1 })
	for query, want := range map[string]float64{
		`kymogram_metric_events_total{group="g",name="f.<locals>.x.count"}`: 2,
		`kymogram_metric_duration_seconds_sum{name="step.duration.ms"}`:     0.02,
		`kymogram_node_gpu_power_watts{gpu_id="0"}`:                         75.5,
		`up{job="node"}`:               1,
		`kymogram_node_score{uid="7"}`: 0.5,
		`count(kymogram_metric)`:       1,
	} {
		if got := p.Query(query); len(got) != 1 || got[0].Value != want {
			t.Errorf("%s is %v, want %v", query, got, want)
		}
	}
}
