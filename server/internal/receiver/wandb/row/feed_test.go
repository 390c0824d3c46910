package row

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// randomLine is a row of some few shapes, and now and then an odd one.
func randomLine(r *rand.Rand, step int) string {
	value := func() string {
		switch r.IntN(60) {
		case 0:
			return [...]string{"NaN", "-Infinity", "9007199254740993", "1e999", "-0", "-0.0", "1E-7", "null", `"x"`, "[1]", `{"a":1.5}`}[r.IntN(11)]
		case 1:
			return fmt.Sprint(r.Uint64())
		}
		return fmt.Sprint([...]any{r.Float64(), r.NormFloat64() * 1e-6, r.IntN(1000)}[r.IntN(3)])
	}
	own := fmt.Sprintf(`"_step":%d,"_runtime":%v,"_timestamp":%v`, step, float64(step)/3, 1.7e9+float64(step))
	switch r.IntN(12) {
	case 0:
		return fmt.Sprintf(`{"val/ü<":%s, "lr": %s, %s }`, value(), value(), own)
	case 1:
		return fmt.Sprintf(`{"a\"b\\":%s,"_step":%d}`, value(), step)
	case 2:
		return [...]string{`{"a":1}`, `{`, `7`, `{"a":1,"a":2,"_step":3}`, `{"_step":1.5}`, `{"a":1,"_step":4,"_timestamp":-0.1}`, `{"_runtime":NaN,"_step":4}`, `{"a":01,"_step":3}`}[r.IntN(8)]
	}
	return fmt.Sprintf(`{"loss":%s,"acc":%s,%s}`, value(), value(), own)
}

// TestLinesByTheirForm: rows that are read as numbers of a form are those that are read one by one.
func TestLinesByTheirForm(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	formed := 0
	for range 300 {
		var body bytes.Buffer
		var texts []string
		body.WriteByte('[')
		for i := range r.IntN(120) {
			if i > 0 {
				body.WriteString([...]string{",", " ,\n"}[r.IntN(2)])
			}
			line := randomLine(r, i)
			texts = append(texts, line)
			if r.IntN(50) == 0 && json.Valid([]byte(line)) {
				body.WriteString(line) // no text
				continue
			}
			wire, err := json.Marshal(line)
			if err != nil {
				t.Fatal(err)
			}
			if r.IntN(9) == 0 { // as another writer has it
				wire = bytes.ReplaceAll(wire, []byte(`_`), []byte(`\u005f`))
			}
			body.Write(wire)
		}
		body.WriteByte(']')
		c := loose.NewCursor(body.Bytes())
		lines := ReadFeed(body.Bytes(), c)
		if err := c.End(); err != nil {
			t.Fatal(err)
		}
		var fast, slow Encoder
		var one, other Line
		n := 0
		for w := range lines.Windows(50, 2_000) {
			fast.Expect(w.Len())
			for i := range w.Len() {
				is, want := w.Parse(i, &one), other.Parse([]byte(texts[n]))
				if (is == nil) != (want == nil) || string(one.Text()) != texts[n] {
					t.Fatalf("line %d %s is read as %s: %v; alone: %v", n, texts[n], one.Text(), is, want)
				}
				if n++; is != nil {
					continue
				}
				if one.form != nil {
					formed++
				}
				if one.Step != other.Step || one.HasStep != other.HasStep || one.TimeNs != other.TimeNs {
					t.Fatalf("%s: %d %v %d", texts[n-1], one.Step, one.HasStep, one.TimeNs)
				}
				fast.Add(&one, 5)
				slow.Add(&other, 5)
			}
		}
		if is, want := shown(fast.Groups()), shown(slow.Groups()); n != len(texts) || !reflect.DeepEqual(is, want) {
			t.Fatalf("%d of %d lines\n%s\nalone\n%s", n, len(texts), strings.Join(is, "\n"), strings.Join(want, "\n"))
		}
	}
	if formed < 5_000 {
		t.Errorf("only %d rows had a form", formed)
	}
}

// shown is all that groups have, with the bits of numbers.
func shown(groups []model.RowGroup) (out []string) {
	for _, g := range groups {
		out = append(out, fmt.Sprint(g.Axes, g.TimeNs))
		for _, c := range g.Columns {
			line := c.Series.String()
			for _, f := range c.Floats {
				line += fmt.Sprintf(" %x", math.Float64bits(f))
			}
			out = append(out, line+fmt.Sprintf(" %q %q", c.Texts, c.Docs))
		}
	}
	return out
}

// TestBrokenLines: the array is refused where a check of it alone refuses it.
func TestBrokenLines(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	lines := make([]string, 12)
	for i := range lines {
		lines[i] = fmt.Sprintf(`{"a":%v,"_step":%d}`, r.Float64(), i)
	}
	whole, err := json.Marshal(lines)
	if err != nil {
		t.Fatal(err)
	}
	for range 20_000 {
		body := bytes.Clone(whole)
		body[r.IntN(len(body))] = `"\[]{},:x1 -`[r.IntN(12)]
		if r.IntN(3) == 0 {
			body = body[:r.IntN(len(body))]
		}
		c := loose.NewCursor(body)
		ReadFeed(body, c)
		if is, want := c.End(), loose.Check(body); (is == nil) != (want == nil) {
			t.Fatalf("%s: %v; a check says %v", body, is, want)
		}
	}
}
