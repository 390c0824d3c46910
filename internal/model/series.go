package model

import (
	"slices"
	"strings"
)

// Kind is the type of a series' values, set by its first point.
type Kind uint8

// The kinds of series.
const (
	KindFloat     Kind = 1 // float64, every bit pattern kept
	KindInt       Kind = 2 // int64, exact
	KindText      Kind = 3 // UTF-8
	KindHistogram Kind = 4 // the JSON of a [Histogram]
	KindScatter   Kind = 5 // the JSON of a [Scatter]
)

var kindNames = [...]string{KindFloat: "float64", KindInt: "int64", KindText: "text", KindHistogram: "histogram", KindScatter: "scatter"}

func (k Kind) String() string {
	if int(k) < len(kindNames) && kindNames[k] != "" {
		return kindNames[k]
	}
	return "unknown"
}

// The standard scales of Metrana; others are allowed.
const (
	ScaleStep        = "ML_STEP"
	ScaleEpisode     = "EPISODE"
	ScaleEnvironment = "ENVIRONMENT_STEP"
)

// LabelEnv is the reserved label that names the environment of an RL series.
const LabelEnv = "env_id"

// Label is one name=value pair of a series.
type Label struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// SeriesKey identifies a series inside a run. Labels are sorted by name and
// unique. Build it with [NewSeriesKey].
type SeriesKey struct {
	Metric string
	Scale  string
	Labels []Label
}

// NewSeriesKey sorts the labels of a map into a key. An empty scale is ML_STEP.
func NewSeriesKey(metric, scale string, labels map[string]string) SeriesKey {
	if scale == "" {
		scale = ScaleStep
	}
	key := SeriesKey{Metric: metric, Scale: scale}
	for name, value := range labels {
		key.Labels = append(key.Labels, Label{name, value})
	}
	slices.SortFunc(key.Labels, func(a, b Label) int { return strings.Compare(a.Name, b.Name) })
	return key
}

// String is a canonical, reversible-by-eye text: equal keys have equal strings
// and different keys different ones. Validated names hold no control characters,
// so the separators cannot occur in them.
func (k SeriesKey) String() string {
	var b strings.Builder
	b.WriteString(k.Metric)
	b.WriteByte(0)
	b.WriteString(k.Scale)
	for _, l := range k.Labels {
		b.WriteByte(0)
		b.WriteString(l.Name)
		b.WriteByte(1)
		b.WriteString(l.Value)
	}
	return b.String()
}

// ParseSeriesKey reads what [SeriesKey.String] wrote.
func ParseSeriesKey(s string) (SeriesKey, bool) {
	parts := strings.Split(s, "\x00")
	if len(parts) < 2 {
		return SeriesKey{}, false
	}
	key := SeriesKey{Metric: parts[0], Scale: parts[1]}
	for _, p := range parts[2:] {
		name, value, ok := strings.Cut(p, "\x01")
		if !ok {
			return SeriesKey{}, false
		}
		key.Labels = append(key.Labels, Label{name, value})
	}
	return key, true
}

// LabelMap is the labels as a map; never nil.
func (k SeriesKey) LabelMap() map[string]string {
	m := make(map[string]string, len(k.Labels))
	for _, l := range k.Labels {
		m[l.Name] = l.Value
	}
	return m
}

// Axis names an int64 column that orders points. Time is not an Axis: every
// point has its time in nanoseconds beside its axes.
type Axis string

// The axes. The number that the spool uses for each is its place in [Axes].
const (
	AxisStep       Axis = "step"
	AxisRLStep     Axis = "rl_step"
	AxisEpisode    Axis = "episode"
	AxisEnvStep    Axis = "env_step"
	AxisWindow     Axis = "window"
	AxisBlock      Axis = "block"
	AxisGlobalStep Axis = "global_step"
	AxisEpoch      Axis = "epoch"
	AxisBatch      Axis = "batch"
	AxisTokens     Axis = "tokens"
	// AxisTime is accepted wherever a reader names an axis.
	AxisTime Axis = "time_ns"
)

// Axes lists every stored axis in canonical order; a new one is appended.
func Axes() []Axis {
	return []Axis{AxisStep, AxisRLStep, AxisEpisode, AxisEnvStep, AxisWindow, AxisBlock, AxisGlobalStep, AxisEpoch, AxisBatch, AxisTokens}
}
