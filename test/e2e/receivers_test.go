//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	influxdb2 "github.com/influxdata/influxdb-client-go/v2"

	"github.com/kymogram/kymogram/test/rig"
)

// The unmodified client from PyPI, batching in the background as Templar uses it.
const influxClient = `
import sys
try:
    from influxdb_client import InfluxDBClient, Point, WriteOptions
    from influxdb_client.client.exceptions import InfluxDBError
except ImportError:
    sys.exit(77)
address, key = sys.argv[1:]
failed = []
with InfluxDBClient(url=address, token=key, org="team", enable_gzip=True) as client:
    with client.write_api(
        write_options=WriteOptions(batch_size=1000, flush_interval=500),
        error_callback=lambda conf, data, error: failed.append(str(error)),
    ) as api:
        for window in range(2500):
            point = Point("Vvalidator_window_v2").tag("uid", "7").tag("role", "validator").tag("window", window)
            point = point.tag("config_device", "cuda:0, node=1").field("loss", window / 7).field("peers", window)
            point = point.field("gather_peers", '[1, 2, "x\\\\"]').field("ok", window % 2 == 0).time(1_700_000_000_000_000_000 + window)
            api.write("templar", record=point)
assert not failed, failed
`

func TestInfluxClient(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Root, ".venv", "bin", "python"), "-c", influxClient, s.Address, s.Key(t))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
		t.Skip("influxdb-client is not installed: make prepare")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	c := s.Client(t)
	run := c.Run(t, "team/templar", "validator-7")
	labels := map[string]string{"uid": "7", "role": "validator", "config_device": "cuda:0, node=1"}
	const prefix = "Vvalidator_window_v2/"
	loss := c.Points(t, run.ID, prefix+"loss", "ML_STEP", labels)
	peers := c.Points(t, run.ID, prefix+"peers", "ML_STEP", labels)
	text := c.Points(t, run.ID, prefix+"gather_peers", "ML_STEP", labels)
	ok := c.Points(t, run.ID, prefix+"ok", "ML_STEP", labels)
	if len(loss["value"]) != 2500 || len(peers["value"]) != 2500 || len(text["value"]) != 2500 || len(ok["value"]) != 2500 {
		t.Fatalf("%d, %d, %d, %d points, want 2500 each", len(loss["value"]), len(peers["value"]), len(text["value"]), len(ok["value"]))
	}
	for i := range 2500 {
		got := loss.Row(i, "step", "window", "time_ns", "value")
		want := fmt.Sprintf("step=%d window=%d time_ns=%d value=%s ", i, i, 1_700_000_000_000_000_000+i, rig.Text(float64(i)/7))
		if got != want {
			t.Fatalf("point %d is %s, want %s", i, got, want)
		}
	}
	if got, want := text.Row(9, "value"), `value=[1, 2, "x\\"] `; got != want {
		t.Errorf("text %q, want %q", got, want)
	}
	if got := ok.Row(0, "value") + ok.Row(1, "value"); got != "value=true value=false " {
		t.Errorf("booleans %q", got)
	}
}

// As Templar logs: over https, every point with the tags of its process, and a restart of it.
const templarClient = `
import sys, uuid
try:
    from influxdb_client import InfluxDBClient, Point, WriteOptions, WritePrecision
except ImportError:
    sys.exit(77)
host, port, key = sys.argv[1:]
failed = []
for life in range(3):
    client = InfluxDBClient(url=f"https://{host}:{port}", token=key, org="tplr")
    assert client.ping() and client.version().startswith("2."), client.version()
    assert client.health().status == "pass" and client.ready().status == "ready"
    bucket = client.buckets_api().find_bucket_by_name("tplr")
    assert bucket.name == "tplr", bucket
    assert [o.name for o in client.organizations_api().find_organizations(org="tplr")] == ["tplr"]
    api = client.write_api(
        write_options=WriteOptions(batch_size=1000, flush_interval=2_000, jitter_interval=100, retry_interval=10_000, max_close_wait=600_000),
        error_callback=lambda conf, data, error: failed.append(str(error)),
    )
    runtime = str(uuid.uuid4())
    for i in range(58):
        window = life * 58 + i
        point = Point("Mtraining_step_v2").time(1_700_000_000_000_000_000 + window, WritePrecision.NS)
        for name, value in {"window": window, "global_step": 10 * window, "uid": "5", "prefix": "M", "version": f"2.1.{life}",
                            "runtime_id": runtime, "role": "miner", "group": "miner", "job_type": "mining"}.items():
            point = point.tag(name, value)
        for k in range(200):
            point = point.tag(f"config_k{k}", str(k * life))
        api.write(bucket="tplr", org="tplr", record=point.field("loss", window / 7).field("gather_peers", "[1, 2]"))
    api.close()
    client.close()
assert not failed, failed
`

func TestInfluxClientAsTemplarUsesIt(t *testing.T) {
	r := rig.New(t)
	a := newAuthority(t, r.Dir)
	cert, key := a.issue(t, r.Dir, time.Now().Add(time.Hour))
	s := r.Serve(t, "--tls-cert", cert, "--tls-key", key)
	secret := s.Key(t)
	host, port, err := net.SplitHostPort(strings.TrimPrefix(s.Address, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Root, ".venv", "bin", "python"), "-c", templarClient, host, port, secret)
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+a.file)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
		t.Skip("influxdb-client is not installed: make prepare")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s.Stop(t)
	c := r.ServeData(t, s.Data).Client(t)
	run := c.Run(t, "tplr/tplr", "miner-5")
	if series := c.Series(t, run.ID); len(series) != 2 {
		t.Errorf("58 windows and 3 lives are %d series, want 2: %+v", len(series), series)
	}
	loss := c.Points(t, run.ID, "Mtraining_step_v2/loss", "ML_STEP", nil)
	if len(loss["value"]) != 174 {
		t.Fatalf("%d points, want 174", len(loss["value"]))
	}
	for i := range 174 {
		want := fmt.Sprintf("step=%d window=%d attempt=%d value=%s ", 10*i, i, 1+i/58, rig.Text(float64(i)/7))
		if got := loss.Row(i, "step", "window", "attempt", "value"); got != want {
			t.Fatalf("point %d is %s, want %s", i, got, want)
		}
	}
}

// The official client of Go: it asks, writes in the background with gzip, and is told which
// line cannot be read.
func TestInfluxClientOfGo(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	client := influxdb2.NewClientWithOptions(s.Address, s.Key(t), influxdb2.DefaultOptions().SetBatchSize(100).SetUseGZip(true))
	defer client.Close()
	ctx := t.Context()
	if ok, err := client.Ping(ctx); !ok || err != nil {
		t.Fatal(ok, err)
	}
	if health, err := client.Health(ctx); err != nil || health.Status != "pass" {
		t.Fatal(health, err)
	}
	if ready, err := client.Ready(ctx); err != nil || *ready.Status != "ready" {
		t.Fatal(ready, err)
	}
	org, err := client.OrganizationsAPI().FindOrganizationByName(ctx, "team")
	if err != nil || org.Name != "team" {
		t.Fatal(org, err)
	}
	if bucket, err := client.BucketsAPI().FindBucketByName(ctx, "templar"); err != nil || bucket.Name != "templar" {
		t.Fatal(bucket, err)
	}
	writer := client.WriteAPI("team", "templar")
	failed := writer.Errors()
	for i := range 1_000 {
		tags := map[string]string{"uid": "7", "role": "validator", "runtime_id": "r", "version": "2", "window": fmt.Sprint(i)}
		writer.WritePoint(influxdb2.NewPoint("window", tags, map[string]any{"loss": float64(i) / 7, "peers": i, "text": "a \"b\""}, time.Unix(1_700_000_000, int64(i))))
	}
	writer.Flush()
	select {
	case err := <-failed:
		t.Fatal(err)
	default:
	}
	c := s.Client(t)
	run := c.Run(t, "team/templar", "validator-7")
	loss, peers := c.Points(t, run.ID, "window/loss", "ML_STEP", nil), c.Points(t, run.ID, "window/peers", "ML_STEP", nil)
	if len(c.Series(t, run.ID)) != 3 || len(loss["value"]) != 1_000 || peers.Row(999, "window", "value") != "window=999 value=999 " {
		t.Errorf("%d series, %d points, the last %s", len(c.Series(t, run.ID)), len(loss["value"]), peers.Row(999, "window", "value"))
	}
	err = client.WriteAPIBlocking("team", "templar").WriteRecord(ctx, "m f=1 1", "m f= 2")
	if err == nil || !strings.Contains(err.Error(), "line 2: missing field value") {
		t.Errorf("a line that cannot be read: %v", err)
	}
}

const prometheusConfig = `
global: {scrape_interval: 200ms}
scrape_configs:
  - job_name: self
    static_configs: [{targets: [%q]}]
remote_write:
  - url: %s/api/v1/write?workspace=team&project=cluster
    authorization: {credentials: %s}
    queue_config: {batch_send_deadline: 200ms}
`

// Debian's Prometheus scrapes itself and writes here; what it kept and what we
// got are the same.
func TestPrometheusClient(t *testing.T) {
	binary, err := exec.LookPath("prometheus")
	if err != nil {
		t.Skip("Prometheus is not installed: make prepare")
	}
	r := rig.New(t)
	s := r.Serve(t)
	free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	_ = free.Close()
	config := filepath.Join(r.Dir, "prometheus.yml")
	if err := os.WriteFile(config, fmt.Appendf(nil, prometheusConfig, address, s.Address, s.Key(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), binary, "--config.file", config, "--storage.tsdb.path", filepath.Join(r.Dir, "tsdb"), "--web.listen-address", address)
	start(t, cmd)
	c := s.Client(t)
	var got rig.Points
	for deadline := time.Now().Add(time.Minute); len(got["value"]) < 5; time.Sleep(200 * time.Millisecond) { // the scrape's own pace
		if time.Now().After(deadline) {
			t.Fatalf("after a minute there are %d points", len(got["value"]))
		}
		var list struct{ Projects []any }
		if c.Get(t, "/api/v1/projects", nil, &list); len(list.Projects) == 0 {
			continue
		}
		run := c.Run(t, "team/cluster", "self/"+address)
		got = c.Points(t, run.ID, "up", "ML_STEP", map[string]string{"job": "self", "instance": address})
	}
	theirs := scraped(t, address)
	for i := range got["value"] {
		if point := got.Row(i, "time_ns", "value"); !theirs[point] {
			t.Errorf("Prometheus itself does not have %s", point)
		}
	}
}

// scraped are the samples of up in Prometheus' own storage.
func scraped(t *testing.T, address string) map[string]bool {
	t.Helper()
	resp, err := http.Get("http://" + address + "/api/v1/query?query=up%5B10m%5D")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var doc struct {
		Data struct {
			Result []struct{ Values [][2]any }
		}
	}
	if err := json.NewDecoder(resp.Body).Decode(&doc); err != nil || len(doc.Data.Result) != 1 {
		t.Fatalf("%+v, %v", doc, err)
	}
	out := map[string]bool{}
	for _, v := range doc.Data.Result[0].Values {
		ms := int64(math.Round(v[0].(float64) * 1000))
		out[fmt.Sprintf("time_ns=%d value=%v ", ms*1_000_000, v[1])] = true
	}
	return out
}
