package table_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/table"
)

func TestTextsForPeople(t *testing.T) {
	ago := func(d time.Duration) int64 { return time.Now().Add(-d - time.Second/2).UnixNano() }
	rank := int64(3)
	for got, want := range map[string]string{
		table.Printable("a\x1b[31mb\nc\u0085"):          "a\ufffd[31mb\ufffdc\ufffd",
		table.When(0):                                   "-",
		table.Bytes(1536):                               "1.5 KiB",
		table.Bytes(3 << 20):                            "3.0 MiB",
		table.Count(0):                                  "0",
		table.Count(999):                                "999",
		table.Count(1234567):                            "1,234,567",
		table.Age(0):                                    "-",
		table.Age(ago(3 * time.Second)):                 "3s",
		table.Age(ago(61 * time.Minute)):                "1h1m",
		table.Age(ago(50 * time.Hour)):                  "2d2h",
		table.Age(ago(-time.Hour)):                      "in the future",
		table.Duration(1550):                            "1.6s",
		table.Duration(61_400):                          "1m1s",
		table.Rank(nil) + table.Rank(&rank):             ", rank 3",
		table.Compact(json.RawMessage(`"text"`)):        "text",
		table.Compact(json.RawMessage("{\n \"a\": 1}")): `{"a":1}`,
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A time has its zone, so that who reads it elsewhere, or pastes it, means the same.
func TestATimeHasItsZone(t *testing.T) {
	at := time.Date(2026, 11, 22, 15, 4, 5, 6, time.UTC)
	got, err := time.Parse("2006-01-02 15:04:05Z07:00", table.When(at.UnixNano()))
	if err != nil || !got.Equal(at.Truncate(time.Second)) {
		t.Errorf("%s is %v, %v", table.When(at.UnixNano()), got, err)
	}
}

func TestTables(t *testing.T) {
	items := func(docs ...string) (out []json.RawMessage) {
		for _, d := range docs {
			out = append(out, json.RawMessage(d))
		}
		return out
	}
	var runs, coloured, series, videos strings.Builder
	err := table.Runs(&runs, items(`{"id":"1","name":"a\u001b","status":"failed","tags":["x","y"],"duration_ms":1000}`), false)
	if want := "STATUS  NAME  CREATED  DURATION  TAGS  ID\nfailed  a\ufffd    -        1s        x,y   1\n"; err != nil || runs.String() != want {
		t.Errorf("%v\n%s", err, runs.String())
	}
	var named strings.Builder
	many := `"t` + strings.Repeat(`","tag`, 999) + `"`
	err = table.Runs(&named, items(`{"id":"1","name":"4x7f","display_name":"hello","status":"failed"}`, `{"id":"2","name":"a","display_name":"a","status":"lost","tags":[`+many+`]}`), false)
	if lines := strings.Split(named.String(), "\n"); err != nil || !strings.Contains(lines[1], "4x7f (hello)") || strings.Contains(lines[2], "(a)") || !strings.Contains(lines[2], "… (1000 tags)") || len(lines[2]) > 200 {
		t.Errorf("%v\n%s", err, named.String())
	}
	if err := table.Runs(&coloured, items(`{"status":"failed"}`), true); err != nil || !strings.Contains(coloured.String(), "\x1b[31mfailed\x1b[0m") {
		t.Errorf("%v\n%q", err, coloured.String())
	}
	err = table.Series(&series, items(
		`{"metric":"loss","scale":"ML_STEP","labels":{"b":"2","a":"1"},"kind":"float64","count":9,"last":{"step":9007199254740993,"value":0.5}}`,
		`{"metric":"note","labels":{},"kind":"text","count":1,"last":{"step":null,"value":"`+strings.Repeat("ä", 50)+`"}}`))
	if err != nil || !strings.Contains(series.String(), "loss    ML_STEP  a=1,b=2  float64  9       9007199254740993  0.5\n") || !strings.Contains(series.String(), strings.Repeat("ä", 39)+"…\n") {
		t.Errorf("%v\n%s", err, series.String())
	}
	err = table.Renderings(&videos, items(`{"env_id":"e"}`, `{"sha256":"1"}`, `{"sha256":"1","stored":true}`, `{"sha256":"1","stored":true,"complete":true}`))
	var states []string
	for line := range strings.Lines(videos.String()) {
		line = strings.TrimSpace(line)
		states = append(states, strings.TrimSpace(line[strings.LastIndex(line, "  "):]))
	}
	if err != nil || strings.Join(states, "; ") != "STATE; lost; on its way; cut short; stored" {
		t.Errorf("%v\n%s%q", err, videos.String(), states)
	}
	for _, show := range []func(*strings.Builder) error{
		func(w *strings.Builder) error { return table.Runs(w, items(`[`), false) },
		func(w *strings.Builder) error { return table.Series(w, items(`[`)) },
		func(w *strings.Builder) error { return table.Renderings(w, items(`[`)) },
		func(w *strings.Builder) error { return table.Run(w, json.RawMessage(`[`)) },
	} {
		if show(new(strings.Builder)) == nil {
			t.Error("a document that is none is shown")
		}
	}
}

func TestRunTellsOfLossAndLineage(t *testing.T) {
	var out strings.Builder
	err := table.Run(&out, json.RawMessage(`{"id":"1","workspace":"w","project":"p","name":"n","status":"running","series":2,"points":7,
		"attempts":[{"number":1}],"writers":[{"id":"00000000000000000000000000000001","attempt":1,"state":"open","host":"box","pid":5,"rank":2}],
		"ledger":{"logged":9,"stored":7,"dropped":2,"skipped":[{"first":3,"last":4,"reason":"restored"}]},
		"lineage":{"ancestors":[{"name":"old","up_to":10}],"broken":{"name":"gone","code":"run_deleted"},"forks":[{"name":"new","fork_step":3}]},
		"config":{"lr":0.1},"summary":{"loss":{"step":1,"value":0.5}}}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"goes on from  old, up to step 10", "goes on from  gone, which cannot be read (run_deleted)", "fork          new at step 3",
		"ledger        9 logged, unknown spooled, 7 stored, 0 superseded, 0 refused, 2 dropped", "skipped       records 3 to 4 (restored)",
		"writer        00000000 open, attempt 1, box pid 5, rank 2", "config lr     0.1", "last loss     0.5",
	} {
		if !strings.Contains(out.String(), line+"\n") {
			t.Errorf("%q is missing in\n%s", line, out.String())
		}
	}
}
