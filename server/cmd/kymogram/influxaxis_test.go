package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// A tag that is an axis here, and whose rows the store finds by its value, selects the same rows
// as the tag of a real InfluxDB: values come in any order, again and again, and some rows lack it.
func TestInfluxQLFindsAnAxisAsInfluxDBFindsATag(t *testing.T) {
	influx, s := startInflux(t, "influxd-1.6", ""), serveNode(t, true)
	if status, text := askInflux(t, influx, "CREATE DATABASE p"); status != http.StatusOK {
		t.Fatal(text)
	}
	seed := uint64(time.Now().UnixNano())
	r := rand.New(rand.NewPCG(seed, 7))
	var lines []string
	for i := range 800 {
		tags, fields := fmt.Sprintf("steps,host=h%d", r.IntN(3)), []string{fmt.Sprintf("f=%v", r.NormFloat64())}
		if r.IntN(6) > 0 {
			window := i / 40
			if r.IntN(3) == 0 {
				window = r.IntN(20)
			}
			tags += fmt.Sprintf(",window=%d", window)
		}
		if r.IntN(2) == 0 {
			fields = append(fields, fmt.Sprintf("g=%di", r.IntN(50)))
		}
		if r.IntN(5) == 0 {
			fields = append(fields, fmt.Sprintf(`s="text %d"`, r.IntN(5)))
		}
		lines = append(lines, fmt.Sprintf("%s %s %d", tags, strings.Join(fields, ","), influxStart+int64(i)*1_000_000_000))
	}
	for _, address := range []string{influx, "http://" + s.address} {
		if status, text := post(t, address+"/write?db=p", strings.Join(lines, "\n")); status != http.StatusNoContent {
			t.Fatal(address, status, text)
		}
	}
	near := cmpopts.EquateApprox(1e-9, 1e-12)
	rows := 0
	for _, what := range []string{
		"f", "f, g", "g, host", `f, "window"`, "s", "f, s", "mean(f)", "count(g), max(f)", "max(f), g", "min(f), host", "first(f)", "last(g)", "last(s)", "median(f)", "top(f, 3)", "distinct(g)", "elapsed(f, 1s)", "f + g",
	} {
		for _, condition := range []string{
			`"window" = '7'`, `("window" = '3') AND host = 'h1'`, `f > 0 AND "window" = '7'`, `"window" = '7' AND g < 30`, `"window" = '7' AND s =~ /[12]/`, `"window" = '7' AND time >= 1700000200s AND time < 1700000400s`,
			`"window" = '7' AND "window" = '8'`, `"window" = '7' OR "window" = '8'`, `"window" = '07'`, `"window" = '99'`, `"window" = ''`, `"window" != '7'`, `"window" = '7' AND nothing = ''`,
		} {
			for _, rest := range []string{"", " GROUP BY host", " ORDER BY time DESC LIMIT 5"} {
				if (what == "top(f, 3)" || what == "distinct(g)") && strings.HasSuffix(rest, "5") {
					continue // InfluxDB's answer depends on the order of its series
				}
				query := "SELECT " + what + " FROM steps WHERE " + condition + rest
				status, want := askInflux(t, influx, query)
				ours, got := askInflux(t, "http://"+s.address, query)
				var a, b any
				if err := json.Unmarshal([]byte(want), &a); err != nil {
					t.Fatal(err)
				}
				if err := json.Unmarshal([]byte(got), &b); err != nil {
					t.Fatalf("%s: %v\n%s", query, err, got)
				}
				if rows += strings.Count(want, "["); status != ours {
					t.Errorf("seed %d, %s: status %d, want %d\n%s\n%s", seed, query, ours, status, got, want)
				} else if diff := cmp.Diff(a, b, near); diff != "" {
					t.Errorf("seed %d, %s (-InfluxDB +ours):\n%s", seed, query, diff)
				}
			}
		}
	}
	if rows < 5_000 {
		t.Errorf("only %d rows were compared", rows)
	}
}
