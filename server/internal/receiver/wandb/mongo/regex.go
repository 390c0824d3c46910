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
	// maxWork bounds instructions times bytes of one match: some seconds at worst.
	maxWork = 1 << 28
)

// expression is a regular expression that has passed the bounds.
type expression struct {
	*regexp.Regexp
	at      path
	source  string
	program int // instructions
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
	program := instructions(tree)
	if p.program += program; p.program > maxProgram {
		return nil, tooLarge()
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, refuse("the regular expression of %.100q is not valid: %v", at.spelled, err)
	}
	return &expression{re, at, source, program}, nil
}

// instructions is an upper bound of what a compiled tree has, found before it is
// compiled. A count copies its part so often.
func instructions(re *syntax.Regexp) int {
	sum := 2
	if re.Op == syntax.OpLiteral {
		sum += len(re.Rune)
	}
	for _, sub := range re.Sub {
		sum = min(sum+instructions(sub), 2*maxProgram)
	}
	if re.Op == syntax.OpRepeat {
		sum = min(sum*max(re.Min, re.Max, 1)+1, 2*maxProgram)
	}
	return sum
}
