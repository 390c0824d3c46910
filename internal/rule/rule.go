// Package rule says what a name, a text and a step may be, before a point with one
// is written: a log call learns at once what the server would refuse for good.
//
// A text goes in; nil comes out, or a [model.Error] with the code invalid_argument
// that names the thing, the rule and the place. The server has the same rules
// (internal/model and server/internal/ingest), and its word counts.
package rule

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// The limits that code outside needs to keep to, in bytes of UTF-8.
const (
	MaxPath = 512
	MaxText = 64 << 10
	MaxTags = 1000 // in one update
	MaxStep = 1 << 62
)

// QueryCharacters mean something in a query: no metric, label or path has one.
const QueryCharacters = `()[],=<>!~"|`

const (
	maxMetric     = 1024
	maxScale      = 128
	maxLabels     = 64
	maxLabelName  = 128
	maxLabelValue = 1024
	maxEnv        = 128
	maxPlace      = 128
	maxRunName    = 256
	maxTag        = 256
)

func invalidf(format string, args ...any) error {
	return model.Errorf(model.CodeInvalid, format, args...)
}

// Text checks for UTF-8 of at most limit bytes.
func Text(what, s string, limit int) error {
	if len(s) > limit {
		return invalidf("%s has %d bytes, at most %d are allowed: %q…", what, len(s), limit, strings.ToValidUTF8(s[:min(60, limit)], ""))
	}
	if !utf8.ValidString(s) {
		return invalidf("%s is not valid UTF-8: %q", what, s)
	}
	return nil
}

// name checks for a text that is not empty and has no control characters.
func name(what, s string, limit int) error {
	if s == "" {
		return invalidf("%s is empty", what)
	}
	if err := Text(what, s, limit); err != nil {
		return err
	}
	return control(what, s)
}

func control(what, s string) error {
	for _, r := range s {
		if unicode.IsControl(r) {
			return invalidf("%s contains the control character %q: %q", what, r, s)
		}
	}
	return nil
}

func space(what, s string) error {
	for _, r := range s {
		if unicode.IsSpace(r) {
			return invalidf("%s contains white space %q: %q. Use '_', '-' or '/' between words", what, r, s)
		}
	}
	return nil
}

func without(what, s, forbidden, why string) error {
	if i := strings.IndexAny(s, forbidden); i >= 0 {
		return invalidf("%s contains %q: %q. %s: %s", what, s[i], s, why, forbidden)
	}
	return nil
}

// query is the rule of names that appear in queries.
func query(what, s string, limit int, more string) error {
	if err := name(what, s, limit); err != nil {
		return err
	}
	if err := space(what, s); err != nil {
		return err
	}
	if s[0] == ':' {
		return invalidf("%s starts with ':': %q", what, s)
	}
	return without(what, s, QueryCharacters+more, "Reserved by the query language")
}

// Metric checks the name of a metric.
func Metric(s string) error { return query("metric name", s, maxMetric, "") }

// Scale checks the name of what steps count.
func Scale(s string) error {
	if err := name("scale", s, maxScale); err != nil {
		return err
	}
	return space("scale", s)
}

// Labels checks the labels of a series.
func Labels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalidf("%d labels; a series has at most %d", len(labels), maxLabels)
	}
	for name, value := range labels {
		if err := query("label name", name, maxLabelName, "&"); err != nil {
			return err
		}
		what := fmt.Sprintf("value of label %q", name)
		if err := Text(what, value, maxLabelValue); err != nil {
			return err
		}
		if err := control(what, value); err != nil {
			return err
		}
		if err := without(what, value, "=&", "Reserved between labels"); err != nil {
			return err
		}
	}
	return nil
}

// Env checks the id of an RL environment.
func Env(s string) error {
	if err := name("env id", s, maxEnv); err != nil {
		return err
	}
	if err := space("env id", s); err != nil {
		return err
	}
	return without("env id", s, `/\?#%`, "An environment id is one part of a URL")
}

// Path checks the path of an attribute.
func Path(s string) error {
	if err := query("attribute path", s, MaxPath, ""); err != nil {
		return err
	}
	if strings.HasPrefix(s, "sys/") {
		return invalidf("attribute path starts with 'sys/', which is reserved: %q", s)
	}
	return nil
}

// Odd says what Metrana's document, though not its client, forbids in a path.
func Odd(s string) string {
	for part := range strings.SplitSeq(s, "/") {
		if part == "" {
			return "an empty key"
		}
	}
	for _, r := range s {
		if r >= utf8.RuneSelf || !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("._-:/", r) {
			return fmt.Sprintf("%q", r)
		}
	}
	return ""
}

// Tags checks each tag of a run or a video.
func Tags(tags []string) error {
	for _, tag := range tags {
		if err := name("tag", tag, maxTag); err != nil {
			return err
		}
	}
	return nil
}

// Run checks a name of a run, an experiment or a job.
func Run(what, s string) error { return name(what, s, maxRunName) }

// Place checks the name of a workspace or project.
func Place(what, s string) error {
	if err := name(what, s, maxPlace); err != nil {
		return err
	}
	for i, r := range s {
		plain := r < utf8.RuneSelf && (unicode.IsLetter(r) || unicode.IsDigit(r))
		if !plain && (i == 0 || !strings.ContainsRune("._-", r)) {
			return invalidf("%s contains %q at place %d: %q. It starts with a letter or digit, then letters, digits, '.', '_', '-'", what, r, i, s)
		}
	}
	return nil
}

// Step checks a step or an episode.
func Step(what string, step int64) error {
	if step < 0 {
		return invalidf("%s is negative: %d; steps go from 0 to 2^62", what, step)
	}
	if step > MaxStep {
		return invalidf("%s is above 2^62, the largest step: %d", what, step)
	}
	return nil
}
