package row

import (
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/query"
)

// through takes a line through rows of points and back, without a store between.
func through(t *testing.T, raw []byte) (line []byte, ok bool) {
	t.Helper()
	var l Line
	if l.Parse(raw) != nil || !l.HasStep {
		return nil, false
	}
	var e Encoder
	e.Add(&l, 1_700_000_000_123_456_789)
	groups := e.Groups()
	if len(groups) != 1 || groups[0].Rows() != 1 {
		t.Fatalf("%d groups of %q", len(groups), raw)
	}
	g := &groups[0]
	slices.SortFunc(g.Columns, func(a, b model.Column) int { return strings.Compare(a.Series.String(), b.Series.String()) })
	f := &filler{selection: &selection{}, entries: []entry{{step: g.Axes[0].Values[0], time: g.TimeNs[0]}}, drafts: make([]draft, 1)}
	for i := range g.Columns {
		c := g.Columns[i]
		if i > 0 && g.Columns[i-1].Series.String() == c.Series.String() {
			t.Fatalf("%q makes %q twice", raw, c.Series)
		}
		if c.Series.Metric == IndexMetric && isPlain(c.Series) {
			f.entries[0].runtime = c.Floats[0]
			continue
		}
		if !isCell(c.Series) {
			t.Fatalf("%q makes %q, which is of no row", raw, c.Series)
		}
		if c.Kind == model.KindHistogram && model.CheckDocument(c.Kind, c.Docs[0]) != nil {
			t.Fatalf("%q makes the histogram %s", raw, c.Docs[0])
		}
		rows := &query.Rows{Axes: g.Axes, TimeNs: g.TimeNs, Attempt: []uint32{0}, Writer: []model.WriterID{{}}, Values: c}
		f.begin(c.Series.String())
		if err := f.take(rows); err != nil {
			t.Fatal(err)
		}
	}
	return f.line(&f.drafts[0], &f.entries[0]), true
}

func FuzzThrough(f *testing.F) {
	for _, line := range []string{
		`{"_step":1}`,
		`{"loss":0.5,"note":"x","n":NaN,"_step":7,"_runtime":1.5,"_timestamp":1.7e9}`,
		`{"a":{"b":1,"c":{"d":-Infinity,"e":[1]}},"a.b":2,"a.x":"y","_step":7,"_timestamp":1700000000.123456}`,
		`{"h":{"_type":"histogram","values":[1,2.5],"bins":[0,1,2]},"g":{"_type":"histogram","values":[1],"bins":[0,1,2]},"_step":0}`,
		`{"":1,"_other":{"x":1},"a\u0000b":2,"_step":-5,"_runtime":"soon"}`,
		`{"big":123456789012345678901234567890,"exact":9007199254740993,"z":-0.0,"e":1e999,"s":"\ud800","_step":3.0}`,
		`{"a":1,"a":"two","a":{"b":1},"a.b":3,"_step":1,"_step":2}`,
		`{"_runtime":NaN,"_step":1,"_timestamp":0.1}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		line, ok := through(t, raw)
		if !ok {
			return
		}
		if err := loose.Check(line); err != nil {
			t.Fatalf("%q reads back as %q: %v", raw, line, err)
		}
		if !Same(raw, line) {
			t.Fatalf("%q reads back as another row:\n%q", raw, line)
		}
		again, ok := through(t, line)
		if !ok || !loose.Equal(line, again) {
			t.Fatalf("%q reads back as %q, and that as %q", raw, line, again)
		}
	})
}
