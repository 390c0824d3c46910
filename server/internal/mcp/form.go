package mcp

import (
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/kymogram/kymogram/internal/model"
)

// How long texts of an answer may be, in bytes.
const (
	longestText  = 500
	longestPoint = 1_000
)

// number is a number, or what JSON has no number for.
type number float64

// MarshalJSON writes a number, or "NaN", "Infinity" or "-Infinity".
func (n number) MarshalJSON() ([]byte, error) { return model.AppendJSONFloat(nil, float64(n)), nil }

// position is a place on an axis: a step, or a time.
type position struct {
	at        int64
	set, time bool // time: it was written as one
}

// UnmarshalJSON reads an integer, also as text, or a time of RFC 3339.
func (p *position) UnmarshalJSON(text []byte) error {
	var doc any
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("read a position: %w", err)
	}
	p.set = true
	switch v := doc.(type) {
	case float64:
		if p.at = int64(v); float64(p.at) == v && math.Abs(v) <= exact {
			return nil
		}
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			p.at, p.time = at.UnixNano(), true
			return nil
		}
		var err error
		if p.at, err = strconv.ParseInt(v, 10, 64); err == nil {
			return nil
		}
	}
	return model.Errorf(model.CodeInvalid, "%.60s is no position: give a whole number (as text beyond 2^53), or a time as 2026-01-31T12:00:00Z", text)
}

// or is the position, or another where none was given.
func (p position) or(other int64) int64 {
	if p.set {
		return p.at
	}
	return other
}

// exact is what a float64 holds every integer up to.
const exact = 1 << 53

// integer is exact: a text beyond 2^53.
func integer(v int64) any {
	if v > exact || v < -exact {
		return strconv.FormatInt(v, 10)
	}
	return v
}

// placed is a place on an axis as an answer has it: a time is a text.
func placed(axis model.Axis, at int64) any {
	if axis == model.AxisTime {
		return moment(at)
	}
	return integer(at)
}

func moment(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }

// second is a time to the second; "" for none.
func second(ns int64) string {
	if ns == 0 {
		return ""
	}
	return time.Unix(0, ns).UTC().Format(time.RFC3339)
}

// short cuts a text at a whole character and says so.
func short(text string, most int) string {
	if len(text) <= most {
		return strings.ToValidUTF8(text, "�")
	}
	cut := most
	for cut > 0 && !utf8.RuneStart(text[cut]) {
		cut--
	}
	return fmt.Sprintf("%s… (%d bytes in all)", strings.ToValidUTF8(text[:cut], "�"), len(text))
}

// shown is a value of a configuration.
func shown(value any) any {
	switch v := value.(type) {
	case string:
		return short(v, longestText)
	case []string:
		const most = 20
		out := make([]string, 0, min(len(v), most+1))
		for _, one := range v[:min(len(v), most)] {
			out = append(out, short(one, longestText/10))
		}
		if len(v) > most {
			out = append(out, fmt.Sprintf("… (%d in all)", len(v)))
		}
		return out
	case int64:
		return integer(v)
	case float64:
		return number(v)
	}
	return value
}

// limited is how many an answer has: what was asked for, within bounds.
func limited(asked, usual, most int) (int, error) {
	if asked < 0 {
		return 0, model.Errorf(model.CodeInvalid, "the limit is %d", asked).WithHint("give 1 to %d", most)
	}
	if asked == 0 {
		asked = usual
	}
	return min(asked, most), nil
}

// matcher reads a regular expression; name is the argument that has it.
func matcher(name, text string) (*regexp.Regexp, error) {
	match, err := regexp.Compile(text)
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "%s is no regular expression: %v", name, err)
	}
	return match, nil
}

// schemaOf describes a type to agents. Its only errors are of types that JSON has no form
// for, which no tool has.
func schemaOf[T any]() *jsonschema.Schema {
	schema, err := jsonschema.For[T](&jsonschema.ForOptions{TypeSchemas: map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[number](): {AnyOf: []*jsonschema.Schema{
			{Type: "number"}, {Enum: []any{"NaN", "Infinity", "-Infinity"}},
		}},
		reflect.TypeFor[position](): {Types: []string{"integer", "string"}},
	}})
	if err != nil {
		panic(err)
	}
	return schema
}
