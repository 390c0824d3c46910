package sqlite

import (
	sqldriver "database/sql/driver"
	"strconv"
	"strings"
	"unicode"

	driver "modernc.org/sqlite"

	"github.com/kymogram/kymogram/internal/model"
)

// maxTerms bounds what one query line can cost.
const maxTerms = 32

// term is one part of the one-line filter: a word, or path op value.
type term struct {
	path, op, value string
	quoted          bool // the value was in quotes: text, never a number
}

// operators by length, so that <= is seen before <.
var operators = []string{"!=", "<=", ">=", "=", "<", ">"}

// parseQuery reads the one-line filter: words and comparisons between spaces;
// double quotes hold spaces and operators, \" and \\ inside them a quote and a
// backslash.
func parseQuery(line string) ([]term, error) {
	var terms []term
	for rest := strings.TrimLeftFunc(line, unicode.IsSpace); rest != ""; rest = strings.TrimLeftFunc(rest, unicode.IsSpace) {
		t, after, err := parseTerm(rest)
		if err != nil {
			return nil, err
		}
		if terms = append(terms, t); len(terms) > maxTerms {
			return nil, errQuery("more than %d terms", maxTerms)
		}
		rest = after
	}
	return terms, nil
}

func parseTerm(s string) (t term, rest string, err error) {
	left, quoted, rest, err := parseAtom(s)
	if err != nil {
		return t, "", err
	}
	op := operatorAt(rest)
	if op == "" {
		if left == "" {
			return t, "", errQuery("an empty word")
		}
		return term{value: left, quoted: quoted}, rest, nil
	}
	if left == "" {
		return t, "", errQuery("%q has no path before it", op)
	}
	value, quoted, rest, err := parseAtom(rest[len(op):])
	if err != nil {
		return t, "", err
	}
	if value == "" && !quoted {
		return t, "", errQuery("%s%s has no value; write %s%s\"\" for the empty text", model.Clip(left), op, model.Clip(left), op)
	}
	if rest != "" && !unicode.IsSpace(rune(rest[0])) {
		return t, "", errQuery("a space is missing after %s%s%s", model.Clip(left), op, model.Clip(value))
	}
	return term{path: left, op: op, value: value, quoted: quoted}, rest, nil
}

func operatorAt(s string) string {
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	return ""
}

// parseAtom reads a quoted text, or up to the next space or operator.
func parseAtom(s string) (atom string, quoted bool, rest string, err error) {
	if strings.HasPrefix(s, `"`) {
		atom, rest, err = parseQuoted(s[1:])
		return atom, true, rest, err
	}
	for i, r := range s {
		if unicode.IsSpace(r) || operatorAt(s[i:]) != "" {
			return s[:i], false, s[i:], nil
		}
	}
	return s, false, "", nil
}

func parseQuoted(s string) (text, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", errQuery("a quote is not closed")
}

func errQuery(format string, args ...any) *model.Error {
	return model.Errorf(model.CodeInvalid, "the filter is not valid: "+format, args...).
		WithHint(`Write words and comparisons, as in: adam lr<0.01 config/model="big one"`)
}

// where collects conditions with their arguments.
type where struct {
	parts    []string
	args     []any
	compares bool // an attribute
}

func (w *where) add(condition string, args ...any) {
	w.parts = append(w.parts, condition)
	w.args = append(w.args, args...)
}

func (w *where) String() string { return strings.Join(w.parts, " AND ") }

// orTrue is the condition as a part of another.
func (w *where) orTrue() string {
	if len(w.parts) == 0 {
		return "1"
	}
	return w.String()
}

// addQuery compiles the one-line filter over `runs r`.
func (w *where) addQuery(line string) error {
	terms, err := parseQuery(line)
	if err != nil {
		return err
	}
	for _, t := range terms {
		if t.op == "" {
			w.addWord(strings.ToLower(t.value))
			continue
		}
		if len(t.value) > mostCompared {
			return errQuery("an attribute is compared with %d bytes, at most %d", len(t.value), mostCompared)
		}
		w.addComparison(t)
	}
	return nil
}

// addWord looks for a word in the names and tags of runs: in their beginning, which is in the
// index, then, where there is more, in all of it.
func (w *where) addWord(word string) {
	w.add(`(instr(r.search, ?) > 0 OR (octet_length(r.search) >= `+strconv.Itoa(searchBytes-3)+` AND (
		EXISTS (SELECT 1 FROM runs l WHERE l.pk = r.pk AND instr(fold(l.name || char(10) || l.display_name), ?) > 0) OR
		EXISTS (SELECT 1 FROM tags t WHERE t.run = r.pk AND instr(fold(t.tag), ?) > 0))))`, word, word, word)
}

// errFold is nil where SQLite knows fold: the lower case of a query's words, since its own
// is that of ASCII. The driver has one table of functions a process, filled before main.
var errFold = driver.RegisterDeterministicScalarFunction("fold", 1, func(_ *driver.FunctionContext, args []sqldriver.Value) (sqldriver.Value, error) {
	text, _ := args[0].(string)
	return strings.ToLower(text), nil
})

// sqlOperator maps what parseQuery lets through; nothing of a client's text
// becomes SQL.
func sqlOperator(op string) string {
	switch op {
	case "<", "<=", ">", ">=":
		return op
	}
	return "="
}

// mostCompared is less than what the key of a longer text has: such a key is smaller,
// larger or not equal as the whole text is.
const mostCompared = keyBytes - 4

// shortSet is the characters of a set's key that is whole for certain.
const shortSet = keyBytes/4 - 2

// addComparison compares an attribute. A value that reads as a number compares
// with numbers and equals the same text; true and false equal booleans; a set
// equals each of its members.
func (w *where) addComparison(t term) {
	w.compares = true
	op := sqlOperator(t.op)
	matches := []string{`(a.type = 'string' AND a.key ` + op + ` ?)`}
	args := []any{t.path, "config/" + t.path, t.value}
	if number, ok := parseNumber(t); ok {
		matches = append(matches, `(a.type IN ('int64', 'float64', 'time') AND a.key `+op+` ?)`)
		args = append(args, number)
		if op != "=" {
			// 10 is not before 9 because of its text.
			matches, args = matches[1:], append(args[:2:2], number)
		}
	}
	if op == "=" {
		matches = append(matches, `(a.type = 'string_set' AND CASE WHEN length(a.key) > `+strconv.Itoa(shortSet)+`
			THEN EXISTS (SELECT 1 FROM attributes v, json_each(v.value, '$.value') e WHERE v.run = a.run AND v.path = a.path AND e.value = ?)
			ELSE instr(char(10) || a.key || char(10), char(10) || ? || char(10)) > 0 END)`)
		args = append(args, t.value, t.value)
		if truth, err := strconv.ParseBool(t.value); err == nil && !t.quoted && len(t.value) > 1 {
			matches = append(matches, `(a.type = 'bool' AND a.key = ?)`)
			args = append(args, truth)
		}
	}
	not := ""
	if t.op == "!=" {
		not = "NOT "
	}
	w.add(`r.pk `+not+`IN (SELECT a.run FROM attributes a INDEXED BY attributes_key WHERE a.path IN (?, ?) AND (`+strings.Join(matches, " OR ")+`))`, args...)
}

// parseNumber reads an integer exactly, else a real.
func parseNumber(t term) (any, bool) {
	if t.quoted {
		return nil, false
	}
	if i, err := strconv.ParseInt(t.value, 10, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(t.value, 64)
	return f, err == nil && f == f
}
