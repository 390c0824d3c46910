package httpapi_test

import (
	"fmt"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// listed pages through the series and gives "metric scale labels count last".
func (l *lab) listed(w *writer, q string, limit int) []string {
	l.t.Helper()
	var out []string
	query := values("limit", strconv.Itoa(limit))
	if q != "" {
		query.Set("q", q)
	}
	for {
		doc := l.get(w.path("series"), query)
		for _, item := range doc["series"].([]any) {
			s := item.(map[string]any)
			last := s["last"].(map[string]any)
			out = append(out, fmt.Sprint(s["metric"], " ", s["scale"], " ", s["labels"], " ", s["kind"], " ", s["axes"], " ", s["count"], " ", last["step"], " ", last["value"]))
		}
		if doc["next"] == nil {
			return out
		}
		query.Set("cursor", doc["next"].(string))
	}
}

func TestSeriesPageThroughEverything(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	var metrics []string
	for i := range 25 {
		metrics = append(metrics, fmt.Sprintf("layers/%d/grad", i%5), "loss")
	}
	wanted := map[string]string{}
	for i, metric := range metrics {
		labels := map[string]string{"i": strconv.Itoa(i)}
		scale := []string{model.ScaleStep, model.ScaleEpisode}[i%2]
		n := i + 1
		w.log(model.NewSeriesKey(metric, scale, labels), steps(0, n, func(j int) any { return float64(j) / 2 })...)
		last := string(model.AppendJSONFloat(nil, float64(n-1)/2))
		wanted[metric+"\x00"+scale+"\x00"+labels["i"]] = fmt.Sprint(metric, " ", scale, " ", map[string]any{"i": labels["i"]}, " float64 [step] ", n, " ", n-1, " ", last)
	}
	keys := []string{}
	for key := range wanted {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, q := range []string{"", "loss", "^layers/[0-2]/", "grad$"} {
		var want []string
		for _, key := range keys {
			metric, _, _ := cutZero(key)
			if regexp.MustCompile(q).MatchString(metric) {
				want = append(want, wanted[key])
			}
		}
		for _, limit := range []int{1, 4, 100} {
			if diff := cmp.Diff(want, l.listed(w, q, limit)); diff != "" {
				t.Errorf("q=%s limit=%d: %s", q, limit, diff)
			}
		}
	}
}

func cutZero(s string) (string, string, bool) {
	for i := range len(s) {
		if s[i] == 0 {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// A search has words that all must be found, and others that must not; both may be chosen by kind.
func TestSeriesSearch(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	values := map[string]any{"train/loss": 1.0, "train/accuracy": 1.0, "eval/loss": 1.0, "eval/note": "hello", "train/tokens": int64(7)}
	for metric, value := range values {
		w.log(model.NewSeriesKey(metric, "", nil), steps(0, 1, func(int) any { return value })...)
	}
	for _, c := range []struct {
		query string
		want  []string
	}{
		{"q=(?i)LOSS&q=^train/", []string{"train/loss"}},
		{"q=loss&not=^train/", []string{"eval/loss"}},
		{"not=loss&not=accuracy", []string{"eval/note", "train/tokens"}},
		{"kind=text", []string{"eval/note"}},
		{"kind=int64&kind=text", []string{"eval/note", "train/tokens"}},
		{"kind=float64&q=train&not=acc", []string{"train/loss"}},
	} {
		parsed, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		parsed.Set("limit", "1")
		got := []string{}
		for more := true; more; {
			doc := l.get(w.path("series"), parsed)
			for _, item := range doc["series"].([]any) {
				got = append(got, item.(map[string]any)["metric"].(string))
			}
			var next string
			next, more = doc["next"].(string)
			parsed.Set("cursor", next)
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s: %s", c.query, diff)
		}
	}
}

func TestSeriesPreview(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 500, func(i int) any { return math.Sin(float64(i)) })...)
	w.log(model.NewSeriesKey("note", "", nil), steps(0, 2, func(int) any { return "hello" })...)
	list := l.get(w.path("series"), values("preview", "16"))["series"].([]any)
	preview := list[0].(map[string]any)["preview"].(map[string]any)
	checkBuckets(t, buckets(t, preview["columns"].(map[string]any)), w.logged[:500], model.AxisStep, math.MinInt64, math.MaxInt64, 16)
	note := list[1].(map[string]any)
	if note["preview"] != nil || note["last"].(map[string]any)["value"] != "hello" {
		t.Errorf("the text series is %v", note)
	}
}

func TestRunWithoutPointsHasNoSeries(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	if doc := l.get(w.path("series"), nil); len(doc["series"].([]any)) != 0 || doc["next"] != nil {
		t.Errorf("got %v", doc)
	}
	l.refused(l.do("GET", w.path("points"), values("metric", "loss"), ""), 404, model.CodeNotFound, "no series loss")
}
