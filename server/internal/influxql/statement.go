package influxql

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	"github.com/influxdata/influxdb/query"
	"github.com/influxdata/influxql"

	"github.com/kymogram/kymogram/internal/model"
)

// mostRows bounds an answer that is not chunked.
const mostRows = 1_000_000

// answer works on the statements in their order; the first that fails is the last.
func (h *Handler) answer(w http.ResponseWriter, r *http.Request, q *request) {
	lease := &lease{reserve: h.options.Reserve, most: h.options.Memory}
	if err := lease.take(r.Context(), slices.ContainsFunc(q.statements, isHeavy)); err != nil {
		h.refuse(w, r, err)
		return
	}
	defer lease.end()
	out := newAnswer(w, q.form, lease.bytes/parts)
	defer out.end()
	for i, statement := range q.statements {
		out.begin(i)
		var failed error
		if i > 0 && out.failed {
			failed = query.ErrNotExecuted
		} else {
			failed = h.execute(r.Context(), q.at, statement, out, lease)
		}
		if failed != nil {
			out.fail(h.text(r.Context(), failed))
		}
		out.finish()
	}
}

// lease is a request's share of the memory for answers: half of what a caller may have, so
// that two can run, or all of it.
type lease struct {
	reserve func(ctx context.Context, bytes int64) (release func(), err error)
	most    int64
	bytes   int64
	release func()
}

func (l *lease) take(ctx context.Context, whole bool) (err error) {
	l.bytes = l.most / 2
	if whole {
		l.bytes = l.most
	}
	l.release, err = l.reserve(ctx, l.bytes)
	return err
}

// grow waits for all that a caller may have. Who waits holds nothing.
func (l *lease) grow(ctx context.Context) error {
	l.end()
	return l.take(ctx, true)
}

func (l *lease) end() {
	if l.release != nil {
		l.release()
	}
	l.release = nil
}

// text is an error for people: the engine's are, and ours; what is neither is in the log.
func (h *Handler) text(ctx context.Context, err error) string {
	var crash panicked
	if known := model.Shown(err); known != nil {
		return message(known)
	}
	if errors.As(err, &crash) {
		h.options.Log.ErrorContext(ctx, "a query failed", "err", err)
		return "the server failed on this statement; its log says why"
	}
	return err.Error()
}

// panicked is what became of a statement that the engine could not cope with.
type panicked struct{ reason any }

func (p panicked) Error() string { return fmt.Sprintf("panic: %v", p.reason) }

// execute works on a statement within its time.
func (h *Handler) execute(ctx context.Context, at place, statement influxql.Statement, out *answer, l *lease) (err error) {
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // it is thrown as it is
				panic(p)
			}
			err = panicked{p}
		}
	}()
	if err := check(statement); err != nil {
		return err
	}
	errLate := model.Errorf(model.CodeTimeout, "the statement took longer than %s", h.options.Time).
		WithHint("narrow the time range or WHERE, or use a longer GROUP BY time()")
	ctx, cancel := context.WithTimeoutCause(ctx, h.options.Time, errLate)
	defer cancel()
	work := func() (*session, error) {
		s := &session{ctx: ctx, service: h.service, memory: l.bytes, whole: l.most, heavy: isHeavy(statement), mostRead: h.options.Points}
		return s, s.failure(h.run(s, at, statement, out))
	}
	s, err := work()
	if s.short.Load() && !out.series && l.bytes < l.most { // nothing is written yet
		if err := l.grow(ctx); err != nil {
			return err
		}
		s, err = work()
	}
	if n := s.skipped.Load(); n > 0 && err == nil {
		out.warn(fmt.Sprintf("%d values that are NaN or infinite were left out of functions", n))
	}
	if cause := context.Cause(ctx); cause != nil { // the engine ends then as at the end
		return cause
	}
	return err
}

func (h *Handler) run(s *session, at place, statement influxql.Statement, out *answer) error {
	if selects, ok := statement.(*influxql.SelectStatement); ok {
		return h.selects(s, at, selects, out)
	}
	rows, err := h.show(s, at, statement, out)
	for _, r := range rows {
		for _, values := range r.Values {
			if !out.line(r.Name, r.Tags, r.Columns, values) {
				return out.cut()
			}
		}
	}
	return err
}

// selects writes what a SELECT finds, as it finds it.
func (h *Handler) selects(s *session, at place, statement *influxql.SelectStatement, out *answer) error {
	m := &mapper{session: s, at: at, fields: fieldsOf(statement)}
	if err := h.there(s.ctx, m, statement.Sources); err != nil {
		return err
	}
	if err := m.prepare(statement.Sources); err != nil {
		return err
	}
	m.expand(statement)
	if err := m.checkIntervals(statement, influxql.TimeRange{}, h.options.Now()); err != nil {
		return err
	}
	compiled, err := query.Compile(statement, query.CompileOptions{Now: h.options.Now()})
	if err != nil {
		return err
	}
	prepared, err := compiled.Prepare(m, query.SelectOptions{})
	if err != nil {
		return err
	}
	defer prepared.Close()
	cursor, err := prepared.Select(s.ctx)
	if err != nil {
		return err
	}
	defer cursor.Close()
	columns := make([]string, len(cursor.Columns()))
	for i, column := range cursor.Columns() {
		columns[i] = column.Val
	}
	for row := (query.Row{}); cursor.Scan(&row) && s.ctx.Err() == nil; row = (query.Row{}) {
		if !out.line(row.Series.Name, row.Series.Tags.KeyValues(), columns, row.Values) {
			return out.cut()
		}
	}
	return cursor.Err()
}

// there says of a project that it is missing, as InfluxDB does.
func (h *Handler) there(ctx context.Context, m *mapper, sources influxql.Sources) error {
	wanted := map[string][]*influxql.Measurement{}
	m.collect(sources, wanted)
	for project := range wanted {
		if err := h.project(ctx, place{m.at.workspace, project}); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handler) project(ctx context.Context, at place) error {
	if at.project == "" {
		return errors.New("database name required")
	}
	if err := h.service.Allow(ctx, at.workspace, at.project); err != nil {
		return err
	}
	there, err := h.service.HasProject(ctx, at.workspace, at.project)
	if err == nil && !there {
		return fmt.Errorf("database not found: %s", at.project)
	}
	return err
}

// expand makes GROUP BY * mean all tags but axes: a step-like tag would make a series of
// each step. SELECT * shows them as columns.
func (m *mapper) expand(statement *influxql.SelectStatement) {
	var out influxql.Dimensions
	for _, d := range statement.Dimensions {
		if _, ok := d.Expr.(*influxql.Wildcard); !ok {
			out = append(out, d)
			continue
		}
		names := map[string]struct{}{}
		for _, source := range statement.Sources {
			switch source := source.(type) {
			case *influxql.Measurement:
				for _, t := range m.tables(source) {
					maps.Copy(names, t.grouped())
				}
			case *influxql.SubQuery:
				m.expand(source.Statement)
				for _, inner := range source.Statement.Dimensions {
					if ref, ok := inner.Expr.(*influxql.VarRef); ok {
						names[ref.Val] = struct{}{}
					}
				}
			}
		}
		for _, name := range slices.Sorted(maps.Keys(names)) {
			out = append(out, &influxql.Dimension{Expr: &influxql.VarRef{Val: name}})
		}
	}
	statement.Dimensions = out
	for _, source := range statement.Sources {
		if inner, ok := source.(*influxql.SubQuery); ok {
			m.expand(inner.Statement)
		}
	}
}

// fieldsOf are the names that a statement has, nil where it may mean any.
func fieldsOf(statement *influxql.SelectStatement) map[string]bool {
	names, compared, all := map[string]bool{}, map[influxql.Node]bool{}, false
	influxql.WalkFunc(statement, func(n influxql.Node) {
		switch n := n.(type) {
		case *influxql.BinaryExpr:
			compared[n.RHS] = true // a regular expression there matches values
		case *influxql.VarRef:
			names[n.Val] = true
		case *influxql.Distinct:
			names[n.Val] = true
		case *influxql.Wildcard:
			all = true
		case *influxql.RegexLiteral:
			all = all || !compared[n]
		}
	})
	if all {
		return nil
	}
	return names
}
