package influxql

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"github.com/kymogram/kymogram/internal/model"
)

// maxTerms bounds the operators of a statement: each may be computed for each row.
const maxTerms = 1_000

// maxArgument bounds the numbers that functions make space for.
const maxArgument = 10_000

// check refuses what is not a read, and what the engine would do without bounds.
func check(statement influxql.Statement) (err error) {
	switch s := statement.(type) {
	case *influxql.SelectStatement:
		if s.Target != nil {
			return refused("SELECT … INTO", "Kymogram only reads at /query; write the answer with the write API")
		}
	case *influxql.ShowDatabasesStatement, *influxql.ShowMeasurementsStatement, *influxql.ShowTagKeysStatement, *influxql.ShowTagValuesStatement,
		*influxql.ShowFieldKeysStatement, *influxql.ShowSeriesStatement, *influxql.ShowRetentionPoliciesStatement, *influxql.CreateDatabaseStatement:
	default:
		words := strings.Fields(statement.String())
		return refused(strings.Join(words[:min(2, len(words))], " "), "/query takes SELECT, and SHOW of DATABASES, MEASUREMENTS, TAG KEYS, TAG VALUES, FIELD KEYS, SERIES and RETENTION POLICIES")
	}
	terms := 0
	influxql.WalkFunc(statement, func(n influxql.Node) {
		switch n := n.(type) {
		case *influxql.Call:
			if err == nil {
				err = checkCall(n)
			}
		case *influxql.BinaryExpr:
			terms++
		}
	})
	if terms > maxTerms {
		return model.Errorf(model.CodeTooLarge, "the statement has %d operators, it may have %d", terms, maxTerms).
			WithHint("write many alternatives as a regular expression: =~ /^(a|b|c)$/")
	}
	return err
}

func refused(what, hint string) error {
	return model.Errorf(model.CodeInvalid, "%s is not supported", what).WithHint("%s", hint)
}

func checkCall(call *influxql.Call) error {
	if strings.HasPrefix(call.Name, "holt_winters") {
		return refused(call.Name+"()", "its work is not bounded; compute it from the points")
	}
	for _, arg := range call.Args {
		if n, ok := arg.(*influxql.IntegerLiteral); ok && (n.Val > maxArgument || n.Val < -maxArgument) && !slices.Contains(mathematics(), call.Name) {
			return model.Errorf(model.CodeInvalid, "the argument %d of %s() is too large, it may be %d", n.Val, call.Name, maxArgument)
		}
	}
	return nil
}

// mathematics are the functions of one value each.
func mathematics() []string {
	return []string{"abs", "acos", "asin", "atan", "atan2", "ceil", "cos", "exp", "floor", "ln", "log", "log10", "log2", "pow", "round", "sin", "sqrt", "tan"}
}

// flowing are the functions that hold no points.
func flowing() []string {
	return append(mathematics(), "time", "count", "sum", "mean", "min", "max", "first", "last", "difference", "non_negative_difference",
		"derivative", "non_negative_derivative", "cumulative_sum", "moving_average", "elapsed")
}

// isHeavy says whether a function holds all points of an interval.
func isHeavy(statement influxql.Statement) (heavy bool) {
	influxql.WalkFunc(statement, func(n influxql.Node) {
		if call, ok := n.(*influxql.Call); ok && !slices.Contains(flowing(), call.Name) {
			heavy = true
		}
	})
	return heavy
}

// checkIntervals refuses a GROUP BY time() of too many intervals, in subqueries too. Without
// bounds it goes from the first point to now.
func (m *mapper) checkIntervals(statement *influxql.SelectStatement, outer influxql.TimeRange, now time.Time) error {
	_, times, err := influxql.ConditionExpr(statement.Condition, &influxql.NowValuer{Now: now, Location: statement.Location})
	if err != nil {
		return fmt.Errorf("read WHERE: %w", err)
	}
	times = times.Intersect(outer)
	each, err := statement.GroupByInterval()
	if err != nil {
		return fmt.Errorf("read GROUP BY: %w", err)
	}
	if each > 0 {
		from, to := m.firstNs(), now.UnixNano()
		if !times.Min.IsZero() {
			from = times.MinTimeNano()
		}
		if !times.Max.IsZero() {
			to = times.MaxTimeNano()
		}
		if n := (uint64(to) - uint64(from)) / uint64(each); from < to && n > mostBuckets {
			return model.Errorf(model.CodeTooLarge, "GROUP BY time(%s) makes %d intervals, there may be %d", influxql.FormatDuration(each), n, mostBuckets).
				WithHint("bound the time in WHERE, or use a longer interval")
		}
	}
	for _, source := range statement.Sources {
		if inner, ok := source.(*influxql.SubQuery); ok {
			if err := m.checkIntervals(inner.Statement, times, now); err != nil {
				return err
			}
		}
	}
	return nil
}

// firstNs is the time of the first point of all that the statement knows.
func (m *mapper) firstNs() int64 {
	first := int64(math.MaxInt64)
	for _, c := range m.projects {
		for _, t := range c {
			for _, g := range t.groups {
				first = min(first, g.minNs)
			}
		}
	}
	return first
}
