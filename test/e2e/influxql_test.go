//go:build e2e

package e2e

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	influx1 "github.com/influxdata/influxdb1-client/v2"

	"github.com/kymogram/kymogram/test/rig"
)

// The unmodified v1 client from PyPI: it writes, and asks in each of its ways.
const influx1Client = `
import sys
try:
    from influxdb import InfluxDBClient
    from influxdb.exceptions import InfluxDBClientError
except ImportError:
    sys.exit(77)
host, port, key = sys.argv[1:]
client = InfluxDBClient(host, int(port), username="any", password=key, database="v1")
assert client.ping() is not None
client.create_database("v1")
start = 1_700_000_000_000_000_000
points = [
    {"measurement": "window", "time": start + i * 1_000_000_000, "tags": {"uid": str(i % 4), "window": str(i)}, "fields": {"loss": 8 - i / 7, "peers": i}}
    for i in range(40)
]
assert client.write_points(points, time_precision="n", batch_size=15)
assert [d["name"] for d in client.get_list_database()] == ["v1"], client.get_list_database()
assert [m["name"] for m in client.get_list_measurements()] == ["window"]
assert [p["name"] for p in client.get_list_retention_policies("v1")] == ["autogen"]
assert client.get_list_series("v1", "window") == ["window,uid=%d" % uid for uid in range(4)], client.get_list_series("v1")
rows = list(client.query('SELECT loss, peers, "window", uid FROM "window"').get_points())
assert len(rows) == 40 and rows[9] == {"time": "2023-11-14T22:13:29Z", "loss": 8 - 9 / 7, "peers": 9, "window": "9", "uid": "1"}, rows[9]
by_uid = client.query('SELECT mean(peers), count(loss) FROM "window" WHERE time >= 1700000000s AND time < 1700000040s GROUP BY time(20s), uid fill(none)', epoch="s")
for uid in range(4):
    got = [(p["time"], p["mean"], p["count"]) for p in by_uid.get_points(tags={"uid": str(uid)})]
    assert got == [(1_700_000_000, 8.0 + uid, 5), (1_700_000_020, 28.0 + uid, 5)], got
bound = client.query('SELECT loss FROM "window" WHERE uid = $uid AND "window" >= $low', bind_params={"uid": "3", "low": 30})
assert [p["loss"] for p in bound.get_points()] == [8 - i / 7 for i in (31, 35, 39)]
chunks = client.query('SELECT peers FROM "window"', chunked=True, chunk_size=7)
assert [p["peers"] for chunk in chunks for p in chunk.get_points()] == list(range(40))
posted = client.query('SELECT last(loss) FROM "window"; SELECT max(peers) FROM "window"', method="POST")
assert [list(p.get_points())[0].get("max") for p in posted] == [None, 39]
for bad in ("SELEC", "DROP MEASUREMENT window", 'SELECT x FROM other.."m"'):
    try:
        client.query(bad, method="POST")
        raise SystemExit("taken: " + bad)
    except InfluxDBClientError as e:
        assert key not in str(e), e
`

func TestInflux1Client(t *testing.T) {
	r := rig.New(t)
	s := r.Serve(t)
	host, port, _ := strings.Cut(strings.TrimPrefix(s.Address, "http://"), ":")
	cmd := exec.CommandContext(t.Context(), filepath.Join(r.Root, ".venv", "bin", "python"), "-c", influx1Client, host, port, s.Key(t))
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState != nil && cmd.ProcessState.ExitCode() == 77 {
		t.Skip("influxdb is not installed: make prepare")
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

func TestInflux1ClientOfGo(t *testing.T) {
	s := rig.New(t).Serve(t)
	client, err := influx1.NewHTTPClient(influx1.HTTPConfig{Addr: s.Address, Username: "any", Password: s.Key(t)})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, version, err := client.Ping(10 * time.Second); err != nil || version == "" {
		t.Fatal(version, err)
	}
	points, err := influx1.NewBatchPoints(influx1.BatchPointsConfig{Database: "v1", Precision: "ns"})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		p, err := influx1.NewPoint("m", map[string]string{"host": fmt.Sprint(i % 2)}, map[string]any{"f": float64(i) / 8, "n": i}, time.Unix(1_700_000_000+int64(i), 0))
		if err != nil {
			t.Fatal(err)
		}
		points.AddPoint(p)
	}
	if err := client.Write(points); err != nil {
		t.Fatal(err)
	}
	q := influx1.NewQueryWithParameters("SELECT sum(f), count(n) FROM m WHERE n >= $low GROUP BY host", "v1", "s", map[string]any{"low": 50})
	answer, err := client.Query(q)
	if err != nil || answer.Error() != nil || len(answer.Results) != 1 || len(answer.Results[0].Series) != 2 {
		t.Fatal(answer, err)
	}
	for i, want := range []string{"[0 231.25 25]", "[0 234.375 25]"} { // 50, 52, … 98 and 51, 53, … 99, each by 8
		if got := fmt.Sprint(answer.Results[0].Series[i].Values[0]); got != want {
			t.Errorf("host %d: %s, want %s", i, got, want)
		}
	}
	q = influx1.NewQuery("SELECT n FROM m", "v1", "ns")
	q.Chunked, q.ChunkSize = true, 30
	stream, err := client.QueryAsChunk(q)
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	var sizes []int
	for {
		part, err := stream.NextResponse()
		if err != nil || part == nil {
			break
		}
		for _, result := range part.Results {
			for _, row := range result.Series {
				sizes = append(sizes, len(row.Values))
				if n, _ := row.Values[0][1].(json.Number); n.String() != fmt.Sprint(30*(len(sizes)-1)) {
					t.Errorf("chunk %d begins with %s", len(sizes), n)
				}
			}
		}
	}
	if fmt.Sprint(sizes) != "[30 30 30 10]" {
		t.Errorf("chunks of %v rows", sizes)
	}
	if answer, err = client.Query(influx1.NewQuery("SELECT f FROM other..m", "v1", "")); err != nil || answer.Error() == nil {
		t.Error(answer, err)
	}
}
