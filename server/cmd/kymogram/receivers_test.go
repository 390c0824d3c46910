package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/snappy"
)

// answer is what a foreign client gets.
type answer struct {
	code   int
	body   string
	header http.Header
}

func (s *served) send(method, path string, body []byte, header map[string]string) answer {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), method, "http://"+s.address+path, bytes.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer{response.StatusCode, string(text), response.Header}
}

func (s *served) get(path string, out any) {
	s.t.Helper()
	code, text := s.request("GET", path, "", s.keys["admin"])
	if code != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", path, code, text)
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		s.t.Fatal(err)
	}
}

// columns reads all points of a series by column.
func (s *served) columns(workspace, project, run, metric string, labels ...string) map[string][]any {
	s.t.Helper()
	var list struct{ Runs []struct{ ID, Name string } }
	s.get("/api/v1/projects/"+workspace+"/"+project+"/runs", &list)
	for _, r := range list.Runs {
		if r.Name != run {
			continue
		}
		query := url.Values{"metric": {metric}}
		for i := 0; i < len(labels); i += 2 {
			query.Set("label."+labels[i], labels[i+1])
		}
		var page struct{ Columns map[string][]any }
		s.get("/api/v1/runs/"+r.ID+"/points?"+query.Encode(), &page)
		return page.Columns
	}
	s.t.Fatalf("no run %q in %+v", run, list)
	return nil
}

func (s *served) want(what string, got, want any) {
	s.t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		s.t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func zipped(text string) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(text))
	_ = z.Close()
	return b.Bytes()
}

func TestInfluxClientsWrite(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	token := map[string]string{"Authorization": "Token " + s.keys["admin"]}
	write := func(path, body string, header map[string]string) answer {
		return s.send("POST", path, []byte(body), header)
	}

	const to = "/api/v2/write?org=w&bucket=p&precision=ms"
	if got := write(to, "m,role=miner,uid=7,window=3 loss=0.5,n=4i,ok=t,text=\"a b\" 1000\nm,role=miner,uid=7,window=4 loss=NaN,n=9223372036854775807i,ok=f,text=\"\" 2000\n", token); got.code != 204 || got.body != "" {
		t.Fatalf("%+v", got)
	}
	tags := []string{"role", "miner", "uid", "7"}
	points := s.columns("w", "p", "miner-7", "m/loss", tags...)
	s.want("loss", points["value"], []any{0.5, "NaN"})
	s.want("steps", points["step"], []any{3.0, 4.0})
	s.want("windows", points["window"], []any{3.0, 4.0})
	s.want("texts", s.columns("w", "p", "miner-7", "m/text", tags...)["value"], []any{"a b", ""})
	s.want("booleans", s.columns("w", "p", "miner-7", "m/ok", tags...)["value"], []any{"true", "false"})

	// The same nanosecond again: the last wins, whatever its step.
	if got := s.send("POST", "/api/v2/write?org=w&bucket=p&precision=s", zipped("m,role=miner,uid=7,window=9 loss=7 1\n"), map[string]string{"Authorization": token["Authorization"], "Content-Encoding": "gzip"}); got.code != 204 {
		t.Fatalf("%+v", got)
	}
	points = s.columns("w", "p", "miner-7", "m/loss", tags...)
	s.want("replaced", points["value"], []any{"NaN", 7.0})
	s.want("its step", points["step"], []any{4.0, 9.0})

	// A bad line refuses all, a point of the wrong type only itself.
	bad := write(to, "m,run=r f=1 1\nm,run=r f= 2\n", token)
	s.want("a bad line", []any{bad.code, bad.body}, []any{400, `{"code":"invalid","message":"unable to parse 'm,run=r f= 2': line 2: missing field value"}` + "\n"})
	if got := write(to, "m,run=r f=1 1\n", token); got.code != 204 {
		t.Fatalf("%+v", got)
	}
	mixed := write(to, "m,run=r f=\"x\" 2\nm,run=r f=3 3\nm,run=r f=4i 4\n", token)
	if mixed.code != 422 || !strings.Contains(mixed.body, "partial write: ") || !strings.Contains(mixed.body, "dropped=1") || !strings.Contains(mixed.body, "kind_mismatch") {
		t.Errorf("%+v", mixed)
	}
	s.want("the others", s.columns("w", "p", "r", "m/f")["value"], []any{1.0, 3.0, 4.0})
}

func TestInfluxRequestsAreChecked(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	key := s.keys["ingest"]
	token := map[string]string{"Authorization": "Token " + key}
	for name, c := range map[string]struct {
		path   string
		header map[string]string
		body   []byte
		code   int
		text   string
	}{
		"v1 with u and p":       {"/write?db=x&u=me&p=" + key, nil, []byte("m f=1 1"), 204, ""},
		"v1 with Basic":         {"/write?db=x/autogen&precision=h", map[string]string{"Authorization": "Basic " + basic("me", key)}, []byte("m f=1 1"), 204, ""},
		"v1 with USER:KEY":      {"/write?db=x", map[string]string{"Authorization": "Token me:" + key}, []byte("m f=1 1"), 204, ""},
		"bearer":                {"/api/v2/write?bucket=x", map[string]string{"Authorization": "Bearer " + key}, []byte("m f=1"), 204, ""},
		"nothing":               {"/api/v2/write?bucket=x", token, nil, 204, ""},
		"no key":                {"/api/v2/write?bucket=x", nil, []byte("m f=1"), 401, "unauthenticated"},
		"a wrong key":           {"/write?db=x&p=" + strings.Repeat("0", 40), nil, []byte("m f=1"), 401, "unauthenticated"},
		"another project's key": {"/api/v2/write?bucket=x&org=w", map[string]string{"Authorization": "Token " + s.keys["other project"]}, []byte("m f=1"), 403, "forbidden"},
		"no bucket":             {"/api/v2/write?org=w", token, []byte("m f=1"), 400, "names no bucket"},
		"no db":                 {"/write", token, []byte("m f=1"), 400, `"error":"the request names no db`},
		"a bad bucket":          {"/api/v2/write?bucket=a%2Fb", token, []byte("m f=1"), 400, "is not valid"},
		"a precision of v1":     {"/api/v2/write?bucket=x&precision=h", token, []byte("m f=1"), 400, "precision"},
		"an encoding":           {"/api/v2/write?bucket=x", map[string]string{"Authorization": "Token " + key, "Content-Encoding": "br"}, []byte("m f=1"), 400, "gzip"},
		"no gzip":               {"/api/v2/write?bucket=x", map[string]string{"Authorization": "Token " + key, "Content-Encoding": "gzip"}, []byte("m f=1"), 400, "cannot be read"},
		"a bomb": {
			"/api/v2/write?bucket=x",
			map[string]string{"Authorization": "Token " + key, "Content-Encoding": "gzip"},
			zipped(strings.Repeat("#\n", 33<<20)), 413, "larger than 64 MiB",
		},
		"many points in few bytes": {
			"/api/v2/write?bucket=x",
			map[string]string{"Authorization": "Token " + key, "Content-Encoding": "gzip"},
			zipped(strings.Repeat("m f=1\n", 10_500_000)), 413, "more than 1000000 points: Send fewer points at once",
		},
	} {
		if got := s.send("POST", c.path, c.body, c.header); got.code != c.code || !strings.Contains(got.body, c.text) {
			t.Errorf("%s: %d %s, want %d %s", name, got.code, got.body, c.code, c.text)
		}
	}
}

func basic(user, password string) string {
	r := &http.Request{Header: http.Header{}}
	r.SetBasicAuth(user, password)
	return strings.TrimPrefix(r.Header.Get("Authorization"), "Basic ")
}

// A run that is deleted refuses points one by one; once it is purged there is a
// new one.
func TestForeignPointsOfADeletedRun(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	token := map[string]string{"Authorization": "Token " + s.keys["admin"]}
	write := func() answer {
		return s.send("POST", "/api/v2/write?org=w&bucket=p", []byte("m,run=gone f=1 1"), token)
	}
	if got := write(); got.code != 204 {
		t.Fatalf("%+v", got)
	}
	find := func() string {
		var list struct{ Runs []struct{ ID, Name string } }
		s.get("/api/v1/projects/w/p/runs?name=gone", &list)
		if len(list.Runs) != 1 {
			t.Fatalf("%+v", list)
		}
		return list.Runs[0].ID
	}
	first := find()
	if code, text := s.request("DELETE", "/api/v1/runs/"+first, "", s.keys["admin"]); code >= 300 {
		t.Fatalf("%d %s", code, text)
	}
	for range 2 {
		if got := write(); got.code != 422 || !strings.Contains(got.body, "run_deleted") {
			t.Errorf("a run in the trash: %+v", got)
		}
	}
	if code, text := s.request("DELETE", "/api/v1/runs/"+first+"?now=true", "", s.keys["admin"]); code >= 300 {
		t.Fatalf("%d %s", code, text)
	}
	if got := write(); got.code != 204 {
		t.Errorf("after the purge: %+v", got)
	}
	if find() == first {
		t.Error("the purged run took points")
	}
}

// series writes a TimeSeries of remote write 1.0 by hand.
func promSeries(labels []string, value float64, ms int64) []byte {
	part := func(field byte, b []byte) []byte { return append([]byte{field<<3 | 2, byte(len(b))}, b...) }
	var out []byte
	for i := 0; i < len(labels); i += 2 {
		out = append(out, part(1, append(part(1, []byte(labels[i])), part(2, []byte(labels[i+1]))...))...)
	}
	sample := binary.LittleEndian.AppendUint64([]byte{9}, math.Float64bits(value))
	return append(out, part(2, binary.AppendUvarint(append(sample, 16), uint64(ms)))...)
}

func promRequest(series ...[]byte) (out []byte) {
	for _, s := range series {
		out = append(append(out, 10, byte(len(s))), s...)
	}
	return out
}

func promHeader(key string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + key, "Content-Type": "application/x-protobuf", "Content-Encoding": "snappy"}
}

func TestPrometheusWrites(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	const to = "/api/v1/write?workspace=w&project=p"
	up := []string{"__name__", "up", "instance", "a:1", "job", "j"}
	stale := math.Float64frombits(0x7ff0000000000002)
	body := promRequest(promSeries(up, 1, 5_000), promSeries(up, 2, 3_000), promSeries(up, 3, 5_000), promSeries(up, stale, 6_000), promSeries([]string{"__name__", "loss", "run", "r"}, 0.5, 1))
	got := s.send("POST", to, snappy.Encode(nil, body), promHeader(s.keys["admin"]))
	if got.code != 204 || got.header.Get("X-Prometheus-Remote-Write-Samples-Written") != "5" || got.header.Get("X-Prometheus-Remote-Write-Exemplars-Written") != "0" {
		t.Fatalf("%+v", got)
	}
	points := s.columns("w", "p", "j/a:1", "up", "instance", "a:1", "job", "j")
	s.want("in the order of time, the last of a millisecond", points["value"], []any{2.0, 3.0, "NaN"})
	s.want("no step", points["step"], []any(nil))
	s.want("run", s.columns("w", "p", "r", "loss")["value"], []any{0.5})

	// Version 2: symbols 1…4, labels name=up, run=r.
	v2 := []byte{34, 0, 34, 8}
	v2 = append(append(v2, "__name__"...), 34, 2, 'u', 'p', 34, 3, 'r', 'u', 'n', 34, 2, 'v', '2')
	series := append([]byte{10, 4, 1, 2, 3, 4}, promSeries(nil, 9, 7)...)
	v2 = append(append(v2, 42, byte(len(series))), series...)
	header := promHeader(s.keys["admin"])
	header["Content-Type"] = "application/x-protobuf;proto=io.prometheus.write.v2.Request"
	if got := s.send("POST", to, snappy.Encode(nil, v2), header); got.code != 204 || got.header.Get("X-Prometheus-Remote-Write-Samples-Written") != "1" {
		t.Errorf("%+v", got)
	}
	s.want("version 2", s.columns("w", "p", "v2", "up")["value"], []any{9.0})

	// What can never be taken is named, the rest is stored.
	body = promRequest(promSeries([]string{"run", "r"}, 1, 1), promSeries([]string{"__name__", "loss", "run", "r"}, 0.25, 2), promSeries([]string{"__name__", "loss", "run", "\x01"}, 0.25, 2))
	got = s.send("POST", to, snappy.Encode(nil, body), promHeader(s.keys["admin"]))
	if got.code != 400 || !strings.Contains(got.body, "2 samples were refused for good") || got.header.Get("X-Prometheus-Remote-Write-Samples-Written") != "1" {
		t.Errorf("%+v", got)
	}
	s.want("the others", s.columns("w", "p", "r", "loss")["value"], []any{0.5, 0.25})
}

func TestRemoteWritesAreChecked(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	good := snappy.Encode(nil, promRequest(promSeries([]string{"__name__", "up"}, 1, 1)))
	with := func(name, value string) map[string]string {
		h := promHeader(s.keys["ingest"])
		h[name] = value
		return h
	}
	bomb := binary.AppendUvarint(nil, 1<<32-1)
	for name, c := range map[string]struct {
		header map[string]string
		body   []byte
		code   int
		text   string
	}{
		"good":                  {with("X", ""), good, 204, ""},
		"Basic":                 {with("Authorization", "Basic "+basic("me", s.keys["ingest"])), good, 204, ""},
		"a read key":            {with("Authorization", "Bearer "+s.keys["read"]), good, 403, ""},
		"another project's key": {with("Authorization", "Bearer "+s.keys["other project"]), good, 403, ""},
		"JSON":                  {with("Content-Type", "application/json"), good, 415, "application/json"},
		"another message":       {with("Content-Type", "application/x-protobuf;proto=x.Y"), good, 415, "x.Y"},
		"another encoding":      {with("Content-Encoding", "gzip"), good, 415, "gzip"},
		"no snappy":             {with("X", ""), []byte("hello"), 400, "snappy"},
		"a bomb":                {with("X", ""), bomb, 413, "larger"},
		"a smaller bomb":        {with("X", ""), binary.AppendUvarint(nil, 1<<20), 400, "snappy"},
		"no protobuf":           {with("X", ""), snappy.Encode(nil, []byte("hello")), 400, "malformed"},
	} {
		if got := s.send("POST", "/api/v1/write", c.body, c.header); got.code != c.code || !strings.Contains(got.body, c.text) {
			t.Errorf("%s: %d %s, want %d %s", name, got.code, got.body, c.code, c.text)
		}
	}
}
