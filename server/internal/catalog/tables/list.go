package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// maxPage bounds a page whatever a caller asks for.
const maxPage = 10_000

const runColumns = `r.pk, r.id, p.workspace, p.name, r.name, r.display_name, r.description, r.status, r.tags, r.created_ns, r.last_ns,
	r.attempt, r.orchestration_id, r.parent_run, r.parent, r.fork_step, r.linked_from, r.writers, r.deleted_ns`

// listed is a run of a page with its place in the order.
type listed struct {
	catalog.Run
	pk  int64
	key any
}

// scanListed reads runColumns, then what is in more.
func scanListed(scan func(...any) error, more ...any) (listed, error) {
	var l listed
	var id, parent []byte
	var tags string
	err := scan(append([]any{
		&l.pk, &id, &l.Workspace, &l.Project, &l.Name, &l.DisplayName, &l.Description, &l.Status, &tags,
		&l.CreatedNs, &l.LastNs, &l.Attempt, &l.OrchestrationID, &l.ParentRun, &parent, &l.ForkStep, &l.LinkedFrom, &l.Writers, &l.DeletedNs,
	}, more...)...)
	if err != nil {
		return l, err
	}
	copy(l.ID[:], id)
	copy(l.Parent[:], parent)
	return l, json.Unmarshal([]byte(tags), &l.Tags)
}

// order is how a list is sorted.
type order struct {
	key   string // SQL expression of a column
	index string // that has the runs of a project in this order, with their words
	path  string // of the attribute instead, "" for a column
	desc  bool
}

func parseOrder(sort string) order {
	name, desc := strings.CutPrefix(sort, "-")
	switch name {
	case "":
		return order{key: "r.created_ns", index: "runs_created", desc: true} // newest first
	case "created":
		return order{key: "r.created_ns", index: "runs_created", desc: desc}
	case "last":
		return order{key: "r.last_ns", index: "runs_last", desc: desc}
	case "name":
		return order{key: "r.name", index: "runs_name", desc: desc}
	case "status":
		return order{key: "r.status", index: "runs_by_status", desc: desc}
	}
	return order{path: name, desc: desc}
}

// by is the ORDER BY: equal keys by age in the direction of the sort.
func (o *order) by() string { return o.key + o.direction() + ", r.pk" + o.direction() }

// listed is the same over the result columns of an attribute's order: the key is
// the last, the run's place the first.
func (o *order) listed() string {
	last := strconv.Itoa(strings.Count(runColumns, ",") + 2)
	return last + o.direction() + ", 1" + o.direction()
}

func (o *order) direction() string {
	if o.desc {
		return " DESC"
	}
	return " ASC"
}

// beyond is the comparison with where a page ended.
func (o *order) beyond() string {
	if o.desc {
		return " < "
	}
	return " > "
}

// after adds the condition for what follows a cursor.
func (o *order) after(w *where, c *cursor) error {
	key, err := c.key()
	_, isText := key.(string)
	_, isWhole := key.(int64)
	if texts := o.index == "runs_name" || o.index == "runs_by_status"; err != nil || texts && !isText || !texts && !isWhole {
		return errCursor()
	}
	w.add(`(`+o.key+`, r.pk)`+o.beyond()+`(?, ?)`, key, c.PK)
	return nil
}

// ListRuns implements [catalog.Runs].
func (d *DB) ListRuns(ctx context.Context, f catalog.RunFilter) ([]catalog.Run, string, error) {
	if f.Limit < 1 || f.Limit > maxPage {
		return nil, "", model.Errorf(model.CodeInvalid, "the limit %d is not valid", f.Limit).WithHint("It is 1 to %d.", maxPage)
	}
	page, more, err := d.pageOf(ctx, f)
	switch {
	case err != nil:
		return nil, "", d.failure("list runs", err)
	case more && len(page) == 0:
		return nil, "", catalog.ErrLarge
	}
	next := ""
	if more {
		last := page[len(page)-1]
		next = encodeCursor(newCursor(f.Sort, last.key, last.pk))
	}
	runs := make([]catalog.Run, len(page))
	for i := range page {
		runs[i] = page[i].Run
	}
	return runs, next, nil
}

// pageOf reads as many runs as the filter has space for, and says whether there are more.
func (d *DB) pageOf(ctx context.Context, f catalog.RunFilter) (page []listed, more bool, err error) {
	r := newRoom(f.Bytes)
	page, err = d.listAlong(ctx, f, r)
	if more = errors.Is(err, errPageFull); err != nil && !more {
		return nil, false, err
	}
	if len(page) > f.Limit {
		page, more = page[:f.Limit], true
	}
	if !f.Configs {
		return page, more, nil
	}
	kept, err := d.addConfigs(ctx, page, newRoom(f.Bytes))
	if errors.Is(err, errPageFull) {
		return kept, true, nil
	}
	return kept, more, err
}

// configsTogether is of how many runs the configs are read at a time.
const configsTogether = 50

// addConfigs reads the configs of as many runs as there is room for.
func (d *DB) addConfigs(ctx context.Context, page []listed, r *room) (kept []listed, err error) {
	for begin := 0; begin < len(page); begin += configsTogether {
		done, err := d.configsOf(ctx, page[begin:min(begin+configsTogether, len(page))], r)
		if err != nil {
			return page[:begin+done], err
		}
	}
	return page, nil
}

// configsOf reads the configs of some runs. Where the room ends, done are whole.
func (d *DB) configsOf(ctx context.Context, runs []listed, r *room) (done int, err error) {
	pks := make([]int64, len(runs))
	for i := range runs {
		pks[i] = runs[i].pk
	}
	list, _ := json.Marshal(pks) // integers always marshal
	next := 0
	begin := func(at int) error {
		for ; next <= at; next++ {
			done = next
			if err := r.takeRun(&runs[next]); err != nil {
				return err
			}
		}
		return nil
	}
	order := d.inOrder
	if order != "" {
		order += `, a.path`
	}
	_, err = Collect(ctx, d.reader, func(rows *sql.Rows) (none struct{}, err error) {
		var at int
		var path string
		var value []byte
		if err = rows.Scan(&at, &path, &value); err == nil {
			err = begin(at)
		}
		if err != nil {
			return none, err
		}
		a := catalog.Attribute{Path: path}
		if err = json.Unmarshal(value, &a.Value); err == nil {
			err = r.take(len(path) + len(value))
		}
		runs[at].Config = append(runs[at].Config, a)
		return none, err
	}, `SELECT j.key, a.path, a.value FROM json_each(?) j CROSS JOIN attributes a INDEXED BY sqlite_autoindex_attributes_1
		ON a.run = CAST(j.value AS BIGINT) AND a.path >= 'config/' AND a.path < coalesce((SELECT x.path FROM attributes x
			WHERE x.run = CAST(j.value AS BIGINT) AND x.path >= 'config/' AND x.path < 'config0' ORDER BY x.path LIMIT 1 OFFSET ?), 'config0')`+order, string(list), catalog.MaxConfig)
	if err == nil {
		err = begin(len(runs) - 1)
	}
	return done, err
}

// selected says which runs a filter means, and where the page before ended.
func selected(f catalog.RunFilter) (*where, *cursor, error) {
	w := &where{steps: f.Steps}
	w.add(`r.project = (SELECT id FROM projects WHERE workspace = ? AND name = ?)`, f.Workspace, f.Project)
	if f.Deleted {
		w.add(`r.deleted_ns > 0`)
	} else {
		w.add(`r.deleted_ns = 0`)
	}
	addExact(w, f)
	if f.Only != nil {
		w.add(`r.id IN (SELECT unhex(value) FROM json_each(?))`, hexList(f.Only))
	}
	for _, m := range f.Members {
		w.addMember(m)
	}
	if err := w.addQuery(f); err != nil {
		return nil, nil, err
	}
	if f.Cursor == "" {
		return w, nil, nil
	}
	c := &cursor{}
	if err := decodeCursor(f.Cursor, c); err != nil {
		return nil, nil, err
	}
	if c.Sort != f.Sort {
		return nil, nil, errCursor()
	}
	return w, c, nil
}

func addExact(w *where, f catalog.RunFilter) {
	if f.Name != "" {
		w.add(`r.name = ?`, f.Name)
	}
	if f.Tag != "" {
		w.add(`EXISTS (SELECT 1 FROM tags t WHERE t.run = r.pk AND t.tag = ?)`, f.Tag)
	}
	if f.Status != "" {
		w.add(`r.status = ?`, f.Status)
	}
}

// FindRun implements [catalog.Runs]; a run in the trash is not found.
func (d *DB) FindRun(ctx context.Context, workspace, project, name string) (model.RunID, error) {
	var id model.RunID
	var raw []byte
	err := d.reader.row(ctx, `SELECT r.id FROM runs r JOIN projects p ON p.id = r.project
		WHERE p.workspace = ? AND p.name = ? AND r.name = ? AND r.deleted_ns = 0`, workspace, project, name)(&raw)
	if errors.Is(err, sql.ErrNoRows) {
		return id, model.Errorf(model.CodeNotFound, "there is no run %s/%s/%s", model.Clip(workspace), model.Clip(project), model.Clip(name)).
			WithHint("`kymogram runs list` shows the runs that you may read.")
	}
	copy(id[:], raw)
	return id, d.failure("find a run", err)
}

// place is the cursor of the list of projects.
type place struct {
	Workspace string `json:"w"`
	Name      string `json:"n"`
}

// HasProject implements [catalog.Runs].
func (d *DB) HasProject(ctx context.Context, workspace, project string) (there bool, err error) {
	err = d.reader.row(ctx, `SELECT EXISTS (SELECT 1 FROM projects WHERE workspace = ? AND name = ?)`, workspace, project)(&there)
	return there, d.failure("find a project", err)
}

// ListProjects implements [catalog.Runs], by workspace and name.
func (d *DB) ListProjects(ctx context.Context, limit int, cursorText string) ([]catalog.Project, string, error) {
	if limit < 1 || limit > maxPage {
		return nil, "", model.Errorf(model.CodeInvalid, "the limit %d is not valid", limit).WithHint("It is 1 to %d.", maxPage)
	}
	var after place
	if cursorText != "" {
		if err := decodeCursor(cursorText, &after); err != nil {
			return nil, "", err
		}
	}
	page, err := Collect(ctx, d.reader, func(rows *sql.Rows) (catalog.Project, error) {
		var p catalog.Project
		err := rows.Scan(&p.Workspace, &p.Name, &p.Runs, &p.LastNs)
		return p, err
	}, `SELECT p.workspace, p.name,
		(SELECT count(*) FROM runs r INDEXED BY runs_status WHERE r.project = p.id AND r.deleted_ns = 0),
		coalesce((SELECT r.last_ns FROM runs r INDEXED BY runs_last WHERE r.project = p.id AND r.deleted_ns = 0 ORDER BY r.last_ns DESC LIMIT 1), 0)
		FROM projects p WHERE (p.workspace, p.name) > (?, ?) ORDER BY p.workspace, p.name LIMIT ?`, after.Workspace, after.Name, limit+1)
	if err != nil {
		return nil, "", d.failure("list projects", err)
	}
	if len(page) <= limit {
		return page, "", nil
	}
	last := page[limit-1]
	return page[:limit], encodeCursor(place{last.Workspace, last.Name}), nil
}
