package promapi

import (
	"math"
	"net/http"
	"strconv"
	"time"

	promodel "github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/kymogram/kymogram/internal/model"
)

// mostTime bounds a time, in seconds of Unix either way: the year 5138, far behind what a
// point can have.
const mostTime = 100_000_000_000

// timeOf reads a time: seconds of Unix, or RFC 3339. One beyond mostTime is moved there.
func timeOf(text string) (time.Time, bool) {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		if math.IsNaN(v) {
			return time.Time{}, false
		}
		v = min(max(v, -mostTime), mostTime)
		whole, part := math.Modf(v)
		return time.Unix(int64(whole), int64(math.Round(part*1000)/1000*float64(time.Second))).UTC(), true
	}
	switch text { // of Prometheus' own clients, for all there is
	case "-292273086-05-16T16:47:06Z":
		return time.Unix(-mostTime, 0).UTC(), true
	case "292277025-08-18T07:12:54.999999999Z":
		return time.Unix(mostTime, 0).UTC(), true
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	return at, err == nil
}

func timeParam(r *http.Request, name string, fallback time.Time) (time.Time, error) {
	text := r.Form.Get(name)
	if text == "" {
		return fallback, nil
	}
	at, ok := timeOf(text)
	if !ok {
		return at, badData("invalid parameter %q: cannot parse %q to a valid timestamp", name, model.Clip(text))
	}
	return at, nil
}

// duration reads seconds, or Prometheus' durations such as 5m.
func duration(text string) (time.Duration, error) {
	if v, err := strconv.ParseFloat(text, 64); err == nil {
		ns := v * float64(time.Second)
		if math.IsNaN(ns) || ns >= math.MaxInt64 || ns <= math.MinInt64 {
			return 0, badData("cannot parse %q to a valid duration: it overflows int64", model.Clip(text))
		}
		return time.Duration(ns), nil
	}
	d, err := promodel.ParseDuration(text)
	if err != nil {
		return 0, badData("cannot parse %q to a valid duration", model.Clip(text))
	}
	return time.Duration(d), nil
}

// mostLookback keeps sums of times far from the ends of their range.
const mostLookback = 100 * 365 * 24 * time.Hour

func lookbackOf(r *http.Request) (time.Duration, error) {
	text := r.Form.Get("lookback_delta")
	if text == "" {
		return Lookback, nil
	}
	d, err := duration(text)
	if err != nil || d < time.Millisecond || d > mostLookback {
		return 0, badData("invalid parameter %q: %q is not a duration from 1ms to 100y", "lookback_delta", model.Clip(text))
	}
	return d, nil
}

// limitOf is the most items of an answer, 0 for all.
func limitOf(r *http.Request, name string) (int, error) {
	text := r.Form.Get(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, badData("invalid parameter %q: %q is not a number of items, 0 for all", name, model.Clip(text))
	}
	return n, nil
}

// mostMatches bounds the selectors of a request.
const mostMatches = 100

// matches reads match[]; without one, all is the selector of everything.
func matches(r *http.Request, needed bool) ([]*selector, error) {
	texts := r.Form["match[]"]
	switch {
	case len(texts) == 0 && needed:
		return nil, badData("no match[] parameter provided")
	case len(texts) == 0:
		return []*selector{newSelector(nil)}, nil
	case len(texts) > mostMatches:
		return nil, badData("there are %d match[] parameters, there may be %d", len(texts), mostMatches)
	}
	var out []*selector
	for _, text := range texts {
		if len(text) > maxQuery {
			return nil, badData("a match[] has %d bytes, it may have %d", len(text), maxQuery)
		}
		matchers, err := parser.ParseMetricSelector(text)
		if err != nil {
			return nil, badData("invalid parameter %q: %v", "match[]", err)
		}
		if !selects(matchers) {
			return nil, badData("invalid parameter %q: match[] must contain at least one non-empty matcher", "match[]")
		}
		out = append(out, newSelector(matchers))
	}
	return out, nil
}

func selects(matchers []*labels.Matcher) bool {
	for _, m := range matchers {
		if !m.Matches("") {
			return true
		}
	}
	return false
}
