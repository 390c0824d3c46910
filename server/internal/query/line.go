package query

import (
	"errors"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// Forms of other languages that the grammar takes for words or texts.
var (
	clock        = regexp.MustCompile(`^\d{1,2}:\d{2}(:\d{2})?Z?$`)
	decimalComma = regexp.MustCompile(`^[-+]?\d+,\d+$`)
	call         = regexp.MustCompile(`^([A-Za-z_]+)\((.*)\)$`)
)

// otherFunctions are those that people expect of a metric and that there are not.
var otherFunctions = []string{"any", "average", "avg", "count", "first", "mean", "median", "std", "stddev", "sum", "var"}

// statuses of runs, as filters compare them.
var statuses = []model.RunStatus{model.StatusRunning, model.StatusFinished, model.StatusFailed, model.StatusInterrupted, model.StatusLost, model.StatusSilent}

const statusHint = "a status is running, finished, failed, interrupted, lost or silent"

// readLine reads a filter. What the grammar takes for words or texts, though its writer meant a
// condition, is an error. A day and a time with a space between are one time.
func readLine(line string) (filter.Expr, error) {
	e, err := filter.Parse(line)
	if err != nil {
		return e, operatorError(line, err)
	}
	joinTimes(&e)
	return e, checkExpr(line, &e)
}

// operatorError says which operator is meant where two stand side by side.
func operatorError(line string, err error) error {
	var e *model.Error
	if !errors.As(err, &e) || e.Column < 2 {
		return err
	}
	at := len(string([]rune(line)[:min(e.Column-1, utf8.RuneCountInString(line))]))
	before, after := strings.TrimRight(line[:at], " "), line[at:]
	for _, wrong := range []struct{ before, after, meant string }{
		{"=", "=", "="}, {"=", "<", "<="}, {"=", ">", ">="}, {"<", ">", "!="},
	} {
		if strings.HasSuffix(before, wrong.before) && strings.HasPrefix(after, wrong.after) {
			return filter.Errorf(line, at-1, "%s%s is no operator; write %s", wrong.before, wrong.after, wrong.meant)
		}
	}
	return err
}

// joinTimes makes one time of created>2026-11-27 13:40, and of the same in quotes.
func joinTimes(e *filter.Expr) {
	for i := 0; i < len(e.Parts); i++ {
		part := &e.Parts[i]
		for part.Kind == filter.Not && len(part.Parts) == 1 {
			part = &part.Parts[0]
		}
		if part.Kind != filter.Compare {
			joinTimes(part)
			continue
		}
		if part.Path != "created" && part.Path != "last" {
			continue
		}
		day, time, two := strings.Cut(part.Value, " ")
		if !two && e.Kind == filter.All && i+1 < len(e.Parts) && e.Parts[i+1].Kind == filter.Word && !e.Parts[i+1].Quoted {
			if time = e.Parts[i+1].Value; clock.MatchString(time) {
				e.Parts, two = slices.Delete(e.Parts, i+1, i+2), true
			}
		}
		if joined := day + "T" + strings.TrimSuffix(time, "Z"); two {
			if _, _, ok := filter.Span(joined); ok {
				part.Value = joined
			} else {
				part.Value = day + " " + time // which the catalog refuses
			}
		}
	}
}

func checkExpr(line string, e *filter.Expr) error {
	for i := range e.Parts {
		part := &e.Parts[i]
		var err error
		switch part.Kind {
		case filter.Word:
			list := i+1 < len(e.Parts) && len(e.Parts[i+1].Parts) > 0
			err = checkWord(line, part.Term, list)
		case filter.Compare:
			err = checkCompare(line, part.Term)
		default:
			err = checkExpr(line, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkWord refuses operators of other languages. List: a bracket follows.
func checkWord(line string, t filter.Term, list bool) error {
	if t.Quoted {
		return nil
	}
	switch {
	case t.Value == "&&" || t.Value == "&":
		return filter.Errorf(line, t.At, `%s is no operator; write and`, t.Value)
	case t.Value == "||" || t.Value == "|":
		return filter.Errorf(line, t.At, `%s is no operator; write or`, t.Value)
	case list && strings.EqualFold(t.Value, "in"):
		return filter.Errorf(line, t.At, `%s is no operator; write (lr=0.1 or lr=0.2)`, t.Value)
	}
	return nil
}

func checkCompare(line string, t filter.Term) error {
	if t.Metric == nil && !strings.HasPrefix(line[t.Start:], `"`) {
		if problem := misnamed(t.Path); problem != "" {
			return filter.Errorf(line, t.Start, "%s", problem)
		}
	}
	if t.Path == "status" && !strings.HasPrefix(line[t.Start:], `"`) && !slices.Contains(statuses, model.RunStatus(t.Value)) {
		return filter.Errorf(line, t.At, `there is no status %s; %s. For an attribute write config/status`, quoted(t.Value), statusHint)
	}
	if !t.Quoted && decimalComma.MatchString(t.Value) {
		return filter.Errorf(line, t.At, `%s is no number; write %s, or "%s" for the text`, model.Clip(t.Value), model.Clip(strings.Replace(t.Value, ",", ".", 1)), model.Clip(t.Value))
	}
	return nil
}

// misnamed says what is wrong with a path that looks like a function of a metric and is none;
// "" where nothing is. Other paths may have brackets: resnet(50).
func misnamed(path string) string {
	found := call.FindStringSubmatch(path)
	if _, ok := filter.ParseMetric(path); ok || found == nil {
		return ""
	}
	const those = "last(…), min(…), max(…), best(…) and at(…, STEP)"
	switch name := strings.ToLower(found[1]); filter.Aggregate(name) {
	case filter.AtStep:
		return "at(…) has a metric and a step, as in at(loss, 1000)"
	case filter.Last, filter.Min, filter.Max, filter.Best:
		if name != found[1] {
			return "functions are in lower case: " + model.Clip(name+"("+found[2]+")")
		}
		return name + "(…) names no metric, as in " + name + "(loss)"
	default:
		if slices.Contains(otherFunctions, name) {
			return "there is no function " + found[1] + "; there are " + those
		}
	}
	return ""
}

// readSort refuses functions that there are not.
func readSort(sort string) error {
	if problem := misnamed(strings.TrimPrefix(sort, "-")); problem != "" {
		return model.Errorf(model.CodeInvalid, "the sort %s is not valid: %s", model.Clip(sort), problem)
	}
	return nil
}
