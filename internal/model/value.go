package model

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
)

// ValueType is the type of an attribute.
type ValueType string

// The types of attributes.
const (
	TypeBool      ValueType = "bool"
	TypeInt       ValueType = "int64"
	TypeFloat     ValueType = "float64"
	TypeString    ValueType = "string"
	TypeStringSet ValueType = "string_set"
	TypeTime      ValueType = "time" // Unix nanoseconds in Int
)

// Value is one attribute value. In JSON it is {"type": …, "value": …}; an int64
// and a time are written as decimal strings inside it when they exceed 2^53, and
// a float that JSON lacks as "NaN", "Infinity" or "-Infinity".
type Value struct {
	Type  ValueType
	Bool  bool
	Int   int64
	Float float64
	Str   string
	Set   []string // sorted, unique
}

// BoolValue makes a bool attribute.
func BoolValue(v bool) *Value { return &Value{Type: TypeBool, Bool: v} }

// IntValue makes an int64 attribute.
func IntValue(v int64) *Value { return &Value{Type: TypeInt, Int: v} }

// FloatValue makes a float64 attribute.
func FloatValue(v float64) *Value { return &Value{Type: TypeFloat, Float: v} }

// StringValue makes a string attribute.
func StringValue(v string) *Value { return &Value{Type: TypeString, Str: v} }

// SetValue makes a string set; the strings are sorted and repeated ones dropped.
func SetValue(v []string) *Value {
	set := slices.Clone(v)
	slices.Sort(set)
	return &Value{Type: TypeStringSet, Set: slices.Compact(set)}
}

// TimeValue makes a time attribute from Unix nanoseconds.
func TimeValue(ns int64) *Value { return &Value{Type: TypeTime, Int: ns} }

type valueJSON struct {
	Type  ValueType       `json:"type"`
	Value json.RawMessage `json:"value"`
}

const maxSafeInt = 1 << 53

// MarshalJSON writes {"type": …, "value": …}.
func (v Value) MarshalJSON() ([]byte, error) {
	var inner any
	switch v.Type {
	case TypeBool:
		inner = v.Bool
	case TypeInt, TypeTime:
		if v.Int > maxSafeInt || v.Int < -maxSafeInt {
			inner = strconv.FormatInt(v.Int, 10)
		} else {
			inner = v.Int
		}
	case TypeFloat:
		inner = JSONFloat(v.Float)
	case TypeString:
		inner = v.Str
	case TypeStringSet:
		inner = append([]string{}, v.Set...)
	default:
		return nil, fmt.Errorf("unknown attribute type %q", v.Type)
	}
	raw, err := json.Marshal(inner)
	if err != nil {
		return nil, fmt.Errorf("marshal attribute: %w", err)
	}
	return json.Marshal(valueJSON{v.Type, raw})
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (v *Value) UnmarshalJSON(data []byte) error {
	var doc valueJSON
	if err := json.Unmarshal(data, &doc); err != nil {
		return fmt.Errorf("attribute: %w", err)
	}
	out := Value{Type: doc.Type}
	var err error
	switch doc.Type {
	case TypeBool:
		err = json.Unmarshal(doc.Value, &out.Bool)
	case TypeInt, TypeTime:
		raw := string(doc.Value)
		if unquoted, uerr := strconv.Unquote(raw); uerr == nil {
			raw = unquoted
		}
		out.Int, err = strconv.ParseInt(raw, 10, 64)
	case TypeFloat:
		var f JSONFloat
		err = json.Unmarshal(doc.Value, &f)
		out.Float = float64(f)
	case TypeString:
		err = json.Unmarshal(doc.Value, &out.Str)
	case TypeStringSet:
		err = json.Unmarshal(doc.Value, &out.Set)
		out.Set = SetValue(out.Set).Set
	default:
		err = fmt.Errorf("unknown type %q", doc.Type)
	}
	if err != nil {
		return fmt.Errorf("attribute: %w", err)
	}
	*v = out
	return nil
}

// JSONFloat is a float64 that JSON can carry: NaN, Infinity and -Infinity are
// strings, every other value the shortest number that reads back equal.
type JSONFloat float64

// MarshalJSON writes a number or one of the three strings.
func (f JSONFloat) MarshalJSON() ([]byte, error) { return AppendJSONFloat(nil, float64(f)), nil }

// AppendJSONFloat appends the JSON form of f to dst.
func AppendJSONFloat(dst []byte, f float64) []byte {
	switch {
	case math.IsNaN(f):
		return append(dst, `"NaN"`...)
	case math.IsInf(f, 1):
		return append(dst, `"Infinity"`...)
	case math.IsInf(f, -1):
		return append(dst, `"-Infinity"`...)
	}
	if f == 0 && math.Signbit(f) {
		return append(dst, "-0.0"...) // "-0" is an integer to many readers, and 0 to them
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// UnmarshalJSON reads a number or one of the three strings.
func (f *JSONFloat) UnmarshalJSON(data []byte) error {
	switch string(data) {
	case `"NaN"`:
		*f = JSONFloat(math.NaN())
	case `"Infinity"`:
		*f = JSONFloat(math.Inf(1))
	case `"-Infinity"`:
		*f = JSONFloat(math.Inf(-1))
	default:
		v, err := strconv.ParseFloat(string(data), 64)
		if err != nil {
			return fmt.Errorf("not a number: %s", data)
		}
		*f = JSONFloat(v)
	}
	return nil
}
