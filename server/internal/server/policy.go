package server

import (
	"context"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
)

// Rule says who may call a route or a method. The zero Rule denies everybody.
type Rule struct {
	// Open needs no key.
	Open bool
	// Scope is what a key must hold in some project; the handler's service then
	// checks the project it finds.
	Scope auth.Scope
	// Signed lets a request through whose URL carries a valid signature; without
	// one, Scope decides.
	Signed bool
	// Stream answers for as long as the client listens: no deadline, ended by a
	// stop or by the end of the key.
	Stream bool
	// Large bodies are not cut at the limit and may take their time. Large messages of an
	// RPC may be as large as the limit of bodies; others are questions of a few bytes.
	Large bool
	// Whole is for keys of the whole server: one for a project or workspace is refused.
	Whole bool
	// Own is for any key: the route is about the caller's key itself.
	Own bool
	// Event is what the security log calls a call that succeeded.
	Event string
	// Foreign clients may give the key as theirs do: Token KEY, the password of
	// Basic, or p in the URL.
	Foreign bool
	// GraphQL clients show why they were refused when they find it where GraphQL has it.
	GraphQL bool
}

// Policy is deny by default: what is not listed cannot be registered.
type Policy struct {
	HTTP map[string]Rule // by pattern of http.ServeMux
	RPC  map[string]Rule // by full method
}

// DefaultPolicy is the one table of who may do what.
func DefaultPolicy() Policy {
	open := Rule{Open: true}
	ingest := Rule{Scope: auth.Ingest}
	read := Rule{Scope: auth.Read}
	whole := Rule{Scope: auth.Admin, Whole: true}
	deletes := Rule{Scope: auth.Admin, Event: eventDeleted}
	foreign := Rule{Scope: auth.Read, Foreign: true}
	return Policy{
		HTTP: map[string]Rule{
			"GET /healthz":           open,
			"GET /readyz":            open,
			"GET /api/v1/server":     open,
			"GET /":                  open, // the page's own files
			"GET /docs":              open,
			"GET /docs/{path...}":    open,
			"POST /api/v1/session":   open,
			"DELETE /api/v1/session": open,                            // ends the session of its cookie
			"GET /metrics":           {Scope: auth.Read, Whole: true}, // totals of all projects
			"GET /sd/bittensor":      read,

			"POST /api/v2/write": {Scope: auth.Ingest, Foreign: true}, // InfluxDB 2
			"POST /write":        {Scope: auth.Ingest, Foreign: true}, // InfluxDB 1
			"GET /query":         {Scope: auth.Read, Foreign: true},   // InfluxDB 1
			"POST /query":        {Scope: auth.Read, Foreign: true},
			"GET /ping":          open, // both
			"GET /health":        open,
			"GET /ready":         open,

			"GET /api/v2/buckets": {Scope: auth.Ingest, Foreign: true},
			"GET /api/v2/orgs":    {Scope: auth.Ingest, Foreign: true},

			"POST /api/v1/write": {Scope: auth.Ingest, Foreign: true}, // Prometheus
			"POST /v1/metrics":   {Scope: auth.Ingest, Foreign: true}, // OpenTelemetry

			"GET /prometheus/api/v1/query":                foreign,
			"POST /prometheus/api/v1/query":               foreign,
			"GET /prometheus/api/v1/query_range":          foreign,
			"POST /prometheus/api/v1/query_range":         foreign,
			"GET /prometheus/api/v1/series":               foreign,
			"POST /prometheus/api/v1/series":              foreign,
			"GET /prometheus/api/v1/labels":               foreign,
			"POST /prometheus/api/v1/labels":              foreign,
			"GET /prometheus/api/v1/label/{name}/values":  foreign,
			"POST /prometheus/api/v1/label/{name}/values": foreign,
			"GET /prometheus/api/v1/metadata":             foreign,
			"POST /prometheus/api/v1/metadata":            foreign,
			"GET /prometheus/api/v1/status/buildinfo":     foreign,
			"POST /prometheus/api/v1/status/buildinfo":    foreign,
			"GET /prometheus/federate":                    foreign,

			"GET /prometheus/{workspace}/{project}/api/v1/query":                foreign,
			"POST /prometheus/{workspace}/{project}/api/v1/query":               foreign,
			"GET /prometheus/{workspace}/{project}/api/v1/query_range":          foreign,
			"POST /prometheus/{workspace}/{project}/api/v1/query_range":         foreign,
			"GET /prometheus/{workspace}/{project}/api/v1/series":               foreign,
			"POST /prometheus/{workspace}/{project}/api/v1/series":              foreign,
			"GET /prometheus/{workspace}/{project}/api/v1/labels":               foreign,
			"POST /prometheus/{workspace}/{project}/api/v1/labels":              foreign,
			"GET /prometheus/{workspace}/{project}/api/v1/label/{name}/values":  foreign,
			"POST /prometheus/{workspace}/{project}/api/v1/label/{name}/values": foreign,
			"GET /prometheus/{workspace}/{project}/api/v1/metadata":             foreign,
			"POST /prometheus/{workspace}/{project}/api/v1/metadata":            foreign,
			"GET /prometheus/{workspace}/{project}/api/v1/status/buildinfo":     foreign,
			"POST /prometheus/{workspace}/{project}/api/v1/status/buildinfo":    foreign,
			"GET /prometheus/{workspace}/{project}/federate":                    foreign,

			"POST /graphql": {Scope: auth.Read, Foreign: true, GraphQL: true}, // W&B
			"POST /files/{entity}/{project}/{run}/file_stream":                               {Scope: auth.Ingest, Foreign: true, GraphQL: true},
			"PUT /wandb/uploads/{run}/{name...}":                                             {Scope: auth.Ingest, Signed: true, Large: true},
			"GET /wandb/files/{entity}/{project}/{run}/{name...}":                            {Scope: auth.Read, Foreign: true, Large: true},
			"PUT /wandb/artifacts/{artifact}/files/{name...}":                                {Scope: auth.Ingest, Signed: true, Large: true},
			"PUT /wandb/artifacts/{artifact}/manifests/{number}":                             {Scope: auth.Ingest, Signed: true, Large: true},
			"GET /artifactsV2/{region}/{entity}/{birth}/{md5}":                               {Scope: auth.Read, Foreign: true, Large: true},
			"GET /artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{md5}/{file}": {Scope: auth.Read, Foreign: true, Large: true},
			"POST /sdk/otel/v1/{what}":                                                       {Open: true, Large: true}, // sent without a key, and not read

			"POST /api/v1/open":                                 ingest,
			"GET /api/v1/projects":                              read,
			"GET /api/v1/projects/{workspace}/{project}/runs":   read,
			"GET /api/v1/runs/{id}":                             read,
			"GET /api/v1/projects/{workspace}/{project}/groups": read,
			"POST /api/v1/edits":                                ingest,
			"POST /api/v1/deletions":                            deletes,
			"POST /api/v1/restorations":                         {Scope: auth.Admin, Event: eventRestored},
			"PATCH /api/v1/runs/{id}":                           ingest,
			"DELETE /api/v1/runs/{id}":                          deletes,
			"POST /api/v1/runs/{id}/restore":                    {Scope: auth.Admin, Event: eventRestored},
			"GET /api/v1/resolve":                               read,
			"GET /api/v1/runs/{id}/series":                      read,
			"GET /api/v1/runs/{id}/points":                      read,
			"GET /api/v1/runs/{id}/buckets":                     read,
			"POST /api/v1/buckets":                              read,
			"POST /api/v1/overviews":                            read,
			"POST /api/v1/kymograph":                            read,
			"GET /api/v1/runs/{id}/renderings":                  read,
			"POST /api/v1/runs/{id}/renderings":                 ingest,
			"GET /api/v1/runs/{id}/files":                       read,

			"GET /api/v1/runs/{id}/state":         read,
			"POST /api/v1/runs/{id}/state":        ingest,
			"GET /api/v1/runs/{id}/state/history": read,

			"GET /api/v1/projects/{workspace}/{project}/log/head":        read,
			"GET /api/v1/projects/{workspace}/{project}/log/proof":       read,
			"GET /api/v1/projects/{workspace}/{project}/log/leaves":      read,
			"GET /api/v1/projects/{workspace}/{project}/log/consistency": read,
			"POST /api/v1/projects/{workspace}/{project}/log/witness":    ingest,

			"GET /api/v1/projects/{workspace}/{project}/views":           read,
			"GET /api/v1/projects/{workspace}/{project}/views/{name}":    read,
			"PUT /api/v1/projects/{workspace}/{project}/views/{name}":    ingest,
			"DELETE /api/v1/projects/{workspace}/{project}/views/{name}": ingest,

			"GET /api/v1/projects/{workspace}/{project}/state":   {Scope: auth.Read, Stream: true}, // it may wait
			"GET /api/v1/projects/{workspace}/{project}/network": {Scope: auth.Read, Stream: true},

			"GET /api/v1/runs/{id}/renderings/{rendering}/video": {Scope: auth.Read, Large: true},
			"GET /api/v1/runs/{id}/files/{name...}":              {Scope: auth.Read, Large: true},

			"GET /api/v1/live": {Scope: auth.Read, Stream: true},

			"GET /api/v1/blobs/{sha256}": {Scope: auth.Read, Signed: true, Large: true},
			"PUT /api/v1/blobs/{sha256}": {Scope: auth.Ingest, Signed: true, Large: true},

			"HEAD /api/v1/blobs/{sha256}/upload":  ingest, // how far it is
			"PATCH /api/v1/blobs/{sha256}/upload": {Scope: auth.Ingest, Large: true},
			"GET /api/v1/blobs/{sha256}/url":      read,   // signs a download
			"POST /api/v1/blobs/{sha256}/url":     ingest, // signs an upload

			"GET /api/v1/keys":         whole,
			"POST /api/v1/keys":        whole,
			"DELETE /api/v1/keys/{id}": whole,
			"POST /api/v1/links":       whole,
			"POST /api/v1/session/key": open, // trades a one-time link
			"GET /api/v1/key":          {Own: true},
			"DELETE /api/v1/key":       {Own: true},
		},
		RPC: map[string]Rule{
			"/kymogram.v1.IngestService/Stream":    {Scope: auth.Ingest, Large: true},
			"/kymogram.v1.RunService/ListRuns":     read,
			"/kymogram.v1.RunService/GetRun":       read,
			"/kymogram.v1.RunService/DeleteRun":    deletes,
			"/kymogram.v1.QueryService/ListSeries": read,
			"/kymogram.v1.QueryService/Points":     read,
			"/kymogram.v1.QueryService/Buckets":    read,

			"/opentelemetry.proto.collector.metrics.v1.MetricsService/Export": {Scope: auth.Ingest, Large: true},
		},
	}
}

// allow fails unless the context's caller may do what the rule is about.
func (r Rule) allow(ctx context.Context) error {
	if r.Own && auth.PrincipalOf(ctx) != nil {
		return nil
	}
	if err := auth.Require(ctx, r.Scope); err != nil {
		return err
	}
	if p := auth.PrincipalOf(ctx); r.Whole && !p.Everywhere(r.Scope) {
		return model.Errorf(model.CodePermission, "this needs a key of the whole server; the key %q is for one project or workspace", p.Name).
			WithHint("an admin makes one with: kymogram key create --scope %s", r.Scope)
	}
	return nil
}

// check reports whether a rule decides anything.
func (r Rule) check(name string) error {
	ways := 0
	for _, way := range []bool{r.Open, r.Own, r.Scope != ""} {
		if way {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("%s: no policy: it must be open, for any key, or name a scope, see server/policy.go", name)
	}
	return nil
}
