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

// String is the metric as a filter names it.
func (m Metric) String() string {
	name := quote(m.Name)
	if m.Of == AtStep {
		name += ", " + strconv.FormatInt(m.Step, 10)
	}
	return string(m.Of) + "(" + name + ")"
}

// Resolved says which value the best one is; false where the name does not tell.
func (m Metric) Resolved() (Metric, bool) {
	if m.Of != Best {
		return m, true
	}
	name := strings.ToLower(m.Name)
	for _, of := range directions {
		if tells(name, of.words, of.ends) {
			m.Of = of.best
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

// Without is a wider filter: it holds wherever the expression does, and has no comparison of
// a metric that drop names.
func (e Expr) Without(drop func(Metric) bool) *Expr {
	out, _ := e.without(drop, false)
	return &out
}

// without also says whether nothing is left of the expression: then it is true, or false
// under a not.
func (e Expr) without(drop func(Metric) bool, negated bool) (out Expr, open bool) {
	if e.Metric != nil && drop(*e.Metric) {
		return Expr{}, true
	}
	if len(e.Parts) == 0 {
		return e, false
	}
	parts := make([]Expr, 0, len(e.Parts))
	for _, part := range e.Parts {
		left, gone := part.without(drop, negated != (e.Kind == Not))
		switch {
		case !gone:
			parts = append(parts, left)
		case e.Kind == Not, e.Kind == Any && !negated, e.Kind == All && negated:
			return Expr{}, true // what is open decides
		}
	}
	if len(parts) == 0 {
		return Expr{}, true
	}
	e.Parts = parts
	return e, false
}

// directions are the words of names that tell what is better; the first that is in a name
// decides. The page's guess in web/src/chart/direction.ts is the same: testdata/directions.json
// holds for both. docs/guides/filter.md lists the words.
var directions = []struct {
	words string
	ends  string // also without a sign in front of them
	best  Aggregate
}{
	{"loss losses nll error err perplexity ppl mse mae rmse wer cer fid bpb bpc kl regret latency brier ece", "loss error", Min},
	{
		"acc accuracy return returns reward rewards score f1 auc auroc precision recall bleu rouge iou map ndcg psnr ssim " +
			"success winrate win_rate elo pass mfu throughput tokens_per_sec r2", "accuracy reward return score", Max,
	},
}

// tells holds where a name has one of the words.
func tells(name, words, ends string) bool {
	for word := range strings.FieldsSeq(words) {
		if containsWord(name, word) {
			return true
		}
	}
	for end := range strings.FieldsSeq(ends) {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return false
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
