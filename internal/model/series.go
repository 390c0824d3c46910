package model

import (
	"slices"
	"strings"
)

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
	size := len(k.Metric) + 1 + len(k.Scale)
	for _, l := range k.Labels {
		size += 2 + len(l.Name) + len(l.Value)
	}
	var b strings.Builder
	b.Grow(size) // what is kept for every series has no spare room
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
	metric, rest, ok := strings.Cut(s, "\x00")
	if !ok {
		return SeriesKey{}, false
	}
	scale, rest, more := strings.Cut(rest, "\x00")
	key := SeriesKey{Metric: metric, Scale: scale}
	if more {
		key.Labels = make([]Label, 0, 1+strings.Count(rest, "\x00"))
	}
	for more {
		var part string
		part, rest, more = strings.Cut(rest, "\x00")
		name, value, ok := strings.Cut(part, "\x01")
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
