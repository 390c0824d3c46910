package tables

import (
	"context"
	"database/sql"
	"slices"

	"github.com/kymogram/kymogram/server/internal/catalog"
)

const namedColumns = `r.id, p.workspace, p.name, r.name, r.display_name, r.created_ns`

func scanNamed(rows *sql.Rows) (n catalog.Named, err error) {
	var id []byte
	err = rows.Scan(&id, &n.Workspace, &n.Project, &n.Name, &n.DisplayName, &n.CreatedNs)
	copy(n.ID[:], id)
	return n, err
}

// called are the two ways to name a run: a condition, and the index along which it is found.
var called = []struct{ column, is, index string }{
	{"r.name", `r.name = ?1`, "runs_called"},
	{"r.display_name", `r.display_name = ?1 AND r.display_name <> ''`, "runs_shown"},
}

// namedRuns is the query of one way. No step of it sorts: it ends with the limit.
func namedRuns(is, index string, f catalog.NameFilter) (query string, args []any) {
	const trash = ` AND (r.deleted_ns > 0) = ?2`
	args = []any{f.Name, f.Deleted, f.Limit, f.Workspace, f.Project}
	runs := `SELECT ` + namedColumns + ` FROM projects p CROSS JOIN runs r INDEXED BY ` + index + ` ON r.project = p.id AND ` + is + trash
	switch {
	case f.Workspace != "" && f.Project != "":
		return runs + ` WHERE p.workspace = ?4 AND p.name = ?5 ORDER BY r.created_ns DESC LIMIT ?3`, args
	case f.Project != "":
		return runs + ` WHERE p.name = ?5 ORDER BY p.workspace DESC, r.created_ns DESC LIMIT ?3`, args
	case f.Workspace != "":
		return runs + ` WHERE p.workspace = ?4 ORDER BY p.name DESC, r.created_ns DESC LIMIT ?3`, args[:4]
	}
	return `SELECT ` + namedColumns + ` FROM runs r INDEXED BY ` + index + ` CROSS JOIN projects p ON p.id = r.project
		WHERE ` + is + trash + ` ORDER BY r.project DESC, r.created_ns DESC LIMIT ?3`, args[:3]
}

// NamedRuns implements [catalog.Names].
func (d *DB) NamedRuns(ctx context.Context, f catalog.NameFilter) (out []catalog.Named, err error) {
	for _, way := range called {
		query, args := namedRuns(way.is, way.index, f)
		found, err := Collect(ctx, d.reader, scanNamed, query, args...)
		if err != nil {
			return nil, d.failure("find runs by name", err)
		}
		out = append(out, found...)
	}
	return distinct(out), nil
}

// distinct leaves each run once: its name may be its display name, too.
func distinct(runs []catalog.Named) []catalog.Named {
	var out []catalog.Named
	for _, r := range runs {
		if !slices.ContainsFunc(out, func(o catalog.Named) bool { return o.ID == r.ID }) {
			out = append(out, r)
		}
	}
	return out
}

// near are the queries of [DB.RunsNear]. Each reads so many rows as its limit, whatever the
// filter leaves of them.
func (d *DB) near(f catalog.NameFilter) (queries []string, args []any) {
	if f.Workspace != "" && f.Project != "" {
		const inProject = `SELECT ` + namedColumns + ` FROM projects p CROSS JOIN runs r INDEXED BY `
		const here = ` ON r.project = p.id AND r.deleted_ns = 0 WHERE p.workspace = ?3 AND p.name = ?4`
		return []string{
			inProject + `runs_created` + here + ` ORDER BY r.created_ns DESC LIMIT ?2`,
			inProject + `runs_name` + here + ` AND r.name >= ?1 ORDER BY r.name LIMIT ?2`,
			inProject + `runs_name` + here + ` AND r.name < ?1 ORDER BY r.name DESC LIMIT ?2`,
		}, []any{f.Name, f.Limit, f.Workspace, f.Project}
	}
	const those = ` r JOIN projects p ON p.id = r.project WHERE r.deleted_ns = 0 AND (?3 = '' OR p.workspace = ?3) AND (?4 = '' OR p.name = ?4)`
	queries = []string{`SELECT ` + namedColumns + ` FROM (SELECT * FROM runs ORDER BY pk DESC LIMIT ?2)` + those}
	for i, way := range called {
		by := []string{way.column, d.shown}[i]
		from := `SELECT ` + namedColumns + ` FROM (SELECT r.* FROM runs r INDEXED BY ` + way.index + ` WHERE ` + way.column + ` <> '' AND ` + by
		queries = append(queries,
			from+` >= ?1 ORDER BY `+by+` LIMIT ?2)`+those,
			from+` < ?1 ORDER BY `+by+` DESC LIMIT ?2)`+those)
	}
	return queries, []any{f.Name, f.Limit, f.Workspace, f.Project}
}

// RunsNear implements [catalog.Names].
func (d *DB) RunsNear(ctx context.Context, f catalog.NameFilter) (out []catalog.Named, err error) {
	queries, args := d.near(f)
	for _, query := range queries {
		found, err := Collect(ctx, d.reader, scanNamed, query, args...)
		if err != nil {
			return nil, d.failure("look for names of runs", err)
		}
		out = append(out, found...)
	}
	return distinct(out), nil
}

func scanPlace(rows *sql.Rows) (p catalog.Place, err error) {
	err = rows.Scan(&p.Workspace, &p.Project)
	return p, err
}

// NamedProjects implements [catalog.Names].
func (d *DB) NamedProjects(ctx context.Context, name string, limit int) ([]catalog.Place, error) {
	found, err := Collect(ctx, d.reader, scanPlace, `SELECT workspace, name FROM projects WHERE name = ? ORDER BY workspace LIMIT ?`, name, limit)
	return found, d.failure("find projects by name", err)
}

// ProjectsNear implements [catalog.Names].
func (d *DB) ProjectsNear(ctx context.Context, name string, limit int) (out []catalog.Place, err error) {
	for _, query := range []string{
		`SELECT workspace, name FROM projects ORDER BY id DESC LIMIT ?2`,
		`SELECT workspace, name FROM projects WHERE name >= ?1 ORDER BY name LIMIT ?2`,
		`SELECT workspace, name FROM projects WHERE name < ?1 ORDER BY name DESC LIMIT ?2`,
	} {
		found, err := Collect(ctx, d.reader, scanPlace, query, name, limit)
		if err != nil {
			return nil, d.failure("look for names of projects", err)
		}
		for _, p := range found {
			if !slices.Contains(out, p) {
				out = append(out, p)
			}
		}
	}
	return out, nil
}
