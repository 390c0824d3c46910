package state

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// CheckPayload refuses JSON that names a member twice: one program reads the first
// value and another one the last, so its signer says two things with one signature.
// What is no JSON has no names.
func CheckPayload(payload []byte) error {
	if !json.Valid(payload) {
		return nil
	}
	if name, twice := namedTwice(payload); twice {
		return refuse("the payload names %q twice in one object: nobody can tell which value is meant", model.Clip(name))
	}
	return nil
}

// namedTwice finds a name that stands twice in one object of valid JSON.
func namedTwice(text []byte) (string, bool) {
	var open []map[string]struct{} // of the objects and lists around; nil until it has a name
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '{', '[':
			open = append(open, nil)
		case '}', ']':
			open = open[:len(open)-1]
		case '"':
			start := i
			for i++; text[i] != '"'; i++ {
				if text[i] == '\\' {
					i++
				}
			}
			if rest := bytes.TrimLeft(text[i+1:], " \t\r\n"); len(rest) == 0 || rest[0] != ':' {
				continue // a value
			}
			name := unquote(text[start : i+1])
			names := &open[len(open)-1]
			if _, twice := (*names)[name]; twice {
				return name, true
			}
			if *names == nil {
				*names = map[string]struct{}{}
			}
			(*names)[name] = struct{}{}
		}
	}
	return "", false
}

// unquote is the text of a JSON string, read as encoding/json does.
func unquote(quoted []byte) (text string) {
	if bytes.IndexByte(quoted, '\\') < 0 && utf8.Valid(quoted) {
		return string(quoted[1 : len(quoted)-1])
	}
	_ = json.Unmarshal(quoted, &text) // it is valid
	return text
}

// contradiction names the first statement that two payloads make differently, or that
// only one of them makes; "" when there is none. What is no JSON object, or none that
// can be read in one way only, contradicts when its bytes differ.
func contradiction(sameType bool, x, y []byte) string {
	if sameType && bytes.Equal(x, y) {
		return ""
	}
	a, okA := object(x)
	b, okB := object(y)
	if !sameType || !okA || !okB {
		return "the payload"
	}
	path := differs(within{}, a, b)
	slices.Reverse(path)
	return model.Clip(strings.Join(path, "."))
}

func object(raw []byte) (m map[string]any, ok bool) {
	if !utf8.Valid(raw) || !json.Valid(raw) || CheckPayload(raw) != nil {
		return nil, false
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	return m, d.Decode(&m) == nil && m != nil
}

// within is how deep a value stands in a payload, and under which name of it.
type within struct {
	depth int
	name  string
}

func (w within) under(name string) within {
	if w.depth > 0 {
		name = w.name
	}
	return within{w.depth + 1, name}
}

// ofMachine names what two honest machines with one hotkey report differently, at its
// own place only: hardware, settings, keys, times. All else is a statement.
func (w within) ofMachine(name string) bool {
	switch w.depth {
	case 0:
		return slices.Contains([]string{"specs", "config", "version", "signature", "recipient"}, name)
	case 2:
		return w.name == "stats" && name == "created_at"
	}
	return false
}

// differs is the path of the first value that differs, from its end, nil for none.
func differs(at within, a, b any) []string {
	equal := false
	switch x := a.(type) {
	case map[string]any:
		if y, ok := b.(map[string]any); ok {
			return differsIn(at, x, y)
		}
	case []any:
		if y, ok := b.([]any); ok && len(x) == len(y) {
			return differsAt(at, x, y)
		}
	case json.Number:
		y, ok := b.(json.Number)
		equal = ok && decimal(x) == decimal(y)
	default: // a text, true, false or null
		equal = reflect.DeepEqual(a, b)
	}
	if equal {
		return nil
	}
	return []string{}
}

func differsAt(at within, x, y []any) []string {
	for i := range x {
		if found := differs(at.under(strconv.Itoa(i)), x[i], y[i]); found != nil {
			return append(found, strconv.Itoa(i))
		}
	}
	return nil
}

func differsIn(at within, x, y map[string]any) []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(x)), maps.Keys(y))
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		if at.ofMachine(name) {
			continue
		}
		one, inX := x[name]
		other, inY := y[name]
		if inX != inY {
			return []string{name}
		}
		if found := differs(at.under(name), one, other); found != nil {
			return append(found, name)
		}
	}
	return nil
}

// decimal is one text for each value: 1, 1.0 and 10e-1 are equal. A number whose
// exponent nobody can read is only equal to its own text.
func decimal(n json.Number) string {
	digits, exponent, _ := strings.Cut(strings.ToLower(string(n)), "e")
	shift, err := strconv.ParseInt(cmp.Or(exponent, "0"), 10, 32)
	if err != nil {
		return string(n)
	}
	digits, minus := strings.CutPrefix(digits, "-")
	whole, fraction, _ := strings.Cut(digits, ".")
	digits = strings.TrimLeft(whole+fraction, "0")
	short := strings.TrimRight(digits, "0")
	if short == "" {
		return "0"
	}
	shift += int64(len(digits) - len(short) - len(fraction))
	if minus {
		short = "-" + short
	}
	return short + "e" + strconv.FormatInt(shift, 10)
}
