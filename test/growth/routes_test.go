package growth

import (
	"bytes"
	"crypto/md5" //nolint:gosec // the names of W&B's files
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	influx = "/api/v2/write?org=w&bucket=p&precision=ns"
	prom   = "/api/v1/write?workspace=w&project=p"
	otlp   = "/v1/metrics?workspace=w&project=p"
)

// bodies grows the body of a route that writes; it may be refused.
func bodies(path string, body func(n int) []byte) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		b, header := body(n), map[string]string{}
		if path == prom {
			header["Content-Encoding"], header["Content-Type"] = "snappy", "application/x-protobuf"
			header["X-Prometheus-Remote-Write-Version"] = "0.1.0"
		}
		if path == otlp {
			header["Content-Type"] = "application/x-protobuf"
		}
		return func() { l.any("POST", path, b, header) }
	}
}

// lines grows a body of line protocol.
func lines(path string, body func(n int) string) func(*lab, int) func() {
	return bodies(path, func(n int) []byte { return []byte(body(n)) })
}

// queries grows a GraphQL document; it may be refused.
func queries(query func(n int) string) func(*lab, int) func() {
	return bodies("/graphql", func(n int) []byte { return document(map[string]any{"query": query(n)}) })
}

// wandbRuns lists the runs of a project by a filter that all of them pass.
func wandbRuns(l *lab, n int) func() {
	project := text(n, "wandb%d")
	for i := range n {
		l.ok("POST", "/graphql", document(map[string]any{"query": `mutation{upsertBucket(input:{entityName:"w",modelName:"` + project + `",name:"` + text(i, "r%d") + `",config:"{\"lr\":{\"value\":1}}",host:"h"}){inserted}}`}))
	}
	body := document(map[string]any{"query": `{project(name:"` + project + `",entityName:"w"){runCount(filters:"{\"config.lr\":1}") runs(filters:"{\"config.lr\":1}",first:50){edges{node{name config}}}}}`})
	return func() { l.ok("POST", "/graphql", body) }
}

// wandbNode is the id of an artifact as the API of W&B writes it.
func wandbNode(artifact string) string {
	return base64.StdEncoding.EncodeToString([]byte("Artifact:" + artifact))
}

// wandbArtifact makes a pending artifact of w/p, and gives its number.
func wandbArtifact(l *lab, collection, digest string) string {
	var out struct {
		Data struct {
			CreateArtifact struct{ Artifact struct{ ID string } }
		}
	}
	answer := l.ok("POST", "/graphql", document(map[string]any{
		"query": `mutation{createArtifact(input:{entityName:"w",projectName:"p",artifactTypeName:"data",artifactCollectionName:"` + collection + `",digest:"` + digest + `"}){artifact{id}}}`,
	}))
	if err := json.Unmarshal(answer, &out); err != nil {
		l.t.Fatal(err)
	}
	id, err := base64.StdEncoding.DecodeString(out.Data.CreateArtifact.Artifact.ID)
	if err != nil || len(id) == 0 {
		l.t.Fatalf("create an artifact: %s", answer)
	}
	return strings.TrimPrefix(string(id), "Artifact:")
}

// wandbBytes gives an artifact a file of n bytes, and their MD5.
func wandbBytes(l *lab, n int) (artifact, sum string) {
	body := make([]byte, n)
	artifact = wandbArtifact(l, text(n, "read%d"), "d")
	l.ok("PUT", "/wandb/artifacts/"+artifact+"/files/f", body)
	h := md5.Sum(body) //nolint:gosec // the names of W&B's files
	return artifact, hex.EncodeToString(h[:])
}

// wandbFiles commits an artifact of n files, whose bytes are there.
func wandbFiles(l *lab, n int) func() {
	const sum = "DMF1ucDxtqgxw5niaXcmYQ==" // of "a"
	artifact := wandbArtifact(l, text(n, "files%d"), "d")
	l.ok("PUT", "/wandb/artifacts/"+artifact+"/files/f", []byte("a"))
	l.ok("POST", "/graphql", document(map[string]any{"query": `mutation{createArtifactManifest(input:{artifactID:"` + wandbNode(artifact) + `",name:"m",digest:"",type:FULL}){artifactManifest{id}}}`}))
	manifest := `{"version":1,"contents":{"f":{"digest":"` + sum + `","size":1}` + repeat(n, `,"f%d":{"digest":"`+sum+`","size":1}`) + `}}`
	l.ok("PUT", "/wandb/artifacts/"+artifact+"/manifests/1", []byte(manifest))
	body := document(map[string]any{"query": `mutation{commitArtifact(input:{artifactID:"` + wandbNode(artifact) + `"}){artifact{id files(first:1000){edges{node{name directUrl}}}}}}`})
	return func() {
		if answer := l.ok("POST", "/graphql", body); bytes.Contains(answer, []byte(`"errors"`)) {
			l.t.Fatalf("%.300s", answer)
		}
	}
}

// wandbVersions lists a collection of n versions.
func wandbVersions(l *lab, n int) func() {
	collection := text(n, "versions%d")
	for i := range n {
		artifact := wandbArtifact(l, collection, text(i, "d%d"))
		l.ok("POST", "/graphql", document(map[string]any{"query": `mutation{createArtifactManifest(input:{artifactID:"` + wandbNode(artifact) + `",name:"m",digest:"",type:FULL}){artifactManifest{id}}}`}))
		l.ok("PUT", "/wandb/artifacts/"+artifact+"/manifests/1", []byte(`{"version":1,"contents":{}}`))
		l.ok("POST", "/graphql", document(map[string]any{"query": `mutation{commitArtifact(input:{artifactID:"` + wandbNode(artifact) + `"}){artifact{id}}}`}))
	}
	body := document(map[string]any{"query": `{project(name:"p",entityName:"w"){artifactType(name:"data"){artifactCollection(name:"` + collection +
		`"){artifacts(first:50){totalCount edges{version node{id digest aliases{alias} currentManifest{file{directUrl}}}}}}}}}`})
	return func() { l.ok("POST", "/graphql", body) }
}

// chunks grows the lines of a history; each begins with a comma.
func chunks(lines func(n int) string) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		run := text(n, "stream%d")
		l.ok("POST", "/graphql", document(map[string]any{"query": `mutation{upsertBucket(input:{entityName:"w",modelName:"p",name:"` + run + `",host:"h"}){inserted}}`}))
		body := []byte(`{"files":{"wandb-history.jsonl":{"offset":0,"content":["{\"_step\":0}"` + lines(n) + `]}}}`)
		return func() { l.any("POST", "/files/w/p/"+run+"/file_stream", body, nil) }
	}
}

// influxSeries writes new series, at most as many in a request as one may have half of.
func influxSeries(l *lab, n int) func() {
	const each = 16_000
	var requests [][]byte
	for from := 0; from < n; from += each {
		var b strings.Builder
		for i := from; i < min(n, from+each); i++ {
			fmt.Fprintf(&b, "m,k=v%d f=1\n", i)
		}
		requests = append(requests, []byte(b.String()))
	}
	return func() {
		for _, body := range requests {
			l.ok("POST", influx, body)
		}
	}
}

// opens grows the request that opens a run.
func opens(change func(r *model.OpenRequest, n int)) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		r := opening("r")
		change(r, n)
		return func() { l.any("POST", "/api/v1/open", document(r), nil) }
	}
}

// reads prepares something and reads it by one request; RUN is what prepare returns.
func reads(path string, prepare func(l *lab, n int) string) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		path := strings.ReplaceAll(strings.ReplaceAll(path, "RUN", prepare(l, n)), "SIZE", strconv.Itoa(n))
		return func() { l.ok("GET", path, nil) }
	}
}

const viewsPath = "/api/v1/projects/w/p/views"

// viewOf is a view document of n panels.
func viewOf(n int, description string) []byte {
	return document(map[string]any{"format": 1, "title": "t", "panels": collect(n, func(int) any {
		return map[string]any{"title": "p", "kind": "stat", "description": description, "query": map[string]any{"metrics": []string{"m"}}}
	})})
}

func views(l *lab, n int) string {
	l.t.Helper()
	for i := range n {
		l.ok("PUT", viewsPath+text(i, "/view-%d"), viewOf(1, ""))
	}
	return ""
}

const promQL = "/prometheus/w/p/api/v1/"

// manyRuns are runs with one series of two points.
func manyRuns(l *lab, n int) string {
	l.t.Helper()
	for i := range n {
		l.fill(text(i, "run-%d"), 1, 2)
	}
	return ""
}

func runs(l *lab, n int) string {
	l.t.Helper()
	for i := range n {
		l.open(text(i, "run-%d"))
	}
	return ""
}

// shown makes runs with one display name.
func shown(l *lab, n int) string {
	l.t.Helper()
	for i := range n {
		r := opening(text(i, "run-%d"))
		r.DisplayName = "same"
		l.opened(r)
	}
	return ""
}

// refused asks for what is not there, or is there several times.
func refused(path string, fill func(*lab, int) string) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		fill(l, n)
		return func() {
			if code, text := l.send("GET", path, nil, nil); code != 400 && code != 404 {
				l.t.Fatalf("GET %s: %d %.300s", path, code, text)
			}
		}
	}
}

func projects(l *lab, n int) string {
	l.t.Helper()
	for i := range n {
		r := opening("r")
		r.Project = text(i, "p%d")
		l.opened(r)
	}
	return ""
}

func described(updates func(int) []model.Update) func(*lab, int) string {
	return func(l *lab, n int) string {
		w := l.writer(opening("r"))
		w.send(blank(), updates(n)...)
		return w.run
	}
}

func filled(series func(n int) (series, points int)) func(*lab, int) string {
	return func(l *lab, n int) string {
		s, p := series(n)
		return l.fill("r", s, p)
	}
}

func ofSeries(n int) (series, points int) { return n, 2 }
func ofPoints(n int) (series, points int) { return 1, n }

func attempts(l *lab, n int) (id string) {
	l.t.Helper()
	for i := range n {
		r := opening("r")
		r.OrchestrationID = text(i, "o%d")
		id = l.opened(r)
	}
	return id
}

func writers(l *lab, n int) (id string) {
	l.t.Helper()
	for range n {
		id = l.open("r")
	}
	return id
}

func videos(l *lab, n int) string {
	l.t.Helper()
	updates := collect(n, func(i int) model.Update {
		r := rendering(i)
		return model.Update{Op: model.OpRendering, Rendering: &r}
	})
	return described(func(int) []model.Update { return updates })(l, n)
}

// blob is a path of n bytes, and these bytes.
func blob(n int) (path string, body []byte) {
	body = bytes.Repeat([]byte("kymogram"), n/8)
	sum := sha256.Sum256(body)
	return "/api/v1/blobs/" + hex.EncodeToString(sum[:]), body
}

// each repeats a request that is the same but for a number.
func each(do func(l *lab, i int)) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		return func() {
			for i := range n {
				do(l, i)
			}
		}
	}
}

// many changes n runs with one request, after the same request to other calls.
func many(call string, before ...string) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		request := map[string]any{"runs": collect(n, func(i int) string { return l.open(text(i, "run-%d")) })}
		for _, name := range before {
			l.ok("POST", "/api/v1/"+name, document(request))
		}
		if call == "edits" {
			request["add_tags"] = []string{"t"}
		}
		return func() { l.ok("POST", "/api/v1/"+call, document(request)) }
	}
}

// held opens n connections and leaves them open.
func held(l *lab, n int) func() {
	return func() {
		for range n {
			conn, err := new(net.Dialer).DialContext(l.t.Context(), "tcp", l.address)
			if err != nil {
				l.t.Fatal(err)
			}
			l.t.Cleanup(func() { conn.Close() })
			if _, err := conn.Write([]byte("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")); err != nil {
				l.t.Fatal(err)
			}
			if _, err := conn.Read(make([]byte, 1<<10)); err != nil {
				l.t.Fatal(err)
			}
		}
	}
}

// unread asks n times for a long answer and reads none of it.
func unread(path string) func(*lab, int) func() {
	return func(l *lab, n int) func() {
		id := l.fill("r", 1, 20_000)
		return func() {
			for range n {
				response := l.ask("GET", strings.ReplaceAll(path, "RUN", id), nil, nil)
				l.t.Cleanup(func() { response.Body.Close() })
			}
		}
	}
}

func routes() []row[*lab] {
	patch := map[string]string{"Content-Type": "application/partial-upload", "Upload-Offset": "0", "Upload-Complete": "?1"}
	return []row[*lab]{
		{call: "POST /api/v2/write", grows: "points", n: 2_000, run: lines(influx, func(n int) string { return repeat(n, "m f=1 17000000000000%05d\n") })},
		{call: "POST /api/v2/write", grows: "series", n: 8_000, run: influxSeries},
		{call: "POST /api/v2/write", grows: "tags a line", n: 2_000, run: lines(influx, func(n int) string { return "m" + repeat(n, ",k%d=v") + " f=1\n" })},
		{call: "POST /api/v2/write", grows: "fields a line", n: 2_000, run: lines(influx, func(n int) string { return "m f=1" + repeat(n, ",f%d=1") + "\n" })},
		{call: "POST /api/v2/write", grows: "runs", n: 60, run: lines(influx, func(n int) string { return repeat(n, "m,run=r%d f=1\n") })},
		{call: "POST /api/v2/write", grows: "attempts", n: 20, run: lines(influx, func(n int) string { return repeat(n, "m,runtime_id=r%d f=1\n") })},
		{call: "POST /api/v2/write", grows: "attributes", n: 125, run: lines(influx, func(n int) string { return "m,runtime_id=r" + repeat(n, ",config_k%d=v") + " f=1\n" })},
		{call: "POST /api/v2/write", grows: "request bytes", n: 1 << 20, run: lines(influx, func(n int) string { return `m f="` + strings.Repeat("x", n) + "\"\n" })},
		{call: "POST /write", grows: "points", n: 2_000, run: lines("/write?db=p", func(n int) string { return repeat(n, "m f=1 17000000000000%05d\n") })},
		{call: "POST /api/v1/write", grows: "points", n: 2_000, run: bodies(prom, func(n int) []byte { return snappy(remote([][]byte{label("__name__", "m")}, n)) })},
		{call: "POST /api/v1/write", grows: "series", n: 2_000, run: bodies(prom, func(n int) []byte {
			return snappy(collect(n, func(i int) []byte { return remote([][]byte{label("__name__", "m"), label("k", text(i, "v%d"))}, 1) })...)
		})},
		{call: "POST /api/v1/write", grows: "labels", n: 2_000, run: bodies(prom, func(n int) []byte {
			return snappy(remote(collect(n, func(i int) []byte { return label(text(i, "k%d"), "v") }), 1))
		})},
		{call: "POST /api/v1/write", grows: "empty labels", n: 100_000, run: bodies(prom, func(n int) []byte {
			return snappy(remote(make([][]byte, n), 1))
		})},
		{call: "POST /api/v1/write", grows: "runs", n: 100, run: bodies(prom, func(n int) []byte {
			return snappy(collect(n, func(i int) []byte { return remote([][]byte{label("__name__", "m"), label("run", text(i, "r%d"))}, 1) })...)
		})},
		{call: "POST /api/v1/write", grows: "request bytes", n: 1 << 20, run: bodies(prom, func(n int) []byte {
			return snappy(remote([][]byte{label("__name__", "m"), label("k", strings.Repeat("x", n))}, 1))
		})},

		{call: "POST /graphql", grows: "document bytes", n: 100_000, run: queries(func(n int) string { return `{viewer{id}} #` + strings.Repeat("x", n) })},
		{call: "POST /graphql", grows: "fields", n: 2_000, run: queries(func(n int) string { return "{viewer{" + repeat(n, "a%d:id ") + "}}" })},
		{call: "POST /graphql", grows: "fragments", n: 2_000, run: queries(func(n int) string { return "{viewer{" + repeat(n, "...on V{b%d:id} ") + "}}" })},
		{call: "POST /graphql", grows: "runs", n: 100, run: wandbRuns},
		{call: "POST /files/{entity}/{project}/{run}/file_stream", grows: "rows", n: 2_000, run: chunks(func(n int) string { return repeat(n, `,"{\"_step\":%d,\"loss\":0.5}"`) })},
		{call: "POST /files/{entity}/{project}/{run}/file_stream", grows: "keys a row", n: 2_000, run: chunks(func(n int) string { return `,"{` + repeat(n, `\"k%d\":1,`) + `\"_step\":1}"` })},
		{call: "POST /files/{entity}/{project}/{run}/file_stream", grows: "forms of rows", n: 500, run: chunks(func(n int) string {
			return strings.Join(collect(n, func(i int) string { return text(i, `,"{\"k%d\":1,\"_step\":`) + text(i, `%d}"`) }), "")
		})},
		{call: "POST /files/{entity}/{project}/{run}/file_stream", grows: "depth", n: 100_000, run: chunks(func(n int) string {
			return `,"{\"a\":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `,\"_step\":1}"`
		})},
		{call: "PUT /wandb/uploads/{run}/{name...}", grows: "request bytes", n: 8 << 20, run: func(l *lab, n int) func() {
			body, path := make([]byte, n), "/wandb/uploads/"+l.open("r")+"/f"
			return func() { l.ok("PUT", path, body) }
		}},
		{call: "GET /wandb/files/{entity}/{project}/{run}/{name...}", grows: "bytes of the file", n: 8 << 20, run: func(l *lab, n int) func() {
			name := text(n, "f%d")
			l.ok("PUT", "/wandb/uploads/"+l.open("r")+"/"+name, make([]byte, n))
			return func() { l.ok("GET", "/wandb/files/w/p/r/"+name, nil) }
		}},
		{call: "POST /graphql", grows: "versions of an artifact", n: 100, run: wandbVersions},
		{call: "POST /graphql", grows: "files of an artifact", n: 1_000, run: wandbFiles},
		{call: "PUT /wandb/artifacts/{artifact}/files/{name...}", grows: "request bytes", n: 8 << 20, run: func(l *lab, n int) func() {
			body, path := make([]byte, n), "/wandb/artifacts/"+wandbArtifact(l, text(n, "bytes%d"), "d")+"/files/f"
			return func() { l.ok("PUT", path, body) }
		}},
		{call: "PUT /wandb/artifacts/{artifact}/manifests/{number}", grows: "request bytes", n: 1 << 20, run: func(l *lab, n int) func() {
			artifact := wandbArtifact(l, text(n, "manifest%d"), "d")
			l.ok("POST", "/graphql", document(map[string]any{"query": `mutation{createArtifactManifest(input:{artifactID:"` + wandbNode(artifact) + `",name:"m",digest:"",type:FULL}){artifactManifest{id}}}`}))
			body, path := make([]byte, n), "/wandb/artifacts/"+artifact+"/manifests/1"
			return func() { l.ok("PUT", path, body) }
		}},
		{call: "GET /artifactsV2/{region}/{entity}/{birth}/{md5}", grows: "bytes of the file", n: 8 << 20, run: func(l *lab, n int) func() {
			artifact, sum := wandbBytes(l, n)
			return func() { l.ok("GET", "/artifactsV2/default/w/"+wandbNode(artifact)+"/"+sum, nil) }
		}},
		{call: "GET /artifactsV2/{region}/{entity}/{project}/{collection}/{birth}/{md5}/{file}", grows: "bytes of the file", n: 8 << 20, run: func(l *lab, n int) func() {
			_, sum := wandbBytes(l, n)
			return func() { l.ok("GET", "/artifactsV2/default/w/p/c/b/"+sum+"/f", nil) }
		}},
		{call: "POST /sdk/otel/v1/{what}", grows: "request bytes", n: 1 << 20, run: bodies("/sdk/otel/v1/logs", func(n int) []byte { return make([]byte, n) })},

		{call: "POST /v1/metrics", grows: "points", n: 2_000, run: bodies(otlp, func(n int) []byte {
			return exportOf("r", "m", collect(n, func(i int) []byte { return dataPoint(uint64(1_700_000_000_000_000_000+i), "k", "v") })...)
		})},
		{call: "POST /v1/metrics", grows: "series", n: 2_000, run: bodies(otlp, func(n int) []byte {
			return exportOf("r", "m", collect(n, func(i int) []byte { return dataPoint(1_700_000_000_000_000_000, "k", text(i, "v%d")) })...)
		})},
		{call: "POST /v1/metrics", grows: "metrics", n: 2_000, run: bodies(otlp, func(n int) []byte {
			return bytes.Join(collect(n, func(i int) []byte {
				return exportOf("r", text(i, "m%d"), dataPoint(1_700_000_000_000_000_000, "k", "v"))
			}), nil)
		})},
		{call: "POST /v1/metrics", grows: "attributes", n: 2_000, run: bodies(otlp, func(n int) []byte {
			return exportOf("r", "m", append(dataPoint(1_700_000_000_000_000_000, "k", "v"), bytes.Join(collect(n, func(i int) []byte { return attribute(7, text(i, "k%d"), "v") }), nil)...))
		})},
		{call: "POST /v1/metrics", grows: "runs", n: 100, run: bodies(otlp, func(n int) []byte {
			return bytes.Join(collect(n, func(i int) []byte {
				return exportOf(text(i, "r%d"), "m", dataPoint(1_700_000_000_000_000_000, "k", "v"))
			}), nil)
		})},
		{call: "POST /v1/metrics", grows: "request bytes", n: 1 << 20, run: bodies(otlp, func(n int) []byte {
			return exportOf("r", "m", dataPoint(1_700_000_000_000_000_000, "k", strings.Repeat("x", n)))
		})},

		{call: "POST /api/v1/open", grows: "attributes", n: 500, run: opens(func(r *model.OpenRequest, n int) { r.Initial = attributes(n) })},
		{call: "POST /api/v1/open", grows: "tags", n: 100, run: opens(func(r *model.OpenRequest, n int) {
			r.Initial = []model.Update{{Op: model.OpSetTags, Tags: tags(n)}}
		})},
		{call: "POST /api/v1/open", grows: "environments", n: 500, run: opens(func(r *model.OpenRequest, n int) { r.Initial = environments(n) })},
		{call: "POST /api/v1/open", grows: "request bytes", n: 1 << 19, run: opens(func(r *model.OpenRequest, n int) { r.DisplayName = strings.Repeat("x", n) })},
		{call: "POST /api/v1/open", grows: "runs", n: 50, run: func(l *lab, n int) func() { return func() { runs(l, n) } }},
		{call: "POST /api/v1/open", grows: "attempts", n: 50, run: func(l *lab, n int) func() { return func() { attempts(l, n) } }},
		{call: "POST /api/v1/open", grows: "writers", n: 50, run: func(l *lab, n int) func() { return func() { writers(l, n) } }},
		{call: "POST /api/v1/open", grows: "series of the run", n: 1_000, run: func(l *lab, n int) func() {
			l.fill("r", n, 1)
			r := opening("r")
			r.WithStarts = true
			return func() { l.opened(r) }
		}},

		{call: "GET /api/v2/buckets", grows: "projects", n: 50, run: reads("/api/v2/buckets", projects)},
		{call: "GET /api/v2/orgs", grows: "projects", n: 50, run: reads("/api/v2/orgs", projects)},
		{call: "GET /api/v1/projects", grows: "projects", n: 50, run: reads("/api/v1/projects", projects)},
		{call: "GET /api/v1/projects/{workspace}/{project}/runs", grows: "runs", n: 50, run: reads("/api/v1/projects/w/p/runs?limit=1000", runs)},
		{call: "GET /api/v1/projects/{workspace}/{project}/runs", grows: "attributes", n: 500, run: reads("/api/v1/projects/w/p/runs", described(attributes))},
		{call: "GET /api/v1/runs/{id}", grows: "attributes", n: 500, run: reads("/api/v1/runs/RUN", described(attributes))},
		{call: "GET /api/v1/runs/{id}", grows: "environments", n: 500, run: reads("/api/v1/runs/RUN", described(environments))},
		{call: "GET /api/v1/runs/{id}", grows: "attempts", n: 50, run: reads("/api/v1/runs/RUN", attempts)},
		{call: "GET /api/v1/runs/{id}", grows: "writers", n: 50, run: reads("/api/v1/runs/RUN", writers)},
		{call: "GET /api/v1/runs/{id}", grows: "series", n: 1_000, run: reads("/api/v1/runs/RUN", filled(ofSeries))},
		{call: "PATCH /api/v1/runs/{id}", grows: "tags", n: 100, run: func(l *lab, n int) func() {
			id, body := l.open("r"), document(map[string]any{"tags": tags(n)})
			return func() { l.any("PATCH", "/api/v1/runs/"+id, body, nil) }
		}},
		{call: "PATCH /api/v1/runs/{id}", grows: "request bytes", n: 1 << 19, run: func(l *lab, n int) func() {
			id, body := l.open("r"), document(map[string]any{"description": strings.Repeat("x", n)})
			return func() { l.any("PATCH", "/api/v1/runs/"+id, body, nil) }
		}},
		{call: "DELETE /api/v1/runs/{id}", grows: "series", n: 1_000, run: func(l *lab, n int) func() {
			id := l.fill("r", n, 2)
			return func() { l.ok("DELETE", "/api/v1/runs/"+id+"?now=1", nil) }
		}},
		{call: "POST /api/v1/runs/{id}/restore", grows: "series", n: 1_000, run: func(l *lab, n int) func() {
			id := l.fill("r", n, 2)
			l.ok("DELETE", "/api/v1/runs/"+id, nil)
			return func() { l.ok("POST", "/api/v1/runs/"+id+"/restore", nil) }
		}},
		{call: "GET /api/v1/resolve", grows: "runs", n: 50, run: reads("/api/v1/resolve?run=w/p/run-0", runs)},
		{call: "GET /api/v1/resolve", grows: "runs of one display name", n: 50, run: refused("/api/v1/resolve?run=same", shown)},
		{call: "GET /api/v1/resolve", grows: "runs with other names", n: 50, run: refused("/api/v1/resolve?run=nobody", runs)},
		{call: "GET /api/v1/resolve", grows: "projects with other names", n: 50, run: refused("/api/v1/resolve?project=nobody", projects)},
		{call: "GET /api/v1/runs/{id}/series", grows: "series", n: 1_000, run: reads("/api/v1/runs/RUN/series?limit=10000", filled(ofSeries))},
		{call: "GET /api/v1/runs/{id}/series", grows: "points", n: 20_000, run: reads("/api/v1/runs/RUN/series?preview=64", filled(ofPoints))},
		{call: "GET /api/v1/runs/{id}/points", grows: "points", n: 10_000, run: reads("/api/v1/runs/RUN/points?metric=m0&limit=100000", filled(ofPoints))},
		{call: "GET /api/v1/runs/{id}/points", grows: "series of the run", n: 1_000, run: reads("/api/v1/runs/RUN/points?metric=m0", filled(ofSeries))},
		{call: "GET /api/v1/runs/{id}/points", grows: "open answers", n: 4, run: unread("/api/v1/runs/RUN/points?metric=m0&limit=20000")},
		{call: "GET /api/v1/runs/{id}/buckets", grows: "points", n: 20_000, run: reads("/api/v1/runs/RUN/buckets?metric=m0&n=100", filled(ofPoints))},
		{call: "GET /api/v1/runs/{id}/buckets", grows: "buckets", n: 500, run: reads("/api/v1/runs/RUN/buckets?metric=m0&n=SIZE", func(l *lab, _ int) string { return l.fill("r", 1, 20_000) })},
		{call: "POST /api/v1/buckets", grows: "queries", n: 50, run: func(l *lab, n int) func() {
			id := l.fill("r", factor*50, 100)
			body := document(map[string]any{"queries": collect(n, func(i int) any { return map[string]any{"run": id, "metric": text(i, "m%d"), "n": 50} })})
			return func() { l.ok("POST", "/api/v1/buckets", body) }
		}},
		{call: "POST /api/v1/overviews", grows: "runs", n: 12, run: func(l *lab, n int) func() {
			body := document(map[string]any{"runs": collect(n, func(i int) string { return l.fill(text(i, "r%d"), 20, 10) }), "preview": 16})
			return func() { l.ok("POST", "/api/v1/overviews", body) }
		}},
		{call: "GET /api/v1/projects/{workspace}/{project}/groups", grows: "runs", n: 400, run: reads("/api/v1/projects/w/p/groups?by=status", runs)},
		{call: "POST /api/v1/edits", grows: "runs", n: 50, run: many("edits")},
		{call: "POST /api/v1/deletions", grows: "runs", n: 50, run: many("deletions")},
		{call: "POST /api/v1/restorations", grows: "runs", n: 50, run: many("restorations", "deletions")},
		{call: "POST /api/v1/kymograph", grows: "rows", n: 50, run: func(l *lab, n int) func() {
			id := l.fill("r", factor*50, 100)
			body := document(map[string]any{"run": id, "columns": 50, "rows": collect(n, func(i int) any { return map[string]any{"metric": text(i, "m%d")} })})
			return func() { l.ok("POST", "/api/v1/kymograph", body) }
		}},
		{call: "GET /prometheus/{workspace}/{project}/api/v1/query", grows: "runs", n: 480, run: reads(promQL+"query?query=topk(10,m0)"+"&time=1700000400", manyRuns)},
		{call: "GET /prometheus/{workspace}/{project}/api/v1/query", grows: "points", n: 20_000, run: reads(promQL+"query?query=count_over_time(m0[1h])"+"&time=1700000400", filled(ofPoints))},
		{call: "GET /prometheus/{workspace}/{project}/api/v1/query_range", grows: "steps", n: 500, run: func(l *lab, n int) func() {
			l.fill("r", 1, 1_000)
			return func() {
				l.ok("GET", fmt.Sprintf(promQL+"query_range?query=m0&step=1&start=1700000000&end=%d", 1_700_000_000+n), nil)
			}
		}},
		{call: "GET /prometheus/{workspace}/{project}/api/v1/series", grows: "series", n: 500, run: reads(promQL+"series?match[]={__name__!=%22%22}", filled(ofSeries))},
		{call: "GET /prometheus/{workspace}/{project}/api/v1/labels", grows: "series", n: 1_000, run: reads(promQL+"labels", filled(ofSeries))},
		{call: "GET /prometheus/{workspace}/{project}/api/v1/label/{name}/values", grows: "series", n: 2_000, run: reads(promQL+"label/__name__/values", filled(ofSeries))},
		{call: "GET /prometheus/{workspace}/{project}/api/v1/metadata", grows: "series", n: 1_000, run: reads(promQL+"metadata", filled(ofSeries))},
		{call: "GET /prometheus/{workspace}/{project}/federate", grows: "series", n: 500, run: reads("/prometheus/w/p/federate?match[]={__name__!=%22%22}", filled(ofSeries))},
		{call: "GET /query", grows: "series", n: 1_000, run: reads("/query?db=p&q=SHOW%20MEASUREMENTS", filled(ofSeries))},
		{call: "GET /query", grows: "points", n: 20_000, run: reads("/query?db=p&q=SELECT%20count(value)%20FROM%20m0", filled(ofPoints))},
		{call: "GET /query", grows: "runs", n: 50, run: reads("/query?db=p&q=SELECT%20count(value)%20FROM%20m0%20GROUP%20BY%20run", manyRuns)},
		{call: "GET /api/v1/projects/{workspace}/{project}/views", grows: "views", n: 100, run: reads(viewsPath, views)},
		{call: "GET /api/v1/projects/{workspace}/{project}/views/{name}", grows: "panels", n: 20, run: reads(viewsPath+"/v", func(l *lab, n int) string {
			l.ok("PUT", viewsPath+"/v", viewOf(n, ""))
			return ""
		})},
		{call: "PUT /api/v1/projects/{workspace}/{project}/views/{name}", grows: "panels", n: 20, run: func(l *lab, n int) func() {
			body := viewOf(n, "")
			return func() { l.ok("PUT", viewsPath+"/v", body) }
		}},
		{call: "PUT /api/v1/projects/{workspace}/{project}/views/{name}", grows: "request bytes", n: 1 << 14, run: func(l *lab, n int) func() {
			body := viewOf(n/1_000, strings.Repeat("x", 900))
			return func() { l.any("PUT", viewsPath+"/v", body, nil) }
		}},
		{call: "PUT /api/v1/projects/{workspace}/{project}/views/{name}", grows: "views", n: 100, run: func(l *lab, n int) func() {
			views(l, n)
			return func() { l.ok("PUT", viewsPath+"/v", viewOf(1, "")) }
		}},
		{call: "DELETE /api/v1/projects/{workspace}/{project}/views/{name}", grows: "views", n: 100, run: func(l *lab, n int) func() {
			views(l, n)
			return func() { l.ok("DELETE", viewsPath+"/view-0", nil) }
		}},
		{call: "GET /api/v1/runs/{id}/renderings", grows: "renderings", n: 100, run: reads("/api/v1/runs/RUN/renderings?limit=1000", videos)},
		{call: "POST /api/v1/runs/{id}/renderings", grows: "renderings", n: 50, run: func(l *lab, n int) func() {
			id := l.open("r")
			return func() {
				for i := range n {
					l.ok("POST", "/api/v1/runs/"+id+"/renderings", document(rendering(i)))
				}
			}
		}},
		{call: "POST /api/v1/runs/{id}/renderings", grows: "tags and marks", n: 100, run: func(l *lab, n int) func() {
			id, r := l.open("r"), rendering(0)
			r.Frames, r.Tags = 1<<20, tags(n)
			r.Marks = collect(n, func(i int) model.RenderingMark {
				return model.RenderingMark{Name: text(i, "m%d"), FromFrame: int64(i), ToFrame: int64(i)}
			})
			return func() { l.any("POST", "/api/v1/runs/"+id+"/renderings", document(r), nil) }
		}},
		{call: "GET /api/v1/runs/{id}/renderings/{rendering}/video", grows: "bytes", n: 1 << 20, run: func(l *lab, n int) func() {
			id := l.open("r")
			path, body := blob(n)
			l.ok("PUT", path, body)
			r := rendering(0)
			r.SHA256, r.SizeBytes, r.ContentType = strings.TrimPrefix(path, "/api/v1/blobs/"), int64(n), "video/mp4"
			l.ok("POST", "/api/v1/runs/"+id+"/renderings", document(r))
			return func() { l.ok("GET", "/api/v1/runs/"+id+"/renderings/"+r.ID+"/video", nil) }
		}},
		{call: "GET /api/v1/live", grows: "open streams", n: 20, run: func(l *lab, n int) func() {
			l.open("r")
			return func() {
				for range n {
					response := l.ask("GET", "/api/v1/live?project=w/p", nil, nil)
					l.t.Cleanup(func() { response.Body.Close() })
				}
			}
		}},
		{call: "PUT /api/v1/blobs/{sha256}", grows: "bytes", n: 1 << 20, run: func(l *lab, n int) func() {
			path, body := blob(n)
			return func() { l.ok("PUT", path, body) }
		}},
		{call: "GET /api/v1/blobs/{sha256}", grows: "bytes", n: 1 << 20, run: func(l *lab, n int) func() {
			path, body := blob(n)
			l.ok("PUT", path, body)
			return func() { l.ok("GET", path, nil) }
		}},
		{call: "GET /api/v1/blobs/{sha256}", grows: "renderings of the server", n: 100, run: func(l *lab, n int) func() {
			path, body := blob(64)
			l.ok("PUT", path, body)
			videos(l, n)
			return func() { l.ok("GET", path, nil) }
		}},
		{call: "PATCH /api/v1/blobs/{sha256}/upload", grows: "bytes", n: 1 << 20, run: func(l *lab, n int) func() {
			path, body := blob(n)
			return func() { l.ok("PATCH", path+"/upload", body, patch) }
		}},
		{call: "PATCH /api/v1/blobs/{sha256}/upload", grows: "parts", n: 20, run: func(l *lab, n int) func() {
			path, body := blob(n * 1024)
			return func() {
				for i := range n {
					last := map[bool]string{true: "?1", false: "?0"}[i == n-1]
					l.ok("PATCH", path+"/upload", body[i*1024:(i+1)*1024], map[string]string{
						"Content-Type": patch["Content-Type"], "Upload-Offset": strconv.Itoa(i * 1024), "Upload-Complete": last,
					})
				}
			}
		}},
		{call: "HEAD /api/v1/blobs/{sha256}/upload", grows: "unfinished uploads", n: 8, run: func(l *lab, n int) func() {
			part := map[string]string{"Content-Type": patch["Content-Type"], "Upload-Offset": "0", "Upload-Complete": "?0"}
			for i := range n {
				l.ok("PATCH", fmt.Sprintf("/api/v1/blobs/%064x/upload", i), []byte("x"), part)
			}
			return func() { l.ok("HEAD", fmt.Sprintf("/api/v1/blobs/%064x/upload", 0), nil) }
		}},

		{call: "GET /api/v1/keys", grows: "keys", n: 50, run: reads("/api/v1/keys", keys)},
		{call: "POST /api/v1/keys", grows: "keys", n: 50, run: func(l *lab, n int) func() { return func() { keys(l, n) } }},
		{call: "POST /api/v1/links", grows: "links", n: 200, run: each(func(l *lab, _ int) { l.ok("POST", "/api/v1/links", []byte("{}")) })},
		{call: "POST /api/v1/session", grows: "sign-ins", n: 50, run: each(func(l *lab, _ int) { l.ok("POST", "/api/v1/session", document(map[string]string{"token": l.key})) })},
		{call: "POST /api/v1/session/key", grows: "keys", n: 50, run: func(l *lab, n int) func() {
			keys(l, n)
			var made struct{ Link string }
			if err := json.Unmarshal(l.ok("POST", "/api/v1/links", []byte("{}")), &made); err != nil {
				l.t.Fatal(err)
			}
			_, token, _ := strings.Cut(made.Link, "#")
			return func() {
				l.ok("POST", "/api/v1/session/key", document(map[string]any{"token": token, "name": "x", "scopes": []string{"read"}}))
			}
		}},
		{call: "GET /api/v1/key", grows: "keys", n: 50, run: reads("/api/v1/key", keys)},
		{call: "DELETE /api/v1/session", grows: "sign-outs", n: 50, run: each(func(l *lab, _ int) {
			l.ok("DELETE", "/api/v1/session", nil, map[string]string{"Cookie": "kymogram_session=" + l.key})
		})},
		{call: "GET /metrics", grows: "runs", n: 50, run: reads("/metrics", runs)},
		{call: "GET /metrics", grows: "series", n: 1_000, run: reads("/metrics", filled(ofSeries))},
		{call: "GET /docs", grows: "runs", n: 50, run: reads("/docs", runs)},
		{call: "GET /docs/{path...}", grows: "runs", n: 50, run: reads("/docs/python", runs)},
		{call: "GET /healthz", grows: "connections", n: 50, run: held},
		{call: "GET /readyz", grows: "runs", n: 50, run: reads("/readyz", runs)},
	}
}

func keys(l *lab, n int) string {
	l.t.Helper()
	for i := range n {
		l.ok("POST", "/api/v1/keys", document(map[string]any{"name": text(i, "key-%d"), "scopes": []string{"read"}}))
	}
	return ""
}

// withoutRows are the routes and methods that have no dimension, and why.
func withoutRows() map[string]string {
	out := reasons()
	for _, name := range []string{"query", "query_range", "series", "labels", "label/{name}/values", "metadata", "status/buildinfo"} {
		for _, method := range []string{"GET", "POST"} {
			for _, place := range []string{"/prometheus/api/v1/", "/prometheus/{workspace}/{project}/api/v1/"} {
				if method != "GET" || place == "/prometheus/api/v1/" {
					out[method+" "+place+name] = "as GET of a project, which has a row"
				}
			}
		}
	}
	out["GET /prometheus/{workspace}/{project}/api/v1/status/buildinfo"] = "facts of the server"
	return out
}

func reasons() map[string]string {
	return map[string]string{
		"GET /prometheus/federate":              "as that of a project, which has a row",
		"POST /query":                           "as GET, which has rows",
		"GET /":                                 "the page's files are in memory and do not change",
		"GET /api/v1/server":                    "eight facts of the server",
		"GET /ping":                             "no content",
		"GET /health":                           "five facts of the server",
		"GET /ready":                            "three facts of the server",
		"GET /sd/bittensor":                     "reads a chain: a subnet has at most 256 nodes; test/chain measures it",
		"GET /api/v1/blobs/{sha256}/url":        "one signature over fixed bytes",
		"POST /api/v1/blobs/{sha256}/url":       "one signature over fixed bytes",
		"GET /api/v1/runs/{id}/files":           "a page by a key, as renderings, which have a row; only the W&B receiver writes files",
		"GET /api/v1/runs/{id}/files/{name...}": "the bytes of a blob, which have rows",
		"DELETE /api/v1/key":                    "as DELETE of a key by its id",
		"DELETE /api/v1/keys/{id}":              "one row of the catalog, by its primary key; the list of keys has a row",
	}
}

func TestRoutes(t *testing.T) { measure(t, append(routes(), stateRoutes()...)) }
