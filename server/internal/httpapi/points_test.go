package httpapi_test

import (
	"bytes"
	order "cmp"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// textRow is a row of any format as texts by column; a gap has no entry.
type textRow map[string]string

// want writes logged points as rows.
func want(points []point) []textRow {
	rows := make([]textRow, len(points))
	for i, p := range points {
		row := textRow{"time_ns": strconv.FormatInt(p.timeNs, 10), "writer": p.writer.String(), "attempt": strconv.Itoa(int(p.attempt))}
		for axis, v := range p.axes {
			row[string(axis)] = strconv.FormatInt(v, 10)
		}
		switch v := p.value.(type) {
		case float64:
			row["value"] = floatText(v)
		case int64:
			row["value"] = strconv.FormatInt(v, 10)
		case string:
			row["value"] = v
		case []byte:
			row["value"] = base64.StdEncoding.EncodeToString(v)
		}
		rows[i] = row
	}
	return rows
}

// floatText names a float by its bits, but for the NaNs, which are all NaN in text.
func floatText(f float64) string {
	if math.IsNaN(f) {
		return "NaN"
	}
	return strconv.FormatUint(math.Float64bits(f), 16)
}

func parseFloat(t testing.TB, s string) string {
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return floatText(f)
}

// readRows reads one page in a format, and its cursor.
func (l *lab) readRows(path string, q url.Values, format string, kind model.Kind) ([]textRow, string) {
	l.t.Helper()
	q.Set("format", format)
	a := l.do("GET", path, q, "")
	if a.status != http.StatusOK {
		l.t.Fatalf("%s: %d %s", format, a.status, a.body)
	}
	switch format {
	case "csv":
		return csvRows(l.t, a.body, kind), a.header.Get(httpapi.NextHeader)
	case "arrow":
		r, err := ipc.NewReader(bytes.NewReader(a.body))
		if err != nil {
			l.t.Fatal(err)
		}
		return arrowRows(l.t, r), a.header.Get(httpapi.NextHeader)
	case "parquet":
		return parquetRows(l.t, a.body), a.header.Get(httpapi.NextHeader)
	}
	doc := decode(l.t, a.body)
	next, _ := doc["next"].(string)
	return jsonRows(l.t, doc["columns"].(map[string]any), kind), next
}

// pages reads page after page of floats; each but the last is full.
func (l *lab) pages(path string, q url.Values, format string) []textRow {
	l.t.Helper()
	got := []textRow{}
	for {
		rows, next := l.readRows(path, q, format, model.KindFloat)
		if got = append(got, rows...); next == "" {
			return got
		}
		if strconv.Itoa(len(rows)) != q.Get("limit") {
			l.t.Fatalf("a page of %s holds %d rows", q.Get("limit"), len(rows))
		}
		q.Set("cursor", next)
	}
}

func jsonRows(t testing.TB, columns map[string]any, kind model.Kind) []textRow {
	rows := make([]textRow, len(columns["value"].([]any)))
	for name, column := range columns {
		for i, v := range column.([]any) {
			if rows[i] == nil {
				rows[i] = textRow{}
			}
			if v == nil {
				continue
			}
			rows[i][name] = text(v)
			if name == "value" && kind == model.KindFloat {
				rows[i][name] = parseFloat(t, text(v))
			}
		}
	}
	return rows
}

func csvRows(t testing.TB, body []byte, kind model.Kind) []textRow {
	records, err := csv.NewReader(bytes.NewReader(body)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	rows := []textRow{}
	for _, record := range records[1:] {
		row := textRow{}
		for i, name := range records[0] {
			switch {
			case name == "value" && kind == model.KindFloat:
				row[name] = parseFloat(t, record[i])
			case name == "value" && kind == model.KindText:
				row[name] = strings.TrimPrefix(record[i], "'")
			case record[i] != "":
				row[name] = record[i]
			}
		}
		rows = append(rows, row)
	}
	return rows
}

func arrowRows(t testing.TB, r array.RecordReader) []textRow {
	rows := []textRow{}
	for r.Next() {
		batch := r.RecordBatch()
		for i := range int(batch.NumRows()) {
			row := textRow{}
			for c, field := range batch.Schema().Fields() {
				if column := batch.Column(c); !column.IsNull(i) {
					row[field.Name] = arrowText(column, i)
				}
			}
			rows = append(rows, row)
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return rows
}

func arrowText(column arrow.Array, i int) string {
	switch c := column.(type) {
	case *array.Float64:
		return floatText(c.Value(i))
	case *array.FixedSizeBinary:
		return hex.EncodeToString(c.Value(i))
	}
	return column.ValueStr(i)
}

func parquetRows(t testing.TB, body []byte) []textRow {
	f, err := file.NewParquetReader(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	reader, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{BatchSize: 1000}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := reader.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return arrowRows(t, array.NewTableReader(table, 0))
}

var formats = []string{"json", "csv", "arrow", "parquet"}

// Two writers with gaps in their axes, equal steps and equal times: every page
// size and format gives every point once and in order.
func TestPointsPageThroughEverything(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	rng := rand.New(rand.NewPCG(1, 2))
	key := model.NewSeriesKey("loss", "", map[string]string{"split": "train"})
	a, b := l.writer("run", nil), l.writer("run", nil)
	for range 40 {
		for _, w := range []*writer{a, b} {
			p := point{axes: map[model.Axis]int64{}, timeNs: 1_700_000_000_000_000_000 + rng.Int64N(20), value: rng.NormFloat64()}
			p.axes[model.AxisStep] = int64(len(w.logged)) - 5*rng.Int64N(2)*int64(len(w.logged)/20)
			if rng.IntN(3) > 0 {
				p.axes[model.AxisEpoch] = rng.Int64N(4)
			}
			// One writer's equal axes would replace one another: make them differ.
			p.axes[model.AxisBatch] = int64(len(w.logged))
			w.log(key, p)
		}
	}
	all := append(append([]point{}, a.logged...), b.logged...)
	for _, axis := range []model.Axis{model.AxisStep, model.AxisEpoch, model.AxisTime} {
		for _, format := range formats {
			for _, limit := range []int{1, 7, 80, 1000} {
				q := values("metric", "loss", "label.split", "train", "axis", string(axis), "limit", strconv.Itoa(limit))
				if diff := cmp.Diff(want(sorted(all, axis)), l.pages(a.path("points"), q, format)); diff != "" {
					t.Fatalf("axis %s, %s, limit %d (-want +got):\n%s", axis, format, limit, diff)
				}
			}
		}
	}
}

// The steps of an RL environment begin anew in each episode: rows go episode by episode,
// whatever the times, the writers and the size of a page; those without one come first.
func TestEpisodesStayTogether(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	rng := rand.New(rand.NewPCG(3, 4))
	key := model.NewSeriesKey("reward", model.ScaleEnvironment, map[string]string{"env_id": "a"})
	a, b := l.writer("run", nil), l.writer("run", nil)
	for i := range 150 {
		w := []*writer{a, b}[rng.IntN(2)]
		p := point{axes: map[model.Axis]int64{model.AxisStep: int64(i), model.AxisRLStep: rng.Int64N(5)}, timeNs: 1_700_000_000_000_000_000 + rng.Int64N(20), value: rng.NormFloat64()}
		if p.axes[model.AxisStep] %= 20; rng.IntN(5) > 0 {
			p.axes[model.AxisEpisode] = rng.Int64N(5)
		}
		w.log(key, p)
	}
	all := append(append([]point{}, a.logged...), b.logged...)
	slices.SortStableFunc(all, func(p, q point) int {
		place := func(p point) []int64 {
			episode, has := p.axes[model.AxisEpisode]
			if !has {
				episode = math.MinInt64
			}
			return []int64{episode, p.axes[model.AxisStep], p.timeNs}
		}
		return order.Or(slices.Compare(place(p), place(q)), strings.Compare(p.writer.String(), q.writer.String()), order.Compare(p.seq, q.seq))
	})
	for _, format := range formats {
		for _, limit := range []int{1, 7, 1000} {
			q := values("metric", "reward", "attempt", "all", "limit", strconv.Itoa(limit))
			if diff := cmp.Diff(want(all), l.pages(a.path("points"), q, format)); diff != "" {
				t.Fatalf("%s, limit %d (-want +got):\n%s", format, limit, diff)
			}
		}
	}
	inside := slices.DeleteFunc(slices.Clone(all), func(p point) bool {
		episode, has := p.axes[model.AxisEpisode]
		return !has || episode < 1 || episode > 3
	})
	got := l.pages(a.path("points"), values("metric", "reward", "attempt", "all", "from", "1", "to", "3", "limit", "9"), "json")
	if diff := cmp.Diff(want(inside), got); diff != "" {
		t.Errorf("episodes 1 to 3 (-want +got):\n%s", diff)
	}
	doc := l.get(a.path("points"), values("metric", "reward"))
	if axis := doc["series"].(map[string]any)["axis"]; axis != "episode" {
		t.Errorf("the axis is %v", axis)
	}
	byStep := l.pages(a.path("points"), values("metric", "reward", "attempt", "all", "axis", "step", "limit", "11"), "json")
	if diff := cmp.Diff(want(sorted(all, model.AxisStep)), byStep); diff != "" {
		t.Errorf("by step, as asked for (-want +got):\n%s", diff)
	}
}

func TestPointsRangeIsInclusive(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 20, func(i int) any { return float64(i) })...)
	if rows, _ := l.readRows(w.path("points"), values("metric", "loss", "from", "", "to", "", "scale", "", "axis", "", "attempt", "", "limit", ""), "json", model.KindFloat); len(rows) != 20 {
		t.Errorf("empty parameters leave %d rows", len(rows))
	}
	for _, r := range [][2]int{{0, 19}, {3, 3}, {5, 11}, {-4, 2}, {18, 90}} {
		rows, _ := l.readRows(w.path("points"), values("metric", "loss", "from", strconv.Itoa(r[0]), "to", strconv.Itoa(r[1])), "json", model.KindFloat)
		var naive []point
		for _, p := range w.logged {
			if s := p.axes[model.AxisStep]; s >= int64(r[0]) && s <= int64(r[1]) {
				naive = append(naive, p)
			}
		}
		if diff := cmp.Diff(want(naive), rows); diff != "" {
			t.Errorf("%v: %s", r, diff)
		}
	}
}

func TestValuesComeBackExactlyInEveryFormat(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	sets := map[model.Kind][]any{
		model.KindFloat: {0.1, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), math.MaxFloat64, 5e-324, 1e21, -1e-7},
		model.KindInt:   {int64(0), int64(1<<53 + 1), int64(math.MaxInt64), int64(math.MinInt64)},
		model.KindText:  {"plain", "=1+1", "-2", "'quoted", "a,b\n\"c\"", "\u2028 grün \U0001F600", ""},
	}
	for kind, set := range sets {
		key := model.NewSeriesKey(kind.String(), "", nil)
		first := len(w.logged)
		w.log(key, steps(0, len(set), func(i int) any { return set[i] })...)
		for _, format := range formats {
			rows, _ := l.readRows(w.path("points"), values("metric", kind.String()), format, kind)
			if diff := cmp.Diff(want(w.logged[first:]), rows); diff != "" {
				t.Errorf("%s as %s: %s", kind, format, diff)
			}
		}
	}
}

// Who names columns gets these alone, in every format; an axis that the series lacks is none.
func TestColumnsOfPoints(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 3, func(i int) any { return float64(i) })...)
	for _, format := range formats {
		query := values("metric", "loss", "limit", "2")
		query["column"] = []string{"value", "epoch", "step"}
		rows, next := l.readRows(w.path("points"), query, format, model.KindFloat)
		whole := want(w.logged)[:2]
		for _, row := range whole {
			delete(row, "time_ns")
			delete(row, "attempt")
			delete(row, "writer")
		}
		if diff := cmp.Diff(whole, rows); diff != "" || next == "" {
			t.Errorf("%s, next %q: %s", format, next, diff)
		}
	}
}

func TestInt64AsString(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("n", "", nil), steps(0, 1, func(int) any { return int64(1<<53 + 1) })...)
	c := l.get(w.path("points"), values("metric", "n", "int64", "string"))["columns"].(map[string]any)
	for name, text := range map[string]string{"value": "9007199254740993", "step": "0", "time_ns": "1700000000000000000"} {
		if got, ok := c[name].([]any)[0].(string); !ok || got != text {
			t.Errorf("%s is %v, want the string %s", name, c[name], text)
		}
	}
}

func TestDocumentsAreJSON(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("h", "", nil), steps(0, 1, func(int) any { return []byte(`{"bin_edges":[0,1],"counts":[3]}`) })...)
	doc := l.get(w.path("points"), values("metric", "h"))
	got := doc["columns"].(map[string]any)["value"].([]any)[0]
	if _, ok := got.(map[string]any); !ok {
		t.Errorf("the document came back as %v", got)
	}
	l.refused(l.do("GET", w.path("buckets"), values("metric", "h"), ""), 400, model.CodeInvalid, "histogram")
}

// An attempt that resumes hides the earlier one's points; they stay readable.
func TestAttempts(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	key := model.NewSeriesKey("loss", "", nil)
	one, two, from := int64(0), int64(1), int64(6)
	a := l.writer("run", func(r *model.OpenRequest) { r.RestartCount = &one })
	a.log(key, steps(0, 10, func(i int) any { return float64(i) })...)
	b := l.writer("run", func(r *model.OpenRequest) { r.RestartCount, r.ResumeFromStep = &two, &from })
	b.log(key, steps(6, 2, func(i int) any { return float64(100 + i) })...)
	if a.attempt == b.attempt {
		t.Fatal("both writers are in one attempt")
	}
	curve := append(append([]point{}, a.logged[:6]...), b.logged...)
	all := append(append([]point{}, a.logged...), b.logged...)
	for attempt, points := range map[string][]point{"": curve, "all": all, "1": a.logged, "2": b.logged} {
		q := values("metric", "loss")
		if attempt != "" {
			q.Set("attempt", attempt)
		}
		rows, _ := l.readRows(a.path("points"), q, "json", model.KindFloat)
		if diff := cmp.Diff(want(sorted(points, model.AxisStep)), rows); diff != "" {
			t.Errorf("attempt=%s: %s", attempt, diff)
		}
	}
	l.refused(l.do("GET", a.path("points"), values("metric", "loss", "attempt", "3"), ""), 404, model.CodeNotFound, "no attempt 3")
	l.refused(l.do("GET", a.path("points"), values("metric", "loss", "attempt", "last"), ""), 400, model.CodeInvalid, "all")
}

func TestASeriesIsNamedWhole(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	for _, key := range []model.SeriesKey{
		model.NewSeriesKey("reward", model.ScaleEpisode, map[string]string{"env_id": "a"}),
		model.NewSeriesKey("reward", model.ScaleStep, map[string]string{"env_id": "a"}),
		model.NewSeriesKey("reward", model.ScaleStep, map[string]string{"env_id": "b"}),
		model.NewSeriesKey("loss", "", nil),
	} {
		w.log(key, steps(0, 1, func(int) any { return 1.0 })...)
	}
	ask := func(pairs ...string) answer { return l.do("GET", w.path("points"), values(pairs...), "") }
	l.refused(ask("metric", "reward", "label.env_id", "a"), 400, model.CodeAmbiguous, `reward{scale="EPISODE", label.env_id="a"}, reward{scale="ML_STEP", label.env_id="a"}`)
	l.refused(ask("metric", "reward"), 404, model.CodeNotFound, `label.env_id="b"`)
	l.refused(ask("metric", "reward", "label.env_id", "c"), 404, model.CodeNotFound, `label.env_id="a"`)
	l.refused(ask("metric", "nothing"), 404, model.CodeNotFound, "series list")
	for _, ok := range [][]string{{"metric", "loss"}, {"metric", "reward", "label.env_id", "b"}, {"metric", "reward", "label.env_id", "a", "scale", "EPISODE"}} {
		if a := ask(ok...); a.status != 200 {
			t.Errorf("%v: %d %s", ok, a.status, a.body)
		}
	}
}

func TestBadRequestsSayWhatToDo(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, 30, func(int) any { return 1.0 })...)
	cursor := l.get(w.path("points"), values("metric", "loss", "limit", "5"))["next"].(string)
	for _, c := range []struct {
		path, query, says string
		status            int
		code              model.Code
	}{
		{w.path("points"), "metric=loss&step=1", "this route takes metric, scale, label.NAME, axis", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&metric=b", "given 2 times", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&label.=b", "unknown parameter", 400, model.CodeInvalid},
		{w.path("points"), "metric=%zz", "percent-encode", 400, model.CodeInvalid},
		{w.path("points"), "", "no metric", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&axis=epoch", "its axes are step, time_ns", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&from=x", "whole number", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&from=2&to=1", "inclusive", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&limit=0", "from 1 to 1000000", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&limit=1000001", "from 1 to 1000000", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&cursor=AAAA", "start again", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&axis=time_ns&cursor=" + cursor, "start again", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&column=seq", "the columns are step", 400, model.CodeInvalid},
		{w.path("points"), "metric=loss&format=xml", "json, csv, arrow, parquet", 400, model.CodeInvalid},
		{w.path("buckets"), "metric=loss&n=100001", "from 1 to 100000", 400, model.CodeInvalid},
		{w.path("series"), "q=(", "RE2", 400, model.CodeInvalid},
		{w.path("series"), "q=a&not=(", "RE2", 400, model.CodeInvalid},
		{w.path("series"), "kind=float", "float64", 400, model.CodeInvalid},
		{w.path("series"), "preview=65", "from 1 to 64", 400, model.CodeInvalid},
		{"/api/v1/runs/nope", "", "resolve", 400, model.CodeInvalid},
		{"/api/v1/runs/01ARZ3NDEKTSV4RRFFQ69G5FAV", "", "", 404, model.CodeNotFound},
		{"/api/v1/resolve", "run=lab/digits/none", "runs list", 404, model.CodeNotFound},
		{"/api/v1/resolve", "run=none", "kymogram projects", 404, model.CodeNotFound},
		{"/api/v1/resolve", "run=", "workspace/project/name", 400, model.CodeInvalid},
		{"/api/v1/resolve", "", "one of them", 400, model.CodeInvalid},
		{"/api/v1/resolve", "run=a&project=b", "one of them", 400, model.CodeInvalid},
		{"/api/v1/resolve", "project=none", "first run", 404, model.CodeNotFound},
		{"/api/v1/resolve", "project=digit", "lab/digits", 404, model.CodeNotFound},
		{"/api/v1/resolve", "project=a/b/c", "workspace/project", 400, model.CodeInvalid},
		{"/api/v1/projects/lab/none/runs", "", "first run", 404, model.CodeNotFound},
		{"/api/v1/projects/.lab/none/runs", "", "letters", 400, model.CodeInvalid},
		{"/api/v1/projects/lab/digits/runs", "status=done", "finished", 400, model.CodeInvalid},
		{"/api/v1/live", "", "project=WORKSPACE/PROJECT", 400, model.CodeInvalid},
	} {
		t.Run(c.path+"?"+c.query, func(t *testing.T) {
			inner := l.http
			r, err := http.Get(inner.URL + c.path + "?" + c.query) //nolint:noctx // a test
			if err != nil {
				t.Fatal(err)
			}
			defer r.Body.Close()
			var body bytes.Buffer
			if _, err := body.ReadFrom(r.Body); err != nil {
				t.Fatal(err)
			}
			l.refused(answer{r.StatusCode, r.Header, body.Bytes()}, c.status, c.code, c.says)
		})
	}
}
