package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// hinted is a project with two runs: lr and loss of both, spread of none.
func hinted(t *testing.T) *lab {
	l := newLab(t, httpapi.Options{})
	for i, name := range []string{"first", "second"} {
		run := l.writer(name, func(r *model.OpenRequest) {
			r.OpenedNs = int64(i+1) * 1_700_000_000e9
			r.Initial = []model.Update{
				{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(0.1 / float64(i+1))},
				{Op: model.OpSetAttribute, Path: "config/optimizer/name", Value: model.StringValue("adam")},
			}
		})
		if err := l.catalog.PutSummaries(t.Context(), run.run, []catalog.Summary{{Metric: "eval/loss", Last: *model.FloatValue(0.5)}}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// A filter that names what no run has is no error, but the answer says so.
func TestAnEmptyListSaysWhatNoRunHas(t *testing.T) {
	l := hinted(t)
	for q, want := range map[string]string{
		`learning_rat<0.1`:       `no run of lab/digits has "learning_rat"`,
		`lrr<0.1`:                `did you mean "lr"?`,
		`config.lr=0.1`:          `did you mean "lr"?`,
		`eval/los<1`:             `did you mean "eval/loss"?`,
		`last(eval/los)<1`:       `has the metric "eval/los"; did you mean "eval/loss"?`,
		`tags=new`:               `did you mean "tag"?`,
		`statuss=running`:        `did you mean "status"?`,
		`name=fir*`:              `a word alone, as fir, finds`,
		`name~fir`:               `~ is no operator`,
		`lr:0.1`:                 `a condition is lr=0.1`,
		`größe<1`:                `has "gr\u00f6\u00dfe"`,
		`lr<0.0001`:              "",
		`nobody`:                 "",
		`lr<1`:                   "", // finds runs
		`lr<1 or statuss=failed`: "", // finds runs
	} {
		a := l.do("GET", project+"/runs", values("q", q), "")
		if got := a.header.Get("Kymogram-Hint"); a.status != http.StatusOK || !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %d, hint %q, want %q", q, a.status, got, want)
		}
	}
}

// What looks like a condition and is none is an error that says what to write.
func TestAFilterRefusesOtherLanguages(t *testing.T) {
	l := hinted(t)
	for q, want := range map[string]string{
		`at(eval/loss)<1`:       "at(…) has a metric and a step",
		`at(eval/loss, x)<1`:    "at(…) has a metric and a step",
		`mean(eval/loss)<1`:     "there is no function mean; there are last(…)",
		`Min(eval/loss)<1`:      "lower case: min(eval/loss)",
		`max()<1`:               "max(…) names no metric",
		`lr==0.1`:               "== is no operator; write =",
		`lr=<0.1`:               "=< is no operator; write <=",
		`lr<0,1`:                "write 0.1",
		`lr<0.1 && tag=new`:     "&& is no operator; write and",
		`lr<0.1 || tag=new`:     "|| is no operator; write or",
		`lr in (0.1,0.2)`:       "in is no operator",
		`status=finish`:         "a status is running, finished, failed",
		`created>"2026 13:40"`:  "is not a time",
		`created>2026-11-27T25`: "is not a time",
	} {
		l.refused(l.do("GET", project+"/runs", values("q", q), ""), http.StatusBadRequest, model.CodeInvalid, want)
	}
	for _, q := range []string{`resnet(50)=1`, `"mean(loss)"<1`, `"&&"`, `lr="0,1"`, `"status"=finish`, `config/status=finish`} {
		l.get(project+"/runs", values("q", q))
	}
	for sort, want := range map[string]string{"mean(eval/loss)": "there is no function mean", "-at(eval/loss)": "a metric and a step"} {
		l.refused(l.do("GET", project+"/runs", values("sort", sort), ""), http.StatusBadRequest, model.CodeInvalid, want)
		l.refused(l.do("GET", project+"/runs", values("column", strings.TrimPrefix(sort, "-")), ""), http.StatusBadRequest, model.CodeInvalid, want)
	}
}

// The list itself prints times with a space: 2023-11-14 22:13.
func TestAFilterReadsTheTimesOfTheList(t *testing.T) {
	l := hinted(t)
	for q, want := range map[string]string{
		`created>2023-11-14 22:13`:                      "second",
		`created=2023-11-14 22:13`:                      "first",
		`created=2023-11-14 22:13:20 first`:             "first",
		`created="2023-11-14 22:13:20"`:                 "first",
		`not created>2023-11-14 22:13`:                  "first",
		`(created<2023-11-14 22:14 or tag=x) lr=0.1`:    "first",
		`created>=2023-11-14 22:13 not "22:13" lr=0.05`: "second",
	} {
		if got := strings.Join(names(l.get(project+"/runs", values("q", q))), ","); got != want {
			t.Errorf("%s: %s, want %s", q, got, want)
		}
	}
}

// An order that no run has leaves the list as it was, and the answer says so.
func TestAnUnknownOrderIsTold(t *testing.T) {
	l := hinted(t)
	for sort, want := range map[string]string{
		"foo": `the list is not sorted: no run of lab/digits has "foo"`, "-eval/loss": "write last(eval/loss)", "duration": `has "duration"`,
		"lr": "", "-config/lr": "", "last(eval/loss)": "", "created": "", "": "",
	} {
		got := l.do("GET", project+"/runs", values("sort", sort), "").header.Get("Kymogram-Hint")
		if !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: hint %q, want %q", sort, got, want)
		}
	}
}

// A file has what the filter and the table call a column, and the answer names those of no run.
func TestColumnsOfAFile(t *testing.T) {
	l := hinted(t)
	a := l.do("GET", project+"/runs", values("format", "csv", "sort", "name", "column", "lr", "column", "summary/eval/loss", "column", "config/lr"), "")
	if got := string(a.body); got != "lr,summary/eval/loss,config/lr\n0.1,0.5,0.1\n0.05,0.5,0.05\n" || a.header.Get("Kymogram-Hint") != "" {
		t.Errorf("got %q, hint %q", got, a.header.Get("Kymogram-Hint"))
	}
	for column, want := range map[string]string{"namee": `did you mean "name"?`, "eval/loss": "write last(eval/loss)", "summary/eval/los": `did you mean "eval/loss"?`} {
		got := l.do("GET", project+"/runs", values("format", "csv", "column", column), "").header.Get("Kymogram-Hint")
		if !strings.Contains(got, "a column is empty: ") || !strings.Contains(got, want) {
			t.Errorf("%s: hint %q, want %q", column, got, want)
		}
	}
}
