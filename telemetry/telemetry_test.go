package telemetry_test

import (
	"log/slog"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/telemetry"
)

func TestProcessValue(t *testing.T) {
	type count uint16
	for _, test := range []struct{ given, want any }{
		{3, int64(3)},
		{count(3), int64(3)},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{true, int64(1)},
		{float32(0.5), 0.5},
		{[]int{1, 2, 3}, "[1, 2, 3]"},
		{[]any{1, 2}, "[1, 2]"},
		{[]float64{}, 0.0},
		{[]float64{4, 1, 2}, map[string]float64{"mean": 7.0 / 3, "min": 1, "max": 4, "median": 2}},
		{[]any{1, 0.5}, map[string]float64{"mean": 0.75, "min": 0.5, "max": 1, "median": 0.75}},
		{"text", "text"},
		{nil, 0.0},
		{[]string{"a", "b"}, "[a b]"},
		{map[string]int{"a": 1}, "map[a:1]"},
	} {
		if diff := cmp.Diff(test.want, telemetry.ProcessValue(test.given)); diff != "" {
			t.Errorf("%T %v (-want +got):\n%s", test.given, test.given, diff)
		}
	}
	want := map[string]any{"loss": 0.5, "g_mean": 1.5, "g_min": 1.0, "g_max": 2.0, "g_median": 1.5}
	if diff := cmp.Diff(want, telemetry.ProcessFields(telemetry.Fields{"loss": 0.5, "g": []float64{1, 2}})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestConfigHasNoSecrets(t *testing.T) {
	o := telemetry.Options{Config: map[string]any{
		"lr": 0.1, "max_tokens": 5, "tokenizer": "gpt", "api_key": "x", "wallet_password": "y", "token": "z",
		"url": "https://me:word@host/x", "key": "hf_0123456789abcdefghij", "_hidden": 1, "deep": map[string]any{"a": 1}, "none": nil,
	}}
	want := map[string]string{
		"lr": "0.1", "max_tokens": "5", "tokenizer": "gpt", "api_key": "***", "wallet_password": "***", "token": "***",
		"url": "***", "key": "***",
	}
	if diff := cmp.Diff(want, o.PlainConfig()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A point that cannot be kept is counted and told once.
func TestLogNeverFails(t *testing.T) {
	t.Setenv("KYMOGRAM_SPOOL_DIR", t.TempDir())
	t.Setenv("KYMOGRAM_SERVER", "http://127.0.0.1:1")
	var said strings.Builder
	l, err := telemetry.New(t.Context(), telemetry.Options{UID: "7", Role: telemetry.Aggregator, Log: slog.New(slog.NewTextHandler(&said, nil))})
	if err != nil {
		t.Fatal(err)
	}
	many := telemetry.Tags{}
	for i := range 100_000 {
		many[strings.Repeat("t", 1+i%100)+string(rune('a'+i%26))+telemetry.Aggregator] = i
	}
	for range 3 {
		l.Log("x", telemetry.Tags{"window": 1}, nil)
		l.Log("x", many, telemetry.Fields{"v": 1.0})
		l.Log("x", nil, telemetry.Fields{"v": 1})
		l.Log("x", nil, telemetry.Fields{"v": 0.5})
	}
	l.Log("x", nil, telemetry.Fields{"v": 1.0}, telemetry.SampleRate(0))
	l.Log("x", nil, telemetry.Fields{"v": 1.0}, telemetry.WithSystemMetrics(), telemetry.WithGPUMetrics())
	want := telemetry.Counts{Logged: 4, SampledOut: 1, Failed: 9}
	if got := l.Counts(); got != want {
		t.Errorf("%+v, want %+v\n%s", got, want, said.String())
	}
	for _, text := range []string{"it has no field", "labels, a series at most 64", "holds int64 since its first point"} {
		if n := strings.Count(said.String(), text); n != 1 {
			t.Errorf("%q is said %d times:\n%s", text, n, said.String())
		}
	}
}
