package tables

import (
	"context"
	"database/sql"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// byAttribute lists runs in the order of an attribute: first those that have it,
// along the index attributes_key, then, only when the page is not full, those
// that have not, by age. config/ may be left out, as in the filter; the longer
// path wins.
type byAttribute struct {
	db    *DB
	order order
	runs  *where // which runs, over `runs r`
	along string // how to find the runs without it, and to order them
	age   string
	after *cursor // nil for the first page
	room  *room
}

func (b *byAttribute) page(ctx context.Context, limit int) (page []listed, err error) {
	if b.after == nil || b.after.Type != "n" {
		if page, err = b.keyed(ctx, limit); err != nil || len(page) == limit {
			return page, err
		}
	}
	rest, err := b.unkeyed(ctx, limit-len(page))
	return append(page, rest...), err
}

// keyed scans a run with its key, which read makes of what is stored, as long as there is room.
func (r *room) keyed(read func(any) any) func(*sql.Rows) (listed, error) {
	return func(rows *sql.Rows) (listed, error) {
		var key any
		l, err := scanListed(rows.Scan, &key)
		l.key = read(key)
		if err == nil {
			err = r.takeRun(&l)
		}
		return l, err
	}
}

// asIs reads a key that is a column's value.
func asIs(key any) any { return key }

// keyed reads each of the two paths in its order and merges the pages.
func (b *byAttribute) keyed(ctx context.Context, limit int) ([]listed, error) {
	long, short := "config/"+b.order.path, b.order.path
	first, err := b.stream(long, &where{})
	if err != nil {
		return nil, err
	}
	plain := &where{}
	plain.add(`NOT EXISTS (SELECT 1 FROM attributes x WHERE x.run = a.run AND x.path = ?)`, long)
	second, err := b.stream(short, plain)
	if err != nil {
		return nil, err
	}
	query := `SELECT * FROM (` + first.query + `) a UNION ALL SELECT * FROM (` + second.query + `) b ORDER BY ` + b.order.listed() + ` LIMIT ?`
	args := slices.Concat(first.args, []any{limit}, second.args, []any{limit, limit})
	return Collect(ctx, b.db.reader, b.room.keyed(b.db.key), query, args...)
}

// statement is SQL with the arguments in front of its limit.
type statement struct {
	query string
	args  []any
}

// stream reads the runs that have a path, in its order.
func (b *byAttribute) stream(path string, more *where) (statement, error) {
	w := &where{}
	w.add(`a.path = ?`, path)
	w.add(`a.key IS NOT NULL`)
	if b.after != nil {
		key, err := b.after.key()
		if err != nil {
			return statement{}, errCursor()
		}
		w.add(`(a.key, a.run)`+b.order.beyond()+`(?, ?)`, Key{key}, b.after.PK)
	}
	w.add(more.orTrue(), more.args...)
	// PostgreSQL reads the runs of a filter once for each row of a join, as it thinks, where they
	// are asked for by the joined row, and so passes the order by. By the first row they are read once.
	w.add(strings.ReplaceAll(b.runs.orTrue(), chosenIn, `a.run IN (`), b.runs.args...)
	return statement{`SELECT ` + runColumns + `, a.key FROM attributes a INDEXED BY attributes_key CROSS JOIN runs r ON r.pk = a.run
		JOIN projects p ON p.id = r.project WHERE ` + w.String() + ` ORDER BY a.key` + b.order.direction() + `, a.run` + b.order.direction() + ` LIMIT ?`, w.args}, nil
}

// unkeyed reads the runs without the attribute, or with a NaN.
func (b *byAttribute) unkeyed(ctx context.Context, limit int) ([]listed, error) {
	w := &where{}
	w.add(`NOT EXISTS (SELECT 1 FROM attributes a WHERE a.run = r.pk AND a.key IS NOT NULL AND a.path = coalesce(
		(SELECT x.path FROM attributes x WHERE x.run = r.pk AND x.path = ?), ?))`, "config/"+b.order.path, b.order.path)
	return b.without(ctx, w, limit)
}

// without reads those that lack the key, by age.
func (b *byAttribute) without(ctx context.Context, w *where, limit int) ([]listed, error) {
	w.add(b.runs.orTrue(), b.runs.args...)
	if b.after != nil && b.after.Type == "n" {
		w.add(`r.pk`+b.order.beyond()+`?`, b.after.PK)
	}
	return Collect(ctx, b.db.reader, b.room.keyed(asIs), `SELECT `+runColumns+`, NULL FROM runs r`+b.along+` JOIN projects p ON p.id = r.project
		WHERE `+w.String()+` ORDER BY `+b.age+b.order.direction()+` LIMIT ?`, append(w.args, limit)...)
}

// listAlong chooses how a list is read.
func (d *DB) listAlong(ctx context.Context, f catalog.RunFilter, r *room) ([]listed, error) {
	o := parseOrder(f.Sort)
	w, after, err := selected(f)
	if err != nil {
		return nil, err
	}
	if o.path != "" {
		b := byAttribute{db: d, order: o, runs: w, age: "+r.pk", after: after, room: r} // sorts: a filter is expected to leave few
		if !w.queries && !narrows(f) {
			b.along, b.age = " INDEXED BY runs_age", "r.pk" // most of a project: in its order, not sorted
		}
		if m, ok := filter.ParseMetric(o.path); ok {
			if m, ok = m.Resolved(); !ok {
				return nil, errDirection(m.Name)
			}
			return (&bySummary{b, m, f.Steps[m]}).page(ctx, f.Limit+1)
		}
		return b.page(ctx, f.Limit+1)
	}
	if after != nil {
		if err := o.after(w, after); err != nil {
			return nil, err
		}
	}
	return Collect(ctx, d.reader, r.keyed(asIs), `SELECT `+runColumns+`, `+o.key+` FROM runs r`+o.along(f, w)+` JOIN projects p ON p.id = r.project WHERE `+
		w.String()+` ORDER BY `+o.by()+` LIMIT ?`, append(w.args, f.Limit+1)...)
}

// along names the index of the order where only words choose the runs: they are
// in it. Left alone, SQLite takes one that is not, and reads every run.
func (o *order) along(f catalog.RunFilter, w *where) string {
	if f.Only != nil {
		return " INDEXED BY sqlite_autoindex_runs_1" // of ids: else SQLite reads every run of the project
	}
	if f.Deleted || w.compares || narrows(f) {
		return ""
	}
	return " INDEXED BY " + o.index
}

// narrows reports whether a filter chooses runs of a project by more than its query.
func narrows(f catalog.RunFilter) bool {
	return f.Status != "" || f.Tag != "" || f.Name != "" || f.Members != nil || f.Only != nil
}

func errDirection(metric string) error {
	return model.Errorf(model.CodeInvalid, "the name %s does not say whether less is better", model.Clip(metric)).
		WithHint("Sort by min(…) or max(…).")
}
