package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"reflect"
	"strings"

	"github.com/goccy/go-yaml"

	"github.com/kymogram/kymogram/internal/model"
)

// FileEnv names the configuration file when no flag does.
const FileEnv = "KYMOGRAM_CONFIG"

// Load reads the file (empty: the one that FileEnv names, else none), the
// environment and the flags that were given, by the Key of their Field. The
// result is valid.
func Load(file string, env func(string) string, flags map[string]string) (Config, error) {
	c := Default(env)
	if file == "" {
		file = env(FileEnv)
	}
	if file != "" {
		if err := c.readFile(file); err != nil {
			return Config{}, err
		}
	}
	for _, f := range Fields() {
		if text := env(f.Env); text != "" {
			if err := f.set(&c, text, f.Env); err != nil {
				return Config{}, err
			}
		}
		if text, ok := flags[f.Key]; ok {
			if err := f.set(&c, text, "--"+f.Flag); err != nil {
				return Config{}, err
			}
		}
	}
	return c, c.Validate()
}

func (c *Config) readFile(file string) error {
	f, err := os.Open(file)
	if err != nil {
		return invalid("cannot read the configuration: %v", err).WithHint("name a readable file with --config FILE")
	}
	defer f.Close()
	return c.read(f, file)
}

func (c *Config) read(r io.Reader, file string) error {
	defaults := *c
	dec := yaml.NewDecoder(r, yaml.Strict())
	if err := dec.Decode(c); err != nil && !errors.Is(err, io.EOF) {
		return explain(err, file)
	}
	if reflect.ValueOf(*c).IsZero() {
		*c = defaults // an empty file, or one of comments, is YAML's null
	}
	if err := dec.Decode(&struct{}{}); !errors.Is(err, io.EOF) {
		return invalid("%s holds more than one YAML document", file)
	}
	return nil
}

// explain says where a file is wrong, and which key was probably meant.
func explain(err error, file string) *model.Error {
	var at yaml.Error
	if !errors.As(err, &at) || at.GetToken() == nil {
		return invalid("%s: %v", file, err)
	}
	line := at.GetToken().Position.Line
	var unknown *yaml.UnknownFieldError
	if !errors.As(err, &unknown) {
		return invalid("%s:%d: %s", file, line, at.GetMessage())
	}
	key := unknown.GetToken().Value
	e := invalid("%s:%d: unknown key %q", file, line, key)
	if near := nearest(key); near != "" {
		return e.WithHint("did you mean %s?", near)
	}
	return e.WithHint("kymogram config show lists every key")
}

// nearest is the known key that looks most like word, "" when none does.
func nearest(word string) string {
	best, least := "", len(word)/2+1
	for _, f := range Fields() {
		names := strings.Split(f.Key, ".")
		for i, name := range names {
			if d := distance(strings.ToLower(word), name); d < least {
				best, least = strings.Join(names[:i+1], "."), d
			}
		}
	}
	return best
}

// distance is Levenshtein's, in bytes.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return row[len(b)]
}

// Show is the configuration as YAML with its secrets hidden.
func (c Config) Show() (string, error) {
	for _, f := range Fields() {
		v := reflect.ValueOf(&c).Elem().FieldByIndex(f.index)
		if f.Secret && v.String() != "" {
			v.SetString("(hidden)")
		}
	}
	out, err := yaml.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("show the configuration: %w", err)
	}
	return string(out), nil
}
