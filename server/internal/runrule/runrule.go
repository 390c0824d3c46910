// Package runrule names the run of points that come in a foreign protocol, by what they say
// of themselves.
//
// In: rules that users set, PLACE=ALTERNATIVE|ALTERNATIVE…, and the tags of a point.
// Out: the name of its run. Start with [Parse] and [Rule.Name].
package runrule

import (
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// AnyPlace stands for all places without a rule of their own.
const AnyPlace = "*"

// Rule is alternatives: the first whose tags a point has names its run. The last needs no
// tag, so that every point has a run.
type Rule []template

// template is literal texts with a tag between each two.
type template struct{ texts, tags []string }

// Split cuts PLACE=RULE apart. setting is the name of the setting and place what the
// protocol calls a project, for the error.
func Split(setting, place, text string) (name, rule string, err error) {
	name, rule, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return "", "", model.Errorf(model.CodeInvalid, "%s: %q is not of the form %s=RULE", setting, model.Clip(text), strings.ToUpper(place)).
			WithHint("Alternatives are separated by |, such as templar=%s; the %s * is for all others.", example(setting), place)
	}
	return name, rule, nil
}

// example is a rule of a setting.
func example(setting string) string {
	switch {
	case strings.HasSuffix(setting, ".axes"):
		return "window|global_step"
	case strings.HasSuffix(setting, ".attributes"):
		return "role|uid"
	}
	return "{role}-{uid}|default"
}

// Parse reads alternatives: texts with tags in braces, separated by |.
func Parse(setting, rule string) (Rule, error) {
	var out Rule
	for part := range strings.SplitSeq(rule, "|") {
		t, ok := parseTemplate(part)
		if !ok {
			return nil, model.Errorf(model.CodeInvalid, "%s: %q is not a name of runs", setting, model.Clip(part)).
				WithHint("Write tags in braces, such as {role}-{uid}.")
		}
		out = append(out, t)
	}
	if len(out[len(out)-1].tags) > 0 {
		return nil, model.Errorf(model.CodeInvalid, "%s: %q leaves points without those tags without a run", setting, model.Clip(rule)).
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

// Name is the run of a point with these tags, and the tags that are in it. whole is the tag
// of which that name says all.
func (r Rule) Name(value func(tag string) (string, bool)) (name, whole string, inName []string) {
	for i := range r {
		t := &r[i]
		name, ok := t.fill(value)
		if !ok {
			continue
		}
		if len(t.tags) == 1 && t.texts[0] == "" && t.texts[1] == "" {
			whole = t.tags[0]
		}
		return name, whole, t.tags
	}
	return r[len(r)-1].texts[0], "", nil
}

// Has reports whether a tag for which is holds may be in a name.
func (r Rule) Has(is func(tag string) bool) bool {
	return slices.ContainsFunc(r, func(t template) bool { return slices.ContainsFunc(t.tags, is) })
}

func (t *template) fill(value func(tag string) (string, bool)) (string, bool) {
	var b strings.Builder
	for i, text := range t.texts {
		b.WriteString(text)
		if i == len(t.tags) {
			break
		}
		v, ok := value(t.tags[i])
		if !ok {
			return "", false
		}
		b.WriteString(v)
	}
	return b.String(), true
}
