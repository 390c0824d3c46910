package read

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// How much of its configuration and its last values a run's own document has at most, of
// servers that do not say where they cut.
const (
	briefConfig  = 100
	briefSummary = 50
	configFolder = "config/"
)

// brief is what a run's document has of its configuration and of its last values.
type brief struct {
	Config     map[string]json.RawMessage `json:"config"`
	ConfigCut  bool                       `json:"config_cut"`
	Summary    map[string]Last            `json:"summary"`
	SummaryCut bool                       `json:"summary_cut"`
}

// Last is the last point of a numeric series.
type Last struct {
	Step   *int64 // nil for a series without steps
	TimeNs int64
	Float  float64 // the value; of int64 the nearest
	Int    int64   // the value where it is a whole number of int64, exact; else 0
}

// UnmarshalJSON reads {"step","time_ns","value"}.
func (l *Last) UnmarshalJSON(text []byte) error {
	var doc struct {
		Step   *int64          `json:"step"`
		TimeNs int64           `json:"time_ns"`
		Value  json.RawMessage `json:"value"`
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("read a last value: %w", err)
	}
	*l = Last{Step: doc.Step, TimeNs: doc.TimeNs}
	digits := strings.Trim(string(doc.Value), `"`) // a large integer is text
	var err error
	if l.Int, err = strconv.ParseInt(digits, 10, 64); err == nil {
		l.Float = float64(l.Int)
		return nil
	}
	if err := (*model.JSONFloat)(&l.Float).UnmarshalJSON(doc.Value); err != nil {
		return fmt.Errorf("read a last value: %w", err)
	}
	if l.Float == math.Trunc(l.Float) && math.Abs(l.Float) < 1<<63 {
		l.Int = int64(l.Float)
	}
	return nil
}

// UnmarshalJSON reads a run's document.
func (r *Run) UnmarshalJSON(text []byte) error {
	type fields Run // without this method
	r.brief = brief{}
	doc := struct {
		*fields
		*brief
		Values map[string]json.RawMessage `json:"values"`
	}{fields: (*fields)(r), brief: &r.brief}
	if err := json.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("read a run: %w", err)
	}
	var err error
	r.Values, err = plains(doc.Values)
	return err
}

// Config is the run's configuration: its attributes under config/ by their path below it,
// each a bool, string, int64, float64 or []string. Of a long one the rest is read from the
// server. Integers beyond 2^53, NaN and the infinities are text; [Run.Attributes] has them
// with their types.
func (r *Run) Config(ctx context.Context) (map[string]any, error) {
	if r.brief.Config != nil && !r.brief.ConfigCut && len(r.brief.Config) < briefConfig {
		return plains(r.brief.Config)
	}
	out := map[string]any{}
	attributes, err := r.Attributes(ctx)
	if err != nil {
		return nil, err
	}
	for path, value := range attributes {
		if below, ok := strings.CutPrefix(path, configFolder); ok {
			out[below] = shown(value)
		}
	}
	return out, nil
}

// plains are values of a run's document.
func plains(raw map[string]json.RawMessage) (map[string]any, error) {
	out := make(map[string]any, len(raw))
	for path, text := range raw {
		value, err := plain(text)
		if err != nil {
			return nil, fmt.Errorf("read the run's %s: %w", path, err)
		}
		out[path] = value
	}
	return out, nil
}

// plain is a value of a run's document.
func plain(raw json.RawMessage) (any, error) {
	switch {
	case len(raw) > 0 && raw[0] == '[':
		set := []string{}
		err := json.Unmarshal(raw, &set)
		return set, err
	case len(raw) > 0 && (raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'):
		if whole, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return whole, nil
		}
	}
	var out any
	err := json.Unmarshal(raw, &out)
	return out, err
}

// shown is an attribute as a run's document has it.
func shown(v Value) any {
	const safe = 1 << 53
	switch v.Type {
	case model.TypeBool:
		return v.Bool
	case model.TypeInt, model.TypeTime:
		if v.Int > safe || v.Int < -safe {
			return strconv.FormatInt(v.Int, 10)
		}
		return v.Int
	case model.TypeFloat:
		raw := model.AppendJSONFloat(nil, v.Float)
		if raw[0] == '"' {
			return strings.Trim(string(raw), `"`)
		}
		if whole, err := strconv.ParseInt(string(raw), 10, 64); err == nil {
			return whole // as the document, which has one form for 5 and 5.0
		}
		return v.Float
	case model.TypeStringSet:
		return append([]string{}, v.Set...)
	}
	return v.Str
}

// Summary is the last values of the numeric series without labels, by metric. ML_STEP comes
// before other scales. An evaluation series next to a training one is "METRIC (evaluation)".
// The default environment of RL does not count as a label. Where there are many, the rest is
// read from the server.
func (r *Run) Summary(ctx context.Context) (map[string]Last, error) {
	if r.brief.Summary != nil && !r.brief.SummaryCut && len(r.brief.Summary) < briefSummary {
		out := make(map[string]Last, len(r.brief.Summary))
		for name, last := range r.brief.Summary {
			out[name] = last
		}
		return out, nil
	}
	var every []*Series
	trained := map[string]bool{}
	for s, err := range r.Series(ctx, "") {
		if err != nil {
			return nil, err
		}
		if s.isPlain() {
			every = append(every, s)
			trained[s.Metric] = trained[s.Metric] || !s.isEvaluation()
		}
	}
	out := map[string]Last{}
	for _, s := range every {
		if s.Last == nil {
			continue
		}
		name := s.Metric
		if s.isEvaluation() && trained[name] {
			name += " (evaluation)"
		}
		if _, known := out[name]; !known || s.Scale == model.ScaleStep {
			out[name] = *s.Last
		}
	}
	return out, nil
}

// isPlain: the series stands for its metric.
func (s *Series) isPlain() bool {
	return len(s.Labels) == 0 || len(s.Labels) == 1 && (s.Labels[model.LabelEnv] == "default" || s.isEvaluation())
}

func (s *Series) isEvaluation() bool { return len(s.Labels) == 1 && s.Labels["evaluation"] == "true" }
