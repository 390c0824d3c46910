package duration_test

import (
	"encoding/json"
	"math"
	"os"
	"regexp"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
)

func TestParse(t *testing.T) {
	const day = 24 * time.Hour
	for text, want := range map[string]time.Duration{
		"90d": 90 * day, "36h": 36 * time.Hour, "1h30m": 90 * time.Minute, "1d12h": 36 * time.Hour, "2w": 14 * day, "1w1d": 8 * day,
		"0": 0, "0s": 0, "0d": 0, "45s": 45 * time.Second, "250ms": 250 * time.Millisecond, "1.5h": 90 * time.Minute, "0.5d": 12 * time.Hour,
		"1m1.5s": 61_500 * time.Millisecond, "1us": 1000, "1µs": 1000, "1μs": 1000, "7ns": 7, "168h": 7 * day, "1m0s": time.Minute,
		"106751d23h47m16s854ms775us807ns": math.MaxInt64, "2562047h47m16.854775807s": math.MaxInt64, "9223372036854775807ns": math.MaxInt64,
	} {
		if got, err := duration.Parse(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for text, says := range map[string]string{
		"90": "no unit: is it 90s, 90m, 90h or 90d", "1.5": "no unit", "1e3": "no unit", "": "empty", "-1h": "negative", "-5": "negative",
		"1mo": `"mo" is no unit`, "1M": `"M" is no unit`, "3D": `"D" is no unit`, "1y": `"y" is no unit`, "1h 30m": "is no unit", " 1h": "write it as",
		"30m1h": "after larger ones", "1h1h": "after larger ones", "1h30": "write it as", "h": "write it as", "1..5h": "write it as", "1.5.h": "write it as",
		"ninety days": "is no unit", "1d-1h": "is no unit", "+1h": "is no unit", "106752d": "longer", "99999999999999999999d": "longer", "Inf": "no unit", "NaN": "no unit", "0x10s": "is no unit",
		"1h\x00": "is no unit", "１d": "is no unit", ".h": "write it as",
	} {
		if got, err := duration.Parse(text); err == nil || !regexp.MustCompile(regexp.QuoteMeta(says)).MatchString(err.Error()) {
			t.Errorf("%q is %v, %v, want an error with %q", text, got, err, says)
		}
	}
}

// TestTheSameInPython: both packages read the same texts.
func TestTheSameInPython(t *testing.T) {
	text, err := os.ReadFile("../../testdata/durations.json")
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Seconds map[string]float64
		Refused []string
	}
	if err := json.Unmarshal(text, &doc); err != nil || len(doc.Seconds) == 0 || len(doc.Refused) == 0 {
		t.Fatalf("%v, %v", doc, err)
	}
	for text, want := range doc.Seconds {
		if got, err := duration.Parse(text); err != nil || got.Seconds() != want {
			t.Errorf("%q is %v, %v, want %v s", text, got, err, want)
		}
	}
	for _, text := range doc.Refused {
		if got, err := duration.Parse(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

func TestText(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", time.Minute: "1m", time.Hour: "1h", 36 * time.Hour: "1d12h", 90 * 24 * time.Hour: "90d", 90 * time.Second: "1m30s",
		1500 * time.Millisecond: "1.5s", 61_500 * time.Millisecond: "1m1.5s", 250 * time.Millisecond: "250ms", time.Hour + time.Second: "1h1s",
		time.Minute + time.Millisecond: "1m0.001s", -90 * time.Minute: "-1h30m", 1500: "1.5µs", time.Hour + 7: "1h0.000000007s",
	} {
		if got := duration.Text(d); got != want {
			t.Errorf("%d ns are %q, want %q", d, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0s", 59*time.Second + 900*time.Millisecond: "59s", 61 * time.Second: "1m1s", time.Hour + 59*time.Second: "1h", 25*time.Hour + 59*time.Minute: "1d1h", 50 * 24 * time.Hour: "50d",
	} {
		if got := duration.Short(d); got != want {
			t.Errorf("%d ns are %q for short, want %q", d, got, want)
		}
	}
}

// FuzzParse: what is written is read as what it was; what Go reads is read as Go reads it.
func FuzzParse(f *testing.F) {
	for _, s := range []string{"1h30m", "90d", "1.5h", "1d1ns", "-1h", "1h1m1s1ms1us1ns"} {
		f.Add(s, int64(1500))
	}
	f.Add("", int64(math.MinInt64))
	f.Fuzz(func(t *testing.T, text string, ns int64) {
		if ns >= 0 {
			if back, err := duration.Parse(duration.Text(time.Duration(ns))); err != nil || back != time.Duration(ns) {
				t.Errorf("%d ns are written %q and read as %d, %v", ns, duration.Text(time.Duration(ns)), back, err)
			}
		}
		got, err := duration.Parse(text)
		if err != nil {
			return
		}
		if want, goErr := time.ParseDuration(text); goErr == nil && max(got-want, want-got) > 1 {
			t.Errorf("%q is %v, Go reads %v", text, got, want)
		}
	})
}

func TestSeconds(t *testing.T) {
	for text, want := range map[string]time.Duration{"30": 30 * time.Second, "0.5": 500 * time.Millisecond, " 2 ": 2 * time.Second, "1m30s": 90 * time.Second, "0": 0} {
		if got, err := duration.Seconds(text); err != nil || got != want {
			t.Errorf("%q is %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"-1", "", "x", "1e300", "NaN", "-1h"} {
		if got, err := duration.Seconds(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}
