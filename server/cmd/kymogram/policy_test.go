package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/server"
)

// need is what a route asks of a caller, written down a second time: it comes
// from api/http.md, not from the server's table.
type need struct {
	scope   string // open, ingest, read, admin, ingest and read
	project bool   // the request below is about w/p, so another project's key is refused
	path    string // an example; RUN is a run of w/p
	body    string
}

func routeNeeds() map[string]need {
	const blob = "/api/v1/blobs/0000000000000000000000000000000000000000000000000000000000000000"
	return map[string]need{
		"GET /":                    {"open", false, "/", ""},
		"GET /docs":                {"open", false, "/docs", ""},
		"GET /docs/{path...}":      {"open", false, "/docs/python", ""},
		"GET /healthz":             {"open", false, "/healthz", ""},
		"GET /readyz":              {"open", false, "/readyz", ""},
		"GET /api/v1/server":       {"open", false, "/api/v1/server", ""},
		"POST /api/v1/session":     {"open", false, "/api/v1/session", `{"token":"x"}`}, // answers 401 to a bad token
		"DELETE /api/v1/session":   {"open", false, "/api/v1/session", ""},
		"POST /api/v1/session/key": {"open", false, "/api/v1/session/key", `{"token":"x","name":"x","scopes":["read"]}`}, // as above
		"GET /api/v1/key":          {"any", false, "/api/v1/key", ""},
		"DELETE /api/v1/key":       {"any", false, "/api/v1/key", ""}, // answers 403 to a key that no login made
		"GET /metrics":             {"read", true, "/metrics", ""},    // of the whole server
		"POST /api/v2/write":       {"ingest", true, "/api/v2/write?org=w&bucket=p", "m f=1"},
		"GET /query":               {"read", true, "/query?db=p&q=SELECT+f+FROM+m", ""}, // of the workspace default
		"POST /query":              {"read", true, "/query?db=p&q=SELECT+f+FROM+m", ""},
		"GET /ping":                {"open", false, "/ping", ""},
		"POST /graphql":            {"read", false, "/graphql", `{"query":"{viewer{id}}"}`}, // what it names is checked by what it does
		"POST /files/{entity}/{project}/{run}/file_stream":                               {"ingest and read", true, "/files/w/p/r/file_stream", "{}"},
		"PUT /wandb/uploads/{run}/{name...}":                                             {"ingest", true, "/wandb/uploads/RUN/a.txt", "a"},
		"GET /wandb/files/{entity}/{project}/{run}/{name...}":                            {"read", true, "/wandb/files/w/p/r/a.txt", ""},
		"PUT /wandb/artifacts/{artifact}/files/{name...}":                                {"ingest", false, "/wandb/artifacts/1/files/a.txt", "a"}, // there is no artifact 1
		"PUT /wandb/artifacts/{artifact}/manifests/{number}":                             {"ingest", false, "/wandb/artifacts/1/manifests/1", "a"},
		"GET /artifactsV2/{region}/{entity}/{birth}/{md5}":                               {"read", false, "/artifactsV2/default/w/QXJ0aWZhY3Q6MQ==/00000000000000000000000000000000", ""},
		"GET /artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{md5}/{file}": {"read", true, "/artifactsV2/default/w/p/c/b/00000000000000000000000000000000/f", ""},
		"POST /sdk/otel/v1/{what}":                                                       {"open", false, "/sdk/otel/v1/logs", ""},
		"GET /health":                                                                    {"open", false, "/health", ""},
		"GET /ready":                                                                     {"open", false, "/ready", ""},
		"GET /api/v2/buckets":                                                            {"ingest", false, "/api/v2/buckets", ""},
		"GET /api/v2/orgs":                                                               {"ingest", false, "/api/v2/orgs", ""},
		"POST /write":                                                                    {"ingest", true, "/write?db=p", "m f=1"}, // of the workspace default
		"POST /api/v1/write":                                                             {"ingest", true, "/api/v1/write?workspace=w&project=p", ""},
		"GET /prometheus/api/v1/query":                                                   {"read", false, "/prometheus/api/v1/query?query=up", ""},
		"POST /prometheus/api/v1/query":                                                  {"read", false, "/prometheus/api/v1/query?query=up", ""},
		"GET /prometheus/api/v1/query_range":                                             {"read", false, "/prometheus/api/v1/query_range?query=up&start=0&end=10&step=1", ""},
		"POST /prometheus/api/v1/query_range":                                            {"read", false, "/prometheus/api/v1/query_range?query=up&start=0&end=10&step=1", ""},
		"GET /prometheus/api/v1/series":                                                  {"read", false, "/prometheus/api/v1/series?match[]=up", ""},
		"POST /prometheus/api/v1/series":                                                 {"read", false, "/prometheus/api/v1/series?match[]=up", ""},
		"GET /prometheus/api/v1/labels":                                                  {"read", false, "/prometheus/api/v1/labels", ""},
		"POST /prometheus/api/v1/labels":                                                 {"read", false, "/prometheus/api/v1/labels", ""},
		"GET /prometheus/api/v1/label/{name}/values":                                     {"read", false, "/prometheus/api/v1/label/run/values", ""},
		"POST /prometheus/api/v1/label/{name}/values":                                    {"read", false, "/prometheus/api/v1/label/run/values", ""},
		"GET /prometheus/api/v1/metadata":                                                {"read", false, "/prometheus/api/v1/metadata", ""},
		"POST /prometheus/api/v1/metadata":                                               {"read", false, "/prometheus/api/v1/metadata", ""},
		"GET /prometheus/api/v1/status/buildinfo":                                        {"read", false, "/prometheus/api/v1/status/buildinfo", ""},
		"POST /prometheus/api/v1/status/buildinfo":                                       {"read", false, "/prometheus/api/v1/status/buildinfo", ""},
		"GET /prometheus/federate":                                                       {"read", false, "/prometheus/federate?match[]=up", ""},
		"GET /prometheus/{workspace}/{project}/api/v1/query":                             {"read", true, "/prometheus/w/p/api/v1/query?query=up", ""},
		"POST /prometheus/{workspace}/{project}/api/v1/query":                            {"read", true, "/prometheus/w/p/api/v1/query?query=up", ""},
		"GET /prometheus/{workspace}/{project}/api/v1/query_range":                       {"read", true, "/prometheus/w/p/api/v1/query_range?query=up&start=0&end=10&step=1", ""},
		"POST /prometheus/{workspace}/{project}/api/v1/query_range":                      {"read", true, "/prometheus/w/p/api/v1/query_range?query=up&start=0&end=10&step=1", ""},
		"GET /prometheus/{workspace}/{project}/api/v1/series":                            {"read", true, "/prometheus/w/p/api/v1/series?match[]=up", ""},
		"POST /prometheus/{workspace}/{project}/api/v1/series":                           {"read", true, "/prometheus/w/p/api/v1/series?match[]=up", ""},
		"GET /prometheus/{workspace}/{project}/api/v1/labels":                            {"read", true, "/prometheus/w/p/api/v1/labels", ""},
		"POST /prometheus/{workspace}/{project}/api/v1/labels":                           {"read", true, "/prometheus/w/p/api/v1/labels", ""},
		"GET /prometheus/{workspace}/{project}/api/v1/label/{name}/values":               {"read", true, "/prometheus/w/p/api/v1/label/run/values", ""},
		"POST /prometheus/{workspace}/{project}/api/v1/label/{name}/values":              {"read", true, "/prometheus/w/p/api/v1/label/run/values", ""},
		"GET /prometheus/{workspace}/{project}/api/v1/metadata":                          {"read", true, "/prometheus/w/p/api/v1/metadata", ""},
		"POST /prometheus/{workspace}/{project}/api/v1/metadata":                         {"read", true, "/prometheus/w/p/api/v1/metadata", ""},
		"GET /prometheus/{workspace}/{project}/api/v1/status/buildinfo":                  {"read", true, "/prometheus/w/p/api/v1/status/buildinfo", ""},
		"POST /prometheus/{workspace}/{project}/api/v1/status/buildinfo":                 {"read", true, "/prometheus/w/p/api/v1/status/buildinfo", ""},
		"GET /prometheus/{workspace}/{project}/federate":                                 {"read", true, "/prometheus/w/p/federate?match[]=up", ""},

		"GET /sd/bittensor":                 {"read", false, "/sd/bittensor?netuid=1", ""},
		"POST /api/v1/open":                 {"ingest", true, "/api/v1/open", openBody(2)},
		"GET /api/v1/projects":              {"read", false, "/api/v1/projects", ""},
		"GET /api/v1/resolve":               {"read", true, "/api/v1/resolve?run=w/p/r", ""},
		"POST /v1/metrics":                  {"ingest", true, "/v1/metrics?workspace=w&project=p", ""},
		"GET /api/v1/runs/{id}":             {"read", true, "/api/v1/runs/RUN", ""},
		"PATCH /api/v1/runs/{id}":           {"ingest", true, "/api/v1/runs/RUN", `{"description":"d"}`},
		"DELETE /api/v1/runs/{id}":          {"admin", true, "/api/v1/runs/RUN", ""},
		"POST /api/v1/runs/{id}/restore":    {"admin", true, "/api/v1/runs/RUN/restore", ""},
		"GET /api/v1/runs/{id}/series":      {"read", true, "/api/v1/runs/RUN/series", ""},
		"GET /api/v1/runs/{id}/points":      {"read", true, "/api/v1/runs/RUN/points?metric=m", ""},
		"GET /api/v1/runs/{id}/buckets":     {"read", true, "/api/v1/runs/RUN/buckets?metric=m", ""},
		"POST /api/v1/buckets":              {"read", false, "/api/v1/buckets", `{"queries":[]}`},                    // refuses query by query
		"POST /api/v1/edits":                {"ingest", false, "/api/v1/edits", `{"runs":["RUN"],"add_tags":["x"]}`}, // so do these
		"POST /api/v1/deletions":            {"admin", false, "/api/v1/deletions", `{"runs":["RUN"]}`},
		"POST /api/v1/restorations":         {"admin", false, "/api/v1/restorations", `{"runs":["RUN"]}`},
		"POST /api/v1/overviews":            {"read", false, "/api/v1/overviews", `{"runs":[]}`}, // refuses run by run
		"POST /api/v1/kymograph":            {"read", true, "/api/v1/kymograph", `{"run":"RUN","metric":"m","rows":[{}]}`},
		"GET /api/v1/runs/{id}/renderings":  {"read", true, "/api/v1/runs/RUN/renderings", ""},
		"POST /api/v1/runs/{id}/renderings": {"ingest", true, "/api/v1/runs/RUN/renderings", `{"id":"w-1","env_id":"e"}`},

		"GET /api/v1/runs/{id}/state":         {"read", true, "/api/v1/runs/RUN/state", ""},
		"POST /api/v1/runs/{id}/state":        {"ingest", true, "/api/v1/runs/RUN/state", `{}`},
		"GET /api/v1/runs/{id}/state/history": {"read", true, "/api/v1/runs/RUN/state/history", ""},

		"GET /api/v1/projects/{workspace}/{project}/log/head":        {"read", true, "/api/v1/projects/w/p/log/head", ""},
		"GET /api/v1/projects/{workspace}/{project}/log/proof":       {"read", true, "/api/v1/projects/w/p/log/proof", ""},
		"GET /api/v1/projects/{workspace}/{project}/log/leaves":      {"read", true, "/api/v1/projects/w/p/log/leaves", ""},
		"GET /api/v1/projects/{workspace}/{project}/log/consistency": {"read", true, "/api/v1/projects/w/p/log/consistency", ""},
		"POST /api/v1/projects/{workspace}/{project}/log/witness":    {"ingest", true, "/api/v1/projects/w/p/log/witness", `{}`},

		"GET /api/v1/projects/{workspace}/{project}/views":           {"read", true, "/api/v1/projects/w/p/views", ""},
		"GET /api/v1/projects/{workspace}/{project}/views/{name}":    {"read", true, "/api/v1/projects/w/p/views/v", ""},
		"PUT /api/v1/projects/{workspace}/{project}/views/{name}":    {"ingest", true, "/api/v1/projects/w/p/views/v", "{}"},
		"DELETE /api/v1/projects/{workspace}/{project}/views/{name}": {"ingest", true, "/api/v1/projects/w/p/views/v", ""},

		"GET /api/v1/projects/{workspace}/{project}/network": {"read", true, "/api/v1/projects/w/p/network", ""},
		"GET /api/v1/projects/{workspace}/{project}/state":   {"read", true, "/api/v1/projects/w/p/state", ""},
		"GET /api/v1/runs/{id}/files":                        {"read", true, "/api/v1/runs/RUN/files", ""},
		"GET /api/v1/runs/{id}/files/{name...}":              {"read", true, "/api/v1/runs/RUN/files/media/a.png", ""},
		"GET /api/v1/runs/{id}/renderings/{rendering}/video": {"read", true, "/api/v1/runs/RUN/renderings/w-1/video", ""},
		"GET /api/v1/live":                                   {"read", true, "/api/v1/live?project=w/p", ""},
		"GET /api/v1/blobs/{sha256}":                         {"read", false, blob, ""}, // by content: no project
		"PUT /api/v1/blobs/{sha256}":                         {"ingest", false, blob, "other bytes"},
		"HEAD /api/v1/blobs/{sha256}/upload":                 {"ingest", false, blob + "/upload", ""},
		"PATCH /api/v1/blobs/{sha256}/upload":                {"ingest", false, blob + "/upload", "other bytes"},
		"GET /api/v1/blobs/{sha256}/url":                     {"read", false, blob + "/url", ""},
		"POST /api/v1/blobs/{sha256}/url":                    {"ingest", false, blob + "/url", ""},
		"GET /api/v1/keys":                                   {"admin", true, "/api/v1/keys", ""},
		"POST /api/v1/keys":                                  {"admin", true, "/api/v1/keys", `{"name":"n","scopes":["read"]}`},
		"DELETE /api/v1/keys/{id}":                           {"admin", true, "/api/v1/keys/000000000000", ""},
		"POST /api/v1/links":                                 {"admin", true, "/api/v1/links", "{}"},
		"GET /api/v1/projects/{workspace}/{project}/runs":    {"read", true, "/api/v1/projects/w/p/runs", ""},
		"GET /api/v1/projects/{workspace}/{project}/groups":  {"read", true, "/api/v1/projects/w/p/groups", ""},
	}
}

func openBody(writer int) string {
	return fmt.Sprintf(`{"writer":"%032x","workspace":"w","project":"p","run_name":"r","local_run":"01ARZ3NDEKTSV4RRFFQ69G5FAV",`+
		`"orchestration_id":"o","resume_strategy":"allow","host":"h","pid":1,"opened_ns":1700000000000000000}`, writer)
}

// served is a whole server with its parts, as serve wires them.
type served struct {
	t    testing.TB
	node *node
	*server.Server
	address string
	keys    map[string]string // by caller
	run     string
}

func serveNode(t testing.TB, noAuth bool) *served {
	t.Helper()
	return serveWith(t, "", noAuth, slog.New(slog.DiscardHandler))
}

// serveLogged keeps the server's log.
func serveLogged(t *testing.T, log *slog.Logger) *served {
	t.Helper()
	return serveWith(t, "", false, log)
}

func serveWith(t testing.TB, file string, noAuth bool, log *slog.Logger) *served {
	t.Helper()
	c, err := config.Load(file, func(string) string { return "" }, map[string]string{
		"data": t.TempDir(), "http": "127.0.0.1:0", "no_auth": fmt.Sprint(noAuth),
	})
	if err != nil {
		t.Fatal(err)
	}
	listeners, err := server.Listen(t.Context(), c.HTTP, "")
	if err != nil {
		t.Fatal(err)
	}
	n, err := openNode(t.Context(), c, log)
	if err != nil {
		t.Fatal(err)
	}
	srv, err := n.mount(listeners, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- n.run(ctx, srv) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
		if err := n.close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return &served{t: t, node: n, Server: srv, address: listeners.HTTP(), keys: map[string]string{"none": "", "wrong": strings.Repeat("0", 40)}}
}

func (s *served) addKey(name string, spec auth.KeySpec) auth.Key {
	s.t.Helper()
	spec.Name = name
	secret, key, err := s.node.keyring.Create(s.t.Context(), spec)
	if err != nil {
		s.t.Fatal(err)
	}
	s.keys[name] = secret
	return key
}

// addKeys makes the callers of the matrix and a run of w/p.
func (s *served) addKeys() {
	s.t.Helper()
	all := []auth.Scope{auth.Ingest, auth.Read, auth.Admin}
	for _, scope := range all {
		s.addKey(string(scope), auth.KeySpec{Scopes: []auth.Scope{scope}})
	}
	s.addKey("other project", auth.KeySpec{Scopes: all, Workspace: "w", Project: "q"})
	s.addKey("other workspace", auth.KeySpec{Scopes: all, Workspace: "v"})
	revoked := s.addKey("revoked", auth.KeySpec{Scopes: all})
	if err := s.node.keyring.Revoke(s.t.Context(), revoked.ID); err != nil {
		s.t.Fatal(err)
	}
	s.expiredKey()
	var opened struct {
		Run string `json:"run"`
	}
	code, body := s.request("POST", "/api/v1/open", openBody(1), s.keys["ingest"])
	if err := json.Unmarshal([]byte(body), &opened); err != nil || code != 200 || opened.Run == "" {
		s.t.Fatalf("open: %d %s", code, body)
	}
	s.run = opened.Run
}

// expiredKey stores a key whose end is in the past: none can be made so.
func (s *served) expiredKey() {
	s.t.Helper()
	past := auth.New(s.node.catalog, func() time.Time { return time.Now().Add(-2 * time.Hour) }, false)
	secret, _, err := past.Create(s.t.Context(), auth.KeySpec{
		Name: "expired", Expires: time.Hour, Scopes: []auth.Scope{catalog.ScopeAdmin},
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.keys["expired"] = secret
}

func (s *served) request(method, path, body, key string) (int, string) {
	s.t.Helper()
	// An event stream never ends: its status is what counts.
	ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, "http://"+s.address+strings.ReplaceAll(path, "RUN", s.run), strings.NewReader(strings.ReplaceAll(body, "RUN", s.run)))
	if err != nil {
		s.t.Fatal(err)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	if strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return response.StatusCode, ""
	}
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// verdict is what the matrix expects: a refusal's status, or 0 for let in.
func (n need) verdict(caller string) int {
	if n.scope == "open" {
		return 0
	}
	switch caller {
	case "none", "wrong", "expired", "revoked":
		return http.StatusUnauthorized
	case "admin", n.scope:
		return 0
	case "ingest", "read", "other project", "other workspace":
		if n.scope == "any" {
			return 0
		}
	}
	switch caller {
	case "ingest", "read":
		return http.StatusForbidden
	}
	if n.project { // a key of another project
		return http.StatusForbidden
	}
	return 0
}

func TestEveryRouteKeepsItsPolicy(t *testing.T) {
	s, needs := serveNode(t, false), routeNeeds()
	s.addKeys()
	for _, route := range s.Routes() {
		n, ok := needs[route]
		if !ok {
			t.Errorf("%s: this test does not know the route", route)
			continue
		}
		delete(needs, route)
		method, _, _ := strings.Cut(route, " ")
		for caller, key := range s.keys {
			code, body := s.request(method, n.path, n.body, key)
			switch want := n.verdict(caller); {
			case route == "DELETE /api/v1/key" && want == 0:
				if code != http.StatusForbidden {
					t.Errorf("%s as %s: %d %s", route, caller, code, body)
				}
			case route == "POST /api/v1/session", route == "POST /api/v1/session/key":
				if code != http.StatusUnauthorized {
					t.Errorf("%s as %s: %d %s", route, caller, code, body)
				}
			case want != 0 && code != want:
				t.Errorf("%s as %s: %d %s, want %d", route, caller, code, body, want)
			case want == 0 && (code == http.StatusUnauthorized || code == http.StatusForbidden || code >= 500):
				t.Errorf("%s as %s: %d %s, want it let in", route, caller, code, body)
			}
		}
	}
	for route := range needs {
		t.Errorf("%s is not served", route)
	}
}

// A key sees the projects it is for, and no others, also where the route itself
// is open to it.
func TestOtherProjectsAreInvisible(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	for _, caller := range []string{"other project", "other workspace"} {
		if code, body := s.request("GET", "/api/v1/projects", "", s.keys[caller]); code != 200 || strings.Contains(body, `"p"`) {
			t.Errorf("projects as %s: %d %s", caller, code, body)
		}
		query := fmt.Sprintf(`{"queries":[{"run":%q,"metric":"m"}]}`, s.run)
		if code, body := s.request("POST", "/api/v1/buckets", query, s.keys[caller]); code != 200 || !strings.Contains(body, string(model.CodePermission)) {
			t.Errorf("buckets as %s: %d %s", caller, code, body)
		}
		if code, body := s.request("POST", "/api/v1/overviews", fmt.Sprintf(`{"runs":[%q]}`, s.run), s.keys[caller]); code != 200 || !strings.HasPrefix(body, `{"overviews":[{"error":{"code":"`+string(model.CodePermission)) {
			t.Errorf("overviews as %s: %d %s", caller, code, body)
		}
	}
	if _, body := s.request("GET", "/api/v1/projects", "", s.keys["read"]); !strings.Contains(body, `"p"`) {
		t.Errorf("projects as read: %s", body)
	}
}

func TestEveryMethodKeepsItsPolicy(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	type call struct {
		need
		request proto.Message
	}
	series := &kymogramv1.SeriesSelector{Run: s.run, Metric: "m"}
	calls := map[string]call{
		"/kymogram.v1.IngestService/Stream": {need{scope: "ingest", project: true}, &kymogramv1.StreamRequest{
			Message: &kymogramv1.StreamRequest_Open{Open: &kymogramv1.Open{Request: []byte(openBody(3)), Protocol: 1}},
		}},
		"/kymogram.v1.RunService/ListRuns":     {need{scope: "read", project: true}, &kymogramv1.ListRunsRequest{Workspace: "w", Project: "p"}},
		"/kymogram.v1.RunService/GetRun":       {need{scope: "read", project: true}, &kymogramv1.GetRunRequest{Id: s.run}},
		"/kymogram.v1.RunService/DeleteRun":    {need{scope: "admin", project: true}, &kymogramv1.DeleteRunRequest{Id: s.run}},
		"/kymogram.v1.QueryService/ListSeries": {need{scope: "read", project: true}, &kymogramv1.ListSeriesRequest{Run: s.run}},
		"/kymogram.v1.QueryService/Points":     {need{scope: "read", project: true}, &kymogramv1.PointsRequest{Series: series}},
		"/kymogram.v1.QueryService/Buckets":    {need{scope: "read", project: true}, &kymogramv1.BucketsRequest{Series: series}},

		"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": {need{scope: "ingest", project: true}, &metrics.MetricsData{}}, // of the workspace default
	}
	conn, err := grpc.NewClient("passthrough:///"+s.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	codeOf := map[int]codes.Code{http.StatusUnauthorized: codes.Unauthenticated, http.StatusForbidden: codes.PermissionDenied}
	refusals := []codes.Code{codes.Unauthenticated, codes.PermissionDenied, codes.Internal, codes.Unimplemented, codes.Unknown}
	for _, method := range s.Methods() {
		c, ok := calls[method]
		if !ok {
			t.Errorf("%s: this test does not know the method", method)
			continue
		}
		for caller, key := range s.keys {
			got := status.Code(invoke(t, conn, method, c.request, key))
			if want := c.verdict(caller); want != 0 && got != codeOf[want] {
				t.Errorf("%s as %s: %s, want %s", method, caller, got, codeOf[want])
			} else if want == 0 && slices.Contains(refusals, got) {
				t.Errorf("%s as %s: %s, want it let in", method, caller, got)
			}
		}
	}
}

// invoke makes one exchange of any kind of call; the answer's type does not matter.
func invoke(t *testing.T, conn *grpc.ClientConn, method string, request proto.Message, key string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	stream, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, method)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err == nil {
		err = stream.CloseSend()
		if err != nil {
			return err
		}
	}
	answer := &kymogramv1.StreamResponse{}
	if err := stream.RecvMsg(answer); err != nil {
		return err
	}
	if f := answer.GetFailure(); f != nil && strings.HasSuffix(method, "/Stream") {
		return status.Error(failureCode(f.GetCode()), f.GetMessage())
	}
	return nil
}

func failureCode(code string) codes.Code {
	switch model.Code(code) {
	case model.CodePermission:
		return codes.PermissionDenied
	case model.CodeUnauthenticated:
		return codes.Unauthenticated
	}
	return codes.Unknown
}

func TestNoAuthLetsEverybodyIn(t *testing.T) {
	s := serveNode(t, true)
	code, body := s.request("POST", "/api/v1/open", openBody(1), "")
	if code != 200 {
		t.Fatalf("open: %d %s", code, body)
	}
	for _, key := range []string{"", "any", strings.Repeat("0", 40)} {
		for _, path := range []string{"/api/v1/projects/w/p/runs", "/metrics", "/api/v1/keys"} {
			if code, body := s.request("GET", path, "", key); code != 200 {
				t.Errorf("%s with key %q: %d %s", path, key, code, body)
			}
		}
	}
}
