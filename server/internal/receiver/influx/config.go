package influx

import (
	"errors"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/runrule"
)

// Config is what a user sets: rules as BUCKET=RULE, where the bucket * stands
// for all that have none of their own.
type Config struct {
	// Runs names the run of a point: alternatives separated by |, each a text with
	// tags in braces; the first whose tags the point has is taken.
	Runs []string
	// Axes are the tags that are axes where they hold an integer, separated by |;
	// the first of them that a point has is its step too.
	Axes []string
	// Attributes are the tags that describe the process that logs, separated by |; one may
	// end in *. They are attributes of the run and of its attempt, not labels.
	Attributes []string
	// Workspace is that of requests without an organisation.
	Workspace string
}

// The rules of a bucket that has none.
const (
	defaultRun       = "{run}|{role}-{uid}|default"
	defaultWorkspace = "default"
	settingRuns      = "influx.runs"
	// Templar's. Without a rule they describe the process of points with a runtimeTag.
	defaultAttributes = "runtime_id|version|config_*|group|job_type|prefix|role|uid"
	runtimeTag        = "runtime_id"
)

// defaultAxes is in the order in which they become the step.
func defaultAxes() []model.Axis {
	return []model.Axis{model.AxisStep, model.AxisGlobalStep, model.AxisWindow, model.AxisBlock, model.AxisBatch, model.AxisEpoch}
}

// Rules are a bucket's.
type Rules struct {
	run        runrule.Rule
	axes       []model.Axis
	attributes []string
	ruled      bool // attributes are those that the configuration has
}

// rules reads the configuration once; find gives a bucket's.
type ruleBook map[string]*Rules

func (b ruleBook) find(bucket string) *Rules {
	if r := b[bucket]; r != nil {
		return r
	}
	return b[runrule.AnyPlace]
}

func newRuleBook(c Config) (ruleBook, error) {
	run, err := runrule.Parse(settingRuns, defaultRun)
	if err != nil {
		return nil, err
	}
	book := ruleBook{runrule.AnyPlace: {run: run, axes: defaultAxes(), attributes: strings.Split(defaultAttributes, "|")}}
	for _, anyFirst := range []bool{true, false} { // others start from what * says
		if err := book.addAll(c, anyFirst); err != nil {
			return nil, err
		}
	}
	return book, nil
}

func (b ruleBook) addAll(c Config, anyOnly bool) error {
	return errors.Join(
		b.add(settingRuns, c.Runs, anyOnly, func(r *Rules, rule string) (err error) {
			r.run, err = runrule.Parse(settingRuns, rule)
			return err
		}),
		b.add("influx.axes", c.Axes, anyOnly, func(r *Rules, rule string) (err error) {
			r.axes, err = parseAxes(rule)
			return err
		}),
		b.add("influx.attributes", c.Attributes, anyOnly, func(r *Rules, rule string) (err error) {
			r.attributes, err = parseAttributes(rule)
			r.ruled = true
			return err
		}),
	)
}

func (b ruleBook) add(setting string, texts []string, anyOnly bool, set func(*Rules, string) error) error {
	for _, text := range texts {
		bucket, rule, err := runrule.Split(setting, "bucket", text)
		if err == nil && (bucket == runrule.AnyPlace) == anyOnly {
			err = set(b.own(bucket), rule)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// own is a bucket's rules, made from those of * when it has none.
func (b ruleBook) own(bucket string) *Rules {
	if b[bucket] == nil {
		rules := *b[runrule.AnyPlace]
		b[bucket] = &rules
	}
	return b[bucket]
}

func parseAxes(rule string) ([]model.Axis, error) {
	var out []model.Axis
	for name := range strings.SplitSeq(rule, "|") {
		if name == "" {
			continue
		}
		axis := model.Axis(name)
		if !slices.Contains(model.Axes(), axis) || slices.Contains(out, axis) {
			return nil, model.Errorf(model.CodeInvalid, "influx.axes: %q is not an axis, or is there twice", model.Clip(name)).
				WithHint("The axes are %v.", model.Axes())
		}
		out = append(out, axis)
	}
	return out, nil
}

func parseAttributes(rule string) (out []string, err error) {
	for name := range strings.SplitSeq(rule, "|") {
		if name == "" {
			continue
		}
		if at := strings.IndexByte(name, '*'); at >= 0 && at < len(name)-1 || slices.Contains(out, name) {
			return nil, model.Errorf(model.CodeInvalid, "influx.attributes: %q has a * that is not its end, or is there twice", model.Clip(name)).
				WithHint("Such as templar=runtime_id|version|config_*.")
		}
		out = append(out, name)
	}
	return out, nil
}

// describes reports whether a tag says something of the process, and nothing of the point.
// Role and uid do only where they are in the run's name: elsewhere they tell points apart.
func (r *Rules) describes(name string, inRun []string) bool {
	if (name == "role" || name == "uid") && !slices.Contains(inRun, name) {
		return false
	}
	return slices.ContainsFunc(r.attributes, func(pattern string) bool {
		if start, found := strings.CutSuffix(pattern, "*"); found {
			return strings.HasPrefix(name, start)
		}
		return name == pattern
	})
}

// attributePath is where a tag's value is among a run's attributes: a configuration is
// where every other client puts it.
func attributePath(name string) string {
	if rest, found := strings.CutPrefix(name, "config_"); found && rest != "" {
		return "config/" + rest
	}
	return name
}

// name is the run of a point with these tags, and the tags that are in it. Whole is the tag
// of which that name says all, so that the tag need not be a label too.
func (r *Rules) name(tags []tag) (name, whole string, inRun []string) {
	return r.run.Name(func(name string) (string, bool) {
		at := slices.IndexFunc(tags, func(t tag) bool { return t.name == name })
		if at < 0 {
			return "", false
		}
		return tags[at].value, true
	})
}
