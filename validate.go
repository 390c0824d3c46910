package kymogram

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

// The limits of names, in bytes of UTF-8; the server has the same.
const (
	maxMetric     = 1024
	maxScale      = 64
	maxLabels     = 64
	maxLabelName  = 128
	maxLabelValue = 1024
	maxEnv        = 128
	maxPath       = 512
	maxRunName    = 256
	maxTag        = 256
	maxText       = 64 << 10
	maxTags       = 1000 // in one update
	maxStep       = 1 << 62

	queryCharacters = `()[],=<>!~"|`
)

func invalidf(format string, args ...any) error {
	return model.Errorf(model.CodeInvalid, format, args...)
}

// checkText wants UTF-8 of at most limit bytes.
func checkText(what, s string, limit int) error {
	if len(s) > limit {
		return invalidf("%s has %d bytes, at most %d are allowed: %q…", what, len(s), limit, strings.ToValidUTF8(s[:min(60, limit)], ""))
	}
	if !utf8.ValidString(s) {
		return invalidf("%s is not valid UTF-8: %q", what, s)
	}
	return nil
}

// checkName wants a text that is not empty and has no control characters.
func checkName(what, s string, limit int) error {
	if s == "" {
		return invalidf("%s is empty", what)
	}
	if err := checkText(what, s, limit); err != nil {
		return err
	}
	return checkControl(what, s)
}

func checkControl(what, s string) error {
	for _, r := range s {
		if unicode.IsControl(r) {
			return invalidf("%s contains the control character %q: %q", what, r, s)
		}
	}
	return nil
}

func checkSpace(what, s string) error {
	for _, r := range s {
		if unicode.IsSpace(r) {
			return invalidf("%s contains white space %q: %q. Use '_', '-' or '/' between words", what, r, s)
		}
	}
	return nil
}

func checkWithout(what, s, forbidden, why string) error {
	if i := strings.IndexAny(s, forbidden); i >= 0 {
		return invalidf("%s contains %q: %q. %s: %s", what, s[i], s, why, forbidden)
	}
	return nil
}

// checkQuery is the rule of names that appear in queries.
func checkQuery(what, s string, limit int, more string) error {
	if err := checkName(what, s, limit); err != nil {
		return err
	}
	if err := checkSpace(what, s); err != nil {
		return err
	}
	if s[0] == ':' {
		return invalidf("%s starts with ':': %q", what, s)
	}
	return checkWithout(what, s, queryCharacters+more, "Reserved by the query language")
}

func checkMetric(s string) error { return checkQuery("metric name", s, maxMetric, "") }

func checkScale(s string) error {
	if err := checkName("scale", s, maxScale); err != nil {
		return err
	}
	return checkSpace("scale", s)
}

func checkLabels(labels map[string]string) error {
	if len(labels) > maxLabels {
		return invalidf("%d labels; a series has at most %d", len(labels), maxLabels)
	}
	for name, value := range labels {
		if err := checkQuery("label name", name, maxLabelName, "&"); err != nil {
			return err
		}
		what := fmt.Sprintf("value of label %q", name)
		if err := checkText(what, value, maxLabelValue); err != nil {
			return err
		}
		if err := checkControl(what, value); err != nil {
			return err
		}
		if err := checkWithout(what, value, "=&", "Reserved between labels"); err != nil {
			return err
		}
	}
	return nil
}

func checkEnv(s string) error {
	if err := checkName("env id", s, maxEnv); err != nil {
		return err
	}
	if err := checkSpace("env id", s); err != nil {
		return err
	}
	return checkWithout("env id", s, `/\?#%`, "An environment id is one part of a URL")
}

func checkPath(s string) error {
	if err := checkQuery("attribute path", s, maxPath, ""); err != nil {
		return err
	}
	if strings.HasPrefix(s, "sys/") {
		return invalidf("attribute path starts with 'sys/', which is reserved: %q", s)
	}
	return nil
}

// oddPath says what Metrana's document, though not its client, forbids in a path.
func oddPath(s string) string {
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

func checkTags(tags []string) error {
	for _, tag := range tags {
		if err := checkName("tag", tag, maxTag); err != nil {
			return err
		}
	}
	return nil
}

func checkRunName(what, s string) error { return checkName(what, s, maxRunName) }

// checkPlace is the rule of workspaces and projects.
func checkPlace(what, s string) error {
	if err := checkName(what, s, 128); err != nil {
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

func checkStep(what string, step int64) error {
	if step < 0 {
		return invalidf("%s is negative: %d; steps go from 0 to 2^62", what, step)
	}
	if step > maxStep {
		return invalidf("%s is above 2^62, the largest step: %d", what, step)
	}
	return nil
}
