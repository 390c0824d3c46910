package filter

import (
	"strconv"
	"strings"
)

// Aggregate is which of a metric's values is meant.
type Aggregate string

// The aggregates. Best is Min or Max, see [Metric.Resolved].
const (
	Last   Aggregate = "last"
	Min    Aggregate = "min"
	Max    Aggregate = "max"
	Best   Aggregate = "best"
	AtStep Aggregate = "at"
)

// Metric is what min(loss) or at(loss, 1000) names.
type Metric struct {
	Name string
	Of   Aggregate
	Step int64 // of AtStep
}

// ParseMetric reads an aggregate of a metric; false for every other path.
func ParseMetric(path string) (m Metric, ok bool) {
	of, rest, found := strings.Cut(path, "(")
	inner, closed := strings.CutSuffix(rest, ")")
	if !found || !closed {
		return m, false
	}
	m = Metric{Name: strings.TrimSpace(inner), Of: Aggregate(of)}
	switch m.Of {
	case AtStep:
		comma := strings.LastIndex(inner, ",")
		step, err := strconv.ParseInt(strings.TrimSpace(inner[comma+1:]), 10, 64)
		if comma < 0 || err != nil {
			return m, false
		}
		m.Name, m.Step = strings.TrimSpace(inner[:comma]), step
	case Last, Min, Max, Best:
	default:
		return m, false
	}
	if strings.HasPrefix(m.Name, `"`) {
		p := parser{line: m.Name}
		name, err := p.quoted()
		if err != nil || p.at != len(m.Name) {
			return m, false
		}
		m.Name = name
	}
	return m, m.Name != ""
}

// Resolved says which value the best one is; false where the name does not tell.
func (m Metric) Resolved() (Metric, bool) {
	if m.Of != Best {
		return m, true
	}
	name := strings.ToLower(m.Name)
	for _, sign := range directions {
		if containsWord(name, sign.word) {
			m.Of = sign.best
			return m, true
		}
	}
	return m, false
}

// Metrics adds the aggregates that an expression compares.
func (e Expr) Metrics(to []Metric) []Metric {
	if e.Metric != nil {
		to = append(to, *e.Metric)
	}
	for _, part := range e.Parts {
		to = part.Metrics(to)
	}
	return to
}

// directions are the words of names that tell what is better; the first that is in a name
// decides. docs/guides/filter.md lists them.
var directions = []struct {
	word string
	best Aggregate
}{
	{"loss", Min},
	{"error", Min},
	{"err", Min},
	{"perplexity", Min},
	{"ppl", Min},
	{"mse", Min},
	{"rmse", Min},
	{"mae", Min},
	{"nll", Min},
	{"wer", Min},
	{"accuracy", Max},
	{"acc", Max},
	{"return", Max},
	{"reward", Max},
	{"score", Max},
	{"f1", Max},
	{"auc", Max},
	{"bleu", Max},
	{"precision", Max},
	{"recall", Max},
}

// containsWord holds where the letters of a word stand alone, as in eval/val_loss.
func containsWord(name, word string) bool {
	for from := 0; ; {
		i := strings.Index(name[from:], word)
		if i < 0 {
			return false
		}
		start, end := from+i, from+i+len(word)
		if (start == 0 || !isLetter(name[start-1])) && (end == len(name) || !isLetter(name[end])) {
			return true
		}
		from = end
	}
}

func isLetter(c byte) bool { return c >= 'a' && c <= 'z' }
