package main

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
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
	query := url.Values{"metric": {metric}}
	for i := 0; i < len(labels); i += 2 {
		query.Set("label."+labels[i], labels[i+1])
	}
	return s.points(workspace, project, run, query)
}

func (s *served) points(workspace, project, run string, query url.Values) map[string][]any {
	s.t.Helper()
	var list struct{ Runs []struct{ ID, Name string } }
	s.get("/api/v1/projects/"+workspace+"/"+project+"/runs", &list)
	for _, r := range list.Runs {
		if r.Name != run {
			continue
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

	// What no series can hold is counted too.
	labels := strings.Builder{}
	for i := range 65 {
		fmt.Fprintf(&labels, ",t%d=v", i)
	}
	many := write(to, "m"+labels.String()+" f=1,g=2 1\nm,run=r f=5 5\nm,a="+strings.Repeat("x", 1025)+" f=1 1\n", token)
	if many.code != 422 || !strings.Contains(many.body, "dropped=3") {
		t.Errorf("%+v", many)
	}
}

// A batch is counted anew in each epoch: with both a point has no step, and sending it
// again changes nothing. Where only one of them is, it is the step.
func TestInfluxBatchesOfEpochs(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	var body strings.Builder
	for epoch := range 3 {
		for batch := range 10 {
			at := epoch*10 + batch
			fmt.Fprintf(&body, "both,epoch=%d,batch=%d loss=%d %d\nepochs,epoch=%d loss=%d %d\nbatches,batch=%d loss=%d %d\n", epoch, batch, 30-at, at+1, epoch, at, at+1, at, at, at+1)
		}
	}
	for range 2 {
		if got := s.send("POST", "/api/v2/write?org=w&bucket=p", []byte(body.String()), map[string]string{"Authorization": "Token " + s.keys["admin"]}); got.code != 204 {
			t.Fatalf("%+v", got)
		}
		both := s.columns("w", "p", "default", "both/loss")
		s.want("no step", both["step"], []any(nil))
		for i := range 30 {
			row := []any{both["epoch"][i], both["batch"][i], both["value"][i], len(both["value"])}
			s.want("a point", row, []any{float64(i / 10), float64(i % 10), float64(30 - i), 30})
		}
		epochs, batches := s.columns("w", "p", "default", "epochs/loss"), s.columns("w", "p", "default", "batches/loss")
		s.want("steps", []any{epochs["step"][29], batches["step"][29], len(epochs["step"]), len(batches["step"])}, []any{2.0, 29.0, 30, 30})
	}
}

// restarts are the lines of 30 lives of a miner, with so many values of its configuration.
func restarts(config int) (lives []string) {
	for life := range 30 {
		tags := "Mstep,uid=7,role=miner,group=g,job_type=mining,prefix=M"
		for k := range config {
			tags += fmt.Sprintf(",config_k%d=%d", k, life*k%7)
		}
		tags += fmt.Sprintf(",runtime_id=r%d,version=2.%d,peer=3", life, life/10)
		var body strings.Builder
		for i := range 10 {
			window := life*10 + i
			fmt.Fprintf(&body, "%s,window=%d loss=%d,text=\"t%d\" %d\n", tags, window, window, window, 1_700_000_000_000_000_000+window)
		}
		lives = append(lives, body.String())
	}
	return lives
}

// What tags say of a process is of its attempt: 30 restarts with 200 values of a
// configuration are one series for each field, and each life can be told from the others.
func TestInfluxRestartsAreAttempts(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	for range 2 { // sent again it changes nothing
		for life, body := range restarts(200) {
			if got := s.send("POST", "/api/v2/write?org=w&bucket=p", []byte(body), map[string]string{"Authorization": "Token " + s.keys["admin"]}); got.code != 204 {
				t.Fatalf("life %d: %+v", life, got)
			}
		}
	}
	points := s.columns("w", "p", "miner-7", "Mstep/loss", "peer", "3")
	s.want("points", []any{len(points["value"]), points["window"][299], points["value"][299]}, []any{300, 299.0, 299.0})
	var list struct{ Runs []struct{ ID string } }
	s.get("/api/v1/projects/w/p/runs?name=miner-7", &list)
	var run struct {
		Series     int
		Points     int
		Attempts   []struct{ Number int }
		Attributes []struct {
			Path  string
			Value any
		}
	}
	s.get("/api/v1/runs/"+list.Runs[0].ID, &run)
	s.want("runs, series, points and attempts", []int{len(list.Runs), run.Series, run.Points, len(run.Attempts)}, []int{1, 2, 600, 30})
	of := map[string]any{}
	for _, a := range run.Attributes {
		of[a.Path] = a.Value
	}
	s.want("of the latest", []any{of["runtime_id"], of["version"], of["role"], of["config/k3"]}, []any{"r29", "2.2", "miner", fmt.Sprint(29 * 3 % 7)})
	for life := range 30 {
		own, _ := of[fmt.Sprint("attempts/", life+1)].([]any)
		want := []string{fmt.Sprint("runtime_id=r", life), fmt.Sprint("version=2.", life/10), fmt.Sprint("config/k199=", life*199%7)}
		for _, text := range want {
			if !slices.Contains(own, any(text)) || len(own) != 207 {
				t.Errorf("attempt %d has %d attributes without %s", life+1, len(own), text)
			}
		}
	}
}

// Where the tags describe no process, two values at one time are two series. Where a bucket's
// rule says that they do, they are two attempts, and each keeps its point.
func TestInfluxValuesDoNotReplaceEachOther(t *testing.T) {
	config := filepath.Join(t.TempDir(), "kymogram.yaml")
	if err := os.WriteFile(config, []byte("influx: {attributes: [ruled=version|config_*]}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := serveWith(t, config, false, slog.New(slog.DiscardHandler))
	s.addKeys()
	const body = "m,version=a f=1 1\nm,version=b f=2 1\n"
	for _, bucket := range []string{"plain", "ruled"} {
		if got := s.send("POST", "/api/v2/write?org=w&bucket="+bucket, []byte(body), map[string]string{"Authorization": "Token " + s.keys["admin"]}); got.code != 204 {
			t.Fatalf("%+v", got)
		}
	}
	s.want("plain a", s.columns("w", "plain", "default", "m/f", "version", "a")["value"], []any{1.0})
	s.want("plain b", s.columns("w", "plain", "default", "m/f", "version", "b")["value"], []any{2.0})
	var list struct{ Runs []struct{ ID string } }
	s.get("/api/v1/projects/w/ruled/runs", &list)
	for attempt, value := range []float64{1, 2} {
		var page struct{ Columns map[string][]any }
		s.get(fmt.Sprintf("/api/v1/runs/%s/points?metric=m/f&attempt=%d", list.Runs[0].ID, attempt+1), &page)
		s.want("ruled", page.Columns["value"], []any{value})
	}
}

// What the official clients ask before they write.
func TestInfluxClientsAskFirst(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	token := func(name string) map[string]string {
		return map[string]string{"Authorization": "Token " + s.keys[name]}
	}
	for _, project := range []string{"a", "b"} {
		if got := s.send("POST", "/api/v2/write?org=w&bucket="+project, []byte("m f=1 1"), token("admin")); got.code != 204 {
			t.Fatalf("%+v", got)
		}
	}
	for _, method := range []string{"GET", "HEAD"} {
		if got := s.send(method, "/ping", nil, nil); got.code != 204 || got.header.Get("X-Influxdb-Version") == "" || got.header.Get("X-Influxdb-Build") != "OSS" {
			t.Errorf("%s /ping: %+v", method, got)
		}
	}
	for _, c := range []struct {
		path, key string
		code      int
		text      string
	}{
		{"/health", "none", 200, `"status":"pass"`},
		{"/ready", "none", 200, `"status":"ready"`},
		{"/api/v2/buckets?org=w&limit=1&offset=1", "admin", 200, `"name":"b"`},
		{"/api/v2/buckets?org=w&name=new", "admin", 200, `"name":"new"`},
		{"/api/v2/buckets?name=a", "admin", 200, `"name":"a"`},
		{"/api/v2/buckets?org=w&name=a", "other project", 200, `"buckets":[]`},
		{"/api/v2/buckets?limit=x", "admin", 400, "whole number"},
		{"/api/v2/orgs?org=w", "admin", 200, `"name":"w"`},
		{"/api/v2/orgs?org=unseen", "admin", 200, `"name":"unseen"`},
		{"/api/v2/orgs?org=unseen", "other project", 200, `"orgs":[]`},
		{"/api/v2/orgs", "none", 401, "unauthenticated"},
	} {
		var header map[string]string
		if c.key != "none" {
			header = token(c.key)
		}
		if got := s.send("GET", c.path, nil, header); got.code != c.code || !strings.Contains(got.body, c.text) {
			t.Errorf("%s as %s: %d %s, want %d %s", c.path, c.key, got.code, got.body, c.code, c.text)
		}
	}
}

// Odd points are kept, or refused with a reason and what to do.
func TestInfluxOddPoints(t *testing.T) {
	s := serveNode(t, false)
	s.addKeys()
	var tags strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&tags, ",t%d=1", i)
	}
	for name, c := range map[string]struct {
		key, body string
		code      int
		text      string
	}{
		"100,000 tags":            {"admin", "m f=1 1\nm" + tags.String() + " f=1 1", 400, "line 2: measurement and tags have more than 65535 bytes"},
		"1,100 tags":              {"admin", "m" + tags.String()[:8_800] + "=1 f=1 1", 400, "line 1: "},
		"only NaN":                {"admin", "m,run=nan f=NaN 5", 204, ""},
		"a clock of 1970":         {"admin", "m,run=clock f=1 0", 204, ""},
		"a clock of 2100":         {"admin", "m,run=clock f=2 4102444800000000000", 204, ""},
		"a clock after 2116":      {"admin", "m,run=clock f=3 4702444800000000000", 422, "out of range"},
		"a bucket without rights": {"other project", "m f=1 1", 403, "forbidden"},
	} {
		got := s.send("POST", "/api/v2/write?org=w&bucket=p", []byte(c.body), map[string]string{"Authorization": "Token " + s.keys[c.key]})
		if got.code != c.code || !strings.Contains(got.body, c.text) {
			t.Errorf("%s: %d %s, want %d %s", name, got.code, got.body, c.code, c.text)
		}
	}
	s.want("NaN", s.columns("w", "p", "nan", "m/f")["value"], []any{"NaN"})
	clock := s.columns("w", "p", "clock", "m/f")
	s.want("clocks", []any{clock["value"], clock["time_ns"]}, []any{[]any{1.0, 2.0}, []any{0.0, 4102444800000000000.0}})
}

// A password in the URL is in no line of the log, whatever becomes of the request.
func TestInfluxPasswordsAreNotLogged(t *testing.T) {
	said := &securityLog{}
	s := serveLogged(t, slog.New(slog.NewTextHandler(said, &slog.HandlerOptions{Level: slog.LevelDebug})))
	s.addKeys()
	const wrong, user = "kym_notakeybutapasswordofsomebody", "nameofsomebody"
	for _, password := range []string{s.keys["ingest"], s.keys["other project"], wrong} {
		for _, target := range []string{"/write?db=x", "/write?db=a%2Fb", "/write?", "/write?db=x&precision=q", "/api/v2/write?org=w&bucket=x", "/api/v2/buckets?limit=x", "/ping?", "/nosuchpath?"} {
			for _, body := range []string{"m f=1 1", "m f="} {
				got := s.send("POST", target+"&u="+user+"&p="+password, []byte(body), nil)
				if strings.Contains(got.body, password) {
					t.Errorf("%s: the answer has the password: %s", target, got.body)
				}
			}
			s.send("GET", target+"&u="+user+"&p="+password, nil, nil)
		}
	}
	log := strings.Join(said.lines(), "")
	for _, secret := range []string{s.keys["ingest"], s.keys["other project"], wrong, user} {
		if strings.Contains(log, secret) {
			t.Errorf("the log has %s:\n%s", secret, log)
		}
	}
	if !strings.Contains(log, "security") {
		t.Errorf("no refusal is in the log: %s", log)
	}
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
