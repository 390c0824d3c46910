package loose

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, good := range []string{
		"NaN", " Infinity ", "-Infinity\n", "null", "true", "false", "0", "-0", "-0.5e+10", "1E5", `""`, `"é\u00e9\ud800"`, "[]", "{}", " [ ] ", "{ }",
		`{"a":[NaN,-Infinity,Infinity],"a":{"b":null}}`, "\t\r\n[1 , 2]", strings.Repeat("[", 64) + strings.Repeat("]", 64),
	} {
		if err := Check([]byte(good)); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for bad, offset := range map[string]int{
		"": 0, " ": 1, "nan": 0, "NaN1": 3, "-NaN": 1, "+1": 0, "01": 1, "1.": 2, ".5": 0, "1e": 2, "1e+": 3, "-": 1, "Infinity1": 8, "-Inf": 0, "--1": 1,
		`"`: 1, `"a`: 2, "\"\n\"": 1, `"\x"`: 1, `"\u12g4"`: 1, `"\u12`: 5, `"\`: 2, "\"\xff\"": 1, "\"\xed\xa0\x80\"": 1, "[": 1, "[1": 2, "[1,": 3, "[1,]": 3, "[,1]": 1, "[1 2]": 3, "]": 0,
		"{": 1, `{"a"`: 4, `{"a":`: 5, `{"a" 1}`: 5, `{"a":1`: 6, `{"a":1,}`: 7, `{a:1}`: 1, `{1:1}`: 1, `{"a":1]`: 6, "1 2": 2, "{}{}": 2, "\ufeff1": 0, "nul": 0, "\v1": 0, "'a'": 0,
		strings.Repeat("[", 65) + strings.Repeat("]", 65): 64, strings.Repeat("[", 10_000_000): 64, strings.Repeat(`{"a":`, 65) + "1": 320,
	} {
		err := Check([]byte(bad))
		var wrong *Error
		if !errors.As(err, &wrong) || wrong.Offset != offset {
			t.Errorf("%.80q: %v, want a fault at %d", bad, err, offset)
		}
	}
	for c := range 256 {
		for at := range 20 { // within words of eight bytes and behind them
			text := []byte(`"` + strings.Repeat("a", 20) + `"`)
			text[1+at] = byte(c)
			if err, good := Check(text), c >= ' ' && c < 0x80 && c != '"' && c != '\\'; good != (err == nil) && !(c == '\\' && json.Valid(text)) {
				t.Errorf("%q: %v", text, err)
			}
		}
	}
	if err := CheckDepth([]byte("[[1]]"), 1); err == nil || err.Error() != "wrong JSON at byte 1: arrays and objects are nested deeper than 1" {
		t.Error(err)
	}
}

func TestMembers(t *testing.T) {
	t.Parallel()
	var got []string
	for m, err := range Members([]byte(` { "a" : 1 , "\u0062\n":[ 1 ] ,"\ud800": "x"} `)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprintf("%s|%s|%t|%s", m.Key, m.RawKey, m.Faithful, m.Value))
	}
	if want := []string{`a|"a"|true|1`, "b\n|\"\\u0062\\n\"|true|[ 1 ]", `�|"\ud800"|false|"x"`}; strings.Join(got, ";") != strings.Join(want, ";") {
		t.Errorf("got %q, want %q", got, want)
	}
	for text, want := range map[string]string{
		`{}`: "", ` { } `: "", `{"a":1,"b":2}`: "12", `{"a":1,"b":}`: "1!", `{"a":1`: "1!", `{"a":1}x`: "1!", `{}x`: "!", `[]`: "!", ``: "!", `{"a":1,}`: "1!",
	} {
		got := ""
		for m, err := range Members([]byte(text)) {
			if got += string(m.Value); err != nil {
				got += "!"
			}
		}
		if got != want {
			t.Errorf("members of %s are %s, want %s", text, got, want)
		}
	}
	for text, want := range map[string]string{`[]`: "", ` [ ] `: "", `[1, 2 ]`: "12", `[1,]`: "1!", `[1`: "1!", `[1]x`: "1!", `[]x`: "!", `{}`: "!"} {
		got := ""
		for v, err := range Elements([]byte(text)) {
			if got += string(v); err != nil {
				got += "!"
			}
		}
		if got != want {
			t.Errorf("elements of %s are %s, want %s", text, got, want)
		}
	}
	for _, depth := range []int{MaxDepth, MaxDepth + 1} {
		inner := strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1)
		for _, err := range Members([]byte(`{"a":` + inner + `}`)) {
			if (err == nil) != (depth == MaxDepth) {
				t.Errorf("an object of depth %d: %v", depth, err)
			}
		}
		for _, err := range Elements([]byte(`[` + inner + `]`)) {
			if (err == nil) != (depth == MaxDepth) {
				t.Errorf("an array of depth %d: %v", depth, err)
			}
		}
	}
	for range Members([]byte(`{"a":1,"b":2}`)) {
		break
	}
	for range Elements([]byte(`[1,2]`)) {
		break
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	text := []byte(` {"a":{"b":1},"x":"}\"{","a" : { "c":[{"d":"]"},2], "e\n": {"f" : NaN } } , "\u00e9":true,"":0} `)
	for path, want := range map[string]string{
		"x": `"}\"{"`, "a.b": "", "a.c": `[{"d":"]"},2]`, "a.e\n.f": "NaN", "é": "true", "": "0", `e\n`: "", "a.c.d": "", "x.y": "", "nothing": "", `\u00e9`: "",
	} {
		got, ok := Get(text, strings.Split(path, ".")...)
		if string(got) != want || ok != (want != "") {
			t.Errorf("%q is %q, want %q", path, got, want)
		}
	}
	if got, ok := Get(text); !ok || len(got) != len(text)-2 {
		t.Error("no path does not give the whole value")
	}
}

func TestFloat(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{
		"0": 0, "-0": 0, "-0.0": math.Copysign(0, -1), "1": 1, "9007199254740992": 1 << 53, "-9007199254740993": math.NaN(), "9007199254740994": 1<<53 + 2, "1e5": 1e5, "0.1": 0.1,
		"1152921504606846976": 1 << 60, "1152921504606846977": math.NaN(), "36893488147419103232": 1 << 65, "36893488147419103233": math.NaN(), "1e400": math.NaN(), "1e-400": 0,
		"1" + strings.Repeat("0", 400): math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "x": math.NaN(), `"1"`: math.NaN(), "0x10": math.NaN(), "1_0": math.NaN(), "01": math.NaN(), "-01": math.NaN(), "00": math.NaN(), "": math.NaN(), "-": math.NaN(), "1 ": math.NaN(),
	} {
		f, exact := Float([]byte(text))
		if exact != (want == want) || exact && math.Float64bits(f) != math.Float64bits(want) {
			t.Errorf("%s is %v (%t), want %v", text, f, exact, want)
		}
	}
	if f, exact := Float([]byte("NaN")); f == f || !exact {
		t.Error("NaN is not exact")
	}
}

func TestAppendNumber(t *testing.T) {
	t.Parallel()
	for want, f := range map[string]float64{
		"0": 0, "-0.0": math.Copysign(0, -1), "1": 1, "-5": -5, "0.1": 0.1, "1152921504606846976": 1 << 60, "100000000000000000000": 1e20, "1e+21": 1e21, "1e-7": 1e-7, "0.000001": 1e-6,
		"5e-324": 5e-324, "1.7976931348623157e+308": math.MaxFloat64, "NaN": math.NaN(), "Infinity": math.Inf(1), "-Infinity": math.Inf(-1), "1795226412.9381752": 1.7952264129381752e+09, "1.5e-10": 1.5e-10,
	} {
		if got := AppendNumber([]byte("x"), f); string(got) != "x"+want {
			t.Errorf("%v is %s, want %s", f, got, want)
		}
	}
}

func TestText(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`"a"`: "a", `"\"\\\/\b\f\n\r\t"`: "\"\\/\b\f\n\r\t", `"\u00e9\uD83D\ude00"`: "é😀", `"\ud800"`: "!�", `"\ud800\ud800\udc00"`: "!�𐀀", `"\udc00x"`: "!�x", `"\ufffd"`: "�", "\"\xff\"": "!\xff", `1`: "!", `"`: "!", ``: "!",
		`"\ud800\n"`: "!�\n",
	} {
		got, faithful := Text([]byte(text))
		if !faithful {
			got = "!" + got
		}
		if got != want {
			t.Errorf("%s is %q, want %q", text, got, want)
		}
	}
	for _, s := range []string{"", "a\"\\\n\r\t\x00\x1f\u2028😀é"} {
		quoted := AppendText(nil, s)
		if got, faithful := Text(quoted); got != s || !faithful || !json.Valid(quoted) {
			t.Errorf("%q came back as %q", s, got)
		}
	}
}

func TestRewrites(t *testing.T) {
	t.Parallel()
	text := ` { "a NaN" : [ NaN , -Infinity,Infinity ], "b": "\" Infinity", "c":-1.5e3 ,"d":null} `
	if got := string(Strict(nil, []byte(text))); got != ` { "a NaN" : [ "NaN" , "-Infinity","Infinity" ], "b": "\" Infinity", "c":-1.5e3 ,"d":null} ` || !json.Valid([]byte(got)) {
		t.Errorf("strict: %s", got)
	}
	if got := string(Compact(nil, []byte(text))); got != `{"a NaN":[NaN,-Infinity,Infinity],"b":"\" Infinity","c":-1.5e3,"d":null}` {
		t.Errorf("compact: %s", got)
	}
	if got := string(Spaced(nil, []byte(`{"\u00e9":[1,2 ,"a,b:\"\n"], "x":"\ud800","y":{},"z":[ ]}`))); got != `{"é": [1, 2, "a,b:\"\n"], "x": "\ud800", "y": {}, "z": []}` {
		t.Errorf("spaced: %s", got)
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	for _, same := range []string{
		"1|1.0", "1|1e0", "-0|0", "-0.0|0", "NaN|NaN", "100|1e2", `"a"|"\u0061"`, `{"a":1,"b":2}|{"b":2,"a":1}`, `{"a":1,"a":2}|{"a":2}`, "[ 1 ,2]|[1,2]", "{}|{ }", "[]|[ ]", `"\ud800"|"\uD800"`,
		"1e400|Infinity", "9007199254740993|9007199254740993", "9007199254740992|9007199254740992.0", `{"\u0061":1}|{"a":1}`,
	} {
		a, b, _ := strings.Cut(same, "|")
		if !Equal([]byte(a), []byte(b)) || !Equal([]byte(b), []byte(a)) {
			t.Errorf("%s and %s differ", a, b)
		}
	}
	for _, other := range []string{
		"1|2", "1|true", "0|null", "NaN|1", "Infinity|-Infinity", `"NaN"|NaN`, "9007199254740993|9007199254740992", "9007199254740993|9007199254740992.0", `"\ud800"|"\ud801"`, `"\ud800"|"\ufffd"`,
		"[1]|[1,2]", "[1,2]|[2,1]", `{"a":1}|{"a":1,"b":1}`, `{"a":1}|{"b":1}`, "[]|{}", `""|null`, "true|false", `{"a":1,"a":2}|{"a":1}`, "[1]|[]", "|",
	} {
		a, b, _ := strings.Cut(other, "|")
		if Equal([]byte(a), []byte(b)) || Equal([]byte(b), []byte(a)) {
			t.Errorf("%s and %s are equal", a, b)
		}
	}
}

func TestCompareNumbers(t *testing.T) {
	t.Parallel()
	order := []string{"NaN", "-Infinity", "-1" + strings.Repeat("0", 400), "-18446744073709551617", "-18446744073709551616", "-9007199254740993", "-9007199254740992", "-1.5", "-1", "0", "0.1", "1", "9007199254740992", "9007199254740993", "9007199254740994", "18446744073709551616", "18446744073709551617", "1e300", "1" + strings.Repeat("0", 400), "2" + strings.Repeat("0", 400), "Infinity"}
	for i, a := range order {
		for j, b := range order {
			if got := CompareNumbers([]byte(a), []byte(b)); got != cmp.Compare(i, j) {
				t.Errorf("%.30s against %.30s is %d", a, b, got)
			}
		}
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	got, err := Decode([]byte(` {"a":[NaN,-Infinity,"NaN",1.50,true,null,{}],"b":"x\"NaN", "b":[]} `), 5)
	if err != nil || fmt.Sprint(got) != "map[a:[NaN -Inf NaN 1.50 true <nil> map[]] b:[]]" {
		t.Errorf("%v (%v)", got, err)
	}
	if _, err := Decode([]byte("[1,"), 5); err == nil {
		t.Error("half an array was decoded")
	}
}

// TestNothingIsAllocated holds for what every row and every filter does.
func TestNothingIsAllocated(t *testing.T) {
	text := []byte(`{"loss":0.123456789,"name":"résumé","nested":{"list":[1,2,NaN],"x":{"y":1}},"n":12345678901}`)
	want := []byte("[1,2,NaN]")
	if n := testing.AllocsPerRun(100, func() {
		if Check(text) != nil {
			t.Fail()
		}
		if _, ok := Get(text, "nested", "x", "y"); !ok {
			t.Fail()
		}
		sum := 0.0
		for m, err := range Members(text) {
			if f, exact := Float(m.Value); exact && err == nil {
				sum += f + float64(len(m.Key))
			}
		}
		list, _ := Get(text, "nested", "list")
		for v := range Elements(list) {
			sum += float64(KindOf(v))
		}
		if sum == 0 || !Equal(list, want) {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzCheck holds the scan against encoding/json, and every other function
// against what the text says and against texts that nothing has checked.
func FuzzCheck(f *testing.F) {
	for _, seed := range []string{`{"a":[1,2.5e3,"x\n\ud83d\ude00"],"b":null}`, "[[]]", `"\u00"`, "1.", "NaN", `{"a":NaN,"a":-Infinity}`, "\"\xff\"", `{"a":{"b":{"":[{}]}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		err := CheckDepth(b, 10_000)
		if valid := json.Valid(b) && utf8.Valid(b); valid != (err == nil) && !(err == nil && hasWord(b)) {
			t.Fatalf("%q: %v, encoding/json says %t", b, err, valid)
		}
		Get(b, "a", "b")
		for range Items(b) {
			continue
		}
		Float(b)
		Text(b)
		Equal(b, b)
		Equal(b, bytes.ToLower(b))
		strict, compact, spaced := Strict(nil, b), Compact(nil, b), Spaced(nil, b)
		if Check(b) != nil {
			return
		}
		if !Equal(spaced, b) || !bytes.Equal(Compact(nil, spaced), Compact(nil, Spaced(nil, compact))) {
			t.Fatalf("%q is %q with spaces", b, spaced)
		}
		if !json.Valid(strict) || !Equal(b, compact) || Check(compact) != nil || !Equal(b, b) || len(compact) > len(b) {
			t.Fatalf("%q is %q in strict JSON and %q compact", b, strict, compact)
		}
		walk(t, bytes.TrimSpace(b))
	})
}

// walk reads a text with Members and Elements and compares what Get finds.
func walk(t *testing.T, b []byte) {
	t.Helper()
	last := map[string][]byte{}
	switch KindOf(b) {
	case Object:
		for m, err := range Members(b) {
			if err != nil || Check(m.Value) != nil {
				t.Fatalf("%q: %v", b, err)
			}
			if m.Faithful {
				last[string(m.Key)] = m.Value
			}
			walk(t, m.Value)
		}
	case Array:
		var items [][]byte
		for v := range Items(b) {
			items = append(items, v)
		}
		for v, err := range Elements(b) {
			if err != nil || len(items) == 0 || !bytes.Equal(items[0], v) {
				t.Fatalf("%q: %q against %q (%v)", b, v, items, err)
			}
			items = items[1:]
			walk(t, v)
		}
		if len(items) > 0 {
			t.Fatalf("%q has more items: %q", b, items)
		}
	}
	for name, v := range last {
		if got, ok := Get(b, name); !ok || !bytes.Equal(got, v) {
			t.Fatalf("%q of %q is %q, want %q", name, b, got, v)
		}
	}
}

func hasWord(b []byte) bool {
	return bytes.Contains(b, []byte("NaN")) || bytes.Contains(b, []byte("Infinity"))
}
