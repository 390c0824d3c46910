package httpapi_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// bucket is one row of an answer, as written.
type bucket struct {
	lo, hi                     int64
	min, max, mean             string
	count, nan, posInf, negInf int
}

func buckets(t testing.TB, columns map[string]any) []bucket {
	at := func(name string, i int) string {
		if v := columns[name].([]any)[i]; v != nil {
			return text(v)
		}
		return ""
	}
	number := func(name string, i int) int64 {
		n, err := strconv.ParseInt(at(name, i), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	out := make([]bucket, len(columns["lo"].([]any)))
	for i := range out {
		out[i] = bucket{
			number("lo", i), number("hi", i), at("min", i), at("max", i), at("mean", i),
			int(number("count", i)), int(number("nan", i)), int(number("pos_inf", i)), int(number("neg_inf", i)),
		}
	}
	return out
}

// naive sums up the points of lo…hi.
func naive(points []point, axis model.Axis, lo, hi int64) (b bucket, mean float64) {
	b = bucket{lo: math.MaxInt64, hi: math.MinInt64}
	low, high, sum := math.Inf(1), math.Inf(-1), 0.0
	for _, p := range points {
		v, ok := x(p, axis)
		if !ok || v < lo || v > hi {
			continue
		}
		b.lo, b.hi = min(b.lo, v), max(b.hi, v)
		switch f := p.value.(float64); {
		case math.IsNaN(f):
			b.nan++
		case math.IsInf(f, 1):
			b.posInf++
		case math.IsInf(f, -1):
			b.negInf++
		default:
			low, high, sum = min(low, f), max(high, f), sum+f
			b.count++
		}
	}
	if b.count > 0 {
		b.min, b.max = string(model.AppendJSONFloat(nil, low)), string(model.AppendJSONFloat(nil, high))
		mean = sum / float64(b.count)
	}
	return b, mean
}

func checkBuckets(t *testing.T, got []bucket, points []point, axis model.Axis, from, to int64, n int) {
	t.Helper()
	whole, _ := naive(points, axis, from, to)
	total := 0
	for i, b := range got {
		if b.lo > b.hi || (i > 0 && got[i-1].hi >= b.lo) {
			t.Errorf("bucket %d, %d…%d, does not rise", i, b.lo, b.hi)
		}
		span := float64(b.hi) - float64(b.lo)
		if limit := 2 * (float64(whole.hi) - float64(whole.lo)) / float64(n); span > limit {
			t.Errorf("bucket %d spans %g, more than %g", i, span, limit)
		}
		want, mean := naive(points, axis, b.lo, b.hi)
		gotMean, _ := strconv.ParseFloat(b.mean, 64)
		want.mean = b.mean
		if b != want || (b.mean == "") != (b.count == 0) || math.Abs(gotMean-mean) > 1e-12*max(1, math.Abs(mean)) {
			t.Errorf("bucket %d is %+v, a scan gives %+v and mean %g", i, b, want, mean)
		}
		total += b.count + b.nan + b.posInf + b.negInf
	}
	if all := whole.count + whole.nan + whole.posInf + whole.negInf; total != all || len(got) > n {
		t.Errorf("%d buckets hold %d points, want at most %d with %d", len(got), total, n, all)
	}
}

func TestBucketsEqualAScan(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	rng := rand.New(rand.NewPCG(3, 4))
	key := model.NewSeriesKey("loss", "", nil)
	special := []float64{math.NaN(), math.Inf(1), math.Inf(-1)}
	a, b := l.writer("run", nil), l.writer("run", nil)
	for _, w := range []*writer{a, b} {
		points := steps(rng.IntN(10), 1200, func(i int) any {
			if rng.IntN(20) == 0 || (i > 100 && i < 140) {
				return special[rng.IntN(3)]
			}
			return rng.NormFloat64()
		})
		for i := range points { // a burst, then gaps
			points[i].axes[model.AxisStep] = points[i].axes[model.AxisStep] * int64(1+i/400)
		}
		w.log(key, points...)
	}
	all := append(append([]point{}, a.logged...), b.logged...)
	for _, axis := range []model.Axis{model.AxisStep, model.AxisTime} {
		for _, n := range []int{1, 2, 7, 100, 5000} {
			q := values("metric", "loss", "x", string(axis), "n", strconv.Itoa(n))
			doc := l.get(a.path("buckets"), q)
			got := buckets(t, doc["columns"].(map[string]any))
			checkBuckets(t, got, all, axis, math.MinInt64, math.MaxInt64, n)
			edges := doc["range"].([]any)
			if text(edges[0]) != strconv.FormatInt(got[0].lo, 10) || text(edges[1]) != strconv.FormatInt(got[len(got)-1].hi, 10) || doc["x"] != string(axis) {
				t.Errorf("range %v of x %v", edges, doc["x"])
			}
		}
	}
	q := values("metric", "loss", "n", "10", "from", "101", "to", "777")
	checkBuckets(t, buckets(t, l.get(a.path("buckets"), q)["columns"].(map[string]any)), all, model.AxisStep, 101, 777, 10)
}

func TestBucketsWithoutFiniteValuesAreNull(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 3, func(int) any { return math.NaN() })...)
	for _, format := range formats {
		a := l.do("GET", w.path("buckets"), values("metric", "loss", "n", "1", "format", format), "")
		if a.status != 200 || len(a.body) == 0 {
			t.Errorf("%s: %d %s", format, a.status, a.body)
		}
	}
	c := l.get(w.path("buckets"), values("metric", "loss", "n", "1"))["columns"].(map[string]any)
	if got := buckets(t, c); len(got) != 1 || got[0] != (bucket{lo: 0, hi: 2, nan: 3}) {
		t.Errorf("got %+v", got)
	}
	doc := l.get(w.path("buckets"), values("metric", "loss", "from", "10"))
	if doc["range"] != nil || len(doc["columns"].(map[string]any)["lo"].([]any)) != 0 {
		t.Errorf("an empty range gives %v", doc)
	}
}

func TestManyBucketsInOrder(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	names := []string{"a", "b", "c", "d"}
	for i, name := range names {
		w.log(model.NewSeriesKey(name, "", nil), steps(0, 5, func(int) any { return float64(i) })...)
	}
	body := map[string]any{}
	queries := []map[string]any{}
	for _, name := range append(slices.Clone(names), "missing") {
		queries = append(queries, map[string]any{"run": w.run.String(), "metric": name, "n": 2, "from": 1, "attempt": 1})
	}
	body["queries"] = queries
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	results := decode(t, l.do("POST", "/api/v1/buckets", nil, string(raw)).body)["results"].([]any)
	for i, name := range names {
		r := results[i].(map[string]any)
		got := buckets(t, r["columns"].(map[string]any))
		if r["series"].(map[string]any)["metric"] != name || got[0].min != strconv.Itoa(i) || got[0].lo != 1 {
			t.Errorf("result %d: %v", i, r)
		}
	}
	failed := results[4].(map[string]any)["error"].(map[string]any)
	if failed["code"] != "not_found" {
		t.Errorf("the missing series gives %v", results[4])
	}
}

// TestFewDigitsStillEncloseEveryPoint compares an answer in few digits with the
// exact one: min never above, max never below, mean near, all of them short.
func TestFewDigitsStillEncloseEveryPoint(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	rng := rand.New(rand.NewPCG(5, 6))
	w := l.writer("run", nil)
	edge := []float64{0, 1, -1, 0.99999999, -0.99999999, 999.99996, 1e15, math.MaxFloat64, -math.MaxFloat64, 5e-324, -5e-324, 1e300, 0.1, -0.3}
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 900, func(i int) any {
		if i < len(edge) {
			return edge[i]
		}
		return rng.NormFloat64() * math.Pow10(rng.IntN(40)-20)
	})...)
	ask := func(digits int) map[string]any {
		body := fmt.Sprintf(`{"queries":[{"run":%q,"metric":"loss","n":1800}],"digits":%d}`, w.run, digits)
		result := decode(t, l.do("POST", "/api/v1/buckets", nil, body).body)["results"].([]any)[0].(map[string]any)
		return result["columns"].(map[string]any)
	}
	number := func(v any) float64 {
		f, err := strconv.ParseFloat(text(v), 64)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	exact := buckets(t, ask(0))
	for _, digits := range []int{1, 3, 6, 15} {
		columns := ask(digits)
		for i, b := range exact {
			if i > 0 && number(columns["lo"].([]any)[i]) != float64(b.lo) {
				t.Errorf("lo is rounded")
			}
			for _, name := range []string{"min", "max", "mean"} {
				want := number(map[string]string{"min": b.min, "max": b.max, "mean": b.mean}[name])
				got := number(columns[name].([]any)[i])
				if (name == "min" && got > want) || (name == "max" && got < want) {
					t.Errorf("%d digits: %s of bucket %d is %g, the points reach %g", digits, name, i, got, want)
				}
				if math.Abs(got/2-want/2) > math.Abs(want)*math.Pow10(1-digits) {
					t.Errorf("%d digits: %s of bucket %d is %g, want about %g", digits, name, i, got, want)
				}
				short := strconv.FormatFloat(got, 'e', -1, 64)
				mantissa, _, _ := strings.Cut(strings.TrimPrefix(short, "-"), "e")
				if a := math.Abs(want); a > math.Pow10(digits-22) && a < 1e22 && len(strings.ReplaceAll(mantissa, ".", "")) > digits+1 {
					t.Errorf("%d digits: %s of bucket %d is %s", digits, name, i, short)
				}
			}
		}
	}
}

func TestColumnsAskedFor(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("clean", "", nil), steps(0, 5, func(i int) any { return float64(i) })...)
	w.log(model.NewSeriesKey("broken", "", nil), steps(0, 5, func(i int) any { return math.NaN() })...)
	names := func(columns string) [][]string {
		body := fmt.Sprintf(`{"queries":[{"run":%[1]q,"metric":"clean"},{"run":%[1]q,"metric":"broken"}]%s}`, w.run, columns)
		out := [][]string{}
		for _, r := range decode(t, l.do("POST", "/api/v1/buckets", nil, body).body)["results"].([]any) {
			out = append(out, slices.Sorted(maps.Keys(r.(map[string]any)["columns"].(map[string]any))))
		}
		return out
	}
	all := []string{"count", "hi", "lo", "max", "mean", "min", "nan", "neg_inf", "pos_inf"}
	for columns, want := range map[string][][]string{
		"":              {all, all},
		`,"columns":[]`: {all, all},
		`,"columns":["max","lo","nan","pos_inf"]`: {{"lo", "max"}, {"lo", "max", "nan"}},
	} {
		if diff := cmp.Diff(want, names(columns)); diff != "" {
			t.Errorf("%s: %s", columns, diff)
		}
	}
	for body, says := range map[string]string{
		`{"queries":[],"columns":["lo","median"]}`: "median",
		`{"queries":[],"columns":["lo","lo"]}`:     "twice",
		`{"queries":[],"digits":16}`:               "digits",
		`{"queries":[],"digits":-1}`:               "digits",
	} {
		l.refused(l.do("POST", "/api/v1/buckets", nil, body), 400, model.CodeInvalid, says)
	}
}

func TestManyBucketsRefusesBadBodies(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	run := l.writer("run", nil).run.String()
	for body, says := range map[string]string{
		``:                        "openapi",
		`{"queries":[{"runs":1}]`: "openapi",
		`{"queries":[{"run":"` + run + `","metric":"a","nn":1}]}`: "unknown field",
		`{"queries":[]} {}`:                                              "more follows",
		`{"queries":[{"run":"x","metric":"a"}]}`:                         "queries[0]",
		`{"queries":[{"run":"` + run + `","metric":"a","attempt":"x"}]}`: "queries[0]",
	} {
		l.refused(l.do("POST", "/api/v1/buckets", nil, body), 400, model.CodeInvalid, says)
	}
	many := `{"queries":[`
	for range 501 {
		many += `{"run":"` + run + `","metric":"a"},`
	}
	l.refused(l.do("POST", "/api/v1/buckets", nil, many[:len(many)-1]+"]}"), 400, model.CodeInvalid, "there may be 500")
	big := `{"queries":[{"run":"` + run + `","metric":"a","n":100000}`
	for range 10 {
		big += `,{"run":"` + run + `","metric":"a","n":100000}`
	}
	l.refused(l.do("POST", "/api/v1/buckets", nil, big+"]}"), 400, model.CodeInvalid, "1000000")
}

// An int64 series keeps its ends beyond 2^53, and values whose sum a float64
// cannot hold have a mean.
func TestBucketsAreExact(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("n", "", nil), steps(0, 3, func(i int) any { return int64(1<<53 + 1 + 2*i) })...)
	w.log(model.NewSeriesKey("huge", "", nil), steps(0, 4, func(i int) any { return math.MaxFloat64 / float64(1+i%2) })...)
	read := func(metric, format string) bucket {
		return buckets(t, l.get(w.path("buckets"), values("metric", metric, "n", "1", "int64", format))["columns"].(map[string]any))[0]
	}
	for _, format := range []string{"number", "string"} {
		if b := read("n", format); b.min != "9007199254740993" || b.max != "9007199254740997" {
			t.Errorf("as %s: from %s to %s", format, b.min, b.max)
		}
	}
	mean, err := strconv.ParseFloat(read("huge", "number").mean, 64)
	if want := math.MaxFloat64 * 0.75; err != nil || math.Abs(mean/want-1) > 1e-12 {
		t.Errorf("the mean is %g (%v), want %g", mean, err, want)
	}
}
