// Package filter reads the one-line filter of a list of runs. It knows no database:
// catalog/sqlite makes SQL of what Parse gives. docs/guides/filter.md has the grammar.
package filter

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	// MaxTerms bounds what one filter can cost.
	MaxTerms = 32
	// maxDepth bounds brackets and `not` inside one another.
	maxDepth = 16
)

// Kind says what an expression does with its parts.
type Kind uint8

// The kinds. All without parts holds for every run.
const (
	All Kind = iota
	Any
	Not
	Word
	Compare
)

// Expr is a filter, or a part of one.
type Expr struct {
	Kind  Kind
	Parts []Expr // of All and Any; Not has one
	Term
}

// Term is a word, or a path compared with a value.
type Term struct {
	Path   string
	Op     string // = != < <= > >=
	Value  string
	Quoted bool // the value was in quotes: text, never a number
	At     int  // byte of the line where the value begins
	// Metric is nil unless the path, without quotes, is an aggregate of a metric.
	Metric *Metric
	Start  int // byte of the line where the path begins
}

// operators by length, so that <= is seen before <.
var operators = []string{"!=", "<=", ">=", "=", "<", ">"}

// Parse reads a filter. Its errors name the column where the line is wrong. What the grammar
// takes for words or texts, though its writer meant a condition, is an error. A day and a time
// with a space between are one time.
func Parse(line string) (Expr, error) {
	p := parser{line: line}
	e, err := p.any()
	if err == nil && p.peek() == ')' {
		err = p.errorf(p.at, `")" closes no bracket`)
	}
	if err != nil {
		return e, operatorError(line, err)
	}
	joinTimes(&e)
	return e, check(line, &e)
}

// Errorf is an error at a byte of the line.
func Errorf(line string, at int, format string, args ...any) *model.Error {
	column := utf8.RuneCountInString(line[:at]) + 1
	e := model.Errorf(model.CodeInvalid, "the filter is not valid at column %d: %s", column, fmt.Sprintf(format, args...)).
		WithHint(`Write words and comparisons, as in: adam lr<0.01 (status=failed or config/model="big one")`)
	e.Column = column
	return e
}

type parser struct {
	line  string
	at    int
	depth int // brackets and `not` around this place
	terms int
}

func (p *parser) errorf(at int, format string, args ...any) error {
	return Errorf(p.line, at, format, args...)
}

// peek skips spaces and gives the next byte, 0 at the end.
func (p *parser) peek() byte {
	p.at = len(p.line) - len(strings.TrimLeftFunc(p.line[p.at:], unicode.IsSpace))
	if p.at == len(p.line) {
		return 0
	}
	return p.line[p.at]
}

// keyword takes an operator word; in quotes it is a word to look for.
func (p *parser) keyword(word string) bool {
	p.peek()
	rest := p.line[p.at:]
	if !strings.HasPrefix(rest, word) && !strings.HasPrefix(rest, strings.ToUpper(word)) {
		return false
	}
	next, _ := utf8.DecodeRuneInString(rest[len(word):])
	if len(rest) > len(word) && !unicode.IsSpace(next) && next != '(' && next != ')' {
		return false
	}
	if operatorAt(strings.TrimLeftFunc(rest[len(word):], unicode.IsSpace)) != "" {
		return false // an attribute of that name
	}
	p.at += len(word)
	return true
}

func (p *parser) any() (Expr, error) {
	first, err := p.all()
	if err != nil {
		return Expr{}, err
	}
	parts := []Expr{first}
	for {
		at := p.at
		if !p.keyword("or") {
			break
		}
		if len(parts[0].Parts) == 0 {
			return Expr{}, p.errorf(at, `nothing stands before "or"`)
		}
		next, err := p.all()
		if err != nil {
			return Expr{}, err
		}
		if len(next.Parts) == 0 {
			return Expr{}, p.errorf(p.at, `nothing follows "or"`)
		}
		parts = append(parts, next)
	}
	if len(parts) == 1 {
		return first, nil
	}
	return Expr{Kind: Any, Parts: parts}, nil
}

func (p *parser) all() (Expr, error) {
	e := Expr{Kind: All}
	for {
		c := p.peek()
		before := p.at
		if c == 0 || c == ')' || p.keyword("or") {
			p.at = before
			return e, nil
		}
		if p.keyword("and") {
			if c = p.peek(); len(e.Parts) == 0 || c == 0 || c == ')' {
				return e, p.errorf(before, `"and" stands between two conditions`)
			}
		}
		part, err := p.condition()
		if err != nil {
			return e, err
		}
		e.Parts = append(e.Parts, part)
	}
}

func (p *parser) condition() (Expr, error) {
	start := p.at
	not := p.keyword("not")
	if not && (p.peek() == 0 || p.peek() == ')') {
		return Expr{}, p.errorf(start, `nothing follows "not"`)
	}
	if !not && p.peek() != '(' {
		return p.term()
	}
	if p.depth++; p.depth > maxDepth {
		return Expr{}, p.errorf(p.at, "more than %d brackets inside one another", maxDepth)
	}
	defer func() { p.depth-- }()
	if not {
		part, err := p.condition()
		return Expr{Kind: Not, Parts: []Expr{part}}, err
	}
	return p.bracket()
}

func (p *parser) bracket() (Expr, error) {
	start := p.at
	p.at++
	e, err := p.any()
	if err != nil {
		return e, err
	}
	if p.peek() != ')' {
		return e, p.errorf(start, "a bracket is not closed")
	}
	if len(e.Parts) == 0 {
		return e, p.errorf(start, "the brackets are empty")
	}
	p.at++
	return e, nil
}

func (p *parser) term() (Expr, error) {
	start := p.at
	if p.terms++; p.terms > MaxTerms {
		return Expr{}, p.errorf(start, "more than %d terms", MaxTerms)
	}
	left, quoted, err := p.atom()
	if err != nil {
		return Expr{}, err
	}
	after := p.at
	p.peek()
	op := operatorAt(p.line[p.at:])
	switch {
	case op == "" && left == "":
		return Expr{}, p.errorf(start, "an empty word")
	case op == "":
		p.at = after
		return Expr{Kind: Word, Term: Term{Value: left, Quoted: quoted, At: start}}, nil
	case left == "":
		return Expr{}, p.errorf(start, "%q has no path before it", op)
	}
	p.at += len(op)
	e, err := p.compare(left, op)
	e.Start = start
	if m, ok := ParseMetric(left); ok && !quoted {
		e.Metric = &m
		if m, ok = m.Resolved(); !ok && err == nil {
			return e, p.errorf(start, "the name %s does not say whether less is better; write min(…) or max(…)", model.Clip(m.Name))
		}
	}
	return e, err
}

// compare reads what follows the operator.
func (p *parser) compare(path, op string) (Expr, error) {
	p.peek()
	start := p.at
	value, quoted, err := p.atom()
	if err != nil {
		return Expr{}, err
	}
	if value == "" && !quoted {
		return Expr{}, p.errorf(start, "%s%s has no value; write %s%s\"\" for the empty text", model.Clip(path), op, model.Clip(path), op)
	}
	if next, _ := utf8.DecodeRuneInString(p.line[p.at:]); p.at < len(p.line) && next != ')' && !unicode.IsSpace(next) {
		return Expr{}, p.errorf(p.at, "a space is missing after %s%s%s", model.Clip(path), op, model.Clip(value))
	}
	return Expr{Kind: Compare, Term: Term{Path: path, Op: op, Value: value, Quoted: quoted, At: start}}, nil
}

func operatorAt(s string) string {
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	return ""
}

// atom reads a quoted text, or up to the next space or operator. Brackets that it opens
// itself are its own, as in resnet(50).
func (p *parser) atom() (text string, quoted bool, err error) {
	start := p.at
	if strings.HasPrefix(p.line[start:], `"`) {
		text, err = p.quoted()
		return text, true, err
	}
	own, aggregate := 0, aggregateAt(p.line[start:])
	for p.at < len(p.line) {
		r, size := utf8.DecodeRuneInString(p.line[p.at:])
		switch {
		case r == '(':
			own++
		case r == ')':
			own--
		case r == '"' && own > 0 && aggregate:
			if _, err := p.quoted(); err != nil {
				return "", false, err
			}
			continue
		}
		inside := aggregate && own > 0
		if own < 0 || !inside && (unicode.IsSpace(r) || operatorAt(p.line[p.at:]) != "") {
			break
		}
		p.at += size
	}
	return p.line[start:p.at], false, nil
}

// aggregateAt holds where min( and the like begin: their brackets may have spaces inside.
func aggregateAt(s string) bool {
	before, rest, found := strings.Cut(s, "(")
	switch Aggregate(before) {
	case Last, Min, Max, Best, AtStep:
		return found && strings.Contains(rest, ")")
	}
	return false
}

// quoted reads a text in double quotes; \" and \\ inside are a quote and a backslash.
func (p *parser) quoted() (string, error) {
	start := p.at
	var b strings.Builder
	for i := start + 1; i < len(p.line); i++ {
		switch {
		case p.line[i] == '"':
			p.at = i + 1
			return b.String(), nil
		case p.line[i] == '\\' && i+1 < len(p.line):
			i++
		}
		b.WriteByte(p.line[i])
	}
	return "", p.errorf(start, "a quote is not closed")
}

// String writes the expression with all its brackets, for tests and logs.
func (e Expr) String() string {
	switch e.Kind {
	case Word:
		return quote(e.Value)
	case Compare:
		if !e.Quoted {
			return quote(e.Path) + e.Op + e.Value
		}
		return quote(e.Path) + e.Op + quote(e.Value)
	case Not:
		return fmt.Sprintf("not %v", e.Parts[0])
	}
	joined := make([]string, len(e.Parts))
	for i, part := range e.Parts {
		joined[i] = part.String()
	}
	if e.Kind == Any {
		return "(" + strings.Join(joined, " or ") + ")"
	}
	return "(" + strings.Join(joined, " and ") + ")"
}

func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
