package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"strings"

	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// weigh names what a mirror lacks of the damaged database that it is to replace.
// What it names makes a rebuild take the rows of both.
func (v *verdict) weigh(ctx context.Context, path string) {
	s := v.state
	var schema int64
	if !v.file.missing {
		// What cannot be read stays 0.
		_ = looking(path, func(db *sql.DB) (err error) {
			if schema, err = schemaOf(ctx, db); err == nil {
				v.at, err = readPosition(ctx, db)
			}
			return err
		})
	}
	switch {
	case s.Base == nil:
		if schema == 0 {
			schema = int64(latestMigration())
		}
		s.Base = &mirror.Header{Schema: schema}
		s.Damage = append(s.Damage, "the catalog's mirror cannot be read, or is missing")
	case v.at.LSN > s.Last.LSN:
		s.Damage = append(s.Damage, fmt.Sprintf("the mirror ends at change %d, the catalog was at %d", s.Last.LSN, v.at.LSN))
	case s.Logless:
		s.Damage = append(s.Damage, "the mirror's changes are missing")
	}
}

// salvage stores what can be read of the damaged database. Each table is read from
// both ends, so that one damaged page costs the rows of that page.
func (d *DB) salvage(ctx context.Context, known map[string]*mirrored, schema int64, store func(mirror.Row) error) error {
	err := looking(d.path, func(old *sql.DB) error {
		if has, err := schemaOf(ctx, old); err != nil || has != schema {
			return fmt.Errorf("the catalog's known have version %d, its mirror's %d: %w", has, schema, err)
		}
		for _, name := range sortedNames(known) {
			for _, order := range []string{"", " DESC"} {
				err := known[name].salvage(ctx, old, order, store)
				if err == nil {
					break
				}
				d.health.Lost = append(d.health.Lost, fmt.Sprintf("rows of the table %s: %v", name, err))
			}
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		d.health.Lost = append(d.health.Lost, fmt.Sprintf("what only the damaged catalog had: %v", err))
	}
	return ctx.Err()
}

func (t *mirrored) salvage(ctx context.Context, q tables.Querier, order string, store func(mirror.Row) error) error {
	rows, err := q.QueryContext(ctx, `SELECT * FROM "`+t.name+`" ORDER BY `+strings.Join(t.key, order+`, `)+order)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		values, err := scanValues(rows)
		if err != nil {
			return err
		}
		row, err := t.row(values)
		if err == nil {
			err = store(row)
		}
		if err != nil {
			return err
		}
	}
	return rows.Err()
}

// prune removes rows that name a lost one. A run without a row here, whose points the
// store has, comes back as a recovered one.
func prune(ctx context.Context, tx *transaction) error {
	type reference struct{ table, from, parent, to string }
	all, err := tables.Collect(ctx, tx, func(rows *sql.Rows) (r reference, err error) {
		return r, rows.Scan(&r.table, &r.from, &r.parent, &r.to)
	}, `SELECT t.name, f."from", f."table", f."to" FROM sqlite_schema t, pragma_foreign_key_list(t.name) f
		WHERE t.type = 'table' ORDER BY f."table" <> 'projects'`) // runs lose their project before others lose their run
	if err != nil {
		return err
	}
	for _, r := range all {
		if err := tables.Exec(ctx, tx, fmt.Sprintf(`DELETE FROM "%s" WHERE "%s" NOT IN (SELECT "%s" FROM "%s")`, r.table, r.from, r.to, r.parent)); err != nil {
			return err
		}
	}
	if err := tables.Exec(ctx, tx, `DELETE FROM identities WHERE purged_ns = 0 AND run NOT IN (SELECT id FROM runs)`); err != nil {
		return err
	}
	return tables.Exec(ctx, tx, `DELETE FROM ids WHERE run NOT IN (SELECT id FROM runs) AND run NOT IN (SELECT run FROM identities WHERE purged_ns > 0)`)
}
