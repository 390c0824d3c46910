package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// picture is an answer as a reader sees it.
type picture struct {
	head  map[string]any
	cells []byte
	rows  int
	cols  int
}

func (l *lab) picture(body map[string]any) picture {
	l.t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		l.t.Fatal(err)
	}
	a := l.do("POST", "/api/v1/kymograph", nil, string(raw))
	line, cells, ok := bytes.Cut(a.body, []byte("\n"))
	if a.status != http.StatusOK || !ok {
		l.t.Fatalf("%d %s", a.status, a.body)
	}
	p := picture{head: decode(l.t, line), cells: cells}
	p.rows = len(p.head["rows"].(map[string]any)["last"].([]any))
	p.cols, _ = strconv.Atoi(text(p.head["columns"]))
	if len(cells) != p.rows*p.cols {
		l.t.Fatalf("%d cells for %d × %d", len(cells), p.rows, p.cols)
	}
	return p
}

func (p picture) limits(t *testing.T) (lo, hi float64) {
	t.Helper()
	list, ok := p.head["limits"].([]any)
	if !ok {
		return math.NaN(), math.NaN()
	}
	lo, _ = list[0].(json.Number).Float64()
	hi, _ = list[1].(json.Number).Float64()
	return lo, hi
}

// row of an answer's table; a gap is "".
func (p picture) row(name string, i int) string {
	if v := p.head["rows"].(map[string]any)[name].([]any)[i]; v != nil {
		return text(v)
	}
	return ""
}

// naiveColumn is the column of x, in numbers that are small enough for floats.
func naiveColumn(x, from, to int64, columns int) int {
	return int(math.Floor(float64(x-from) * float64(columns) / float64(to-from+1)))
}

// naiveCode is what docs say of one cell's points.
func naiveCode(values []float64, reduce string, lo, hi float64) byte {
	if len(values) == 0 {
		return 0
	}
	var finite []float64
	nan, up, down := byte(0), false, false
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			nan = 128
		case math.IsInf(v, 1):
			up = true
		case math.IsInf(v, -1):
			down = true
		default:
			finite = append(finite, v)
		}
	}
	value := math.NaN()
	switch {
	case reduce == "max" && up:
		value = math.Inf(1)
	case reduce == "min" && down:
		value = math.Inf(-1)
	case len(finite) == 0 && up && down: // of a mean: neither
	case len(finite) == 0 && up:
		value = math.Inf(1)
	case len(finite) == 0 && down:
		value = math.Inf(-1)
	case len(finite) == 0:
	case reduce == "max":
		value = slices.Max(finite)
	case reduce == "min":
		value = slices.Min(finite)
	default:
		value = 0
		for _, f := range finite {
			value += f
		}
		value /= float64(len(finite))
	}
	switch {
	case math.IsNaN(value):
		return 1 | nan
	case value < lo:
		return 2 | nan
	case value > hi:
		return 67 | nan
	case lo == hi:
		return 35 | nan
	}
	return 3 + byte(min(63, math.Floor((value-lo)/(hi-lo)*64))) | nan
}

// near allows one level more or less: a mean's last digit depends on the order of the sum.
func near(got, want byte) bool {
	if got&128 != want&128 {
		return false
	}
	g, w := int(got&127), int(want&127)
	return g == w || min(g, w) >= 2 && g-w <= 1 && w-g <= 1
}

// TestKymographIsExact compares every cell with the raw points, however wide a column is.
func TestKymographIsExact(t *testing.T) {
	rng := rand.New(rand.NewPCG(19, 2))
	for round := range 40 {
		l := newLab(t, httpapi.Options{})
		w := l.writer("run", nil)
		rows := 1 + rng.IntN(6)
		reduce := []string{"mean", "min", "max"}[round%3]
		logged := make([][]point, rows)
		var asked []map[string]any
		for i := range rows {
			labels := map[string]string{"env_id": fmt.Sprintf("e%d", i)}
			points := steps(0, 1+rng.IntN(50), func(int) any {
				special := []float64{math.NaN(), math.Inf(1), math.Inf(-1), rng.NormFloat64(), rng.NormFloat64() * 1e3, 0}
				return special[rng.IntN(len(special))]
			})
			for k := range points {
				points[k].axes = map[model.Axis]int64{model.AxisStep: int64(k*3 + rng.IntN(3)), model.AxisEpisode: int64(k)}
			}
			w.log(model.NewSeriesKey("reward", "", labels), points...)
			logged[i] = points
			asked = append(asked, map[string]any{"labels": labels})
		}
		from, to := int64(rng.IntN(20)), int64(60+rng.IntN(200))
		columns := 1 + rng.IntN(int(to-from+1)+50)
		body := map[string]any{"run": w.run.String(), "metric": "reward", "rows": asked, "x": "step", "columns": columns, "reduce": reduce, "from": from, "to": to}
		p := l.picture(body)
		lo, hi := p.limits(t)
		for i := range rows {
			at := make([][]float64, columns)
			for _, logged := range logged[i] {
				if x := logged.axes[model.AxisStep]; x >= from && x <= to {
					c := naiveColumn(x, from, to, columns)
					at[c] = append(at[c], logged.value.(float64))
				}
			}
			for c, values := range at {
				want := naiveCode(values, reduce, lo, hi)
				if got := p.cells[i*columns+c]; !near(got, want) {
					t.Fatalf("round %d: row %d, column %d of %d (%s, %v…%v) is %d, the points %v make %d", round, i, c, columns, reduce, lo, hi, got, values, want)
				}
			}
			checkRow(t, p, i, logged[i], from, to)
		}
	}
}

func checkRow(t *testing.T, p picture, i int, points []point, from, to int64) {
	t.Helper()
	count, nan, low, high := 0, 0, math.Inf(1), math.Inf(-1)
	for _, at := range points {
		v := at.value.(float64)
		switch x := at.axes[model.AxisStep]; {
		case x < from || x > to || math.IsInf(v, 0):
		case math.IsNaN(v):
			nan++
		default:
			count, low, high = count+1, min(low, v), max(high, v)
		}
	}
	if p.row("count", i) != strconv.Itoa(count) || p.row("nan", i) != strconv.Itoa(nan) {
		t.Errorf("row %d has %s points and %s NaN, want %d and %d", i, p.row("count", i), p.row("nan", i), count, nan)
	}
	if (p.row("min", i) == "") != (count == 0) {
		t.Errorf("row %d has min %q with %d points", i, p.row("min", i), count)
	}
	if count > 0 {
		gotLow, _ := strconv.ParseFloat(p.row("min", i), 64)
		gotHigh, _ := strconv.ParseFloat(p.row("max", i), 64)
		if gotLow > low || gotHigh < high || math.Abs(gotLow-low) > 1e-5*math.Abs(low) || math.Abs(gotHigh-high) > 1e-5*math.Abs(high) {
			t.Errorf("row %d reaches %g…%g, the points %g…%g", i, gotLow, gotHigh, low, high)
		}
	}
}

// TestKymographOfManyPointsKeepsEverySpike: with more points than columns a point is drawn
// in its column or the next one, and none vanishes.
func TestKymographOfManyPointsKeepsEverySpike(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	rng := rand.New(rand.NewPCG(7, 7))
	const n, columns = 5_000, 90
	spikes := map[int]float64{rng.IntN(n): 50, rng.IntN(n): -50, rng.IntN(n): math.NaN()}
	w.log(model.NewSeriesKey("loss", "", nil), steps(0, n, func(i int) any {
		if v, ok := spikes[i]; ok {
			return v
		}
		return rng.Float64()
	})...)
	for reduce, code := range map[string]byte{"max": 67, "min": 2} {
		p := l.picture(map[string]any{"run": w.run.String(), "metric": "loss", "rows": []any{map[string]any{}}, "columns": columns, "reduce": reduce, "limits": []float64{0, 1}})
		for at, v := range spikes {
			c := at * columns / n
			around := p.cells[max(0, c-1):min(columns, c+2)]
			seen := slices.ContainsFunc(around, func(b byte) bool { return math.IsNaN(v) && b&128 != 0 || b&127 == code })
			if drawn := math.IsNaN(v) || (v > 0) == (reduce == "max"); drawn && !seen {
				t.Errorf("%s: %g at step %d is not in %v", reduce, v, at, around)
			}
		}
		if count := bytes.Count(p.cells, []byte{0}); count > 0 {
			t.Errorf("%d of %d cells have no point", count, columns)
		}
	}
}

// TestKymographScaleAndProfile compares both with sorted values.
func TestKymographScaleAndProfile(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	rng := rand.New(rand.NewPCG(8, 1))
	const rows, columns = 12, 50
	var all []float64
	at := make([][]float64, columns)
	var asked []any
	for i := range rows {
		labels := map[string]string{"rank": strconv.Itoa(i)}
		w.log(model.NewSeriesKey("loss", "", labels), steps(0, columns, func(c int) any {
			v := math.Exp(rng.NormFloat64())
			all, at[c] = append(all, v), append(at[c], v)
			return v
		})...)
		asked = append(asked, map[string]any{"labels": labels})
	}
	p := l.picture(map[string]any{"run": w.run.String(), "metric": "loss", "rows": asked, "columns": columns})
	lo, hi := p.limits(t)
	slices.Sort(all)
	if wantLo, wantHi := all[len(all)/100], all[len(all)-1-len(all)/100]; lo > wantLo*1.05 || lo < wantLo*0.9 || hi < wantHi*0.95 || hi > all[len(all)-1] {
		t.Errorf("limits %g…%g, sorted values say %g…%g", lo, hi, wantLo, wantHi)
	}
	for name, want := range map[string]func([]float64) float64{"min": slices.Min[[]float64], "max": slices.Max[[]float64], "mean": average} {
		for c, v := range p.head["profile"].(map[string]any)[name].([]any) {
			if got, _ := v.(json.Number).Float64(); math.Abs(got-want(at[c])) > 2e-3*math.Abs(want(at[c])) {
				t.Errorf("%s of column %d is %g, the values have %g", name, c, got, want(at[c]))
			}
		}
	}
}

// TestKymographScaleOfSparseRows: of many cells few have a point, and these make the scale.
func TestKymographScaleOfSparseRows(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	const rows = 60
	asked := []any{}
	for i := range rows {
		labels := map[string]string{"rank": strconv.Itoa(i)}
		at := point{axes: map[model.Axis]int64{model.AxisStep: int64(i) * 1_000_003}, value: float64(i)}
		w.log(model.NewSeriesKey("loss", "", labels), at)
		asked = append(asked, map[string]any{"labels": labels})
	}
	p := l.picture(map[string]any{"run": w.run.String(), "metric": "loss", "rows": asked, "columns": 2_048})
	if lo, hi := p.limits(t); lo != 0 || hi != rows-1 {
		t.Errorf("the scale is from %g to %g, the values from 0 to %d", lo, hi, rows-1)
	}
}

func average(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// TestKymographWithoutCells: the same head, and a profile of the points themselves, whatever
// the cells are reduced to; the numbers of the rows are in the order of their first points.
func TestKymographWithoutCells(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	special := map[int]float64{7: math.NaN(), 8: math.Inf(1), 9: math.Inf(-1), 31: 1e300}
	for _, rank := range []string{"2", "0", "1"} {
		w.log(model.NewSeriesKey("loss", "", map[string]string{"rank": rank}), steps(0, 40, func(i int) any {
			if v, ok := special[i]; ok && rank == "0" {
				return v
			}
			return float64(i%4) + 1.23456789
		})...)
	}
	rows := []any{}
	for _, rank := range []string{"0", "1", "2"} {
		rows = append(rows, map[string]any{"labels": map[string]string{"rank": rank}})
	}
	for _, reduce := range []string{"mean", "min", "max"} {
		body := map[string]any{"run": w.run.String(), "metric": "loss", "columns": 10, "rows": rows, "reduce": reduce, "cells": false}
		line, cells, _ := bytes.Cut(l.do("POST", "/api/v1/kymograph", nil, asJSON(t, body)).body, []byte("\n"))
		p := picture{head: decode(t, line)}
		if len(cells) != 0 {
			t.Errorf("%d cells came", len(cells))
		}
		if first, second, third := p.row("number", 1), p.row("number", 2), p.row("number", 0); first <= third || third <= second {
			t.Errorf("the series 2, 0, 1 have the numbers %s, %s, %s", second, third, first)
		}
		body["cells"] = true
		if got, want := fmt.Sprint(p.head["rows"]), fmt.Sprint(l.picture(body).head["rows"]); got != want {
			t.Errorf("the rows are %s, with cells %s", got, want)
		}
		profile := p.head["profile"].(map[string]any)
		for name, want := range map[string][2]any{ // of columns 1 and 7; each has four steps of three ranks
			"min": {1.234567, 1.234567}, "max": {4.234568, 1e300}, "mean": {2.734568, 1e300 / 12},
			"count": {12.0, 12.0}, "nan": {0.0, 0.0}, "pos_inf": {0.0, 0.0}, "neg_inf": {0.0, 0.0}, "rows": {3.0, 3.0},
		} {
			for i, column := range []int{0, 7} {
				if got, _ := profile[name].([]any)[column].(json.Number).Float64(); math.Abs(got/want[i].(float64)-1) > 1e-6 && got != want[i] {
					t.Errorf("%s: %s of column %d is %v, want %v", reduce, name, column, got, want[i])
				}
			}
		}
		counted := 0.0
		for _, v := range profile["nan"].([]any)[1:3] {
			n, _ := v.(json.Number).Float64()
			counted += n
		}
		if up, down := profile["pos_inf"].([]any)[2], profile["neg_inf"].([]any)[2]; counted != 1 || text(up) != "1" || text(down) != "1" {
			t.Errorf("%v NaN, %v and %v infinite", counted, up, down)
		}
	}
}

// TestKymographFitsColumnsToPoints: each point of the densest row has a column of its own,
// and none between them is empty.
func TestKymographFitsColumnsToPoints(t *testing.T) {
	for name, of := range map[string]struct {
		every, points, columns, want int
		from, to                     any
	}{
		"each step":           {1, 64, 1000, 64, nil, nil},
		"each tenth step":     {10, 200, 1000, 200, nil, nil},
		"more points":         {1, 5000, 100, 100, nil, nil},
		"a part":              {10, 200, 1000, 50, 500, 999},
		"beyond the points":   {1, 64, 1000, 100, 0, 99},
		"one point":           {1, 1, 1000, 1, nil, nil},
		"a part without them": {1, 64, 1000, 50, 1000, 1049},
	} {
		l := newLab(t, httpapi.Options{})
		w := l.writer("run", nil)
		points := steps(0, of.points, func(i int) any { return float64(i) })
		for i := range points {
			points[i].axes = map[model.Axis]int64{model.AxisStep: int64(i * of.every)}
		}
		w.log(model.NewSeriesKey("m", "", nil), points...)
		p := l.picture(map[string]any{"run": w.run.String(), "metric": "m", "rows": []any{map[string]any{}}, "columns": of.columns, "fit": true, "from": of.from, "to": of.to})
		if p.cols != of.want {
			t.Errorf("%s: %d columns, want %d", name, p.cols, of.want)
		}
		if holes := bytes.Count(p.cells, []byte{0}); of.from == nil && holes > 0 {
			t.Errorf("%s: %d columns are empty", name, holes)
		}
	}
}

// TestKymographOfOtherRowsAndExtremes: rows of other runs and metrics, rows that there are
// not, whole numbers, values at the ends of float64, axes at the ends of int64.
func TestKymographOfOtherRowsAndExtremes(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	a, b := l.writer("a", nil), l.writer("b", nil)
	a.log(model.NewSeriesKey("layers/0", "", nil), steps(0, 4, func(i int) any { return []float64{-math.MaxFloat64, 0, 5e-324, math.MaxFloat64}[i] })...)
	a.log(model.NewSeriesKey("notes", "", nil), steps(0, 1, func(int) any { return "text" })...)
	a.log(model.NewSeriesKey("flat", "", nil), steps(0, 4, func(int) any { return 7.0 })...)
	b.log(model.NewSeriesKey("layers/1", "", nil), steps(0, 4, func(i int) any { return int64(math.MaxInt64) - int64(i) })...)
	rows := []any{
		map[string]any{"run": a.run.String(), "metric": "layers/0"},
		map[string]any{"run": a.run.String(), "metric": "none"},
		map[string]any{"run": a.run.String(), "metric": "notes"},
		map[string]any{"run": b.run.String(), "metric": "layers/1"},
		map[string]any{"run": a.run.String(), "metric": "layers/0", "labels": map[string]string{"other": "1"}},
	}
	p := l.picture(map[string]any{"rows": rows, "columns": 4})
	for i, want := range []string{"1.7976931348623157e+308", "", "", "9223372036854775000", ""} {
		got, _ := strconv.ParseFloat(p.row("last", i), 64)
		wanted, _ := strconv.ParseFloat(want, 64)
		if (p.row("last", i) == "") != (want == "") || math.Abs(got/2-wanted/2) > 1e-5*wanted {
			t.Errorf("row %d ends with %q, want %q", i, p.row("last", i), want)
		}
	}
	if got := p.cells[:4]; got[0]&127 > 3 || got[3]&127 < 66 {
		t.Errorf("the ends of float64 are drawn as %v", got)
	}
	for _, i := range []int{1, 2, 4} {
		if !bytes.Equal(p.cells[4*i:4*i+4], make([]byte, 4)) {
			t.Errorf("row %d is drawn as %v", i, p.cells[4*i:4*i+4])
		}
	}
	flat := l.picture(map[string]any{"run": a.run.String(), "metric": "flat", "rows": []any{map[string]any{}}, "columns": 2, "from": int64(math.MinInt64), "to": int64(math.MaxInt64)})
	if !bytes.Equal(flat.cells, []byte{0, 35}) {
		t.Errorf("four equal points right of the middle of int64 are drawn as %v", flat.cells)
	}
}

func TestKymographRefusesBadBodies(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	w.log(model.NewSeriesKey("m", "", nil), steps(0, 3, func(int) any { return 1.0 })...)
	run := w.run.String()
	for body, says := range map[string]string{
		``:                                    "JSON",
		`{"rows":[]}`:                         "0 rows",
		`{"rows":[{}]}`:                       "id of a run",
		`{"run":"` + run + `","rows":[{}]}`:   "no metric",
		`{"run":"x","metric":"m","rows":[{}]`: "JSON",
		`{"run":"` + run + `","metric":"m","rows":[{}],"columns":-1}`:                                      "columns",
		`{"run":"` + run + `","metric":"m","rows":[{}],"columns":2049}`:                                    "columns",
		`{"run":"` + run + `","metric":"m","rows":[{}],"reduce":"median"}`:                                 "reduce",
		`{"run":"` + run + `","metric":"m","rows":[{}],"limits":[1]}`:                                      "limits",
		`{"run":"` + run + `","metric":"m","rows":[{}],"limits":[1,null]}`:                                 "limits",
		`{"run":"` + run + `","metric":"m","rows":[{}],"limits":[1,2,3]}`:                                  "limits",
		`{"run":"` + run + `","metric":"m","rows":[{}],"limits":[2,1]}`:                                    "limits",
		`{"run":"` + run + `","metric":"m","rows":[{}],"from":5,"to":4}`:                                   "from",
		`{"run":"` + run + `","metric":"m","rows":[{}],"labels":{"a":"b"}}`:                                "labels",
		`{"run":"` + run + `","metric":"m","rows":[{}],"steps":1}`:                                         "steps",
		`{"run":"` + run + `","metric":"m","rows":[{}` + strings.Repeat(",{}", 4096) + `]}`:                "4097 rows",
		`{"run":"` + run + `","metric":"m","columns":2048,"rows":[{}` + strings.Repeat(",{}", 4095) + `]}`: "cells",
	} {
		a := l.do("POST", "/api/v1/kymograph", nil, body)
		l.refused(a, 400, model.CodeInvalid, says)
	}
	missing := `{"run":"01ARZ3NDEKTSV4RRFFQ69G5FAV","metric":"m","rows":[{}]}`
	l.refused(l.do("POST", "/api/v1/kymograph", nil, missing), 404, model.CodeNotFound, "01ARZ3NDEKTSV4RRFFQ69G5FAV")
	// An axis that no row has leaves the picture empty.
	p := l.picture(map[string]any{"run": run, "metric": "m", "rows": []any{map[string]any{}}, "x": "window", "columns": 3})
	if !bytes.Equal(p.cells, make([]byte, 3)) || p.head["limits"] != nil {
		t.Errorf("got %v, limits %v", p.cells, p.head["limits"])
	}
}

// TestKymographIsSmall: 300 rows of 1,200 columns of noise, which nothing compresses well.
func TestKymographIsSmall(t *testing.T) {
	l := newLab(t, httpapi.Options{})
	w := l.writer("run", nil)
	rng := rand.New(rand.NewPCG(4, 4))
	var rows []any
	for i := range 300 {
		labels := map[string]string{"env_id": fmt.Sprintf("env-%04d", i)}
		w.log(model.NewSeriesKey("reward", "", labels), steps(0, 1200, func(int) any { return rng.Float64() })...)
		rows = append(rows, map[string]any{"labels": labels})
	}
	body, err := json.Marshal(map[string]any{"run": w.run.String(), "metric": "reward", "rows": rows, "columns": 1200})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, l.http.URL+"/api/v1/kymograph", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Accept-Encoding", "gzip") // by hand, so that it arrives as it was sent
	response, err := l.http.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var wire bytes.Buffer
	if _, err := wire.ReadFrom(response.Body); err != nil {
		t.Fatal(err)
	}
	size := wire.Len()
	if size > 300_000 || response.Header.Get("Content-Encoding") != "gzip" {
		t.Errorf("%d bytes, %s", size, response.Header.Get("Content-Encoding"))
	}
	unpacked, err := gzip.NewReader(&wire)
	if err != nil {
		t.Fatal(err)
	}
	var whole bytes.Buffer
	if _, err := whole.ReadFrom(unpacked); err != nil || whole.Len() < 360_000 {
		t.Errorf("%d bytes unpacked, %v", whole.Len(), err)
	}
}
