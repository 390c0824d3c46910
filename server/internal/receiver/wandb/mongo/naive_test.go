package mongo

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/loose"
)

// asked is a question for testdata/naive.py.
type asked struct {
	runs  []run
	about string // a filter or an order
	order bool
}

func naive(t *testing.T, questions []asked) [][]int {
	t.Helper()
	name, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to compare with")
	}
	var in bytes.Buffer
	for _, q := range questions {
		about := `"filter":` + q.about
		if q.order {
			about = fmt.Sprintf(`"order":%q`, q.about)
		}
		runs := make([]string, len(q.runs))
		for i, r := range q.runs {
			runs[i] = string(r)
		}
		fmt.Fprintf(&in, "{%s,\"runs\":[%s]}\n", about, strings.Join(runs, ","))
	}
	c := exec.CommandContext(t.Context(), name, "testdata/naive.py")
	c.Stdin, c.Stderr = &in, t.Output()
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers [][]int
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		var places []int
		if err := json.Unmarshal(lines.Bytes(), &places); err != nil {
			t.Fatal(err)
		}
		answers = append(answers, places)
	}
	if len(answers) != len(questions) {
		t.Fatalf("%d answers to %d questions", len(answers), len(questions))
	}
	return answers
}

// TestMatchesAsNaive compares 32,000 verdicts with a second evaluator.
func TestMatchesAsNaive(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(7, 8))
	var questions []asked
	for range 4000 {
		questions = append(questions, asked{runs: randomRuns(r, 8), about: randomFilter(r, 3)})
	}
	fit, mixed := 0, 0
	for i, want := range naive(t, questions) {
		q := questions[i]
		f, err := Parse([]byte(q.about))
		if err != nil {
			t.Fatalf("%s: %v", q.about, err)
		}
		got := []int{}
		for place, one := range q.runs {
			record := heard{one, func(name string) {
				if !f.Uses(name) {
					t.Errorf("%s asks for %s, and says that it does not", q.about, name)
				}
			}}
			ok, err := f.Match(record)
			byIndex, failed := f.Match(withIndex{record})
			if err != nil || failed != nil {
				t.Fatal(err, failed)
			}
			if ok != byIndex {
				t.Errorf("%s on %s is %t, with an index %t", q.about, one, ok, byIndex)
			}
			if ok {
				got = append(got, place)
			}
		}
		for place := range q.runs {
			if a, b := slices.Contains(got, place), slices.Contains(want, place); a != b {
				t.Errorf("%s on %s is %t, the naive one says %t", q.about, q.runs[place], a, b)
			}
		}
		fit += len(got)
		if len(got) > 0 && len(got) < len(q.runs) {
			mixed++
		}
	}
	if share := float64(fit) / float64(8*len(questions)); share < 0.2 || share > 0.8 || mixed < len(questions)/10 {
		t.Errorf("%.2f of the runs fit, %d filters part their runs: the test sees one side only", share, mixed)
	}
}

func TestOrdersAsNaive(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(9, 10))
	var questions []asked
	for range 600 {
		order := ""
		for i := range 1 + r.IntN(2) {
			order += []string{"", ","}[i] + []string{"+", "-"}[r.IntN(2)] + randomPath(r)
		}
		questions = append(questions, asked{runs: randomRuns(r, 12), about: order, order: true})
	}
	for i, want := range naive(t, questions) {
		q := questions[i]
		o, err := ParseOrder(q.about)
		if err != nil {
			t.Fatal(err)
		}
		if got := sorted(o, q.runs); got != strings.Trim(fmt.Sprint(want), "[]") {
			t.Errorf("%s of %s is %s, the naive one says %v", q.about, q.runs, got, want)
		}
	}
}

func pick(r *rand.Rand, from ...string) string { return from[r.IntN(len(from))] }

func randomPath(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return pick(r, "state", "display_name", "displayName", "group", "name", "user")
	case 1:
		return pick(r, "tags", "created_at", "createdAt", "heartbeat_at")
	}
	path := pick(r, "config", "config", "config", "summary_metrics", "summaryMetrics")
	for range 1 + r.IntN(2) + r.IntN(2) {
		path += "." + pick(r, "a", "a", "a", "b", "a.b", "value", "0", "1", "c/d")
	}
	return path
}

func randomRuns(r *rand.Rand, n int) []run {
	runs := make([]run, n)
	for i := range runs {
		parts := []string{`"name":` + pick(r, `"x"`, `"y"`)}
		add := func(name string, value func() string) {
			if r.IntN(4) > 0 {
				parts = append(parts, `"`+name+`":`+value())
			}
		}
		add("state", func() string { return pick(r, `"running"`, `"finished"`, `"a"`) })
		add("displayName", func() string { return pick(r, `"a"`, `"ab"`, `"A1"`) })
		add("group", func() string { return pick(r, "null", `"a"`, `"b"`) })
		add("tags", func() string { return pick(r, "[]", `["a"]`, `["a","b"]`, `["b1"]`) })
		add("createdAt", func() string { return randomTime(r) })
		add("config", func() string { return randomObject(r, true) })
		add("summaryMetrics", func() string { return randomObject(r, false) })
		runs[i] = run("{" + strings.Join(parts, ",") + "}")
	}
	return runs
}

func randomTime(r *rand.Rand) string {
	return pick(r, `"2026-01-01"`, `"2026-01-01T00:00:00Z"`, `"2026-01-01T01:00:00+01:00"`, `"2026-01-01T00:00:00.5"`, `"2025-12-31 23:59:59"`, `"later"`)
}

func randomObject(r *rand.Rand, wrapped bool) string {
	var parts []string
	for _, key := range []string{"a", "b", "a.b", "c/d", "value", "0"} {
		if r.IntN(2) == 0 {
			continue
		}
		v := randomValue(r, 3)
		if wrapped && r.IntN(8) > 0 {
			v = `{"value":` + v + pick(r, "}", `,"desc":null}`)
		}
		parts = append(parts, `"`+key+`":`+v)
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func randomScalar(r *rand.Rand) string {
	return pick(r, "null", "true", "false", "0", "1", "1", "1", "1", "2", "-1", "0.5", "NaN", "Infinity", "9007199254740993", "9007199254740992", `"a"`, `"a"`, `"a"`, `"a"`, `"b"`, `"ab1"`, `"null"`, `"é"`, `""`)
}

func randomValue(r *rand.Rand, depth int) string {
	kind := r.IntN(6)
	if depth == 0 || kind < 3 {
		return randomScalar(r)
	}
	var parts []string
	if kind == 3 {
		for range r.IntN(4) {
			parts = append(parts, randomValue(r, depth-1))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	for _, key := range []string{"a", "b", "a.b", "value"} {
		if r.IntN(2) == 0 {
			parts = append(parts, `"`+key+`":`+randomValue(r, depth-1))
		}
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func randomFilter(r *rand.Rand, depth int) string {
	seen := map[string]bool{}
	var parts []string
	for range 1 + r.IntN(5)/4 {
		name := randomPath(r)
		var v string
		if depth > 0 && r.IntN(3) == 0 {
			name = pick(r, "$and", "$or", "$nor", "$not")
			v = randomFilter(r, depth-1)
			if name != "$not" {
				v = "[" + v + "," + randomFilter(r, depth-1) + "]"
			}
		} else if v = randomTests(r, 2); r.IntN(4) == 0 {
			v = randomOperand(r)
		}
		if !seen[name] {
			parts = append(parts, `"`+name+`":`+v)
		}
		seen[name] = true
	}
	return "{" + strings.Join(parts, ",") + "}"
}

func randomOperand(r *rand.Rand) string {
	switch r.IntN(8) {
	case 0:
		return randomTime(r)
	case 1:
		return randomValue(r, 2)
	case 2:
		return pick(r, `["a"]`, `["a","b"]`, `"running"`, `"x"`)
	}
	return randomScalar(r)
}

func randomTests(r *rand.Rand, depth int) string {
	seen := map[string]bool{}
	var parts []string
	for range 1 + r.IntN(5)/4 {
		name := pick(r, "$eq", "$eq", "$ne", "$gt", "$gte", "$lt", "$lte", "$in", "$nin", "$all", "$exists", "$size", "$regex", "$contains", "$not", "$and", "$or", "$nor")
		var v string
		switch name {
		case "$eq", "$ne":
			v = randomOperand(r)
		case "$gt", "$gte", "$lt", "$lte":
			if v = randomScalar(r); r.IntN(4) == 0 {
				v = randomTime(r)
			}
		case "$in", "$nin", "$all":
			v = "[" + strings.Join([]string{randomOperand(r), randomOperand(r)}[:r.IntN(3)], ",") + "]"
		case "$exists":
			v = pick(r, "true", "false", "1", "0")
		case "$size":
			v = pick(r, "0", "1", "2.0")
		case "$regex":
			if v = pick(r, `"a"`, `"^a"`, `"null"`, `"\\d.*"`, `"\\["`, `"b$"`, `"^1$"`, `"a, 1"`, `"A"`, `"é"`, `": "`); r.IntN(3) == 0 {
				v += `,"$options":` + pick(r, `"i"`, `"ms"`, `""`)
			}
		case "$contains":
			v = pick(r, `"a"`, `", "`, `""`, `"ul"`)
		case "$not":
			v = randomTests(r, 0)
		default:
			if depth == 0 {
				continue
			}
			v = "[" + randomTests(r, depth-1) + "," + randomTests(r, depth-1) + "]"
		}
		if !seen[name] {
			parts = append(parts, `"`+name+`":`+v)
		}
		seen[name] = true
	}
	if len(parts) == 0 {
		return `{"$exists":true}`
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// FuzzParse reads any filter and order, and judges a run by what could be read.
func FuzzParse(f *testing.F) {
	r := rand.New(rand.NewPCG(11, 12))
	for range 50 {
		f.Add(randomFilter(r, 3), randomPath(r))
	}
	f.Add(`{"$or":[{"tags":"x"}],"config.a":{"$not":{"$regex":"a{2,3}","$options":"i"}}}`, "+created_at,-config.a.value")
	f.Fuzz(func(t *testing.T, filter, order string) {
		if parsed, err := Parse([]byte(filter)); err == nil {
			again, err := Parse(loose.Spaced(nil, []byte(filter)))
			if err != nil {
				t.Fatalf("%q with other spaces: %v", filter, err)
			}
			a, errA := parsed.Match(one)
			b, errB := again.Match(run(loose.Compact(nil, []byte(one))))
			if a != b || errA != nil || errB != nil {
				t.Fatalf("%q: %t, then %t (%v, %v)", filter, a, b, errA, errB)
			}
		}
		if o, err := ParseOrder(order); err == nil {
			key := o.Key(one)
			if o.Compare(key, key) != 0 || o.Compare(key, o.Key(run(`{}`))) > 0 {
				t.Fatalf("the order %q", order)
			}
		}
	})
}

// withIndex is a Record that finds members by an index.
type withIndex struct{ Record }

func (w withIndex) Index(name string) loose.Index {
	text, _ := w.Field(name)
	return loose.NewIndex(text)
}

// heard is a Record that tells which fields are asked for.
type heard struct {
	Record
	hear func(name string)
}

func (a heard) Field(name string) ([]byte, bool) {
	a.hear(name)
	return a.Record.Field(name)
}
