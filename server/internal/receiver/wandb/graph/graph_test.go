package graph

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/testkit/cost"
)

// world is what the documents of the tests are asked of. log has the calls in order.
func world(log *[]string) Object {
	leaf := func(name string) Object { return Object{"__typename": "Leaf", "name": name, "no": nil, "n": 7} }
	return Object{
		"a":    Object{"__typename": "A", "x": 1, "y": "two", "z": true, "f": 0.5, "in": Object{"deep": "d", "list": []string{"p", "q"}}},
		"list": []Object{leaf("one"), leaf("two")},
		"any":  []any{1, "s", nil, leaf("three")},
		"raw":  Raw(`{"k":[1]}`), "none": Raw(nil), "nil": Object(nil),
		"echo": Resolver(func(_ context.Context, args Args) (Field, error) {
			text, err := json.Marshal(args)
			return Raw(text), err
		}),
		"bad": Resolver(func(context.Context, Args) (Field, error) {
			return nil, model.Errorf(model.CodeInvalid, "it is bad").WithHint("Mend it.")
		}),
		"broken": Resolver(func(context.Context, Args) (Field, error) { return nil, errors.New("secret path /x") }),
		"odd":    func() {},
		"do": Resolver(func(_ context.Context, args Args) (Field, error) {
			*log = append(*log, args.Text("what"))
			return Object{"done": args.Text("what")}, nil
		}),
	}
}

func ask(t testing.TB, q string, variables string) (data string, problems []string) {
	t.Helper()
	r := Request{Query: q}
	if variables != "" {
		d := json.NewDecoder(strings.NewReader(variables))
		d.UseNumber()
		if err := d.Decode(&r.Variables); err != nil {
			t.Fatal(err)
		}
	}
	op, err := Parse(&r)
	if err != nil {
		return "", []string{ProblemOf(err).Message}
	}
	var log []string
	out, list, _ := op.Run(t.Context(), world(&log))
	if !json.Valid(out) {
		t.Fatalf("%s: %s", q, out)
	}
	for _, p := range list {
		problems = append(problems, p.Message)
	}
	return string(out), problems
}

func TestDocuments(t *testing.T) {
	for _, c := range []struct{ name, query, variables, want string }{
		{"plain", `{a{x y z f}}`, "", `{"a":{"x":1,"y":"two","z":true,"f":0.5}}`},
		{"a comment and a name", "#graphql\nquery Q {a{x}}", "", `{"a":{"x":1}}`},
		{"aliases", `{one:a{u:x} two:a{v:y}}`, "", `{"one":{"u":1},"two":{"v":"two"}}`},
		{"a field twice", `{a{x} a{y x}}`, "", `{"a":{"x":1,"y":"two"}}`},
		{"lists", `{list{name} any{name}}`, "", `{"list":[{"name":"one"},{"name":"two"}],"any":[1,"s",null,{"name":"three"}]}`},
		{"null", `{none nil{x} list{no}}`, "", `{"none":null,"nil":null,"list":[{"no":null},{"no":null}]}`},
		{"raw", `{raw}`, "", `{"raw":{"k":[1]}}`},
		{"typenames", `{__typename a{__typename in{__typename}}}`, "", `{"__typename":"Object","a":{"__typename":"A","in":{"__typename":"Object"}}}`},
		{"an unknown field", `{a{x what}}`, "", `{"a":{"x":1,"what":null}}`},
		{"fragments", `{a{...F}} fragment F on A {x ...G} fragment G on A {in{...H}} fragment H on I {deep list}`, "", `{"a":{"x":1,"in":{"deep":"d","list":["p","q"]}}}`},
		{"inline", `{a{... on A {x} ... {y}}}`, "", `{"a":{"x":1,"y":"two"}}`},
		{"a fragment twice", `{a{...F ...F} b:a{...F}} fragment F on A {x}`, "", `{"a":{"x":1},"b":{"x":1}}`},
		{"skip and include", `query($t:Boolean,$f:Boolean){a{x@skip(if:$t) y@include(if:$t) z@skip(if:$f)@include(if:$f) f@include(if:true) ...F@skip(if:true) ... @include(if:false){in{deep}}}} fragment F on A {n}`, `{"t":true,"f":false}`, `{"a":{"y":"two","f":0.5}}`},
		{"a variable that is absent", `query($t:Boolean){a{x@include(if:$t) y@skip(if:$t)}}`, "", `{"a":{"y":"two"}}`},
		{"arguments", `{echo(i:1 f:-2.5e3 s:"x\n" b:true n:null e:ASC l:[1,[2]] o:{k:{v:"w"}})}`, "", `{"echo":{"b":true,"e":"ASC","f":-2.5e3,"i":1,"l":[1,[2]],"n":null,"o":{"k":{"v":"w"}},"s":"x\n"}}`},
		{"block texts", `{echo(s:"""  a "b" """)}`, "", `{"echo":{"s":"  a \"b\" "}}`},
		{"variables", `query($i:Int!,$d:Int=5,$o:In){echo(i:$i d:$d o:$o in:{x:[$i]})}`, `{"i":9007199254740993,"o":{"a":[true]},"undeclared":1}`, `{"echo":{"d":5,"i":9007199254740993,"in":{"x":[9007199254740993]},"o":{"a":[true]}}}`},
		{"a default under null", `query($d:Int=5){echo(d:$d)}`, `{"d":null}`, `{"echo":{"d":null}}`},
		{"an undeclared variable", `{echo(x:$y)}`, `{"y":1}`, `{"echo":{"x":null}}`},
		{"texts", `{echo(s:"\u00e9😀\"")}`, "", `{"echo":{"s":"é😀\""}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, problems := ask(t, c.query, c.variables); len(problems) > 0 || !same(got, c.want) {
				t.Errorf("%s %v, want %s", got, problems, c.want)
			}
		})
	}
}

// same compares JSON with the order of its members.
func same(a, b string) bool {
	var x, y []json.Token
	for _, one := range []struct {
		text string
		to   *[]json.Token
	}{{a, &x}, {b, &y}} {
		d := json.NewDecoder(strings.NewReader(one.text))
		d.UseNumber()
		for {
			token, err := d.Token()
			if err != nil {
				break
			}
			*one.to = append(*one.to, token)
		}
	}
	return slices.Equal(x, y)
}

func TestErrors(t *testing.T) {
	for _, c := range []struct{ name, query, data, message string }{
		{"beside data", `{a{x} bad broken}`, `{"a":{"x":1},"bad":null,"broken":null}`, "it is bad: Mend it.|the server failed on this request; its log says why"},
		{"an unknown root", `{nope a{x}}`, `{"nope":null,"a":{"x":1}}`, "the operation nope is not supported"},
		{"a value that is none", `{odd}`, `{"odd":null}`, "the server failed"},
		{"no document", ``, "", "has no operation"},
		{"no GraphQL", `{a{x}`, "", "cannot be read"},
		{"bytes", "\x00\xff", "", "cannot be read"},
		{"two operations and no name", `query A {a{x}} query B {a{y}}`, "", "has no operation"},
		{"a subscription", `subscription {a{x}}`, "", "subscriptions"},
		{"a fragment that is missing", `{a{...F}}`, `{"a":null}`, `no fragment "F"`},
		{"a fragment in itself", `{a{...F}} fragment F on A {x ...F}`, `{"a":null}`, "names itself"},
		{"two that name each other", `{a{...F}} fragment F on A {...G} fragment G on A {...F}`, `{"a":null}`, "names itself"},
		{"arguments too deep", `{echo(x:` + strings.Repeat("[", 50) + strings.Repeat("]", 50) + `)}`, `{"echo":null}`, "deeper"},
		{"fields too deep", `{` + strings.Repeat("...{", 50) + "a" + strings.Repeat("}", 51), `null`, "deeper"},
		{"too many tokens", "{" + strings.Repeat("a ", maxTokens) + "}", "", "cannot be read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, problems := ask(t, c.query, "")
			for i, want := range strings.Split(c.message, "|") {
				if i >= len(problems) || !strings.Contains(problems[i], want) || strings.Contains(problems[i], "secret") {
					t.Errorf("%v, want %q", problems, want)
				}
			}
			if got != c.data {
				t.Errorf("%s, want %s", got, c.data)
			}
		})
	}
}

// Mutations run one by one, in the order of the document.
func TestMutationsInOrder(t *testing.T) {
	op, err := Parse(&Request{Query: `mutation M {z:do(what:"1"){done} a:do(what:"2"){done} ...F} fragment F on M {m:do(what:"3"){done}}`, Operation: "M"})
	if err != nil || !op.Mutation || op.Name != "M" {
		t.Fatal(op, err)
	}
	var log []string
	data, problems, _ := op.Run(t.Context(), world(&log))
	if string(data) != `{"z":{"done":"1"},"a":{"done":"2"},"m":{"done":"3"}}` || len(problems) > 0 || !slices.Equal(log, []string{"1", "2", "3"}) {
		t.Error(string(data), problems, log)
	}
}

func TestACancelledRequestStops(t *testing.T) {
	op, err := Parse(&Request{Query: `mutation {a:do(what:"1"){done} b:do(what:"2"){done}}`})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var log []string
	root := world(&log)
	do := root["do"].(Resolver) //nolint:forcetypeassert // it is one
	root["do"] = Resolver(func(ctx context.Context, args Args) (Field, error) { cancel(); return do(ctx, args) })
	data, problems, _ := op.Run(ctx, root)
	if len(log) != 1 || len(problems) != 1 || !strings.Contains(problems[0].Message, "too long") || !json.Valid(data) {
		t.Error(string(data), problems, log)
	}
}

func TestCalls(t *testing.T) {
	var q strings.Builder
	for i := range maxCalls + 50 {
		fmt.Fprintf(&q, "c%d:echo(i:%d) ", i, i)
	}
	data, problems := ask(t, "{"+q.String()+"}", "")
	if strings.Count(data, "null") != 50 || len(problems) != maxProblems || !strings.Contains(problems[0], "with arguments") {
		t.Error(data, problems)
	}
}

// hostile are documents of about a size that ask for as much memory or time as they can.
func hostile(size int) map[string]string {
	numbered := func(format string) string {
		var b strings.Builder
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(&b, format, i)
		}
		return b.String()
	}
	var folds, chain strings.Builder
	for i := range 30 {
		fmt.Fprintf(&folds, "fragment F%d on A {...F%d ... on A {...F%d}}\n", i, i+1, i+1)
	}
	for i := range 3000 {
		fmt.Fprintf(&chain, "fragment G%d on A {x}\n", i)
	}
	return map[string]string{
		"braces":        strings.Repeat("{", size),
		"nested":        strings.Repeat("{a", size/2),
		"fields":        "{" + strings.Repeat("a ", size/2) + "}",
		"aliases":       "{" + numbered("a%d:a{x} ") + "}",
		"few fields":    "{" + strings.Repeat("a{x} ", 4_000) + "}",
		"lists":         "{echo(x:" + strings.Repeat("[", size),
		"values":        "{echo(x:[" + strings.Repeat("1 ", size/2) + "])}",
		"a long name":   "{list{" + strings.Repeat("n", size) + ":name}}",
		"a long text":   `{echo(s:"` + strings.Repeat(`\n`, size/2) + `")}`,
		"a comment":     "#" + strings.Repeat("c", size) + "\n{a{x}}",
		"comments":      strings.Repeat("#\n", size/2) + "{a{x}}",
		"spaces":        strings.Repeat(" ,\n", size/3) + "{a{x}}",
		"variables":     "query(" + numbered("$v%d:Int=1 ") + "){a{x}}",
		"directives":    "{a{x" + strings.Repeat("@include(if:true)", size/17) + "}}",
		"fragments":     "{a{...F0}} " + folds.String() + "fragment F30 on A {x}",
		"many folds":    "{a{" + strings.Repeat("...F24 ", 4_000) + "}} " + folds.String() + "fragment F30 on A {x}",
		"last fragment": "{a{" + strings.Repeat("...G2999 ", 2_000) + "}} " + chain.String(),
	}
}

// A document is refused or answered with little memory and time, however long it is.
func TestHostileDocuments(t *testing.T) {
	if cost.Raced {
		t.Skip("memory is not measured under the race detector")
	}
	const size = 4 << 20
	for name, q := range hostile(size) {
		t.Run(name, func(t *testing.T) {
			var took time.Duration
			bytes := cost.Allocated(func() {
				took = cost.Time(func() { ask(t, q, "") })
			}) / 3
			t.Logf("%d kB of memory, %v", bytes>>10, took)
			if most := uint64(6*len(q) + 32<<20); bytes > most {
				t.Errorf("%d MB are allocated", bytes>>20)
			}
			if took > 5*time.Second {
				t.Errorf("%v of a processor", took)
			}
		})
	}
}

// An answer ends where it is too long.
func TestALongAnswer(t *testing.T) {
	name := strings.Repeat("n", 1<<20)
	many := make([]Object, 1000)
	for i := range many {
		many[i] = Object{"x": i}
	}
	op, err := Parse(&Request{Query: "{list{" + name + ":x}}"})
	if err != nil {
		t.Fatal(err)
	}
	data, problems, _ := op.Run(t.Context(), Object{"list": many})
	if len(data) > maxAnswer+4<<20 || len(problems) != 1 || !strings.Contains(problems[0].Message, "longer than") || !json.Valid(data) {
		t.Error(len(data), problems)
	}
}

func FuzzDocument(f *testing.F) {
	for _, q := range []string{`{a{x}}`, `query Q($t:Boolean=true){a{x@skip(if:$t) ...F}} fragment F on A {in{deep}}`, `mutation{do(what:"x"){done}}`, `{echo(i:[1,{a:$b}])}`, "{a{...F}} fragment F on A {...F}"} {
		f.Add(q, `{"t":false}`)
	}
	f.Fuzz(func(t *testing.T, q, variables string) {
		var parsed map[string]any
		if json.Unmarshal([]byte(variables), &parsed) != nil {
			variables = ""
		}
		ask(t, q, variables)
	})
}

func TestArgs(t *testing.T) {
	a := Args{"n": json.Number("3"), "f": json.Number("2.9"), "s": "4", "big": json.Number("1e300"), "low": json.Number("-1e300"), "t": "x", "l": []any{"a", 1, "b"}, "b": true, "o": map[string]any{"k": "v"}}
	for name, want := range map[string]int64{"n": 3, "f": 2, "s": 4, "big": 1<<63 - 1, "low": -1 << 63, "absent": 9} {
		if got, err := a.Int(name, 9); err != nil || got != want {
			t.Errorf("%s: %d, %v", name, got, err)
		}
	}
	for _, name := range []string{"t", "l", "b", "o"} {
		if _, err := a.Int(name, 9); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if a.Text("n") != "" || a.Text("t") != "x" || a.Bool("t") || !a.Bool("b") || a.Has("absent") || !a.Has("b") {
		t.Error("texts and booleans")
	}
	if got := a.Texts("l"); !slices.Equal(got, []string{"a", "b"}) || len(a.Texts("t")) != 0 || a.Inner("o").Text("k") != "v" || a.Inner("l").Text("k") != "" {
		t.Error(got)
	}
}
