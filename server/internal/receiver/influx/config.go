package influx

import (
	"errors"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
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
	anyBucket        = "*"
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
	run        []template
	axes       []model.Axis
	attributes []string
	ruled      bool // attributes are those that the configuration has
}

// template is literal texts with a tag between each two.
type template struct{ texts, tags []string }

// rules reads the configuration once; find gives a bucket's.
type ruleBook map[string]*Rules

func (b ruleBook) find(bucket string) *Rules {
	if r := b[bucket]; r != nil {
		return r
	}
	return b[anyBucket]
}

func newRuleBook(c Config) (ruleBook, error) {
	run, err := parseRun(defaultRun)
	if err != nil {
		return nil, err
	}
	book := ruleBook{anyBucket: {run: run, axes: defaultAxes(), attributes: strings.Split(defaultAttributes, "|")}}
	for _, anyFirst := range []bool{true, false} { // others start from what * says
		if err := book.addAll(c, anyFirst); err != nil {
			return nil, err
		}
	}
	return book, nil
}

func (b ruleBook) addAll(c Config, anyOnly bool) error {
	return errors.Join(
		b.add("influx.runs", c.Runs, anyOnly, func(r *Rules, rule string) (err error) {
			r.run, err = parseRun(rule)
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
		bucket, rule, err := splitRule(setting, text)
		if err == nil && (bucket == anyBucket) == anyOnly {
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
		rules := *b[anyBucket]
		b[bucket] = &rules
	}
	return b[bucket]
}

func splitRule(setting, text string) (bucket, rule string, err error) {
	bucket, rule, ok := strings.Cut(text, "=")
	if !ok || bucket == "" {
		return "", "", model.Errorf(model.CodeInvalid, "%s: %q is not of the form BUCKET=RULE", setting, model.Clip(text)).
			WithHint("Such as templar={role}-{uid}|default; the bucket * is for all others.")
	}
	return bucket, rule, nil
}

func parseRun(rule string) ([]template, error) {
	var out []template
	for part := range strings.SplitSeq(rule, "|") {
		t, ok := parseTemplate(part)
		if !ok {
			return nil, model.Errorf(model.CodeInvalid, "influx.runs: %q is not a name of runs", model.Clip(part)).
				WithHint("Write tags in braces, such as {role}-{uid}.")
		}
		out = append(out, t)
	}
	if len(out[len(out)-1].tags) > 0 {
		return nil, model.Errorf(model.CodeInvalid, "influx.runs: %q leaves points without those tags without a run", model.Clip(rule)).
			WithHint("End it with a name that needs no tag, such as |default.")
	}
	return out, nil
}

func parseTemplate(part string) (t template, ok bool) {
	for {
		text, rest, found := strings.Cut(part, "{")
		t.texts = append(t.texts, text)
		if !found {
			return t, !strings.ContainsAny(text, "{}") && (len(t.tags) > 0 || text != "")
		}
		tag, behind, closed := strings.Cut(rest, "}")
		if !closed || tag == "" || strings.Contains(text, "}") {
			return t, false
		}
		t.tags = append(t.tags, tag)
		part = behind
	}
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
	for i := range r.run {
		t := &r.run[i]
		name, ok := t.fill(tags)
		if !ok {
			continue
		}
		if len(t.tags) == 1 && t.texts[0] == "" && t.texts[1] == "" {
			whole = t.tags[0]
		}
		return name, whole, t.tags
	}
	return r.run[len(r.run)-1].texts[0], "", nil
}

func (t *template) fill(tags []tag) (string, bool) {
	var b strings.Builder
	for i, text := range t.texts {
		b.WriteString(text)
		if i == len(t.tags) {
			break
		}
		at := slices.IndexFunc(tags, func(o tag) bool { return o.name == t.tags[i] })
		if at < 0 {
			return "", false
		}
		b.WriteString(tags[at].value)
	}
	return b.String(), true
}
