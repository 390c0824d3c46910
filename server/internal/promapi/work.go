package promapi

import (
	"cmp"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"

	"github.com/kymogram/kymogram/internal/model"
)

// mostWork bounds what the engine computes for one request: a step of a series, or a point that
// a function reads at a step. The limits of memory do not: a step without a point takes none,
// and a subquery of a year has 31,536,000 steps of a second for each series. The engine looks
// at the time only between two series.
const mostWork = 200_000_000

// work is what a request may still compute.
type work struct{ left int64 }

func newWork() *work { return &work{mostWork} }

// take counts times × each.
func (w *work) take(times, each int64) error {
	if each > 0 && times > w.left/each {
		return model.Errorf(model.CodeLimit, "the query would compute more than %d steps: each series has one at each step, also of a subquery, and a function of a range reads its points at each", mostWork).
			WithHint("Ask for a larger step, a shorter range or fewer series.")
	}
	w.left -= times * each
	return nil
}

// expression takes what an expression computes whatever series there are: the steps of its
// parts, and the points that functions of subqueries read of one series. Times are in ms.
func (w *work) expression(e parser.Node, span, step int64) error {
	if err := w.take(steps(span, step), 1); err != nil {
		return err
	}
	if sub, ok := e.(*parser.SubqueryExpr); ok {
		if sub.Timestamp != nil || sub.StartOrEnd != 0 { // it is the same at each step
			span = 0
		}
		reach, each := sub.Range.Milliseconds(), cmp.Or(sub.Step, defaultStep).Milliseconds()
		if err := w.take(steps(span, step), steps(reach, each)); err != nil {
			return err
		}
		span, step = span+reach, each
	}
	for child := range parser.ChildrenIter(e) {
		if err := w.expression(child, span, step); err != nil {
			return err
		}
	}
	return nil
}

// series takes what the engine computes of the series that a selector found.
func (w *work) series(list []*series, hints *storage.SelectHints, lookback time.Duration) error {
	if hints.Range == 0 {
		return w.take(steps(hints.End-hints.Start-lookback.Milliseconds(), hints.Step), int64(len(list)))
	}
	all := steps(hints.End-hints.Start-hints.Range, hints.Step)
	if err := w.take(all, int64(len(list))); err != nil {
		return err
	}
	points := int64(0)
	for _, s := range list {
		points += int64((&samples{series: s}).Len())
	}
	return w.take(min(all, steps(hints.Range, hints.Step)), points)
}

// steps is how many steps a span has, with both of its ends; a query of one time has one.
func steps(span, step int64) int64 { return max(span, 0)/max(step, 1) + 1 }
