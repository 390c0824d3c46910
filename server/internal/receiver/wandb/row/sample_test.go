package row_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// flat is what a row holds by key, the numbers of its objects and W&B's own members too.
func (p *plain) flat() map[string]value {
	out := map[string]value{"_step": number(float64(p.step)), "_timestamp": number(p.time)}
	if p.runtime != nil {
		out["_runtime"] = number(*p.runtime)
	}
	for key, v := range p.values {
		for leaf, f := range v.leaves {
			if isMetric(key) && isMetric(key+"."+leaf) {
				out[key+"."+leaf] = number(f)
			}
		}
	}
	for key, v := range p.values {
		out[key] = v
	}
	return out
}

func lines(t *testing.T, list iter.Seq2[[]byte, error]) (out [][]byte) {
	t.Helper()
	for line, err := range list {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, line)
	}
	return out
}

// ambiguous rows have one dotted name in two of their objects: either may be given.
func (p *plain) ambiguous() bool {
	seen := map[string]bool{}
	for key, v := range p.values {
		for leaf := range v.leaves {
			if seen[key+"."+leaf] {
				return true
			}
			seen[key+"."+leaf] = true
		}
	}
	return false
}

func TestSamplesAreRealRows(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			r := rand.New(rand.NewPCG(seed, 2))
			h := randomHistory(t, r, configs()[seed%2])
			want := h.curve()
			if slices.ContainsFunc(want, func(p plain) bool { return p.ambiguous() }) {
				t.Skip("an ambiguous row")
			}
			for range 30 {
				keys := []string{"loss", "acc", "a", "a.b", "b", "ключ", "", "_other", "tab\tkey", "_step", "_runtime", "_timestamp", "nothing"}
				r.Shuffle(len(keys), func(i, k int) { keys[i], keys[k] = keys[k], keys[i] })
				checkSample(t, h, want, row.Spec{Keys: keys[:r.IntN(3)], Samples: 1 + r.IntN(30)}, r)
			}
		})
	}
}

func checkSample(t *testing.T, h *history, want []plain, spec row.Spec, r *rand.Rand) {
	t.Helper()
	if len(want) > 0 && r.IntN(2) == 0 {
		lo, hi := want[r.IntN(len(want))].step, want[r.IntN(len(want))].step
		lo, hi = min(lo, hi), max(lo, hi)
		spec.MinStep, spec.MaxStep = &lo, &hi
		want = slices.DeleteFunc(slices.Clone(want), func(p plain) bool { return p.step < lo || p.step > hi })
	}
	var texts []string
	var rows []map[string]value
	for _, p := range want {
		flat := p.flat()
		var parts []string
		for _, key := range slices.Compact(slices.Sorted(slices.Values(spec.Keys))) {
			if v, ok := flat[key]; ok {
				parts = append(parts, quoted(key)+":"+v.json)
			}
		}
		if len(spec.Keys) == 0 {
			texts, rows = append(texts, p.line()), append(rows, flat)
		} else if len(parts) == len(spec.Keys) {
			texts, rows = append(texts, "{"+strings.Join(parts, ",")+"}"), append(rows, flat)
		}
	}
	got := lines(t, row.Sampled(t.Context(), h.written.src, h.written.run, spec))
	if spec.MinStep != nil && *spec.MaxStep-*spec.MinStep <= int64(spec.Samples) {
		spec.Samples = max(spec.Samples, len(texts)) // each step has room
	}
	if len(spec.Keys) > 0 && len(got) != min(spec.Samples, len(texts)) || len(got) > spec.Samples {
		t.Fatalf("%+v: %d rows of %d", spec, len(got), len(texts))
	}
	at := 0
	for _, line := range got {
		for at < len(texts) && !loose.Equal([]byte(texts[at]), line) {
			at++
		}
		if at == len(texts) {
			t.Fatalf("%+v: %s is no row, or out of order", spec, line)
		}
		at++
	}
	if len(texts) == 0 {
		return
	}
	has := func(text string) bool {
		return slices.ContainsFunc(got, func(line []byte) bool { return loose.Equal([]byte(text), line) })
	}
	if len(got) == 0 || !has(texts[0]) || len(got) > 1 && !has(texts[len(texts)-1]) {
		t.Fatalf("%+v: the first or the last row is missing", spec)
	}
	if spec.Samples < 2+2*len(spec.Keys) || len(spec.Keys) == 0 {
		return
	}
	for _, key := range spec.Keys {
		least, most := math.Inf(1), math.Inf(-1)
		for _, flat := range rows {
			if v := flat[key]; v.kind == "number" && !math.IsInf(v.number, 0) && !math.IsNaN(v.number) {
				least, most = min(least, v.number), max(most, v.number)
			}
		}
		for _, end := range []float64{least, most} {
			held := math.IsInf(end, 0) // there is no number
			for i := range texts {
				held = held || rows[i][key].kind == "number" && rows[i][key].number == end && has(texts[i])
			}
			if !held {
				t.Fatalf("%+v: the row with %v of %q is missing", spec, end, key)
			}
		}
	}
}

// TestSamplesAreEven has rows at steps that lie far apart, and many at some steps.
func TestSamplesAreEven(t *testing.T) {
	rig := newRig(t, local.Config{})
	rig.attempt(t, 1, nil)
	const rows = 30_000
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{
		{Series: model.NewSeriesKey("_runtime", "", nil), Kind: model.KindFloat},
		{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat},
	}}
	number := map[int64]int{}
	for i := range rows {
		step := int64(i)
		if i > rows/2 {
			step = int64(i) * 1_000_000_007
		}
		number[step] = i
		g.Axes[0].Values = append(g.Axes[0].Values, step)
		g.TimeNs = append(g.TimeNs, int64(i))
		g.Columns[0].Floats = append(g.Columns[0].Floats, math.NaN())
		g.Columns[1].Floats = append(g.Columns[1].Floats, math.Sin(float64(i)))
	}
	rig.append(t, 1, 1, g)
	for range 2 {
		for _, n := range []int{2, 3, 10, 500, 9_999} {
			for name, list := range map[string]iter.Seq2[[]byte, error]{
				"keys":  row.Sampled(t.Context(), rig.src, rig.run, row.Spec{Keys: []string{"x", "_step"}, Samples: n}),
				"whole": row.SampledLines(t.Context(), rig.src, rig.run, row.All(), n),
			} {
				got := lines(t, list)
				last := -1
				for _, line := range got {
					var r struct {
						Step int64 `json:"_step"`
					}
					if err := json.Unmarshal(line, &r); err != nil {
						t.Fatal(err)
					}
					at := number[r.Step]
					if gap := at - last; n > 6 && gap > 3*rows/n+1 || gap < 1 {
						t.Fatalf("%s, n %d: a row %d after the one before", name, n, gap)
					}
					last = at
				}
				if last != rows-1 || len(got) > n || len(got) < n*9/10 {
					t.Fatalf("%s, n %d: %d rows, the last is %d", name, n, len(got), last)
				}
			}
		}
		if err := rig.engine.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

func TestKeysAreCounted(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 3))
		h := &history{resume: map[uint32]*int64{1: nil}, written: newRig(t, configs()[seed%2])}
		h.written.attempt(t, 1, nil)
		got, err := row.Keys(t.Context(), h.written.src, h.written.run)
		if err != nil || got != nil {
			t.Fatalf("keys of nothing: %s, %v", got, err)
		}
		for step := range int64(1 + r.IntN(50)) {
			h.add(t, randomRow(r, 1, 0, step))
		}
		if got, err = row.Keys(t.Context(), h.written.src, h.written.run); err != nil {
			t.Fatal(err)
		}
		checkKeys(t, h, got)
	}
}

func checkKeys(t *testing.T, h *history, got []byte) {
	t.Helper()
	var doc struct {
		Sets []string
		Keys map[string]struct {
			TypeCounts []struct {
				Type  string
				Count int
			}
			Monotonic     bool
			PreviousValue json.RawMessage
		}
		LastStep int64
	}
	if err := json.Unmarshal(got, &doc); err != nil {
		t.Fatalf("%s: %v", got, err)
	}
	rows := h.curve()
	total, last := map[string]int{}, map[string]value{}
	for i := range rows {
		for key, v := range rows[i].flat() {
			if isMetric(key) && !belowObject(&rows[i], key) {
				total[key]++
				last[key] = v
			}
		}
	}
	total["_runtime"] = len(rows) // rows without it have NaN there
	if doc.Sets == nil || doc.LastStep != rows[len(rows)-1].step {
		t.Fatalf("%s", got)
	}
	for key, k := range doc.Keys {
		n := 0
		for _, c := range k.TypeCounts {
			if n += c.Count; c.Count == 0 || c.Type == "" {
				t.Fatalf("%q: %+v", key, k)
			}
		}
		if n != total[key] {
			t.Fatalf("%q is counted %d times, want %d", key, n, total[key])
		}
		if v := last[key]; v.kind == "number" && !math.IsNaN(v.number) && !math.IsInf(v.number, 0) && key != "_runtime" {
			var f float64
			if err := json.Unmarshal(k.PreviousValue, &f); err != nil || f != v.number {
				t.Fatalf("%q was %s at last, want %v", key, k.PreviousValue, v.number)
			}
		}
		delete(total, key)
	}
	if len(total) > 0 {
		t.Fatalf("missing: %v in %s", total, got)
	}
}

// belowObject: the row's own value of the key is kept apart, but the object's number counts.
func belowObject(p *plain, key string) bool {
	if _, own := p.values[key]; !own {
		return false
	}
	for o, v := range p.values {
		if v.kind == "object" && isMetric(o) && strings.HasPrefix(key, o+".") {
			_, leaf := v.leaves[strings.TrimPrefix(key, o+".")]
			return !leaf
		}
	}
	return false
}

func TestEventsAndConsole(t *testing.T) {
	rig := newRig(t, local.Config{})
	rig.attempt(t, 1, nil)
	ctx := t.Context()
	if got, err := row.Events(ctx, rig.src, rig.run, 10); err != nil || got != nil {
		t.Fatal(got, err)
	}
	if line, n, err := row.EventTail(ctx, rig.src, rig.run); err != nil || line != nil || n != 0 {
		t.Fatal(line, n, err)
	}
	if got, next, err := row.Console(ctx, rig.src, rig.run, 0, 10); err != nil || got != nil || next != nil {
		t.Fatal(got, next, err)
	}
	var want []string
	const events = 300
	for i := range events {
		ns := int64(1_700_000_000_000_000_000 + i*15_000_000_000)
		g := model.RowGroup{Unique: model.UniqueTime, TimeNs: []int64{ns}}
		text := `{"_runtime":` + strconv.Itoa(i) + `,"_timestamp":` + strconv.Itoa(1_700_000_000+i*15) + `,"system.cpu":` + strconv.Itoa(i%7)
		g.Columns = []model.Column{
			{Series: model.NewSeriesKey("system/_runtime", "", nil), Kind: model.KindFloat, Floats: []float64{float64(i)}},
			{Series: model.NewSeriesKey("system/cpu", "", nil), Kind: model.KindFloat, Floats: []float64{float64(i % 7)}},
		}
		if i%3 == 0 {
			g.Columns = append(g.Columns, model.Column{Series: model.NewSeriesKey("system/disk./.usage", "", map[string]string{"type": "json"}), Kind: model.KindText, Texts: []string{`[1]`}})
			text += `,"system.disk./.usage":[1]`
		}
		want = append(want, text+"}")
		// A number that a program logged under such a name is of a row, also at this time.
		logged := model.RowGroup{
			Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{int64(i)}}}, TimeNs: []int64{ns + int64(i%2)},
			Columns: []model.Column{{Series: model.NewSeriesKey("system/mine", "", nil), Kind: model.KindFloat, Floats: []float64{9}}},
		}
		console := model.RowGroup{
			Unique: model.UniqueStep, Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{int64(i)}}}, TimeNs: []int64{ns},
			Columns: []model.Column{{Series: model.NewSeriesKey("console", "", nil), Kind: model.KindText, Texts: []string{fmt.Sprint("line ", i)}}},
		}
		rig.append(t, 1, 1, g, logged, console)
	}
	for _, n := range []int{1, 2, 50, events, 10 * events} {
		got, err := row.Events(ctx, rig.src, rig.run, n)
		if err != nil || len(got) != min(n, events) {
			t.Fatalf("%d events of %d: %v", len(got), n, err)
		}
		at := -1
		for i, line := range got {
			next := slices.IndexFunc(want, func(text string) bool { return loose.Equal([]byte(text), line) })
			if gap := next - at; next < 0 || gap < 1 || n > 1 && i > 0 && gap > 2*events/(n-1)+1 {
				t.Fatalf("n %d: %s is event %d, behind %d", n, line, next, at)
			}
			at = next
		}
		if n > 1 && at != events-1 {
			t.Fatalf("n %d: the last is %d", n, at)
		}
	}
	tail, n, err := row.EventTail(ctx, rig.src, rig.run)
	if err != nil || n != events || !loose.Equal(tail, []byte(want[events-1])) {
		t.Fatalf("%s, %d, %v", tail, n, err)
	}
	checkConsole(t, rig, events)
}

func checkConsole(t *testing.T, rig *rig, count int64) {
	t.Helper()
	for _, limit := range []int{1, 7, 1000} {
		from := int64(5)
		for at := &from; at != nil; {
			lines, next, err := row.Console(t.Context(), rig.src, rig.run, *at, limit)
			if err != nil || len(lines) == 0 || len(lines) > limit {
				t.Fatalf("%d lines: %v", len(lines), err)
			}
			for _, line := range lines {
				if line.Number != from || line.Text != fmt.Sprint("line ", from) {
					t.Fatalf("line %+v, want %d", line, from)
				}
				from++
			}
			at = next
		}
		if from != count {
			t.Fatalf("%d lines, want %d", from, count)
		}
	}
}

// TestLongRows reads rows of which few fit into a page.
func TestLongRows(t *testing.T) {
	rig := newRig(t, local.Config{})
	rig.attempt(t, 1, nil)
	h := &history{resume: map[uint32]*int64{1: nil}, written: rig}
	for step := range int64(40) {
		for lane := range byte(2) {
			text := strings.Repeat("x", 300_000+int(step)*10_000)
			h.add(t, plain{attempt: 1, lane: lane, step: step, time: 1.7e9, values: map[string]value{
				"a": number(float64(step)), "text": {json: quoted(text), kind: "text", text: text}, "z": number(-float64(step)),
			}})
		}
	}
	want := h.curve()
	var got [][]byte
	for at := row.All(); ; {
		page, next, err := row.Lines(t.Context(), rig.src, rig.run, at, 1000)
		size := 0
		for _, line := range page {
			size += len(line)
		}
		if err != nil || len(page) == 0 || len(page)%2 != 0 || size > row.PageBytes {
			t.Fatalf("a page of %d rows, %d bytes: %v", len(page), size, err)
		}
		got = append(got, page...)
		if next == nil {
			break
		}
		at.From = *next
	}
	same(t, got, want)
	sampled := lines(t, row.Sampled(t.Context(), rig.src, rig.run, row.Spec{Keys: []string{"text", "z"}, Samples: 50}))
	if len(sampled) != 50 {
		t.Fatalf("%d rows", len(sampled))
	}
}

func TestSame(t *testing.T) {
	stored := `{"a":1,"b":NaN,"_step":1,"_timestamp":1700000000.5}`
	for line, want := range map[string]bool{
		`{"_step":1.0, "b":NaN, "a":1.0,"_timestamp":1700000000.5}`: true,
		`{"_step":1, "b":NaN, "\u0061":1}`:                          true, // its time was that of its arrival
		`{"_step":1, "b":NaN, "a":2, "a":1}`:                        true, // the last stands
		`{"_step":1, "b":NaN, "a":1, "c":null}`:                     false,
		`{"_step":1, "a":1}`:                                        false,
		`{"_step":1, "b":0, "a":1}`:                                 false,
		`{"_step":2, "b":NaN, "a":1}`:                               false,
		`{"_step":1, "b":NaN, "a":1,"_timestamp":1700000000.25}`:    false,
		`[1]`: false,
		``:    false,
	} {
		if got := row.Same([]byte(line), []byte(stored)); got != want {
			t.Errorf("%s: %v", line, got)
		}
	}
}

// TestSamplesOfLongRuns looks at few of the rows, and still finds the ends of each key.
func TestSamplesOfLongRuns(t *testing.T) {
	rig := newRig(t, local.Config{})
	rig.attempt(t, 1, nil)
	r := rand.New(rand.NewPCG(1, 4))
	const steps = 60_000
	type held struct {
		step    int64
		x, some float64
	}
	var all []held
	for lane := range byte(2) {
		g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}, Columns: []model.Column{
			{Series: model.NewSeriesKey("_runtime", "", nil), Kind: model.KindFloat},
			{Series: model.NewSeriesKey("x", "", nil), Kind: model.KindFloat},
		}}
		odd := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep}}}
		odd.Columns = append(slices.Clone(g.Columns), model.Column{Series: model.NewSeriesKey("some", "", nil), Kind: model.KindFloat})
		for i := range int64(steps) {
			v := held{i * 3, r.NormFloat64(), math.NaN()}
			of := &g
			if i%2 == int64(lane) && r.IntN(3) > 0 {
				of, v.some = &odd, r.NormFloat64()
			}
			of.Axes[0].Values, of.TimeNs = append(of.Axes[0].Values, v.step), append(of.TimeNs, v.step*1000+int64(lane))
			for k, f := range []float64{float64(v.step), v.x, v.some}[:len(of.Columns)] {
				of.Columns[k].Floats = append(of.Columns[k].Floats, f)
			}
			all = append(all, v)
		}
		rig.append(t, 1, lane, g, odd)
		if err := rig.engine.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	slices.SortStableFunc(all, func(a, b held) int { return int(a.step - b.step) })
	for _, keys := range [][]string{{"_step", "x"}, {"_runtime", "_step", "x"}, {"_step", "some", "x"}} {
		withSome := slices.Contains(keys, "some")
		want := slices.DeleteFunc(slices.Clone(all), func(v held) bool { return withSome && math.IsNaN(v.some) })
		for _, n := range []int{8, 100, 5_000} {
			got := lines(t, row.Sampled(t.Context(), rig.src, rig.run, row.Spec{Keys: keys, Samples: n}))
			if len(got) != n {
				t.Fatalf("%v: %d rows, want %d", keys, len(got), n)
			}
			found := map[held]bool{}
			last := int64(0)
			for _, line := range got {
				var doc struct {
					Step int64 `json:"_step"`
					X    *float64
					Some *float64
				}
				if err := json.Unmarshal(line, &doc); err != nil {
					t.Fatal(err)
				}
				at := slices.IndexFunc(want, func(v held) bool {
					return v.step == doc.Step && v.x == *doc.X && (!withSome || v.some == *doc.Some)
				})
				if at < 0 || n > 50 && doc.Step-last > 3*3*steps/int64(n)+3 {
					t.Fatalf("%v, n %d: %s, %d behind the row before", keys, n, line, doc.Step-last)
				}
				found[held{want[at].step, want[at].x, 0}] = true
				last = doc.Step
			}
			for _, less := range []func(a, b held) int{
				func(a, b held) int { return cmp.Compare(a.x, b.x) },
				func(a, b held) int { return cmp.Compare(a.step, b.step) },
			} {
				for _, v := range []held{slices.MinFunc(want, less), slices.MaxFunc(want, less)} {
					if !slices.ContainsFunc(slices.Collect(maps.Keys(found)), func(f held) bool { return less(f, v) == 0 }) {
						t.Fatalf("%v, n %d: the row of %+v is missing", keys, n, v)
					}
				}
			}
		}
	}
	// Rows without x hide those with the least: there are as many points of x as rows.
	least := func(a, b held) int { return cmp.Compare(a.x, b.x) }
	hidden := slices.MinFunc(all, least).step
	rig.attempt(t, 2, nil)
	for lane := range byte(2) {
		rig.append(t, 2, lane, model.RowGroup{
			Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{hidden}}}, TimeNs: []int64{int64(lane)},
			Columns: []model.Column{{Series: model.NewSeriesKey("_runtime", "", nil), Kind: model.KindFloat, Floats: []float64{1}}},
		})
	}
	all = slices.DeleteFunc(all, func(v held) bool { return v.step == hidden })
	want := fmt.Appendf(nil, `"_step":%d`, slices.MinFunc(all, least).step)
	got := lines(t, row.Sampled(t.Context(), rig.src, rig.run, row.Spec{Keys: []string{"_step", "x"}, Samples: 100}))
	if !slices.ContainsFunc(got, func(line []byte) bool { return bytes.Contains(line, want) }) || len(got) != 100 {
		t.Fatalf("%d rows, without the least of those that are left", len(got))
	}
}
