package config

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/kymogram/kymogram/internal/duration"
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
	lines := map[string]int{}
	if file != "" {
		var err error
		if lines, err = c.readFile(file); err != nil {
			return Config{}, err
		}
	}
	for _, f := range Fields() {
		if text := env(f.Env); text != "" {
			if err := f.set(&c, text, f.Env); err != nil {
				return Config{}, err
			}
			delete(lines, f.Key)
		}
		if text, ok := flags[f.Key]; ok {
			if err := f.set(&c, text, "--"+f.Flag); err != nil {
				return Config{}, err
			}
			delete(lines, f.Key)
		}
	}
	if err := c.Validate(); err != nil {
		return c, placed(err, file, lines)
	}
	return c, nil
}

// placed names the line of a file that has the setting which an error of Validate is about,
// unless the environment or a flag set it.
func placed(err error, file string, lines map[string]int) error {
	shown := model.Shown(err)
	if shown == nil {
		return err
	}
	for key, line := range lines {
		if rest, ok := strings.CutPrefix(shown.Message, key); ok && (rest == "" || rest[0] == ':' || rest[0] == ' ') {
			e := *shown
			e.Message = fmt.Sprintf("%s:%d: %s", file, line, e.Message)
			return &e
		}
	}
	return err
}

// Show is the configuration as YAML with its secrets hidden.
func (c Config) Show() (string, error) {
	for _, f := range Fields() {
		v := reflect.ValueOf(&c).Elem().FieldByIndex(f.index)
		if f.Secret && v.String() != "" {
			v.SetString("(hidden)")
		}
	}
	out, err := yaml.MarshalWithOptions(c, yaml.CustomMarshaler(func(d time.Duration) ([]byte, error) { return []byte(duration.Text(d)), nil }))
	if err != nil {
		return "", fmt.Errorf("show the configuration: %w", err)
	}
	return string(out), nil
}
