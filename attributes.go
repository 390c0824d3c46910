package kymogram

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
)

const maxDepth = 32

// flatten turns nested maps and lists into one update a leaf, keys in order; a
// nil leaf removes the attribute. Structs count as their JSON.
func flatten(prefix string, value any, now time.Time) ([]model.Update, error) {
	if prefix != "" {
		if err := checkPath(prefix); err != nil {
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
	leaf, nested, err := attribute(path, value)
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
	if err := checkPath(path); err != nil {
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
	if checkPath(path) == nil {
		return path
	}
	var b strings.Builder
	for i, r := range path {
		_, size := utf8.DecodeRuneInString(path[i:])
		if r == utf8.RuneError && size == 1 || !unicode.IsPrint(r) || unicode.IsSpace(r) || strings.ContainsRune(queryCharacters, r) || i == 0 && r == ':' {
			for _, one := range []byte(path[i : i+size]) {
				fmt.Fprintf(&b, "%%%02X", one)
			}
			continue
		}
		b.WriteRune(r)
	}
	kept := b.String()
	if len(kept) > maxPath {
		kept = fmt.Sprintf("%s..%08x", strings.ToValidUTF8(kept[:maxPath-10], ""), crc32.ChecksumIEEE([]byte(kept)))
	}
	return kept
}

// cutText keeps the beginning of a text that is longer than an attribute can be.
func cutText(s string) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) <= maxText {
		return s
	}
	return fmt.Sprintf("%s… (cut: %d bytes)", strings.ToValidUTF8(s[:maxText-100], ""), len(s))
}

// attribute is the value of a leaf, or what a value of another type is made of.
func attribute(path string, value any) (leaf *model.Value, nested any, err error) {
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

// LogConfig sets attributes under config/; nested maps and lists become paths.
func (r *Run) LogConfig(config map[string]any) error { return r.LogAttributes("config", config) }

// LogAttributes sets attributes under a path, "" for none: a value, or nested
// maps, lists and structs of them. A nil value removes its attribute, an integer
// beyond int64 is kept as text. What a key holds that a path cannot is written as
// %XX, a text above 64 KiB is cut and says so.
func (r *Run) LogAttributes(prefix string, value any) error {
	updates, err := flatten(prefix, value, time.Now())
	if err != nil {
		return err
	}
	r.opts.tellOdd(updates)
	return r.update(updates...)
}

// LogEnvAttributes sets attributes of an RL environment, of one episode when
// Episode is given.
func (r *Run) LogEnvAttributes(env string, value map[string]any, opts ...LogOption) error {
	if err := checkEnv(env); err != nil {
		return err
	}
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	updates, err := flatten("", value, time.Now())
	if err != nil {
		return err
	}
	r.opts.tellOdd(updates)
	for i := range updates {
		updates[i].Op, updates[i].Env = model.OpSetEnvAttribute, env
		if c.hasEpisode {
			updates[i].Episode = &c.episode
		}
	}
	return r.update(updates...)
}

// SetTags replaces the run's tags.
func (r *Run) SetTags(tags ...string) error { return r.tags(model.OpSetTags, tags) }

// AddTags adds tags.
func (r *Run) AddTags(tags ...string) error { return r.tags(model.OpAddTags, tags) }

// RemoveTags removes tags.
func (r *Run) RemoveTags(tags ...string) error { return r.tags(model.OpRemoveTags, tags) }

func (r *Run) tags(op model.UpdateOp, tags []string) error {
	if err := checkTags(tags); err != nil {
		return err
	}
	return r.update(tagUpdates(op, tags, time.Now())...)
}

// tagUpdates are the changes of a set of tags, in parts that the server takes.
func tagUpdates(op model.UpdateOp, tags []string, now time.Time) []model.Update {
	first := min(len(tags), maxTags)
	updates := []model.Update{{Op: op, TimeNs: now.UnixNano(), Tags: tags[:first]}}
	if op == model.OpSetTags {
		op = model.OpAddTags
	}
	for part := range slices.Chunk(tags[first:], maxTags) {
		updates = append(updates, model.Update{Op: op, TimeNs: now.UnixNano(), Tags: part})
	}
	return updates
}

// SetDescription replaces the run's description; "" clears it.
func (r *Run) SetDescription(text string) error {
	if err := checkText("description", text, maxText); err != nil {
		return err
	}
	return r.update(model.Update{Op: model.OpSetDescription, TimeNs: time.Now().UnixNano(), Text: text})
}

func (r *Run) update(updates ...model.Update) error {
	if len(updates) == 0 {
		return nil
	}
	if err := r.w.Updates(updates); err != nil {
		return closedError(err)
	}
	for i := range updates {
		if updates[i].Op == model.OpSetEnvAttribute {
			r.envAttributes.Add(1)
		} else {
			r.attributes.Add(1)
		}
	}
	return nil
}
