package query

import (
	"regexp"
	"regexp/syntax"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// byName matches the metric's name. A list asks for the series of a metric one
// after the other, so the last answer is kept; a text that every match must hold
// is looked for first, which is ten times faster than the expression.
func byName(re *regexp.Regexp) func(model.SeriesKey) bool {
	must := required(re.String())
	last, answer := "", re.MatchString("")
	return func(key model.SeriesKey) bool {
		if key.Metric != last {
			last = key.Metric
			answer = strings.Contains(last, must) && re.MatchString(last)
		}
		return answer
	}
}

// required is a text that is in everything that an expression matches, the
// longest that is easy to see; empty when none is.
func required(expression string) string {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return ""
	}
	return requiredOf(re.Simplify())
}

func requiredOf(re *syntax.Regexp) string {
	switch re.Op {
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase == 0 {
			return string(re.Rune)
		}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredOf(re.Sub[0])
	case syntax.OpConcat:
		longest := ""
		for _, sub := range re.Sub {
			if text := requiredOf(sub); len(text) > len(longest) {
				longest = text
			}
		}
		return longest
	}
	return ""
}
