package mongo

import (
	"regexp"
	"regexp/syntax"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// maxProgram bounds the instructions of all regular expressions of a filter: an
	// alternative of 300 hotkeys has about 14,000.
	maxProgram = 1 << 14
	// maxWork bounds these instructions times the bytes of a text: about a second.
	maxWork = 1 << 26
)

// expression is a regular expression that has passed the bounds.
type expression struct {
	*regexp.Regexp
	at      path
	source  string
	program *int // instructions of all expressions of the filter
}

func (p *parser) compile(at path, source, flags string) (*expression, error) {
	text := source
	if flags != "" {
		text = "(?" + flags + ")" + source
	}
	tooLarge := func() *model.Error {
		return refuse("the regular expressions of the filter are too large, at the one of %.100q", at.spelled).
			WithHint("Use smaller counts, or $in with a list of values.")
	}
	if len(text) > maxProgram {
		return nil, tooLarge()
	}
	tree, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil, refuse("the regular expression of %.100q is not valid: %v", at.spelled, err).WithHint("The syntax is RE2: https://github.com/google/re2/wiki/Syntax")
	}
	if *p.program += instructions(tree); *p.program > maxProgram {
		return nil, tooLarge()
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, refuse("the regular expression of %.100q is not valid: %v", at.spelled, err)
	}
	return &expression{re, at, source, p.program}, nil
}

// find looks for the expression in a text that is not too large for it.
func (e *expression) find(text string) (bool, error) {
	if len(text)**e.program > maxWork {
		return false, refuse("the regular expressions of the filter are too large for a value of %d bytes, at the one of %.100q", len(text), e.at.spelled).
			WithHint("Filter by a smaller part of the value, use smaller expressions, or $contains.")
	}
	return e.MatchString(text), nil
}

// instructions is an upper bound of what a compiled tree has, found before it is
// compiled. A count copies its part so often.
func instructions(re *syntax.Regexp) int {
	sum := 0
	for _, sub := range re.Sub {
		sum = min(sum+instructions(sub), 2*maxProgram)
	}
	switch re.Op {
	case syntax.OpLiteral:
		sum += len(re.Rune)
	case syntax.OpRepeat:
		sum = min(sum*max(re.Min, re.Max, 1), 2*maxProgram)
	}
	return sum + 2
}
