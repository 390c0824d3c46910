package promapi

import (
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// mostSteps is how many points a series of an answer may have, as in Prometheus.
const mostSteps = 11_000

// mostDepth bounds what is computed by recursion; 1 + 1 + 1 is two deep.
const mostDepth = 200

func depth(n parser.Node) int {
	most := 0
	for child := range parser.ChildrenIter(n) {
		most = max(most, depth(child))
	}
	return most + 1
}

func expression(q *request) (parser.Expr, error) {
	text := q.Form.Get("query")
	if len(text) > maxQuery {
		return nil, badData("invalid parameter %q: it has %d bytes, it may have %d", "query", len(text), maxQuery)
	}
	parsed, err := parser.ParseExpr(text)
	if err != nil {
		return nil, badData("invalid parameter %q: %v", "query", err)
	}
	if depth(parsed) > mostDepth {
		return nil, badData("invalid parameter %q: its operators and calls are nested more than %d deep", "query", mostDepth)
	}
	q.growth = newGrowth(parsed)
	if err := q.room.take(bytesOf(q.growth.one(len(text)))); err != nil { // without any series, as of vector(1)
		return nil, err
	}
	return asName(parsed), nil
}

// asName makes the label metric a part of the name, as which it says nothing new: what
// leaves out names, matching and without, leaves it out too. Else a / b would match nothing.
func asName(e parser.Expr) parser.Expr {
	parser.Inspect(e, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.BinaryExpr:
			if m := n.VectorMatching; m != nil && !m.On && !slices.Contains(m.MatchingLabels, labelMetric) {
				m.MatchingLabels = append(m.MatchingLabels, labelMetric)
			}
		case *parser.AggregateExpr:
			if n.Without && !slices.Contains(n.Grouping, labelMetric) {
				n.Grouping = append(n.Grouping, labelMetric)
			}
		}
		return nil
	})
	return e
}

func instant(q *request) error {
	parsed, err := expression(q)
	if err != nil {
		return err
	}
	if err := q.work.expression(parsed, 0, 0); err != nil {
		return err
	}
	text := parsed.String()
	at, err := timeParam(q.Request, "time", q.handler.options.Now())
	if err != nil {
		return err
	}
	limit, err := limitOf(q.Request, "limit")
	if err != nil {
		return err
	}
	made, err := q.handler.engines[q.memory].NewInstantQuery(q.Context(), q.reader, promql.NewPrometheusQueryOpts(false, q.lookback), text, at)
	if err != nil {
		return badData("invalid parameter %q: %v", "query", err)
	}
	return q.execute(made, text, limit)
}

func ranged(q *request) error {
	parsed, err := expression(q)
	if err != nil {
		return err
	}
	text := parsed.String()
	start, end, err := q.span(time.Time{}, time.Time{})
	if err != nil {
		return err
	}
	if q.Form.Get("start") == "" || q.Form.Get("end") == "" {
		return badData("invalid parameter %q: start and end are needed", "start")
	}
	step, err := duration(q.Form.Get("step"))
	switch {
	case err != nil:
		return badData("invalid parameter %q: %v", "step", err)
	case step <= 0:
		return badData("invalid parameter %q: zero or negative query resolution step widths are not accepted. Try a positive integer", "step")
	case step < time.Millisecond:
		return badData("invalid parameter %q: times have milliseconds, a step is at least 1ms", "step")
	}
	if span := end.Unix() - start.Unix(); float64(span)/step.Seconds() > mostSteps {
		return badData("exceeded maximum resolution of %d points per timeseries. Try decreasing the query resolution (?step=XX)", mostSteps)
	}
	if err := q.work.expression(parsed, end.UnixMilli()-start.UnixMilli(), step.Milliseconds()); err != nil {
		return err
	}
	limit, err := limitOf(q.Request, "limit")
	if err != nil {
		return err
	}
	made, err := q.handler.engines[q.memory].NewRangeQuery(q.Context(), q.reader, promql.NewPrometheusQueryOpts(false, q.lookback), text, start, end, step)
	if err != nil {
		return badData("invalid parameter %q: %v", "query", err)
	}
	return q.execute(made, text, limit)
}

// span reads start and end.
func (q *request) span(first, last time.Time) (start, end time.Time, err error) {
	if start, err = timeParam(q.Request, "start", first); err != nil {
		return start, end, err
	}
	if end, err = timeParam(q.Request, "end", last); err != nil {
		return start, end, err
	}
	if end.Before(start) {
		return start, end, badData("invalid parameter %q: end timestamp must not be before start time", "end")
	}
	return start, end, nil
}

func (q *request) execute(made promql.Query, text string, limit int) error {
	defer made.Close()
	result := made.Exec(q.Context())
	if result.Err != nil {
		return result.Err
	}
	warnings, infos := result.Warnings.AsStrings(text, 10, 10)
	value, cut := truncate(result.Value, limit)
	if cut {
		warnings = append(warnings, cutShort)
	}
	w := q.begin()
	w.result(value)
	w.notes("warnings", warnings)
	w.notes("infos", infos)
	w.raw("}")
	return nil
}

const cutShort = "results truncated due to limit"

func truncate(value parser.Value, limit int) (parser.Value, bool) {
	switch v := value.(type) {
	case promql.Vector:
		if limit > 0 && len(v) > limit {
			return v[:limit], true
		}
	case promql.Matrix:
		if limit > 0 && len(v) > limit {
			return v[:limit], true
		}
	}
	return value, false
}

// nanosOf is a time as points have it, the nearest where they cannot.
func nanosOf(t time.Time) int64 {
	switch s := t.Unix(); {
	case s >= math.MaxInt64/int64(time.Second):
		return math.MaxInt64
	case s <= math.MinInt64/int64(time.Second):
		return math.MinInt64
	}
	return t.UnixNano()
}
