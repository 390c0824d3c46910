package filter_test

import (
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// What looks like a condition and is none is an error that says what to write, whoever reads
// the filter.
func TestParseRefusesOtherLanguages(t *testing.T) {
	for line, want := range map[string]string{
		`at(loss)<1`:      "column 1: at(…) has a metric and a step",
		`at(loss, x)<1`:   "column 1: at(…) has a metric and a step",
		`mean(loss)<1`:    "column 1: there is no function mean; there are last(…)",
		`Min(loss)<1`:     "column 1: functions are in lower case: min(loss)",
		`max()<1`:         "column 1: max(…) names no metric",
		`lr==0.1`:         "column 3: == is no operator; write =",
		`größe==1`:        "column 6: == is no operator; write =",
		"\xff\xff==1":     "column 3: == is no operator; write =",
		`lr=<0.1`:         "column 3: =< is no operator; write <=",
		`lr<>0.1`:         "column 3: <> is no operator; write !=",
		`lr<0,1`:          "column 4: 0,1 is no number; write 0.1",
		`a && tag=new`:    "column 3: && is no operator; write and",
		`(a || b) lr=1`:   "column 4: || is no operator; write or",
		`lr in (0.1,0.2)`: "column 4: in is no operator",
		`not status=done`: `column 12: there is no status "done"; a status is running, finished, failed`,
	} {
		if _, err := filter.Parse(line); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", line, err, want)
		}
	}
	for _, line := range []string{`resnet(50)=1`, `"mean(loss)"<1`, `"&&"`, `lr="0,1"`, `"status"=done`, `config/status=done`, `status!=failed`} {
		if _, err := filter.Parse(line); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A day and a time with a space between are one time.
func TestParseJoinsTimes(t *testing.T) {
	for line, want := range map[string]string{
		`created>2026-11-27 13:40`:         `("created">2026-11-27T13:40)`,
		`created>2026-11-27 13:40:05Z x`:   `("created">2026-11-27T13:40:05Z and "x")`,
		`created>2026-11-27 14:40+01:00 x`: `("created">2026-11-27T14:40+01:00 and "x")`,
		`not last<2026-11-27 13:40`:        `(not "last"<2026-11-27T13:40)`,
		`created="2026-11-27 13:40" lr=1`:  `("created"="2026-11-27T13:40" and "lr"=1)`,
		`created>2026-11-27 "13:40"`:       `("created">2026-11-27 and "13:40")`,
		`seen>2026-11-27 13:40`:            `("seen">2026-11-27 and "13:40")`,
		`created>2026-11-27 or 13:40 lr=1`: `(("created">2026-11-27) or ("13:40" and "lr"=1))`,
	} {
		if e, err := filter.Parse(line); err != nil || e.String() != want {
			t.Errorf("%s is %v, %v, want %s", line, e, err, want)
		}
	}
}

// A day, a minute or a second, in a zone or in UTC.
func TestSpan(t *testing.T) {
	const minute = int64(time.Minute)
	noon := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC).UnixNano()
	for value, length := range map[string]int64{
		"2026-11-27T12:00": minute, "2026-11-27T12:00Z": minute, "2026-11-27T14:00+02:00": minute, "2026-11-27T06:30-05:30": minute,
		"2026-11-27T12:00:00": minute / 60, "2026-11-27T12:00:00Z": minute / 60, "2026-11-27T14:00:00+02:00": minute / 60,
	} {
		if from, to, ok := filter.Span(value); !ok || from != noon || to-from != length {
			t.Errorf("%s is from %d to %d, %v", value, from, to, ok)
		}
	}
	for _, value := range []string{"2026-11-27T12", "2026-11-27T12:00+2", "2026-11-27 12:00", "12:00", ""} {
		if _, _, ok := filter.Span(value); ok {
			t.Errorf("%q is a time", value)
		}
	}
}
