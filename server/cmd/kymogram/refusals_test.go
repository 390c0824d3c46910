package main

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/server/internal/server"
)

// refused is what kymogram_refusals_total says.
func (s *served) refused(protocol, code string) int {
	s.t.Helper()
	_, page := s.request("GET", "/metrics", "", s.keys["read"])
	m := regexp.MustCompile(fmt.Sprintf(`(?m)^kymogram_refusals_total\{code=%q,protocol=%q\} (\d+)$`, code, protocol)).FindStringSubmatch(page)
	if m == nil {
		return 0
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// counts fails unless what is done is one more refusal.
func (s *served) counts(what, protocol, code string, do func()) {
	s.t.Helper()
	before := s.refused(protocol, code)
	do()
	if more := s.refused(protocol, code) - before; more != 1 {
		s.t.Errorf("%s: %d refusals with %s are counted, want 1", what, more, code)
	}
}

// Every refusal is counted once by its code, whatever was asked and however it is answered.
func TestEveryRefusalIsCounted(t *testing.T) {
	s, policy := serveNode(t, false), server.DefaultPolicy()
	s.addKeys()
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ask := func(method, path, body, key string) func() {
		return func() { s.request(method, path, body, s.keys[key]) }
	}
	for route, n := range routeNeeds() {
		if method, _, _ := strings.Cut(route, " "); !policy.HTTP[route].Open {
			s.counts(route, "http", "unauthenticated", ask(method, n.path, n.body, "none"))
		}
	}
	for method, rule := range policy.RPC {
		if !rule.Open {
			s.counts(method, "grpc", "unauthenticated", func() { _ = invoke(t, conn, method, &kymogramv1.StreamRequest{}, "") })
		}
	}
	s.counts("a stream's own words", "grpc", "invalid_argument", func() {
		_ = invoke(t, conn, "/kymogram.v1.IngestService/Stream", &kymogramv1.StreamRequest{}, s.keys["ingest"])
	})
	s.counts("a call", "grpc", "not_found", func() {
		_ = invoke(t, conn, "/kymogram.v1.RunService/GetRun", &kymogramv1.GetRunRequest{Id: "01BX5ZZKBKACTAV9WEVGEMMVRZ"}, s.keys["read"])
	})
	s.counts("a run", "http", "not_found", ask("GET", "/api/v1/runs/01BX5ZZKBKACTAV9WEVGEMMVRZ", "", "read"))
	s.counts("line protocol", "http", "invalid_argument", ask("POST", "/api/v2/write?org=w&bucket=p", "no line", "ingest"))
	s.counts("remote write", "http", "permission_denied", ask("POST", "/api/v1/write?workspace=w&project=p", "", "read"))
	s.counts("a large body", "http", "too_large", ask("POST", "/api/v2/write?org=w&bucket=p", strings.Repeat("m f=1\n", 3<<20), "ingest"))
	s.counts("another host", "http", "permission_denied", func() {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.address+"/healthz", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = "elsewhere.example"
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, answer.Body)
		_ = answer.Body.Close()
	})
}
