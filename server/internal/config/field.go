package config

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
)

// Field is one setting with the three names under which it can be given.
type Field struct {
	Key    string // in YAML, with dots
	Env    string
	Flag   string // "-": none
	Usage  string
	Secret bool
	Bool   bool
	index  []int
}

// Fields lists every setting in the order of Config.
func Fields() []Field { return walk(reflect.TypeFor[Config](), "", nil) }

func walk(t reflect.Type, prefix string, index []int) (fields []Field) {
	for i := range t.NumField() {
		f := t.Field(i)
		key := prefix + f.Tag.Get("yaml")
		at := append(append([]int{}, index...), i)
		if f.Type.Kind() == reflect.Struct {
			fields = append(fields, walk(f.Type, key+".", at)...)
			continue
		}
		name := strings.NewReplacer(".", "-", "_", "-").Replace(key)
		if given := f.Tag.Get("flag"); given != "" {
			name = given
		}
		fields = append(fields, Field{
			Key: key, Flag: name, Usage: f.Tag.Get("usage"), Secret: f.Tag.Get("secret") != "",
			Env:  "KYMOGRAM_" + strings.ToUpper(strings.ReplaceAll(key, ".", "_")),
			Bool: f.Type.Kind() == reflect.Bool, index: at,
		})
	}
	return fields
}

// Text is the field's value in a configuration, as it would be given.
func (f Field) Text(c Config) string {
	v := reflect.ValueOf(c).FieldByIndex(f.index)
	switch value := v.Interface().(type) {
	case []string:
		return strings.Join(value, ",")
	case time.Duration:
		return duration.Text(value)
	default:
		return fmt.Sprint(value)
	}
}

// set parses text into the field; where says how the user gave it.
func (f Field) set(c *Config, text, where string) error {
	v := reflect.ValueOf(c).Elem().FieldByIndex(f.index)
	switch v.Interface().(type) {
	case string:
		v.SetString(text)
	case bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return invalid("%s is %q, it must be true or false", where, text)
		}
		v.SetBool(b)
	case int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			if strings.HasSuffix(f.Key, "bytes") {
				return invalid("%s is %q, it must be a whole number of bytes, such as 200000000000", where, text)
			}
			return invalid("%s is %q, it must be a whole number", where, text)
		}
		v.SetInt(n)
	case time.Duration:
		d, err := duration.Parse(text)
		if err != nil {
			return invalid("%s is %q, it must be a duration: %v", where, text, err)
		}
		v.SetInt(int64(d))
	case []string:
		v.Set(reflect.ValueOf(splitList(text)))
	}
	return nil
}

func splitList(text string) []string {
	var list []string
	for part := range strings.SplitSeq(text, ",") {
		if part = strings.TrimSpace(part); part != "" {
			list = append(list, part)
		}
	}
	return list
}
