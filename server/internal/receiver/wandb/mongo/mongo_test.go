package mongo

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// run is a Record from one JSON text.
type run string

func (r run) Field(name string) ([]byte, bool) { return loose.Get([]byte(r), name) }

// one is a run with all that the tests below ask for.
const one = run(`{
	"name": "0djlnjjs", "displayName": "validator-5F3s", "state": "running", "group": null, "tags": ["best", "v1"], "createdAt": "2026-11-26T01:00:00Z", "username": "ni",
	"config": {
		"role": {"value": "validator"}, "config": {"value": {"netuid": 27}}, "version": {"value": 183, "desc": null}, "allocated": {"value": null}, "hotkey": {"value": "5F\"é"},
		"allocated_hotkeys": {"value":["5Fa","5Fb"]}, "none": {"value": []}, "stats": {"value": {"1":{"score":0.5,"list":[{"x":1},{"x":[2,3]},{"y":null}]}}},
		"a.b": {"value": 1}, "a": {"value": {"b": 2, "c": {"value": 3}, "d.e": {"f": 4}}}, "model/lr": {"value": 1e-3}, "bare": 7, "on": {"value": true}, "big": {"value": 9007199254740993}, "nan": {"value": NaN}
	},
	"summaryMetrics": {"loss": 0.25, "val/loss": NaN, "best.loss": 1, "best": {"loss": 2, "step": 3}, "text": "Infinity", "_step": 99, "h": {"_type": "histogram"}}
}`)

func TestMatch(t *testing.T) {
	t.Parallel()
	yes := []string{
		"", "{}", " null ", `{"$and":[]}`, `{"$or":[{"$and":[]}]}`, `{"$nor":[]}`,
		`{"state":"running"}`, `{"display_name":"validator-5F3s","displayName":{"$regex":"^validator-"}}`, `{"user":"ni","username":"ni"}`, `{"group":null}`, `{"job_type":null}`, `{"jobType":{"$exists":false}}`,
		`{"tags":"v1"}`, `{"tags":{"$in":["x","v1"]}}`, `{"tags":["best","v1"]}`, `{"tags":{"$all":["v1","best"]}}`, `{"tags":{"$size":2}}`, `{"tags":{"$ne":"x"}}`, `{"tags":{"$nin":["x"]}}`, `{"tags":{"$regex":"^v\\d$"}}`, `{"tags":{"$contains":"bes"}}`,
		`{"$or":[{"tags":null},{"tags":{"$ne":"x"}}]}`, `{"$not":{"tags":"x"}}`, `{"tags":{"$not":{"$in":["x"]}}}`, `{"tags":{"$not":{"$regex":"x"}}}`,
		`{"createdAt":"2026-11-26T02:00:00+01:00"}`, `{"created_at":{"$gte":"2026-11-26","$lt":"2026-11-26T01:00:00.001"}}`, `{"createdAt":{"$in":["2026-11-26 01:00:00"]}}`, `{"createdAt":{"$regex":"^2026-11"}}`,
		`{"config.role":"validator"}`, `{"config.role.value":"validator"}`, `{"config.config.netuid":27}`, `{"config.config.value.netuid":27.0}`, `{"config.config.netuid.value":2.7e1}`, `{"config.version":{"$gt":182,"$lt":183.5}}`,
		`{"config.a.b":1}`, `{"config.a.c":{"value":3}}`, `{"config.a.value.c.value":3}`, `{"config.a.c.value":3}`, `{"config.a.d.e.f":4}`, `{"config.a.value.b":2}`, `{"config.model/lr":0.001}`, `{"config.bare":7}`, `{"config.on":true}`, `{"config.on":{"$gt":false}}`,
		`{"config.big":9007199254740993}`, `{"config.big":{"$gt":9007199254740992}}`, `{"config.nan":NaN}`, `{"config.hotkey":"5F\u0022\u00e9"}`, `{"config.hotkey":{"$in":["a","5F\"é"]}}`,
		`{"config.stats.1.score":{"$gte":0.5}}`, `{"config.stats.1.list.x":3}`, `{"config.stats.1.list.x":1}`, `{"config.stats.1.list.1.x":[2,3]}`, `{"config.stats.1.list.y":null}`, `{"config.stats.1.list.0":{"x":1}}`, `{"config.stats.1.list.x":null}`,
		`{"config.none":[]}`, `{"config.none":{"$size":0}}`, `{"config.none":{"$exists":true}}`, `{"config.nothing":null}`, `{"config.nothing":{"$exists":false}}`, `{"config.nothing.more":{"$exists":0}}`, `{"config.nothing":{"$ne":1}}`, `{"config.nothing":{"$gte":null}}`,
		`{"summary_metrics.loss":{"$lt":0.3}}`, `{"summaryMetrics.val/loss":NaN}`, `{"summary_metrics.best.loss":1}`, `{"summary_metrics.best.step":3}`, `{"summary_metrics.best":{"step":3,"loss":2}}`, `{"_step":99}`, `{"summary_metrics.text":"Infinity"}`,
		`{"summary_metrics":{"$exists":true}}`, `{"config.version":{"$or":[{"$lt":1},{"$gt":182}]}}`, `{"config.version":{"$and":[{"$gt":1}],"$nor":[{"$eq":5},7]}}`,
		`{"display_name":{"$regex":"VALIDATOR","$options":"i"}}`, `{"display_name":{"$options":"","$regex":"val"}}`, `{"config.version":{"$regex":"^183$"}}`, `{"config.on":{"$regex":"^true$"}}`, `{"config.stats":{"$regex":"\"score\": 0\\.5"}}`,
		`{"$nor":[{"state":"finished"},{"config.version":1}]}`, `{"state":{"$in":["running"]},"$or":[{"name":"x"},{"name":"0djlnjjs"}]}`,
	}
	no := []string{
		`{"state":"finished"}`, `{"group":"x"}`, `{"group":{"$ne":null}}`, `{"tags":"best "}`, `{"tags":["v1","best"]}`, `{"tags":{"$ne":"v1"}}`, `{"tags":{"$all":[]}}`, `{"tags":{"$size":1}}`, `{"tags":{"$in":[]}}`, `{"$not":{}}`,
		`{"createdAt":{"$gt":"2026-11-26T01:00:00Z"}}`, `{"createdAt":5}`, `{"createdAt":{"$lt":5}}`, `{"heartbeatAt":{"$lt":"2030-01-01"}}`, `{"config.a.value":1}`, `{"config.a.b":2}`, `{"config.a.c":3}`,
		`{"config.version":"183"}`, `{"config.version":{"$lt":"200"}}`, `{"config.big":9007199254740992}`, `{"config.nan":{"$gte":NaN}}`, `{"config.nan":{"$lt":5}}`, `{"config.on":1}`, `{"config.nothing":{"$regex":""}}`, `{"config.nothing":{"$gt":null}}`,
		`{"config.allocated":{"$exists":false}}`, `{"config.none":{"$regex":"\\d"}}`, `{"config.allocated_hotkeys":{"$contains":"x"}}`, `{"config.stats.1.list.2":{"x":1}}`, `{"config.stats.1.list.1.x":{"$regex":"^2$"}}`, `{"config.stats.1.list.0.x.0":1}`, `{"display_name":{"$regex":"VALIDATOR"}}`, `{"$nor":[{"state":"running"}]}`, `{"config.version":{"$not":{"$gt":1}}}`,
	}
	for want, filters := range map[bool][]string{true: yes, false: no} {
		for _, text := range filters {
			f, err := Parse([]byte(text))
			if err != nil {
				t.Errorf("%s: %v", text, err)
				continue
			}
			if got, err := f.Match(one); got != want || err != nil {
				t.Errorf("%s is %t (%v), want %t", text, got, err, want)
			}
		}
	}
}

// TestNetworkFilters has the filters that a network's validators send, as its
// specification lists them.
func TestNetworkFilters(t *testing.T) {
	t.Parallel()
	runs := map[string]run{
		"validator": one,
		"free":      `{"displayName":"miner-1","state":"running","config":{"role":{"value":"miner"},"config":{"value":{"netuid":27}},"specs":{"value":{"gpu":{"count":1}}},"hotkey":{"value":"m1"},"allocated":{"value":null}}}`,
		"new":       `{"displayName":"miner-2","state":"running","config":{"role":{"value":"miner"},"config":{"value":{"netuid":27}},"hotkey":{"value":"m2"}}}`,
		"rented":    `{"displayName":"miner-3","state":"running","config":{"role":{"value":"miner"},"config":{"value":{"netuid":27}},"specs":{"value":""},"hotkey":{"value":"m3"},"allocated":{"value":"5F3sa"}}}`,
		"ended":     `{"displayName":"miner-4","state":"finished","config":{"role":{"value":"miner"},"config":{"value":{"netuid":27}},"specs":{"value":{}},"hotkey":{"value":"m4"}}}`,
		"other":     `{"displayName":"miner-1","state":"running","config":{"role":{"value":"miner"},"config":{"value":{"netuid":1}},"specs":{"value":{}},"hotkey":{"value":"m1"}}}`,
	}
	for text, want := range map[string]string{
		`{"$and":[{"config.config.netuid":27},{"display_name":"miner-1"}]}`:                                                                                         "free",
		`{"$and":[{"config.role":"validator"},{"config.config.netuid":27},{"config.allocated_hotkeys":{"$exists":true}}]}`:                                          "validator",
		`{"$and":[{"config.role":"validator"},{"config.config.netuid":27},{"config.stats":{"$exists":true}},{"config.hotkey":{"$in":["x","5F\"é"]}}]}`:              "validator",
		`{"config.role":"validator","config.penalized_hotkeys":{"$exists":true}}`:                                                                                   "",
		`{"$and":[{"config.role":"miner"},{"config.config.netuid":27},{"state":"running"},{"config.specs":{"$exists":true}}]}`:                                      "free rented",
		`{"$and":[{"config.role":"miner"},{"config.config.netuid":27},{"config.hotkey":"m2"}]}`:                                                                     "new",
		`{"config.config.netuid":27,"config.allocated":{"$regex":"\\d.*"}}`:                                                                                         "rented",
		`{"config.role":"miner","$or":[{"config.allocated":{"$regex":"null"}},{"config.allocated":{"$exists":false}}],"config.config.netuid":27,"state":"running"}`: "free new",
		`{"$and":[{"config.role":"validator"},{"config.allocated_hotkeys":{"$regex":"\\d.*"}}]}`:                                                                    "validator",
		`{"$and":[{"config.role":"validator"},{"config.none":{"$regex":"\\d.*"}}]}`:                                                                                 "",
		`{"config.allocated_hotkeys":{"$regex":"5Fa\", \"5Fb"}}`:                                                                                                    "validator",
	} {
		f, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		var got []string
		for name, r := range runs {
			// A client may have sent the same value in either spelling.
			a, err := f.Match(r)
			b, err2 := f.Match(run(loose.Compact(nil, []byte(r))))
			if a != b || err != nil || err2 != nil {
				t.Errorf("%s: %t with spaces, %t without (%v, %v)", text, a, b, err, err2)
			}
			if a {
				got = append(got, name)
			}
		}
		slices.Sort(got)
		if strings.Join(got, " ") != want {
			t.Errorf("%s finds %v, want %s", text, got, want)
		}
	}
}

// TestGeneratedFilters has what the QueryGenerator of W&B's Python package makes of
// the filters and orders of reports and sweeps.
func TestGeneratedFilters(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{"$or": [{"$and": [{"state": "running"}, {"config.version.value": {"$gt": 0.1}}]}]}`, `{"$or": [{"$and": [{"tags": {"$in": ["best", "b"]}}]}]}`, `{"$or": [{"$or": [{"displayName": {"$ne": "x"}}, {"summary_metrics.loss": {"$lt": 3}}]}]}`,
		`{"$or": [{"$and": [{"config.version.value": {"$in": [1, 183]}}, {"summary_metrics.best.step": {"$gte": 3}}]}]}`, `{"$or": [{"$and": [{"createdAt": {"$gt": "2024-01-01"}}]}]}`, `{"$or": [{"$and": [{"config.lr.value": null}]}]}`, `{"$or": [{"$and": [{"_step": {"$gt": 3}}]}]}`,
		`{"$or": [{"$and": [{"name": "0djlnjjs"}, {"username": "ni"}, {"host": null}, {"sweep": null}, {"inputArtifacts": null}, {"duration": null}]}]}`, `{"$or":[{"tags":null},{"tags":{"$ne":"x"}}]}`,
	} {
		f, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if ok, err := f.Match(one); !ok || err != nil {
			t.Errorf("%s is %t (%v)", text, ok, err)
		}
	}
	for _, order := range []string{"-summary_metrics.loss", "-config.lr", "-summary_metrics.a.b", "+created_at", "-createdAt", "-updatedAt", "+sweep", "+name", "-heartbeat_at"} {
		if _, err := ParseOrder(order); err != nil {
			t.Errorf("%s: %v", order, err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{`: "byte 1", `[]`: "[] is not a filter", `"x"`: "not a filter", `{"$where":"1"}`: `"$where"`, `{"config.a":{"$elemMatch":{}}}`: `"$elemMatch" is not supported in the conditions of config.a`, `{"config.a":{"$gt":1,"b":2}}`: `"b"`,
		`{"colour":1}`: `no field "colour"`, `{"state.x":1}`: `"state" has no parts`, `{"configs.x":1}`: `"configs.x"`, `{"":1}`: `no field ""`, `{"$or":[]}`: "$or is empty", `{"$and":{}}`: "$and needs a list", `{"$or":[1]}`: "1 is not a filter", `{"$not":[]}`: "[] is not a filter",
		`{"a":1,"a":2}`: "no field", `{"state":1,"state":2}`: "twice", `{"state":{"$eq":1,"$eq":2}}`: "twice", `{"config.a":{"$in":1}}`: "$in of \"config.a\" needs a list", `{"config.a":{"$nin":[{"$regex":"x"}]}}`: "operator in its list", `{"config.a":{"$gt":[1]}}`: "cannot compare with [1]",
		`{"config.a":{"$exists":"x"}}`: "true or false", `{"config.a":{"$exists":null}}`: "true or false", `{"config.a":{"$size":-1}}`: "$size", `{"config.a":{"$size":"1"}}`: "$size", `{"config.a":{"$regex":1}}`: "needs a text", `{"config.a":{"$contains":["x"]}}`: "needs a text",
		`{"config.a":{"$regex":"("}}`: `regular expression of "config.a" is not valid`, `{"config.a":{"$regex":"(?=x)"}}`: "not valid", `{"config.a":{"$regex":"x","$options":"x"}}`: `$options`, `{"config.a":{"$options":"i"}}`: "next to it", `{"config.a":{"$not":5}}`: "needs an object",
		`{"config.a":{"$or":[]}}`: "empty", `{"$or":[{"state":{"$not":{"$foo":1}}}]}`: `"$foo"`, "{\"state\":\"\xff\"}": "UTF-8", `{"\ud800":1}`: "Unicode", `{"state":1}}`: "byte 11", `{"config.` + strings.Repeat("a", 3000) + `":1}`: "3007 bytes",
		`{"state":{"$in":[` + strings.Repeat(`{},`, 1000) + `1]}}`:                                 "1000 conditions",
		strings.Repeat(`{"$not":`, 33) + `{}` + strings.Repeat("}", 33):                            "deeper than 32",
		strings.Repeat(`{"$and":[`, 31) + strings.Repeat("]}", 31):                                 "",
		strings.Repeat(`{"$and":[`, 33) + strings.Repeat("]}", 33):                                 "deeper than",
		`{"state":` + strings.Repeat(`{"$not":`, 33) + `{"$eq":1}` + strings.Repeat("}", 33) + `}`: "deeper than 32",
		strings.Repeat("[", 100_000):                                                               "nested deeper",
		`{"$and":[` + strings.Repeat(`{"state":1},`, 1000) + `{"state":1}]}`:                       "1000 conditions",
		`{"$and":[` + strings.Repeat(`{},`, 20_000) + `{}]}`:                                       "10000 parts",
		strings.Repeat(" ", MaxBytes+1):                                                            "1048577 bytes",
		`{"state":{"$regex":"(a{1000}){1000}"}}`:                                                   "not valid",
		`{"state":{"$regex":"((((a{10}){10}){10}){10}){10}"}}`:                                     "not valid",
		`{"state":{"$regex":"` + strings.Repeat("(a{30}b{30}c{30}d{30}){30}", 5) + `"}}`:           "too large",
		`{"state":{"$regex":"` + strings.Repeat("a", 20_000) + `"}}`:                               "too large",
		`{"$and":[` + strings.Repeat(`{"state":{"$regex":"a{900}"}},`, 40) + `{}]}`:                "too large",
	} {
		_, err := Parse([]byte(text))
		if want == "" && err == nil {
			continue
		}
		if err == nil || !strings.Contains(err.Error(), want) || model.CodeOf(err) != model.CodeInvalid || len(err.Error()) > 500 {
			t.Errorf("%.100s: %v, want %q", text, err, want)
		}
	}
	var many []string
	for i := range 300 {
		many = append(many, fmt.Sprintf("5F3sa2TJAWMqDhXG6jhV4N8ko9SxwGy8TpaNS1repo5%05d", i*7919%100000))
	}
	for _, text := range []string{`{"config.hotkey":{"$regex":"` + strings.Join(many, "|") + `"}}`, `{"config.hotkey":{"$in":["` + strings.Join(slices.Repeat(many, 50), `","`) + `"]}}`} {
		if _, err := Parse([]byte(text)); err != nil {
			t.Errorf("%.100s: %v", text, err)
		}
	}
}

func TestAll(t *testing.T) {
	t.Parallel()
	if f, err := Parse([]byte(`{"$and":[]}`)); err != nil || f.All() {
		t.Errorf("an empty $and: %v", err)
	}
	if f, err := Parse([]byte(`{}`)); err != nil || !f.All() {
		t.Errorf("an empty filter: %v", err)
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	var runs []run
	for i, v := range []string{"2", `"b"`, "-1", "null", "true", "NaN", `{"a":1}`, "[1]", "9007199254740993", "9007199254740992", `"B"`, "false", "Infinity", "0.5"} {
		runs = append(runs, run(fmt.Sprintf(`{"name":"%d","config":{"x":{"value":%s}},"createdAt":"2026-01-01T00:00:00+0%d:00"}`, i, v, i%8)))
	}
	runs = append(runs, `{"name":"14","state":"running"}`)
	for order, want := range map[string]string{
		"":                     "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14",
		"+config.x.value":      "2 13 0 9 8 12 10 1 6 7 11 4 5 3 14",
		"config.x":             "2 13 0 9 8 12 10 1 6 7 11 4 5 3 14",
		"-config.x.value":      "4 11 7 6 1 10 12 8 9 0 13 2 5 3 14",
		"-created_at, -name":   "8 0 9 1 2 10 3 11 4 12 5 13 6 7 14",
		"+state,-name":         "14 9 8 7 6 5 4 3 2 13 12 11 10 1 0",
		"summary_metrics.loss": "0 1 2 3 4 5 6 7 8 9 10 11 12 13 14",
	} {
		o, err := ParseOrder(order)
		if err != nil {
			t.Fatal(err)
		}
		if got := sorted(o, runs); got != want {
			t.Errorf("%s gives %s, want %s", order, got, want)
		}
	}
	for _, wrong := range []string{"colour", "-", ",", "+created_at,", "--name", strings.Repeat("name,", 20) + "name", strings.Repeat("a", 3000)} {
		if _, err := ParseOrder(wrong); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func sorted(o Order, runs []run) string {
	keys := make([]Key, len(runs))
	places := make([]int, len(runs))
	for i, r := range runs {
		keys[i], places[i] = o.Key(r), i
	}
	slices.SortStableFunc(places, func(i, j int) int { return o.Compare(keys[i], keys[j]) })
	return strings.Trim(fmt.Sprint(places), "[]")
}
