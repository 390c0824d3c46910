// Package attribute turns what a user has for a configuration (nested maps, lists,
// structs, numbers of any type) into a run's attributes: one path and one value
// each.
//
// A value goes in, [model.Update]s come out, keys in order, so that equal
// configurations are equal bytes. A path is valid in what comes out: a key with
// other characters is written as %XX, a long one is cut with a checksum at its
// end. A part that cannot be an attribute becomes a text that says why; its
// neighbours are kept. Start at [Flatten].
package attribute

import (
	"bytes"
	"encoding"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"maps"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
)

const maxDepth = 32

// Flatten turns nested maps and lists into one update a leaf, keys in order; a
// nil leaf removes the attribute. Structs count as their JSON.
func Flatten(prefix string, value any, now time.Time) ([]model.Update, error) {
	if prefix != "" {
		if err := rule.Path(prefix); err != nil {
			return nil, err
		}
	}
	f := flattener{now: now.UnixNano()}
	if m, ok := value.(map[string]any); ok && m == nil {
		return nil, nil
	}
	if err := f.add(prefix, value, 0); err != nil {
		return nil, err
	}
	return lastOfEach(f.out), nil
}

// lastOfEach keeps the last value of a path: {"a/b": 1, "a": {"b": 2}} has two.
func lastOfEach(all []model.Update) []model.Update {
	last := make(map[string]int, len(all))
	for i := range all {
		last[all[i].Path] = i
	}
	if len(last) == len(all) {
		return all
	}
	var out []model.Update
	for i := range all {
		if last[all[i].Path] == i {
			out = append(out, all[i])
		}
	}
	return out
}

type flattener struct {
	now int64
	out []model.Update
}

func (f *flattener) add(path string, value any, depth int) error {
	if depth > maxDepth {
		return invalidf("%q is nested deeper than %d", path, maxDepth)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if err := f.add(join(path, key, depth), v[key], depth+1); err != nil {
				return err
			}
		}
		return nil
	case []any:
		for i, one := range v {
			if err := f.add(join(path, strconv.Itoa(i), depth), one, depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	leaf, nested, err := leafOf(path, value)
	if err != nil {
		if depth == 0 {
			return err
		}
		// Such as a channel, or a struct with a NaN: its neighbours are kept.
		leaf = model.StringValue(cutText(fmt.Sprintf("(%T: %v)", value, err)))
	}
	if nested != nil {
		return f.add(path, nested, depth+1)
	}
	path = innerPath(path)
	if err := rule.Path(path); err != nil {
		return err
	}
	f.out = append(f.out, model.Update{Op: model.OpSetAttribute, TimeNs: f.now, Path: path, Value: leaf})
	return nil
}

func join(path, key string, depth int) string {
	if path == "" && depth == 0 {
		return key
	}
	return path + "/" + key
}

// innerPath is the path of a part of a nested value, whose keys are free: what a
// path cannot hold is written as %XX; a long one is cut, with a checksum at its end.
func innerPath(path string) string {
	if rule.Path(path) == nil {
		return path
	}
	var b strings.Builder
	for i, r := range path {
		_, size := utf8.DecodeRuneInString(path[i:])
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) || unicode.IsSpace(r) || strings.ContainsRune(rule.QueryCharacters, r) || i == 0 && r == ':' {
			for _, one := range []byte(path[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", one)
			}
			continue
		}
		b.WriteRune(r)
	}
	kept := b.String()
	if len(kept) > rule.MaxPath {
		kept = fmt.Sprintf("%s..%08x", strings.ToValidUTF8(kept[:rule.MaxPath-10], ""), crc32.ChecksumIEEE([]byte(kept)))
	}
	return kept
}

// cutText keeps the beginning of a text that is longer than an attribute can be.
func cutText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= rule.MaxText {
		return s
	}
	return fmt.Sprintf("%s… (cut: %d bytes)", strings.ToValidUTF8(s[:rule.MaxText-100], ""), len(s))
}

// leafOf is the value of a leaf, or what a value of another type is made of.
func leafOf(path string, value any) (leaf *model.Value, nested any, err error) {
	switch v := value.(type) {
	case nil:
		return nil, nil, nil
	case bool:
		return model.BoolValue(v), nil, nil
	case string:
		return model.StringValue(cutText(v)), nil, nil
	case int:
		return model.IntValue(int64(v)), nil, nil
	case int64:
		return model.IntValue(v), nil, nil
	case uint64:
		return unsigned(v), nil, nil
	case float64:
		return model.FloatValue(v), nil, nil
	case float32:
		return model.FloatValue(float64(v)), nil, nil
	case *model.Value: // of a package of ours
		return v, nil, nil
	case time.Time:
		return model.TimeValue(v.UnixNano()), nil, nil
	case time.Duration:
		return model.StringValue(v.String()), nil, nil
	case json.Number:
		return number(path, v)
	}
	if nested, ok := elements(value); ok {
		return nil, nested, nil
	}
	nested, err = plain(path, value)
	return nil, nested, err
}

// elements are the parts of slices and of maps by text, which may hold what JSON
// cannot say; types that spell themselves are left alone.
func elements(value any) (nested any, ok bool) {
	switch value.(type) {
	case json.Marshaler, encoding.TextMarshaler, []byte:
		return nil, false
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Float32, reflect.Float64:
		return v.Float(), true
	case reflect.Slice, reflect.Array:
		out := make([]any, v.Len())
		for i := range out {
			out[i] = v.Index(i).Interface()
		}
		return out, true
	case reflect.Map:
		if v.Type().Key().Kind() != reflect.String {
			return nil, false
		}
		out := make(map[string]any, v.Len())
		for it := v.MapRange(); it.Next(); {
			out[it.Key().String()] = it.Value().Interface()
		}
		return out, true
	}
	return nil, false
}

// unsigned keeps what int64 cannot hold as text: every digit counts, as of a seed.
func unsigned(v uint64) *model.Value {
	if v > math.MaxInt64 {
		return model.StringValue(strconv.FormatUint(v, 10))
	}
	return model.IntValue(int64(v))
}

func number(path string, v json.Number) (*model.Value, any, error) {
	if n, err := v.Int64(); err == nil {
		return model.IntValue(n), nil, nil
	}
	if !strings.ContainsAny(v.String(), ".eE") {
		return model.StringValue(v.String()), nil, nil
	}
	x, err := v.Float64()
	if err != nil {
		return nil, nil, invalidf("%q is no number: %s", path, v)
	}
	return model.FloatValue(x), nil, nil
}

// plain spells another type out as JSON's maps, lists, texts and numbers.
func plain(path string, value any) (any, error) {
	doc, err := json.Marshal(value)
	if err != nil {
		return nil, invalidf("%q cannot be an attribute: %v", path, err)
	}
	dec := json.NewDecoder(bytes.NewReader(doc))
	dec.UseNumber()
	var out any
	if err := dec.Decode(&out); err != nil {
		return nil, invalidf("%q cannot be an attribute: %v", path, err)
	}
	return out, nil
}

func invalidf(format string, args ...any) error {
	return model.Errorf(model.CodeInvalid, format, args...)
}
