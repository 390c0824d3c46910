package config_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/config"
)

func vars(pairs ...string) func(string) string {
	m := map[string]string{"HOME": "/home/u"}
	for i := 0; i < len(pairs); i += 2 {
		m[pairs[i]] = pairs[i+1]
	}
	return func(name string) string { return m[name] }
}

func write(t *testing.T, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kymogram.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestLaterSourcesWin(t *testing.T) {
	file := write(t, "http: 127.0.0.1:1\ngrpc: 127.0.0.1:2\nlog: {level: warn}\ntrash: 1h\nhosts: [a, b]\nlimits:\n  body_mib: 8\n")
	got, err := config.Load(file, vars("KYMOGRAM_GRPC", "127.0.0.1:3", "KYMOGRAM_LOG_LEVEL", "error", "KYMOGRAM_NO_AUTH", "true"),
		map[string]string{"log.level": "debug", "data": "/d"})
	if err != nil {
		t.Fatal(err)
	}
	want := config.Config{
		Data: "/d", HTTP: "127.0.0.1:1", GRPC: "127.0.0.1:3", NoAuth: true, Hosts: []string{"a", "b"},
		Log: config.Log{Level: "debug"}, Limits: config.Limits{BodyMiB: 8, BlobMiB: 4096, SeriesPerRun: 1_000_000}, Trash: time.Hour,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
}

func TestFileFromTheEnvironment(t *testing.T) {
	got, err := config.Load("", vars(config.FileEnv, write(t, "http: 127.0.0.1:9\n")), nil)
	if err != nil || got.HTTP != "127.0.0.1:9" || got.Data != "/home/u/.local/share/kymogram" {
		t.Fatalf("%+v, %v", got, err)
	}
}

// TestDurationsOfAFile: they are what they say, and are shown as they are written.
func TestDurationsOfAFile(t *testing.T) {
	got, err := config.Load(write(t, "trash: 36h\nretention: &r {age: 90d}\ndata: !!str 5\nlimits: {body_mib: \"8\"}\nhosts: [a, 7]\n"), vars("KYMOGRAM_RETENTION_AGE", "1w"), nil)
	if err != nil || got.Trash != 36*time.Hour || got.Retention.Age != 7*24*time.Hour || got.Data != "5" || got.Limits.BodyMiB != 8 || strings.Join(got.Hosts, " ") != "a 7" {
		t.Fatalf("%+v, %v", got, err)
	}
	text, err := got.Show()
	if err != nil || !strings.Contains(text, "trash: 1d12h\n") || !strings.Contains(text, "age: 7d\n") {
		t.Fatalf("%s, %v", text, err)
	}
	again, err := config.Load(write(t, text), vars(), nil)
	if diff := cmp.Diff(got, again, cmpopts.EquateEmpty()); err != nil || diff != "" {
		t.Fatalf("what is shown is read as another configuration: %v\n%s", err, diff)
	}
}

func TestAnEmptyFileSetsNothing(t *testing.T) {
	for _, text := range []string{"", "\n", "# http: 127.0.0.1:9\n", "---\n", "{}\n"} {
		got, err := config.Load(write(t, text), vars(), nil)
		if diff := cmp.Diff(config.Default(vars()), got); err != nil || diff != "" {
			t.Errorf("%q: %v\n%s", text, err, diff)
		}
	}
}

func TestBadInputIsNamed(t *testing.T) {
	tests := map[string]struct {
		yaml  string
		env   []string
		flags map[string]string
		want  string // in message or hint
	}{
		"unknown key":          {yaml: "htpp: x\n", want: "did you mean http?"},
		"unknown nested key":   {yaml: "tls:\n  crt: x\n", want: "did you mean tls.cert?"},
		"unknown far key":      {yaml: "xyzzyplugh: 1\n", want: "config show"},
		"line is named":        {yaml: "http: 127.0.0.1:1\nnonsense_here: 1\n", want: ":2: unknown key"},
		"twice":                {yaml: "http: 127.0.0.1:1\nhttp: 127.0.0.1:2\n", want: "http is given twice, first in line 1"},
		"wrong type":           {yaml: "no_auth: [1]\n", want: ":1:"},
		"not YAML":             {yaml: "a: [\n", want: ":1:"},
		"unknown in a section": {yaml: "retention:\n  ages: 1d\n", want: ":2: unknown key \"retention.ages\" did you mean retention.age?"},
		"of another section":   {yaml: "cert: x\n", want: "did you mean tls.cert?"},
		"key with a dot":       {yaml: "tls.cert: x\n", want: "write it below its section, as tls: {cert: …}"},
		"twice in a section":   {yaml: "tls:\n  cert: a\n  cert: b\n", want: ":3: tls.cert is given twice, first in line 2"},
		"section twice":        {yaml: "tls: {cert: a}\ntls: {key: b}\n", want: ":2: tls is given twice, first in line 1"},
		"word for a number":    {yaml: "limits:\n  body_mib: many\n", want: ":2: limits.body_mib is \"many\", it must be a whole number"},
		"part of a number":     {yaml: "limits: {body_mib: 1.5}\n", want: ":1: limits.body_mib is \"1.5\", it must be a whole number"},
		"word for a bool":      {yaml: "\nno_auth: maybe\n", want: ":2: no_auth is \"maybe\", it must be true or false"},
		"list for a text":      {yaml: "data: [1]\n", want: ":1: data is a list, it is one value"},
		"mapping for a text":   {yaml: "data: {a: 1}\n", want: ":1: data is a mapping, it is one value"},
		"text for a list":      {yaml: "hosts: a\n", want: ":1: hosts is \"a\", it must be a list write hosts: [a]"},
		"list in a list":       {yaml: "hosts: [a, [b]]\n", want: ":1: an entry of hosts is a list"},
		"text for a section":   {yaml: "tls: self\n", want: ":1: tls is \"self\", it holds settings of its own below tls may be: mode, cert, key"},
		"list for all":         {yaml: "- a\n", want: ":1: this is a list, not settings"},
		"unknown anchor":       {yaml: "data: *a\n", want: ":1: there is no anchor \"a\" above"},
		"duration in a file":   {yaml: "\n\ntrash: 7\n", want: ":3: trash is \"7\", it must be a duration: it has no unit: is it 7s, 7m, 7h or 7d?"},
		"negative duration":    {yaml: "retention: {age: -1h}\n", want: ":1: retention.age is \"-1h\", it must be a duration: it is negative"},
		"short in a file":      {yaml: "\nretention: {age: 30m}\n", want: ":2: retention.age is 30m, it must be 0s or at least 1h"},
		"level in a file":      {yaml: "\nlog:\n  level: loud\n", want: ":3: log.level: \"loud\" is not known"},
		"level of a flag":      {yaml: "log: {level: warn}\n", flags: map[string]string{"log.level": "loud"}, want: "log.level: \"loud\" is not known"},
		"two documents":        {yaml: "http: 127.0.0.1:1\n---\nhttp: 127.0.0.1:2\n", want: "more than one"},
		"bad bool in env":      {env: []string{"KYMOGRAM_NO_AUTH", "maybe"}, want: "KYMOGRAM_NO_AUTH"},
		"bad number in flag":   {flags: map[string]string{"limits.body_mib": "x"}, want: "--limits-body-mib"},
		"bad duration":         {env: []string{"KYMOGRAM_TRASH", "7 days"}, want: "KYMOGRAM_TRASH"},
		"limit too large":      {flags: map[string]string{"limits.body_mib": "100000"}, want: "limits.body_mib"},
		"no workspace":         {flags: map[string]string{"influx.workspace": "my ws"}, want: "influx: the workspace \"my ws\" is not valid"},
		"no project":           {flags: map[string]string{"promwrite.project": "a b"}, want: "promwrite: the project \"a b\" is not valid"},
		"a unit of bytes":      {flags: map[string]string{"retention.bytes": "200GB"}, want: "a whole number of bytes, such as 200000000000"},
		"not loopback":         {flags: map[string]string{"http": "0.0.0.0:7070"}, want: "--insecure"},
		"all interfaces":       {flags: map[string]string{"http": ":7070"}, want: "--insecure"},
		"no keys, TLS":         {flags: map[string]string{"http": "0.0.0.0:7070", "tls.mode": "self", "no_auth": "true"}, want: "--insecure"},
		"no keys, gRPC, TLS":   {flags: map[string]string{"grpc": "[::]:7071", "tls.mode": "self", "no_auth": "true"}, want: "no_auth"},
		"grpc not loopback":    {flags: map[string]string{"grpc": "10.0.0.1:7071"}, want: "--insecure"},
		"no port":              {flags: map[string]string{"http": "127.0.0.1"}, want: "HOST:PORT"},
		"certificate, no key":  {flags: map[string]string{"tls.cert": "x"}, want: "--tls-key"},
		"missing certificate":  {flags: map[string]string{"tls.cert": "/no/c", "tls.key": "/no/k"}, want: "no such file"},
		"unknown TLS mode":     {flags: map[string]string{"tls.mode": "auto"}, want: "self"},
		"unknown level":        {flags: map[string]string{"log.level": "loud"}, want: "log.level"},
		"bad admin key":        {env: []string{"KYMOGRAM_ADMIN_KEY", "secret"}, want: "40 lower-case"},
		"no data folder":       {flags: map[string]string{"data": ""}, want: "--data"},
		"unreadable file path": {env: []string{config.FileEnv, "/no/such/file"}, want: "--config"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			file := ""
			if test.yaml != "" {
				file = write(t, test.yaml)
			}
			_, err := config.Load(file, vars(test.env...), test.flags)
			if model.CodeOf(err) != model.CodeInvalid {
				t.Fatalf("%v, want %s", err, model.CodeInvalid)
			}
			var e *model.Error
			if !errors.As(err, &e) {
				t.Fatalf("%v is no model.Error", err)
			}
			if text := e.Message + " " + e.Hint; !strings.Contains(text, test.want) {
				t.Fatalf("%q does not say %q", text, test.want)
			}
		})
	}
}

// Beyond loopback, no keys and clear text are each the user's word.
func TestInsecureOpensTheDoors(t *testing.T) {
	for name, flags := range map[string]map[string]string{
		"clear text":             {"http": "0.0.0.0:1", "insecure": "true"},
		"no keys":                {"http": "0.0.0.0:1", "insecure": "true", "no_auth": "true"},
		"no keys but TLS":        {"http": "0.0.0.0:1", "insecure": "true", "no_auth": "true", "tls.mode": "self"},
		"TLS and keys":           {"http": "0.0.0.0:1", "tls.mode": "self"},
		"loopback without keys":  {"http": "[::1]:1", "no_auth": "true"},
		"localhost without keys": {"http": "localhost:1", "grpc": "127.0.0.1:2", "no_auth": "true"},
	} {
		if _, err := config.Load("", vars(), flags); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestSecretsAreHidden(t *testing.T) {
	key := strings.Repeat("0f", 20)
	c, err := config.Load("", vars("KYMOGRAM_ADMIN_KEY", key), nil)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := c.Show()
	if err != nil || strings.Contains(shown, key) || !strings.Contains(shown, "(hidden)") {
		t.Fatalf("%v\n%s", err, shown)
	}
	if c.AdminKey != key {
		t.Fatal("Show changed the configuration")
	}
}

// What Show prints is a file that Load takes.
func TestShownConfigurationIsRead(t *testing.T) {
	c, err := config.Load("", vars(), map[string]string{"hosts": "a.example, b.example", "trash": "90m"})
	if err != nil {
		t.Fatal(err)
	}
	shown, err := c.Show()
	if err != nil {
		t.Fatal(err)
	}
	again, err := config.Load(write(t, shown), vars(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(c, again, cmpopts.EquateEmpty()); diff != "" {
		t.Fatal(diff)
	}
}

func TestEveryFieldHasItsNames(t *testing.T) {
	seen := map[string]bool{}
	for _, f := range config.Fields() {
		if f.Key == "" || f.Usage == "" || f.Flag == "" || !strings.HasPrefix(f.Env, "KYMOGRAM_") || seen[f.Flag] && f.Flag != "-" {
			t.Errorf("%+v", f)
		}
		seen[f.Flag] = true
	}
}

func FuzzFile(f *testing.F) {
	f.Add("http: 127.0.0.1:1\n")
	f.Add("tls: {mode: self}\nlimits: {body_mib: 1}\n")
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := config.Load(write(t, text), vars(), nil); err != nil && model.CodeOf(err) != model.CodeInvalid {
			t.Fatalf("%v", err)
		}
	})
}
