package httpapi

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// labelPrefix starts the parameters that name a label: label.env_id=a.
const labelPrefix = "label."

// inheritedParam asks for the points of ancestors too.
const inheritedParam = "include_inherited"

// params reads a request's query strictly and keeps the first error.
type params struct {
	values url.Values
	err    error
}

// readParams refuses parameters that are not allowed, and one given twice; a
// name that ends in "." allows every name it begins, "*" at the end repetition.
func readParams(r *http.Request, allowed ...string) *params {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return &params{err: model.Errorf(model.CodeInvalid, "the query string is malformed: %v", err).
			WithHint("percent-encode names and values")}
	}
	for name, given := range values {
		i := slices.IndexFunc(allowed, func(a string) bool { return allows(a, name) })
		if i < 0 {
			return &params{err: unknownParam(name, allowed)}
		}
		if len(given) > 1 && !strings.HasSuffix(allowed[i], "*") {
			return &params{err: model.Errorf(model.CodeInvalid, "parameter %q is given %d times", name, len(given))}
		}
	}
	return &params{values: values}
}

func allows(allowed, name string) bool {
	if strings.HasSuffix(allowed, ".") {
		return strings.HasPrefix(name, allowed) && len(name) > len(allowed)
	}
	return strings.TrimSuffix(allowed, "*") == name
}

func unknownParam(name string, allowed []string) error {
	if len(allowed) == 0 {
		return model.Errorf(model.CodeInvalid, "unknown parameter %q", name).WithHint("this route takes none")
	}
	shown := make([]string, len(allowed))
	for i, a := range allowed {
		shown[i] = strings.TrimSuffix(a, "*")
		if strings.HasSuffix(a, ".") {
			shown[i] += "NAME"
		}
	}
	return model.Errorf(model.CodeInvalid, "unknown parameter %q", name).WithHint("this route takes %s", strings.Join(shown, ", "))
}

func (p *params) text(name string) string { return p.values.Get(name) }

func (p *params) fail(err error) {
	if p.err == nil {
		p.err = err
	}
}

// number reads an int64, nil when the parameter is absent or empty.
func (p *params) number(name string) *int64 {
	if p.text(name) == "" {
		return nil
	}
	n, err := strconv.ParseInt(p.text(name), 10, 64)
	if err != nil {
		p.fail(model.Errorf(model.CodeInvalid, "%s is %q, it must be a whole number", name, p.text(name)).
			WithHint("a 64-bit integer in decimal; times are nanoseconds since 1970"))
		return nil
	}
	return &n
}

// size reads a positive count, 0 when the parameter is absent.
func (p *params) size(name string, most int) int {
	n := p.number(name)
	if n == nil {
		return 0
	}
	if *n < 1 || *n > int64(most) {
		p.fail(model.Errorf(model.CodeInvalid, "%s is %d, it must be from 1 to %d", name, *n, most))
		return 0
	}
	return int(*n)
}

func (p *params) flag(name string) bool {
	switch v := p.text(name); v {
	case "", "0", "false":
		return false
	case "1", "true":
		return true
	default:
		p.fail(model.Errorf(model.CodeInvalid, "%s is %q, it must be 0 or 1", name, v))
		return false
	}
}

// oneOf reads a choice, the first one when the parameter is absent.
func (p *params) oneOf(name string, choices ...string) string {
	v := p.text(name)
	if v == "" {
		return choices[0]
	}
	if !slices.Contains(choices, v) {
		p.fail(model.Errorf(model.CodeInvalid, "%s is %q, it must be one of %s", name, v, strings.Join(choices, ", ")))
	}
	return v
}

// columns are those that an answer shall have, none for all.
func (p *params) columns(known []string) []string {
	names := p.values["column"]
	for _, name := range names {
		if !slices.Contains(known, name) {
			p.fail(model.Errorf(model.CodeInvalid, "there is no column %q", model.Clip(name)).WithHint("the columns are %s", strings.Join(known, ", ")))
		}
	}
	return names
}

// inherited is include_inherited=1: a fork's curves with those that it continues.
func (p *params) inherited() bool { return p.flag(inheritedParam) }

func (p *params) page(most int) query.Page {
	return query.Page{Limit: p.size("limit", most), Cursor: p.text("cursor")}
}

func (p *params) labels() map[string]string {
	labels := map[string]string{}
	for name, given := range p.values {
		if label, ok := strings.CutPrefix(name, labelPrefix); ok {
			labels[label] = given[0]
		}
	}
	return labels
}

func (p *params) attempts() query.Attempts {
	attempts, err := query.ParseAttempts(p.text("attempt"))
	if err != nil {
		p.fail(err)
	}
	return attempts
}

// runID reads the {id} of the path.
func runID(r *http.Request) (model.RunID, error) {
	id, err := model.ParseRunID(r.PathValue("id"))
	if err != nil {
		return id, model.Errorf(model.CodeInvalid, "%q is not the id of a run: %v", r.PathValue("id"), err).
			WithHint("GET /api/v1/resolve?run=NAME finds the id of a name")
	}
	return id, nil
}

// runIDs reads the runs of a body.
func runIDs(texts []string) ([]model.RunID, error) {
	ids := make([]model.RunID, len(texts))
	for i, text := range texts {
		id, err := parseRunID(text)
		if err != nil {
			return nil, numbered("runs", i, err)
		}
		ids[i] = id
	}
	return ids, nil
}

func parseRunID(text string) (model.RunID, error) {
	id, err := model.ParseRunID(text)
	if err != nil {
		return id, model.Errorf(model.CodeInvalid, "%q is not the id of a run: %v", model.Clip(text), err)
	}
	return id, nil
}
