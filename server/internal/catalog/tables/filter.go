package tables

import (
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// where collects conditions with their arguments.
type where struct {
	parts    []string
	args     []any
	queries  bool // anything
	compares bool // an attribute
	steps    catalog.Steps
}

func (w *where) add(condition string, args ...any) {
	w.parts = append(w.parts, condition)
	w.args = append(w.args, args...)
}

func (w *where) String() string { return strings.Join(w.parts, " AND ") }

// orTrue is the condition as a part of another.
func (w *where) orTrue() string {
	if len(w.parts) == 0 {
		return "TRUE"
	}
	return w.String()
}

// addQuery compiles the one-line filter over `runs r`.
func (w *where) addQuery(f catalog.RunFilter) error {
	if f.Parsed == nil {
		e, err := filter.Parse(f.Query)
		if err != nil {
			return err
		}
		f.Parsed = &e
	}
	if len(f.Parsed.Parts) == 0 {
		return nil
	}
	w.queries = true
	return w.addExpr(f.Query, *f.Parsed)
}

func (w *where) addExpr(line string, e filter.Expr) error {
	switch e.Kind {
	case filter.Word:
		w.addWord(strings.ToLower(e.Value))
		return nil
	case filter.Compare:
		return w.addCompare(line, e.Term)
	}
	inner := where{steps: w.steps}
	for _, part := range e.Parts {
		if err := inner.addExpr(line, part); err != nil {
			return err
		}
	}
	condition := inner.String()
	switch e.Kind {
	case filter.Not:
		condition = "NOT (" + condition + ")"
	case filter.Any:
		condition = "(" + strings.Join(inner.parts, " OR ") + ")"
	}
	w.compares = w.compares || inner.compares
	w.add(condition, inner.args...)
	return nil
}

// addCompare compares a field of the run, an attribute, or either where both have the name.
func (w *where) addCompare(line string, t filter.Term) error {
	if len(t.Value) > mostCompared {
		return filter.Errorf(line, t.At, "an attribute is compared with %d bytes, at most %d", len(t.Value), mostCompared)
	}
	w.compares = true
	negated := t.Op == "!="
	if negated {
		t.Op = "="
	}
	var either where
	if err := either.addField(line, t); err != nil {
		return err
	}
	either.addAttribute(t)
	either.addSummary(t, w.steps)
	condition := "(" + strings.Join(either.parts, " OR ") + ")"
	if negated {
		condition = "NOT " + condition
	}
	w.add(condition, either.args...)
	return nil
}

// addField compares what every run has: its name, status, tags and times.
func (w *where) addField(line string, t filter.Term) error {
	op := sqlOperator(t.Op)
	switch t.Path {
	case "name", "status":
		w.add(`r.`+t.Path+` `+op+` ?`, t.Value)
	case "tag":
		w.add(`EXISTS (SELECT 1 FROM tags t WHERE t.run = r.pk AND t.tag `+op+` ?)`, t.Value)
	case "created", "last":
		from, to, ok := filter.Span(t.Value)
		if !ok {
			return filter.Errorf(line, t.At, "%q is not a time; write 2026-11-22, 2026-11-22T15:04 or 2026-11-22T15:04:05Z", model.Clip(t.Value))
		}
		w.addSpan("r."+t.Path+"_ns", op, from, to)
	}
	return nil
}

// addSpan compares with all of a day, a minute or a second: `=` is within, `>` is after it.
func (w *where) addSpan(column, op string, from, to int64) {
	switch op {
	case "=":
		w.add(column+` >= ? AND `+column+` < ?`, from, to)
	case "<", ">=":
		w.add(column+` `+op+` ?`, from)
	case "<=":
		w.add(column+` < ?`, to)
	case ">":
		w.add(column+` >= ?`, to)
	}
}

// addWord looks for a word in the names and tags of runs: in their beginning, which is in the
// index, then, where there is more, in all of it.
func (w *where) addWord(word string) {
	w.add(`(instr(r.search, ?) > 0 OR (octet_length(r.search) >= `+strconv.Itoa(searchBytes-3)+` AND (
		EXISTS (SELECT 1 FROM runs l WHERE l.pk = r.pk AND instr(fold(l.name || '`+"\n"+`' || l.display_name), ?) > 0) OR
		EXISTS (SELECT 1 FROM tags t WHERE t.run = r.pk AND instr(fold(t.tag), ?) > 0))))`, word, word, word)
}

// sqlOperator maps what [filter.Parse] lets through; nothing of a client's text
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

// chosenIn begins a condition that runs are among those of a list. Nothing else begins so.
const chosenIn = `r.pk IN (`

// addAttribute compares an attribute. A value that reads as a number compares
// with numbers and equals the same text; true and false equal booleans; a set
// equals each of its members.
func (w *where) addAttribute(t filter.Term) {
	op := sqlOperator(t.Op)
	matches := []string{`(a.type = 'string' AND a.key ` + op + ` ?)`}
	args := []any{t.Path, "config/" + t.Path, Key{t.Value}}
	if number, ok := parseNumber(t); ok {
		matches = append(matches, `(a.type IN ('int64', 'float64', 'time') AND a.key `+op+` ?)`)
		args = append(args, Key{number})
		if op != "=" {
			// 10 is not before 9 because of its text.
			matches, args = matches[1:], append(args[:2:2], Key{number})
		}
	}
	if op == "=" {
		matches = append(matches, `(a.type = 'string_set' AND CASE WHEN length(a.key) > `+strconv.Itoa(shortSet)+`
			THEN EXISTS (SELECT 1 FROM attributes v, json_each(v.value, '$.value') e WHERE v.run = a.run AND v.path = a.path AND e.value = ?)
			ELSE has_member(a.key, ?) END)`)
		args = append(args, t.Value, t.Value)
		if truth, err := strconv.ParseBool(t.Value); err == nil && !t.Quoted && len(t.Value) > 1 {
			matches = append(matches, `(a.type = 'bool' AND a.key = ?)`)
			args = append(args, Key{boolKey(truth)})
		}
	}
	w.add(chosenIn+`SELECT a.run FROM attributes a INDEXED BY attributes_key WHERE a.path IN (?, ?) AND (`+strings.Join(matches, " OR ")+`))`, args...)
}

// parseNumber reads an integer exactly, else a real.
func parseNumber(t filter.Term) (any, bool) {
	if t.Quoted {
		return nil, false
	}
	if i, err := strconv.ParseInt(t.Value, 10, 64); err == nil {
		return i, true
	}
	f, err := strconv.ParseFloat(t.Value, 64)
	return f, err == nil && f == f
}
