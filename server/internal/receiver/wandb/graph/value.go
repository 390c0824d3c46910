package graph

import (
	"encoding/json"
	"math"
	"strconv"

	"github.com/vektah/gqlparser/v2/ast"

	"github.com/kymogram/kymogram/internal/model"
)

// value is what a literal or a variable stands for: nil, bool, string, [json.Number],
// []any or map[string]any, as JSON with numbers kept as texts gives them.
func (o *Operation) value(v *ast.Value, depth int) (any, error) {
	if depth > maxDepth {
		return nil, errDepth()
	}
	switch v.Kind {
	case ast.Variable:
		return o.variables[v.Raw], nil
	case ast.IntValue, ast.FloatValue:
		return json.Number(v.Raw), nil
	case ast.StringValue, ast.BlockValue, ast.EnumValue:
		return v.Raw, nil
	case ast.BooleanValue:
		return v.Raw == "true", nil
	case ast.NullValue:
		return nil, nil
	case ast.ListValue:
		out := make([]any, len(v.Children))
		for i, c := range v.Children {
			var err error
			if out[i], err = o.value(c.Value, depth+1); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	out := make(map[string]any, len(v.Children))
	for _, c := range v.Children {
		inner, err := o.value(c.Value, depth+1)
		if err != nil {
			return nil, err
		}
		out[c.Name] = inner
	}
	return out, nil
}

// Text is a string argument, "" where it is absent or null.
func (a Args) Text(name string) string {
	s, _ := a[name].(string)
	return s
}

// Has tells an argument that is neither absent nor null.
func (a Args) Has(name string) bool { return a[name] != nil }

// Bool is a boolean argument, false where it is absent.
func (a Args) Bool(name string) bool {
	b, _ := a[name].(bool)
	return b
}

// Int is an integer argument, of a number or its text; otherwise is its value where it is
// absent. A number with a fraction is cut.
func (a Args) Int(name string, otherwise int64) (int64, error) {
	var text string
	switch v := a[name].(type) {
	case nil:
		return otherwise, nil
	case json.Number:
		text = v.String()
	case string:
		text = v
	}
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, nil
	}
	f, err := strconv.ParseFloat(text, 64)
	switch {
	case err != nil || math.IsNaN(f):
		return 0, model.Errorf(model.CodeInvalid, "the argument %s is no integer", name)
	case f >= math.MaxInt64:
		return math.MaxInt64, nil
	case f <= math.MinInt64:
		return math.MinInt64, nil
	}
	return int64(f), nil
}

// Inner is an argument that is an object, as input is of mutations; empty where it is none.
func (a Args) Inner(name string) Args {
	inner, _ := a[name].(map[string]any)
	return inner
}

// List is an argument that is a list.
func (a Args) List(name string) []any {
	list, _ := a[name].([]any)
	return list
}

// Texts are the strings of an argument that is a list; other values are passed over.
func (a Args) Texts(name string) []string {
	all := a.List(name)
	out := make([]string, 0, len(all))
	for _, v := range all {
		if s, ok := v.(string); ok {
			out = append(out, s)
		}
	}
	return out
}
