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
	"testing"
	"time"

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
