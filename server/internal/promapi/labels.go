package promapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// The labels that every series has besides its own.
const (
	labelName      = "__name__"
	labelMetric    = "metric" // the exact name
	labelWorkspace = "workspace"
	labelProject   = "project"
	labelRun       = "run"
	labelScale     = "scale"
	labelExact     = "label_names" // the exact names of labels that have another here
)

// runInfo is a series of each run with the value 1, whose labels tell of the run.
const (
	runInfo  = "kymogram_run_info"
	labelRID = "run_id"
)

// exported comes before a label of a point that has one of our names.
const exported = "exported_"

// axisOf is the axis of a label such as __axis_window__, which selects points.
func axisOf(label string) (model.Axis, bool) {
	name, ok := strings.CutPrefix(label, "__axis_")
	name, end := strings.CutSuffix(name, "__")
	return model.Axis(name), ok && end && name != ""
}

// fold turns what PromQL does not take in a name into _. A metric's name may have colons.
func fold(name string, colon bool) string {
	first := true
	return strings.Map(func(r rune) rune {
		digit := r >= '0' && r <= '9' && !first
		first = false
		if digit || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r == '_' || r == ':' && colon {
			return r
		}
		return '_'
	}, name)
}

// direct says that only the metric of this very name is folded to it.
func direct(name string) bool { return name != "" && !strings.Contains(name, "_") }

func reserved(name string) bool {
	return strings.HasPrefix(name, "__") || slices.Contains([]string{labelMetric, labelWorkspace, labelProject, labelRun, labelScale, labelExact}, name)
}

// own are the labels of a key that are the user's. Where one could not keep its name, one
// more label tells the exact names: without it a.b and a_b of two series were the same.
func own(key model.SeriesKey) []labels.Label {
	names := make([]string, len(key.Labels))
	for i, l := range key.Labels {
		names[i] = l.Name
	}
	given := rename(names)
	out := make([]labels.Label, len(names), len(names)+8)
	var exact []string
	for i, l := range key.Labels {
		out[i] = labels.Label{Name: given[i], Value: l.Value}
		if given[i] != l.Name {
			exact = append(exact, given[i]+"="+escapeComma.Replace(l.Name))
		}
	}
	if exact != nil {
		out = append(out, labels.Label{Name: labelExact, Value: strings.Join(exact, ",")})
	}
	return out
}

var escapeComma = strings.NewReplacer(`\`, `\\`, ",", `\,`)

// rename gives each of some sorted names one that PromQL takes, and no two the same. A name that
// can stay does. The others follow in their order; one that finds its name taken gets a number.
func rename(names []string) []string {
	given := make([]string, len(names))
	taken := make(map[string]bool, len(names))
	for i, name := range names {
		if fold(name, false) == name && !reserved(name) {
			given[i], taken[name] = name, true
		}
	}
	last := map[string]int{} // numbers given, so that many names of one kind stay cheap
	for i, name := range names {
		if given[i] != "" {
			continue
		}
		plain := fold(name, false)
		if reserved(plain) {
			plain = exported + plain
		}
		free := plain
		for taken[free] {
			last[plain] = max(last[plain]+1, 2)
			free = plain + "_" + strconv.Itoa(last[plain])
		}
		given[i], taken[free] = free, true
	}
	return given
}

// labelsOf are all labels of a series.
func labelsOf(run *query.PlacedRun, key model.SeriesKey) labels.Labels {
	list := append(own(key),
		labels.Label{Name: labelName, Value: fold(key.Metric, true)},
		labels.Label{Name: labelMetric, Value: key.Metric},
		labels.Label{Name: labelScale, Value: key.Scale})
	return place(run, list)
}

// infoOf are the labels of a run's info.
func infoOf(run *query.PlacedRun) labels.Labels {
	names := make([]string, len(run.Config))
	for i := range run.Config {
		names[i] = run.Config[i].Path
	}
	list := make([]labels.Label, len(names), len(names)+6)
	for i, name := range rename(names) {
		list[i] = labels.Label{Name: name, Value: valueText(run.Config[i].Value)}
	}
	list = append(list,
		labels.Label{Name: labelName, Value: runInfo},
		labels.Label{Name: labelMetric, Value: runInfo},
		labels.Label{Name: labelRID, Value: run.ID.String()})
	return place(run, list)
}

func place(run *query.PlacedRun, list []labels.Label) labels.Labels {
	list = append(list,
		labels.Label{Name: labelWorkspace, Value: run.Workspace},
		labels.Label{Name: labelProject, Value: run.Project},
		labels.Label{Name: labelRun, Value: run.Name})
	list = slices.DeleteFunc(list, func(l labels.Label) bool { return l.Value == "" })
	return labels.New(list...)
}

// valueText is a value of a config as a label has it.
func valueText(v model.Value) string {
	switch v.Type {
	case model.TypeBool:
		return strconv.FormatBool(v.Bool)
	case model.TypeInt:
		return strconv.FormatInt(v.Int, 10)
	case model.TypeFloat:
		return strconv.FormatFloat(v.Float, 'g', -1, 64)
	case model.TypeStringSet:
		return strings.Join(v.Set, ",")
	}
	return v.Str
}

// selector is a PromQL selector, sorted by what it is about.
type selector struct {
	runs, series []*labels.Matcher
	axes         map[model.Axis][]*labels.Matcher
}

func newSelector(matchers []*labels.Matcher) *selector {
	s := &selector{axes: map[model.Axis][]*labels.Matcher{}}
	for _, m := range matchers {
		axis, ok := axisOf(m.Name)
		switch {
		case ok:
			s.axes[axis] = append(s.axes[axis], m)
		case m.Name == labelWorkspace || m.Name == labelProject || m.Name == labelRun:
			s.runs = append(s.runs, m)
		default:
			s.series = append(s.series, m)
		}
	}
	return s
}

func (s *selector) matchRun(run query.PlacedRun) bool {
	for _, m := range s.runs {
		value := run.Name
		switch m.Name {
		case labelWorkspace:
			value = run.Workspace
		case labelProject:
			value = run.Project
		}
		if !m.Matches(value) {
			return false
		}
	}
	return true
}

// metric is the exact name that is selected, "" where that is not sure.
func (s *selector) metric() string {
	for _, m := range s.series {
		if m.Type == labels.MatchEqual && (m.Name == labelMetric || m.Name == labelName && direct(m.Value)) {
			return m.Value
		}
	}
	return ""
}

// matchKeys makes the matcher of series. Those of a metric come one after the other, so what
// is known of the last is kept.
func (s *selector) matchKeys() func(model.SeriesKey) bool {
	last, known, folded := "", false, ""
	var names, rest []*labels.Matcher
	for _, m := range s.series {
		if m.Name == labelName || m.Name == labelMetric {
			names = append(names, m)
		} else {
			rest = append(rest, m)
		}
	}
	fits := func(metric string) bool {
		folded = fold(metric, true)
		for _, m := range names {
			if m.Name == labelMetric && !m.Matches(metric) || m.Name == labelName && !m.Matches(folded) {
				return false
			}
		}
		return true
	}
	fit := false
	return func(key model.SeriesKey) bool {
		if !known || key.Metric != last {
			last, known = strings.Clone(key.Metric), true
			fit = fits(last)
		}
		return fit && matchRest(rest, key)
	}
}

func matchRest(rest []*labels.Matcher, key model.SeriesKey) bool {
	var user []labels.Label
	for _, m := range rest {
		if m.Name == labelScale {
			if !m.Matches(key.Scale) {
				return false
			}
			continue
		}
		if user == nil {
			user = own(key)
		}
		value := ""
		for _, l := range user {
			if l.Name == m.Name {
				value = l.Value
			}
		}
		if !m.Matches(value) {
			return false
		}
	}
	return true
}

// matchInfo says whether a run's info is selected: it has no points, so no axes either.
func (s *selector) matchInfo(info labels.Labels) bool {
	for _, m := range s.series {
		if !m.Matches(info.Get(m.Name)) {
			return false
		}
	}
	return s.matchAxes(func(model.Axis) string { return "" })
}

// mayInfo says whether the info of any run may be selected, before its config is read.
func (s *selector) mayInfo() bool {
	for _, m := range s.series {
		if (m.Name == labelName || m.Name == labelMetric) && !m.Matches(runInfo) || m.Name == labelScale && !m.Matches("") {
			return false
		}
	}
	return true
}

// matchAxes says whether a point is selected; value is "" where it lacks an axis.
func (s *selector) matchAxes(value func(model.Axis) string) bool {
	for axis, list := range s.axes {
		text := value(axis)
		for _, m := range list {
			if !m.Matches(text) {
				return false
			}
		}
	}
	return true
}
