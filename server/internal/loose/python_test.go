package loose

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// question is one for testdata/reader.py.
type question struct {
	Do    string `json:"do"`
	Text  string `json:"text"`
	Other string `json:"other,omitempty"`
}

// python answers with the second reader of these texts: the one whose writer they have.
func python(t *testing.T, asked []question) []string {
	t.Helper()
	name, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("there is no python3 to compare with")
	}
	var in bytes.Buffer
	for _, q := range asked {
		if err := json.NewEncoder(&in).Encode(q); err != nil {
			t.Fatal(err)
		}
	}
	c := exec.CommandContext(t.Context(), name, "testdata/reader.py")
	c.Stdin, c.Stderr = &in, t.Output()
	out, err := c.Output()
	if err != nil {
		t.Fatal(err)
	}
	var answers []string
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		answers = append(answers, lines.Text())
	}
	if len(answers) != len(asked) {
		t.Fatalf("%d answers to %d questions", len(answers), len(asked))
	}
	return answers
}

func TestReadsAsPython(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	var asked []question
	var texts [][]byte
	for range 6000 {
		text := []byte(randomText(r, 4))
		if r.IntN(2) == 0 {
			text = damage(r, text)
		}
		texts = append(texts, text)
		asked = append(asked, question{Do: "read", Text: hex.EncodeToString(text)})
	}
	good := 0
	for i, want := range python(t, asked) {
		got := "wrong"
		if err := Check(texts[i]); err == nil {
			got = shown(t, bytes.Trim(texts[i], " \t\r\n"))
			good++
		}
		if got != want {
			t.Errorf("%q is %s, Python says %s (%v)", texts[i], got, want, Check(texts[i]))
		}
	}
	if good < 3000 || good > 5500 {
		t.Errorf("%d of %d texts were good: the test sees one side only", good, len(texts))
	}
}

func TestEqualAsPython(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(3, 4))
	var asked []question
	var pairs [][2][]byte
	for range 6000 {
		a := randomText(r, 3)
		b := a
		switch r.IntN(4) {
		case 0:
			b = randomText(r, 1)
			if r.IntN(2) == 0 {
				a = randomText(r, 1)
			}
		case 1:
			b = string(damage(r, []byte(a)))
		case 2:
			b = strings.NewReplacer(`"a"`, `"\u0061"`, "1", "1.0", ",", " ,\n", "0", "0e0").Replace(a)
		}
		if Check([]byte(a)) != nil || Check([]byte(b)) != nil {
			continue
		}
		pairs = append(pairs, [2][]byte{[]byte(a), []byte(b)})
		asked = append(asked, question{Do: "same", Text: hex.EncodeToString([]byte(a)), Other: hex.EncodeToString([]byte(b))})
	}
	same := 0
	for i, want := range python(t, asked) {
		got := Equal(pairs[i][0], pairs[i][1])
		if got {
			same++
		}
		if strconv.FormatBool(got) != strings.ToLower(want) {
			t.Errorf("%q and %q are equal: %t, Python says %s", pairs[i][0], pairs[i][1], got, want)
		}
	}
	if same < 1000 || same > len(pairs)-500 {
		t.Errorf("%d of %d pairs were equal: the test sees one side only", same, len(pairs))
	}
}

func TestNumbersComeBackInPython(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	var asked []question
	for i := range 6000 {
		f := math.Float64frombits(r.Uint64())
		switch i % 4 {
		case 1:
			f = float64(r.IntN(1<<20)-1<<19) / 8
		case 2:
			f = math.Ldexp(float64(r.Int64()), r.IntN(20))
		case 3:
			f = []float64{0, math.Copysign(0, -1), math.NaN(), math.Inf(1), math.Inf(-1), 1e21, -1e21, 1e-6, 1e-7, math.MaxFloat64, 5e-324, 1 << 53, 1 << 60, 1 << 63, 1 << 64, 1e20}[r.IntN(16)]
		}
		text := string(AppendNumber(nil, f))
		asked = append(asked, question{Do: "number", Text: text, Other: fmt.Sprintf("%016x", math.Float64bits(f))})
		if back, exact := Float([]byte(text)); !exact || back != f && f == f {
			t.Errorf("%s is %v, want %v", text, back, f)
		}
	}
	for i, answer := range python(t, asked) {
		if answer != "True" {
			t.Errorf("Python reads %s as another number than %s", asked[i].Text, asked[i].Other)
		}
	}
}

// shown writes a value as reader.py does.
func shown(t *testing.T, v []byte) string {
	t.Helper()
	switch KindOf(v) {
	case Null:
		return "n"
	case Bool:
		return string(v[:1])
	case Number:
		return shownNumber(v)
	case String:
		inner := identity(v)
		return "s" + hex.EncodeToString(inner[1:len(inner)-1])
	case Array:
		s := "["
		for e, err := range Elements(v) {
			if err != nil {
				t.Errorf("%q: %v", v, err)
			}
			s += shown(t, e) + ","
		}
		return s + "]"
	}
	last := map[string]string{}
	for m, err := range Members(v) {
		if err != nil {
			t.Errorf("%q: %v", v, err)
		}
		last[shown(t, m.RawKey)] = shown(t, m.Value)
	}
	var parts []string
	for name, v := range last {
		parts = append(parts, name+":"+v+",")
	}
	slices.Sort(parts)
	return "{" + strings.Join(parts, "") + "}"
}

func shownNumber(v []byte) string {
	f, exact := Float(v)
	switch {
	case whole(v) && exact && math.Abs(f) < 1e18:
		return fmt.Sprintf("i%d", int64(f))
	case whole(v):
		return "i" + string(v)
	case f != f:
		return "dnan"
	}
	return fmt.Sprintf("d%016x", math.Float64bits(f))
}

func randomText(r *rand.Rand, depth int) string {
	kinds := 6
	if depth == 0 {
		kinds = 4
	}
	pad := []string{"", "", "", " ", "\n\t"}[r.IntN(5)]
	switch r.IntN(kinds) {
	case 0:
		return pad + []string{"null", "true", "false", "NaN", "Infinity", "-Infinity"}[r.IntN(6)] + pad
	case 1, 2:
		return pad + randomNumber(r) + pad
	case 3:
		return pad + randomString(r) + pad
	case 4:
		var parts []string
		for range r.IntN(4) {
			parts = append(parts, randomText(r, depth-1))
		}
		return pad + "[" + strings.Join(parts, ",") + "]" + pad
	}
	var parts []string
	for range r.IntN(4) {
		parts = append(parts, pad+randomString(r)+pad+":"+randomText(r, depth-1))
	}
	return pad + "{" + strings.Join(parts, ",") + "}" + pad
}

func randomNumber(r *rand.Rand) string {
	return []string{
		"0", "-0", "1", "0.0", "-0.0", "1.0", "1e0", "1E+2", "100", "9007199254740992", "9007199254740993", "9007199254740992.0", "9223372036854775807", "9223372036854775808",
		"18446744073709551616", "18446744073709551617", "1.8446744073709551616e19", "1e400", "-1e400", "1e-400", "0.1", "0.10", "123456789012345678901234567890", "1" + strings.Repeat("0", 308), "1" + strings.Repeat("0", 309),
		strconv.Itoa(r.IntN(1000)), strconv.FormatFloat(r.NormFloat64(), 'g', -1, 64), strconv.FormatInt(r.Int64(), 10),
	}[r.IntN(28)]
}

func randomString(r *rand.Rand) string {
	s := ""
	for range r.IntN(4) {
		s += []string{"a", "b", "a", `\u0061`, `\n`, `\"`, `\\`, `\/`, "é", "😀", `\ud83d\ude00`, `\ud83d`, `\ude00`, `\uFFFF`, "NaN", "{", "]", ":", ",", " ", "\u2028", "\x7f"}[r.IntN(22)]
	}
	return `"` + s + `"`
}

// damage changes, takes away or doubles a piece of a text.
func damage(r *rand.Rand, text []byte) []byte {
	text = bytes.Clone(text)
	for range 1 + r.IntN(2) {
		i := r.IntN(len(text) + 1)
		j := min(len(text), i+r.IntN(3))
		switch r.IntN(4) {
		case 0:
			text = slices.Delete(text, i, j)
		case 1:
			text = slices.Insert(text, i, text[i:j]...)
		case 2:
			text = slices.Insert(text, i, []byte(`"\{}[]:,0123456789+-.eEuNaIfnty ` + "\n\v\x00\x80\xff\xc3")[r.IntN(38)])
		default:
			if i < len(text) {
				text[i] = byte(r.UintN(256))
			}
		}
		if len(text) == 0 {
			text = []byte(" ")
		}
	}
	return text
}
