package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// startInflux starts a real InfluxDB that `make influx` put there.
func startInflux(t *testing.T, name, more string) (address string) {
	t.Helper()
	program, err := filepath.Abs(filepath.Join("..", "..", "..", "bin", "tools", name))
	if err == nil {
		_, err = os.Stat(program)
	}
	if err != nil {
		t.Skipf("there is no bin/tools/%s: make influx", name)
	}
	dir, ports := t.TempDir(), [2]string{}
	for i := range ports {
		free, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		ports[i] = free.Addr().String()
		_ = free.Close()
	}
	config := filepath.Join(dir, "conf")
	text := fmt.Sprintf("reporting-disabled = true\nbind-address = %q\n[meta]\ndir = %q\n[data]\ndir = %q\nwal-dir = %q\n[http]\nbind-address = %q\n%s",
		ports[0], dir+"/meta", dir+"/data", dir+"/wal", ports[1], more)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-config", config)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	address = "http://" + ports[1]
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if q, err := http.Get(address + "/ping"); err == nil { //nolint:noctx // a loop with an end
			_ = q.Body.Close()
			return address
		}
		if time.Now().After(deadline) {
			t.Fatal("the InfluxDB did not start")
		}
	}
}

// post sends a form or a body and returns what comes back.
func post(t *testing.T, address, body string) (status int, text string) {
	t.Helper()
	q, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	raw, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(raw)
}

func askInflux(t *testing.T, address, query string, more ...string) (status int, text string) {
	t.Helper()
	values := url.Values{"db": {"p"}, "q": {query}}
	for i := 0; i < len(more); i += 2 {
		values.Set(more[i], more[i+1])
	}
	return post(t, address+"/query?"+values.Encode(), "")
}

const influxStart = 1_700_000_000_000_000_000

// randomLines are points of a few series that come at random times, some without some fields.
func randomLines(seed uint64) (lines []string) {
	r := rand.New(rand.NewPCG(seed, 16))
	for i := range 900 {
		at := influxStart + int64(i)*7_900_000_000 + r.Int64N(7_000_000_000)
		tags := fmt.Sprintf("host=h%d,region=%s", r.IntN(4), []string{"eu", "us"}[r.IntN(2)])
		if r.IntN(5) == 0 {
			tags += ",rack=7"
		}
		fields := []string{fmt.Sprintf("f=%v", math.Round(r.NormFloat64()*1e4)/1e3)}
		if r.IntN(3) > 0 {
			fields = append(fields, fmt.Sprintf("g=%di", max(17, r.IntN(40))))
		}
		if r.IntN(4) == 0 {
			fields = append(fields, fmt.Sprintf("s=\"text %d\"", r.IntN(5)))
		}
		lines = append(lines, fmt.Sprintf("cpu,%s %s %d", tags, strings.Join(fields, ","), at))
		if r.IntN(6) == 0 {
			lines = append(lines, fmt.Sprintf("mem,%s used=%d %d", tags, r.IntN(1000), at))
		}
	}
	return lines
}

// rangeText is the middle of the points' time.
const rangeText = "time >= 1700000100s AND time < 1700006900s"

// influxQueries are asked of a real InfluxDB and of us: what Grafana's query builder and the
// v1 clients send, each function, and what else people write.
func influxQueries() []string {
	out := []string{
		`SELECT f FROM cpu`, `SELECT * FROM cpu`, `SELECT f, g, s FROM cpu WHERE host = 'h1'`, `SELECT f, host FROM cpu LIMIT 7`,
		`SELECT * FROM cpu GROUP BY *`, `SELECT f FROM cpu GROUP BY host LIMIT 3 OFFSET 2`, `SELECT f FROM cpu GROUP BY host, region SLIMIT 3 SOFFSET 1`,
		`SELECT f FROM cpu ORDER BY time DESC LIMIT 20`, `SELECT f, g FROM cpu WHERE region = 'eu' ORDER BY time DESC`, `SELECT s FROM cpu WHERE s = 'text 3'`,
		`SELECT f FROM cpu WHERE f > 5 AND g < 30`, `SELECT f FROM cpu WHERE f > 5 OR host = 'h2'`, `SELECT f FROM cpu WHERE rack = ''`, `SELECT f FROM cpu WHERE rack != ''`,
		`SELECT f FROM cpu WHERE host =~ /h[13]/ AND region !~ /^us$/`, `SELECT f FROM cpu WHERE s =~ /3/`, `SELECT f FROM cpu WHERE nothing = ''`, `SELECT f FROM cpu WHERE nothing = 'x'`,
		`SELECT f + g, f * 2, -g FROM cpu WHERE host = 'h0'`, `SELECT g / 3, g % 7, f - g FROM cpu LIMIT 50`, `SELECT abs(f), round(f), pow(g, 2), sqrt(g) FROM cpu LIMIT 30`,
		`SELECT mean(f) AS m FROM cpu`, `SELECT mean(f), max(g), count(s) FROM cpu`, `SELECT mean(*) FROM cpu`, `SELECT count(*) FROM cpu GROUP BY region`, `SELECT max(/^[fg]$/) FROM cpu`,
		`SELECT max(f), host, s FROM cpu`, `SELECT min(f), region FROM cpu GROUP BY host`, `SELECT first(f), last(f) FROM cpu GROUP BY region`, `SELECT last(s), host FROM cpu`, `SELECT first(g) FROM cpu WHERE f > 3`,
		`SELECT used FROM mem`, `SELECT mean(f) FROM cpu, mem`, `SELECT count(f), count(used) FROM cpu, mem`, `SELECT * FROM /m/ LIMIT 30`, `SELECT mean(used) FROM /.*/`, `SELECT nothing FROM cpu`, `SELECT f FROM nothing`,
		`SELECT top(f, 5) FROM cpu`, `SELECT bottom(f, host, 3) FROM cpu`, `SELECT top(f, 3), host FROM cpu WHERE ` + rangeText + ` GROUP BY time(30m)`,
		`SELECT mean(m) FROM (SELECT mean(f) AS m FROM cpu GROUP BY host)`, `SELECT max(m) FROM (SELECT mean(f) AS m FROM cpu WHERE ` + rangeText + ` GROUP BY time(10m), host) GROUP BY region`,
		`SELECT sum(d) FROM (SELECT non_negative_derivative(mean(g), 1m) AS d FROM cpu WHERE ` + rangeText + ` GROUP BY time(5m), host)`, `SELECT f FROM (SELECT f, g FROM cpu WHERE g > 20) WHERE f < 0`,
		`SELECT mean(f) FROM cpu; SELECT count(g) FROM cpu; SELECT x FROM`, `SELECT mean(f) FROM cpu; SELECT count(g) FROM nothing`, `SELECT f FROM cpu WHERE time = 1700000001s`,
		`SELECT mean(s) FROM cpu`, `SELECT f, mean(f) FROM cpu`, `SELECT percentile(f) FROM cpu`, `SELECT mean(f) FROM cpu GROUP BY time(0s)`, `SELECT foo(f) FROM cpu`, `SELEC f FROM cpu`, `SELECT f FROM cpu WHERE (f > 1`,
		`SELECT cumulative_sum(f) FROM cpu WHERE host = 'h1'`, `SELECT elapsed(f, 1s) FROM cpu LIMIT 20`, `SELECT moving_average(f, 4) FROM cpu GROUP BY host`, `SELECT count(distinct(g)) FROM cpu`, `SELECT DISTINCT g FROM cpu`,
		`SELECT sample(f, 2000) FROM cpu`, `SELECT integral(f, 1m) FROM cpu GROUP BY host`, `SELECT mode(g) FROM cpu`, `SELECT derivative(f, 10s) FROM cpu WHERE host = 'h3'`, `SELECT difference(f) FROM cpu ORDER BY time DESC LIMIT 9`,
		`SELECT mean(f) FROM cpu WHERE ` + rangeText + ` GROUP BY time(10m) ORDER BY time DESC LIMIT 4`, `SELECT mean(f) FROM cpu WHERE ` + rangeText + ` GROUP BY time(20m, 7m)`,
		`SELECT mean(f) FROM cpu WHERE ` + rangeText + ` GROUP BY time(1h) tz('UTC')`, `SELECT mean(f) FROM cpu WHERE time > now() - 1s GROUP BY time(1s) fill(0)`,
		`SHOW MEASUREMENTS`, `SHOW MEASUREMENTS WITH MEASUREMENT =~ /c.*/`, `SHOW MEASUREMENTS WHERE host = 'h1' LIMIT 1`, `SHOW TAG KEYS`, `SHOW TAG KEYS FROM mem`, `SHOW TAG VALUES WITH KEY = host`, `SHOW TAG VALUES FROM cpu WITH KEY IN (host, region) WHERE rack = '7'`,
		`SHOW TAG VALUES WITH KEY =~ /r.*/ LIMIT 2`, `SHOW TAG VALUES FROM cpu WITH KEY != host`, `SHOW FIELD KEYS`, `SHOW FIELD KEYS FROM cpu`, `SHOW SERIES`, `SHOW SERIES FROM mem WHERE region = 'eu' LIMIT 3`, `SHOW RETENTION POLICIES`, `SHOW RETENTION POLICIES ON nothing`,
		`SHOW FIELD KEYS FROM nothing`, `SHOW TAG KEYS ON p FROM /c/ LIMIT 1 OFFSET 1`, `SELECT f FROM "p"."autogen"."cpu" LIMIT 3`, `SELECT f FROM nothere..cpu`,
	}
	for _, call := range []string{
		"mean(f)", "sum(g)", "count(f)", "min(f)", "max(f)", "first(f)", "last(g)", "median(f)", "percentile(f, 95)", "spread(f)", "stddev(f)", "derivative(mean(f), 1s)", "non_negative_derivative(max(g), 1m)",
		"difference(mean(f))", "non_negative_difference(last(f))", "distinct(g)", "moving_average(mean(f), 3)", "cumulative_sum(sum(g))", "integral(f)", "mean(f), max(g)", "mean(f) / 2", "count(s)", "last(s)", "sum(f) / count(f)",
	} {
		out = append(out, "SELECT "+call+" FROM cpu WHERE "+rangeText+" GROUP BY time(7m), host")
	}
	for _, fill := range []string{"null", "none", "previous", "linear", "0", "-1.5"} {
		out = append(out, "SELECT mean(f), last(g) FROM cpu WHERE "+rangeText+" AND region = 'eu' GROUP BY time(1m), host fill("+fill+")")
	}
	return out
}

// flat is an answer's rows, each with its series, in an order of their own.
func flat(answer any) (out []string) {
	var doc struct {
		Results []struct {
			Series []struct {
				Tags   map[string]string
				Values [][]any
			}
		}
	}
	raw, _ := json.Marshal(answer) // it was JSON
	_ = json.Unmarshal(raw, &doc)
	for _, result := range doc.Results {
		for _, series := range result.Series {
			for _, values := range series.Values {
				out = append(out, fmt.Sprintf("%v %v %.6g", series.Tags, values[0], values[1]))
			}
		}
	}
	slices.Sort(out)
	return out
}

// A real InfluxDB and Kymogram get the same points and the same queries.
func TestInfluxQLAnswersAsInfluxDB(t *testing.T) {
	for _, name := range []string{"influxd-1.6", "influxd-1.8"} {
		t.Run(name, func(t *testing.T) { compareWithInflux(t, name) })
	}
}

func compareWithInflux(t *testing.T, name string) {
	influx, s := startInflux(t, name, ""), serveNode(t, true)
	if status, text := askInflux(t, influx, "CREATE DATABASE p"); status != http.StatusOK {
		t.Fatal(text)
	}
	body := strings.Join(randomLines(uint64(time.Now().UnixNano())), "\n")
	for _, address := range []string{influx, "http://" + s.address} {
		if status, text := post(t, address+"/write?db=p", body); status != http.StatusNoContent {
			t.Fatal(address, status, text)
		}
	}
	near := cmpopts.EquateApprox(1e-9, 1e-12)
	for _, query := range influxQueries() {
		for _, epoch := range []string{"", "ms"} {
			status, want := askInflux(t, influx, query, "epoch", epoch)
			ours, got := askInflux(t, "http://"+s.address, query, "epoch", epoch)
			if status != ours {
				t.Errorf("%s: status %d, want %d\n%s\n%s", query, ours, status, got, want)
				continue
			}
			var a, b any
			if err := json.Unmarshal([]byte(want), &a); err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal([]byte(got), &b); err != nil {
				t.Fatalf("%s: %v\n%s", query, err, got)
			}
			if strings.Contains(query, "integral") { // InfluxDB gives the last interval of each series in a random order
				a, b = flat(a), flat(b)
			}
			if diff := cmp.Diff(a, b, near); diff != "" {
				t.Errorf("%s (-InfluxDB +ours):\n%s", query, diff)
			}
		}
	}
}
