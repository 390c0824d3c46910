package row_test

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// rig is a store of one run, with the reader before it.
type rig struct {
	engine *local.Engine
	run    model.RunID
	src    *query.Service
}

// one is a catalog that knows the run, and lets everybody read it.
type one struct{ catalog.Reader }

func (one) Lookup(_ context.Context, id model.RunID) (*catalog.Run, error) {
	return &catalog.Run{ID: id, Workspace: "w", Project: "p"}, nil
}
func (one) Allow(context.Context, catalog.Scope, string, string) error { return nil }

func (one) Reach(context.Context) (workspace, project string) { return "", "" }
func (one) Spooled(model.WriterID) (uint64, bool)             { return 0, false }

func newRig(t testing.TB, c local.Config) *rig {
	t.Helper()
	if c.Dir == "" {
		c.Dir, c.FS = "/data", faultfs.New()
	}
	engine, err := local.Open(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = engine.Close() })
	return &rig{engine, model.RunID{1}, query.New(engine, one{}, one{}, one{}, query.Limits{Time: time.Hour})}
}

func (r *rig) attempt(t testing.TB, number uint32, resume *int64) {
	t.Helper()
	if err := r.engine.PutAttempt(t.Context(), r.run, model.Attempt{Number: number, OpenedNs: int64(number), ResumeFrom: resume}); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) append(t testing.TB, attempt uint32, lane byte, groups ...model.RowGroup) {
	t.Helper()
	w := laneID(attempt, lane)
	if err := r.engine.PutWriter(t.Context(), r.run, w, attempt, nil); err != nil {
		t.Fatal(err)
	}
	ack, err := r.engine.Append(t.Context(), &model.Batch{Run: r.run, Writer: w, Attempt: attempt, Groups: groups})
	if err != nil || len(ack.Refused) > 0 {
		t.Fatal(err, ack.Refused)
	}
}

func laneID(attempt uint32, lane byte) model.WriterID { return model.WriterID{byte(attempt), lane} }

// plain is a row as a program logged it, and as the naive reader of this test keeps it.
type plain struct {
	attempt uint32
	lane    byte
	step    int64
	time    float64  // _timestamp
	runtime *float64 // _runtime
	values  map[string]value
}

// value is a value of a row by what the generator made: nothing of it was parsed.
type value struct {
	json   string  // as it comes
	kind   string  // number, text, json, histogram, object
	number float64 // of a number
	text   string  // of a text
	doc    string  // of a histogram, as the store keeps it
	leaves map[string]float64
}

// line is the row as the client sends it.
func (p *plain) line() string {
	var parts []string
	for _, key := range slices.Sorted(mapsKeys(p.values)) {
		parts = append(parts, quoted(key)+": "+p.values[key].json)
	}
	if p.runtime != nil {
		parts = append(parts, `"_runtime": `+strconv.FormatFloat(*p.runtime, 'g', -1, 64))
	}
	parts = append(parts, `"_step": `+strconv.FormatInt(p.step, 10), `"_timestamp": `+strconv.FormatFloat(p.time, 'f', -1, 64))
	return "{" + strings.Join(parts, ", ") + "}"
}

func mapsKeys[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// quoted writes a string as JSON, all but letters as escapes.
func quoted(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r > 0xffff:
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xd800+r>>10, 0xdc00+r&0x3ff)
		case r < '0' || r > 'z' || r == '\\':
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// encode is the contract of rows, written down once more: a group for each row.
func (p *plain) encode() model.RowGroup {
	whole := math.Floor(p.time)
	ns := int64(whole)*1e9 + int64(math.Round((p.time-whole)*1e9))
	g := model.RowGroup{Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{p.step}}}, TimeNs: []int64{ns}}
	runtime := math.NaN()
	if p.runtime != nil {
		runtime = *p.runtime
	}
	floats := map[string]float64{"_runtime": runtime}
	other := []string{}
	objects := map[string]bool{}
	for key, v := range p.values {
		if v.kind == "object" && isMetric(key) {
			objects[key] = true
			for leaf, f := range v.leaves {
				if isMetric(key + "." + leaf) {
					floats[key+"."+leaf] = f
				}
			}
		}
	}
	typed := func(key, kind string, c model.Column) {
		c.Series = model.NewSeriesKey(key, "", map[string]string{"type": kind})
		g.Columns = append(g.Columns, c)
	}
	for _, key := range slices.Sorted(mapsKeys(p.values)) {
		v := p.values[key]
		below := slices.ContainsFunc(slices.Collect(mapsKeys(objects)), func(o string) bool { return strings.HasPrefix(key, o+".") })
		switch {
		case !isMetric(key) || below:
			other = append(other, quoted(key)+":"+v.json)
		case v.kind == "number":
			floats[key] = v.number
		case v.kind == "text":
			typed(key, "text", model.Column{Kind: model.KindText, Texts: []string{v.text}})
		case v.kind == "histogram":
			typed(key, "histogram", model.Column{Kind: model.KindHistogram, Docs: [][]byte{[]byte(v.doc)}})
		default:
			typed(key, "json", model.Column{Kind: model.KindText, Texts: []string{v.json}})
		}
	}
	if len(other) > 0 {
		typed("_other", "json", model.Column{Kind: model.KindText, Texts: []string{"{" + strings.Join(other, ",") + "}"}})
	}
	for key, f := range floats {
		g.Columns = append(g.Columns, model.Column{Series: model.NewSeriesKey(key, "", nil), Kind: model.KindFloat, Floats: []float64{f}})
	}
	return g
}

func isMetric(key string) bool {
	return key != "" && len(key) <= 1024 && key != "_other" && key != "console" && !strings.HasPrefix(key, "system/") && !strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}

// history is rows as the naive reader knows them.
type history struct {
	rows    []plain
	resume  map[uint32]*int64
	written *rig
	packed  bool // by the encoder of the package
}

// curve are the rows that no later attempt hides, in the order of reads. Attempts open in
// the order of their numbers.
func (h *history) curve() (out []plain) {
	for _, p := range h.rows {
		hidden := false
		for _, q := range h.rows {
			hidden = hidden || q.attempt > p.attempt && h.resume[q.attempt] == nil && q.step == p.step
		}
		for number, from := range h.resume {
			hidden = hidden || number > p.attempt && from != nil && p.step >= *from
		}
		if !hidden {
			out = append(out, p)
		}
	}
	inOrder(out)
	return out
}

func inOrder(rows []plain) {
	slices.SortFunc(rows, func(a, b plain) int {
		switch {
		case a.step != b.step:
			return int(min(max(a.step-b.step, -1), 1))
		case a.time != b.time && a.time < b.time:
			return -1
		case a.time != b.time:
			return 1
		case a.attempt != b.attempt:
			return int(a.attempt) - int(b.attempt)
		}
		return int(a.lane) - int(b.lane)
	})
}

// randomHistory writes rows of several attempts and lanes.
func randomHistory(t *testing.T, r *rand.Rand, c local.Config) *history {
	t.Helper()
	h := &history{resume: map[uint32]*int64{}, written: newRig(t, c), packed: r.IntN(2) == 0}
	from := int64(0)
	for number := uint32(1); number <= 1+r.Uint32N(3); number++ {
		var resume *int64
		if number > 1 && r.IntN(2) == 0 {
			at := from
			resume = &at
		}
		h.resume[number] = resume
		h.written.attempt(t, number, resume)
		lanes := 1 + r.IntN(3)
		steps := r.IntN(60)
		for i := range steps {
			for lane := range lanes {
				if lane > 0 && r.IntN(3) > 0 {
					continue
				}
				h.add(t, randomRow(r, number, byte(lane), from+int64(i)*int64(1+r.IntN(2))))
				if r.IntN(8) == 0 {
					h.add(t, h.rows[r.IntN(len(h.rows))])
				}
			}
			if r.IntN(40) == 0 {
				h.upkeep(t, r)
			}
		}
		from += int64(r.IntN(steps + 1))
	}
	return h
}

// add writes a row, unless its lane has one at this step.
func (h *history) add(t *testing.T, p plain) {
	t.Helper()
	if at := slices.IndexFunc(h.rows, func(o plain) bool { return o.attempt == p.attempt && o.lane == p.lane && o.step == p.step }); at >= 0 {
		p = h.rows[at] // it comes again
	} else {
		h.rows = append(h.rows, p)
	}
	if !h.packed {
		h.written.append(t, p.attempt, p.lane, p.encode())
		return
	}
	var l row.Line
	var e row.Encoder
	if err := l.Parse([]byte(p.line())); err != nil {
		t.Fatal(err)
	}
	e.Add(&l, 0)
	h.written.append(t, p.attempt, p.lane, e.Groups()...)
}

func (h *history) upkeep(t *testing.T, r *rand.Rand) {
	t.Helper()
	err := h.written.engine.Flush(t.Context())
	if err == nil && r.IntN(2) == 0 {
		err = h.written.engine.Compact(t.Context(), r.IntN(2) == 0)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func randomRow(r *rand.Rand, attempt uint32, lane byte, step int64) plain {
	p := plain{attempt: attempt, lane: lane, step: step, values: map[string]value{}, time: 1.7e9 + float64(step)*1.000001 + float64(lane)/7}
	if r.IntN(10) > 0 {
		f := float64(step) + r.Float64()
		p.runtime = &f
	}
	keys := []string{"loss", "acc", "a", "a.b", "a.b.c", "a-x", "b", "train/loss", "console", "system/x", "ключ", "x y", "", "_other", "tab\tkey", "_wandb", "\x7f", strings.Repeat("k", 1025)}
	for range r.IntN(7) {
		p.values[keys[r.IntN(len(keys))]] = randomValue(r, 3)
	}
	return p
}

func number(f float64) value {
	text := strconv.FormatFloat(f, 'g', -1, 64)
	switch {
	case math.IsNaN(f):
		text = "NaN"
	case math.IsInf(f, 1):
		text = "Infinity"
	case math.IsInf(f, -1):
		text = "-Infinity"
	}
	return value{json: text, kind: "number", number: f}
}

func randomValue(r *rand.Rand, depth int) value {
	switch r.IntN(9) {
	case 0, 1, 2:
		return number([]float64{r.NormFloat64(), float64(r.IntN(1000)), math.NaN(), math.Inf(1), math.Inf(-1), 1e300 * r.Float64(), 5e-324, 1 << 53, -0.5, 1e21, 123456789012}[r.IntN(11)])
	case 3:
		s := []string{"", "plain", "new\nline\x00\x1f", `quote"\`, "ü€𝄞", strings.Repeat("long ", r.IntN(500)), "NaN"}[r.IntN(7)]
		return value{json: quoted(s), kind: "text", text: s}
	case 4:
		return value{json: []string{"true", "false", "null", "9007199254740993", "-123456789012345678901234567890", `"\ud800"`, `[1, 2.50, NaN, {"x": null}]`, "[]"}[r.IntN(8)], kind: "json"}
	case 5:
		n := 1 + r.IntN(4)
		var edges, counts []string
		for i := range n + 1 {
			edges = append(edges, strconv.FormatFloat(float64(i)+r.Float64()/2, 'g', -1, 64))
		}
		for range n {
			counts = append(counts, strconv.Itoa(r.IntN(9)))
		}
		bins, values := "["+strings.Join(edges, ", ")+"]", "["+strings.Join(counts, ", ")+"]"
		return value{json: `{"_type": "histogram", "values": ` + values + `, "bins": ` + bins + `}`, kind: "histogram", doc: `{"bin_edges":` + bins + `,"counts":` + values + `}`}
	case 6:
		return value{json: `{"_type": "image-file", "size": 3, "path": "media/x.png"}`, kind: "json"}
	}
	return randomObject(r, depth)
}

func randomObject(r *rand.Rand, depth int) value {
	v := value{kind: "object", leaves: map[string]float64{}}
	var parts []string
	for _, key := range []string{"b", "c", "d e", ""}[:r.IntN(5)] {
		inner := number(1)
		if depth > 0 {
			inner = randomValue(r, depth-1)
		}
		parts = append(parts, quoted(key)+" : "+inner.json)
		switch inner.kind {
		case "number":
			v.leaves[key] = inner.number
		case "object":
			for leaf, f := range inner.leaves {
				v.leaves[key+"."+leaf] = f
			}
		}
	}
	v.json = "{ " + strings.Join(parts, ", ") + " }"
	return v
}
