package httpapi_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// An overview has what the routes of one run answer, in the order of the request.
func TestOverviewsAreWhatEachRunAnswers(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	var ids []string
	for i := range 3 {
		w := l.writer(fmt.Sprint("run", i), nil)
		for k := range 4 + i {
			w.log(model.NewSeriesKey(fmt.Sprint("m", k), "", nil), steps(0, 40, func(j int) any { return float64(j * k) })...)
		}
		ids = append(ids, w.run.String())
	}
	unknown := model.RunID{1, 2, 3}.String()
	const nonsense = "<no run>"
	asked := []string{ids[2], unknown, ids[0], nonsense, ids[1], ids[0]}
	body, err := json.Marshal(map[string]any{"runs": asked, "limit": 5, "preview": 8})
	if err != nil {
		t.Fatal(err)
	}
	got := decode(t, l.do("POST", "/api/v1/overviews", nil, string(body)).body)["overviews"].([]any)
	if len(got) != len(asked) {
		t.Fatalf("%d answers to %d runs", len(got), len(asked))
	}
	for i, id := range asked {
		one := got[i].(map[string]any)
		if id == unknown {
			if len(one) != 1 || one["error"].(map[string]any)["code"] != "not_found" {
				t.Errorf("an unknown run gives %v", one)
			}
			continue
		}
		if id == nonsense {
			if failed := one["error"].(map[string]any); len(one) != 1 || failed["code"] != "invalid_argument" || !strings.Contains(failed["message"].(string), nonsense) {
				t.Errorf("what is no id gives %v", one)
			}
			continue
		}
		wanted := l.get("/api/v1/runs/"+id+"/series", values("limit", "5", "preview", "8"))
		wanted["run"] = l.get("/api/v1/runs/"+id, nil)
		if diff := cmp.Diff(wanted, one); diff != "" {
			t.Errorf("run %d: %s", i, diff)
		}
	}

	// Without summaries all else is the same.
	lean := decode(t, l.do("POST", "/api/v1/overviews", nil, `{"runs":["`+ids[0]+`"],"limit":5,"preview":8,"summary":false}`).body)
	wanted := got[2].(map[string]any)
	if had := wanted["run"].(map[string]any)["summary"].(map[string]any); len(had) == 0 {
		t.Fatal("the run has no summary to leave out")
	}

	// The series that are asked for, without runs, and the names of all.
	some := decode(t, l.do("POST", "/api/v1/overviews", nil, `{"runs":["`+ids[2]+`","`+ids[0]+`"],"q":"^m[35]$","detail":false,"metrics":true}`).body)
	for i, want := range [][]string{{"m3", "m5"}, {"m3"}} {
		one := some["overviews"].([]any)[i].(map[string]any)
		var names []string
		for _, s := range one["series"].([]any) {
			names = append(names, s.(map[string]any)["metric"].(string))
		}
		if one["run"] != nil || !slices.Equal(names, want) {
			t.Errorf("%v of run %d, want %v", one, i, want)
		}
	}
	var names []string
	for _, m := range some["metrics"].([]any) {
		names = append(names, m.(map[string]any)["metric"].(string))
	}
	if want := []string{"m0", "m1", "m2", "m3", "m4", "m5"}; !slices.Equal(names, want) {
		t.Errorf("the metrics are %v, want %v", names, want)
	}
	wanted["run"].(map[string]any)["summary"] = map[string]any{}
	if diff := cmp.Diff(wanted, lean["overviews"].([]any)[0]); diff != "" {
		t.Error(diff)
	}
}

func TestOverviewsRefuseBadBodies(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	id := l.writer("run", nil).run.String()
	for body, says := range map[string]string{
		``:                                     "openapi",
		`{"run":[]}`:                           "unknown field",
		`{"runs":["` + id + `"],"limit":-1}`:   "limit",
		`{"runs":["` + id + `"],"preview":65}`: "preview",
		`{"runs":[` + strings.Repeat(`"`+id+`",`, 100) + `"` + id + `"]}`: "100",
	} {
		l.refused(l.do("POST", "/api/v1/overviews", nil, body), 400, model.CodeInvalid, says)
	}
}
