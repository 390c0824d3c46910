package filter_test

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

func TestParse(t *testing.T) {
	for line, want := range map[string]string{
		`adam lr<0.1`:             `("adam" and "lr"<0.1)`,
		`a b or c`:                `(("a" and "b") or ("c"))`,
		`a and not b`:             `("a" and not "b")`,
		`not (a OR b) c`:          `(not (("a") or ("b")) and "c")`,
		`lr <= "x y"`:             `("lr"<="x y")`,
		`or=1 not!=2`:             `("or"=1 and "not"!=2)`,
		`"or" order notes`:        `("or" and "order" and "notes")`,
		`resnet(50) (net(2) x=f)`: `("resnet(50)" and ("net(2)" and "x"=f))`,
		`(tag=a)or(tag=b)`:        `((("tag"=a)) or (("tag"=b)))`,
		`"a\"b\\"=1`:              `("a\"b\\"=1)`,
	} {
		if e, err := filter.Parse(line); err != nil || e.String() != want {
			t.Errorf("%s is %v, %v, want %s", line, e, err, want)
		}
	}
}

// An error names the character where the line is wrong.
func TestErrorColumns(t *testing.T) {
	for line, column := range map[string]int{
		`lr<`: 4, `größe=1 =2`: 9, `a or`: 5, `or a`: 1, `a (b`: 3, `a)`: 2, `()`: 1, `a "b`: 3, `not`: 1, `and a`: 1, `a and`: 3,
		`lr="1"x`: 7, `a ""`: 3, strings.Repeat("(", 20): 17, strings.Repeat("not ", 20) + "a": 69, strings.Repeat("a ", 40): 65,
	} {
		if _, err := filter.Parse(line); column != columnOf(err) {
			t.Errorf("%q: %v, want column %d", line, err, column)
		}
	}
}

func columnOf(err error) int {
	var e *model.Error
	if !errors.As(err, &e) {
		return 0
	}
	return e.Column
}

// Whatever comes, the parser ends with few terms, or an error inside the line.
func FuzzParse(f *testing.F) {
	for _, line := range []string{`a or (b not c<1)`, `"\"x" y!="`, `((not`, "ä\xff<=1"} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		e, err := filter.Parse(line)
		if column := columnOf(err); err != nil && (column < 1 || column > utf8.RuneCountInString(line)+1) {
			t.Errorf("column %d of %q", column, line)
		}
		if terms, depth := size(e); err == nil && (terms > filter.MaxTerms || depth > 64) {
			t.Errorf("%d terms, %d deep", terms, depth)
		}
	})
}

func size(e filter.Expr) (terms, depth int) {
	if e.Kind == filter.Word || e.Kind == filter.Compare {
		return 1, 1
	}
	for _, part := range e.Parts {
		n, d := size(part)
		terms, depth = terms+n, max(depth, d)
	}
	return terms, depth + 1
}

// What the page calls best is what best(…) takes: both read the same table.
func TestTheBestIsThatOfThePage(t *testing.T) {
	raw, err := os.ReadFile("../../../../testdata/directions.json")
	if err != nil {
		t.Fatal(err)
	}
	var table map[string]string
	if err := json.Unmarshal(raw, &table); err != nil {
		t.Fatal(err)
	}
	for name, want := range table {
		got := ""
		if m, ok := (filter.Metric{Name: name, Of: filter.Best}).Resolved(); ok {
			got = map[filter.Aggregate]string{filter.Min: "down", filter.Max: "up"}[m.Of]
		}
		if got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
}
