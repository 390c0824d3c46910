package filter

import (
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// Forms of other languages that the grammar takes for words or texts.
var (
	clock        = regexp.MustCompile(`^\d{1,2}:\d{2}(:\d{2})?(Z|[-+]\d{2}:\d{2})?$`)
	decimalComma = regexp.MustCompile(`^[-+]?\d+,\d+$`)
	call         = regexp.MustCompile(`^([A-Za-z_]+)\((.*)\)$`)
)

// otherFunctions are those that people expect of a metric and that there are not.
var otherFunctions = []string{"any", "average", "avg", "count", "first", "mean", "median", "std", "stddev", "sum", "var"}

var statuses = []model.RunStatus{model.StatusRunning, model.StatusFinished, model.StatusFailed, model.StatusInterrupted, model.StatusLost, model.StatusSilent}

// Statuses says which there are.
const Statuses = "a status is running, finished, failed, interrupted, lost or silent"

// IsStatus says whether runs have such a status.
func IsStatus(name string) bool { return slices.Contains(statuses, model.RunStatus(name)) }

// operatorError says which operator is meant where two stand side by side.
func operatorError(line string, err error) error {
	var e *model.Error
	if !errors.As(err, &e) || e.Column < 2 {
		return err
	}
	at := byteOf(line, e.Column)
	before, after := strings.TrimRight(line[:at], " "), line[at:]
	for _, wrong := range []struct{ before, after, meant string }{
		{"=", "=", "="}, {"=", "<", "<="}, {"=", ">", ">="}, {"<", ">", "!="},
	} {
		if strings.HasSuffix(before, wrong.before) && strings.HasPrefix(after, wrong.after) {
			return Errorf(line, at-1, "%s%s is no operator; write %s", wrong.before, wrong.after, wrong.meant)
		}
	}
	return err
}

// byteOf is where a column begins: characters are counted from 1.
func byteOf(line string, column int) int {
	for at := range line {
		if column--; column == 0 {
			return at
		}
	}
	return len(line)
}

// joinTimes makes one time of created>2026-11-27 13:40, and of the same in quotes.
func joinTimes(e *Expr) {
	for i := 0; i < len(e.Parts); i++ {
		part := &e.Parts[i]
		for part.Kind == Not && len(part.Parts) == 1 {
			part = &part.Parts[0]
		}
		if part.Kind != Compare {
			joinTimes(part)
			continue
		}
		if part.Path != "created" && part.Path != "last" {
			continue
		}
		day, time, two := strings.Cut(part.Value, " ")
		if !two && e.Kind == All && i+1 < len(e.Parts) && e.Parts[i+1].Kind == Word && !e.Parts[i+1].Quoted {
			if time = e.Parts[i+1].Value; clock.MatchString(time) {
				e.Parts, two = slices.Delete(e.Parts, i+1, i+2), true
			}
		}
		if joined := day + "T" + time; two {
			if _, _, ok := Span(joined); ok {
				part.Value = joined
			} else {
				part.Value = day + " " + time // which the catalog refuses
			}
		}
	}
}

// check refuses what the grammar takes for words or texts, though its writer meant a condition.
func check(line string, e *Expr) error {
	for i := range e.Parts {
		part := &e.Parts[i]
		var err error
		switch part.Kind {
		case Word:
			list := i+1 < len(e.Parts) && len(e.Parts[i+1].Parts) > 0
			err = checkWord(line, part.Term, list)
		case Compare:
			err = checkCompare(line, part.Term)
		default:
			err = check(line, part)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkWord refuses operators of other languages. List: a bracket follows.
func checkWord(line string, t Term, list bool) error {
	if t.Quoted {
		return nil
	}
	switch {
	case t.Value == "&&" || t.Value == "&":
		return Errorf(line, t.At, `%s is no operator; write and`, t.Value)
	case t.Value == "||" || t.Value == "|":
		return Errorf(line, t.At, `%s is no operator; write or`, t.Value)
	case list && strings.EqualFold(t.Value, "in"):
		return Errorf(line, t.At, `%s is no operator; write (lr=0.1 or lr=0.2)`, t.Value)
	}
	return nil
}

func checkCompare(line string, t Term) error {
	if t.Metric == nil && !strings.HasPrefix(line[t.Start:], `"`) {
		if problem := Misnamed(t.Path); problem != "" {
			return Errorf(line, t.Start, "%s", problem)
		}
	}
	if t.Path == "status" && !strings.HasPrefix(line[t.Start:], `"`) && !IsStatus(t.Value) {
		return Errorf(line, t.At, `there is no status %s; %s. For an attribute write config/status`, strconv.Quote(model.Clip(t.Value)), Statuses)
	}
	if !t.Quoted && decimalComma.MatchString(t.Value) {
		return Errorf(line, t.At, `%s is no number; write %s, or "%s" for the text`, model.Clip(t.Value), model.Clip(strings.Replace(t.Value, ",", ".", 1)), model.Clip(t.Value))
	}
	return nil
}

// Misnamed says what is wrong with a path that looks like a function of a metric and is none;
// "" where nothing is. Other paths may have brackets: resnet(50).
func Misnamed(path string) string {
	found := call.FindStringSubmatch(path)
	if _, ok := ParseMetric(path); ok || found == nil {
		return ""
	}
	const those = "last(…), min(…), max(…), best(…) and at(…, STEP)"
	switch name := strings.ToLower(found[1]); Aggregate(name) {
	case AtStep:
		return "at(…) has a metric and a step, as in at(loss, 1000)"
	case Last, Min, Max, Best:
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
