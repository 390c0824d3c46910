package tables

import (
	"context"
	"database/sql"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// ListViews implements [catalog.Views].
func (d *DB) ListViews(ctx context.Context, workspace, project string) ([]catalog.View, error) {
	views, err := Collect(ctx, d.reader, func(rows *sql.Rows) (v catalog.View, err error) {
		return v, rows.Scan(&v.Name, &v.Title, &v.Panels, &v.Tag, &v.ChangedNs)
	}, `SELECT v.name, v.title, v.panels, v.tag, v.changed_ns FROM views v JOIN projects p ON p.id = v.project
		WHERE p.workspace = ? AND p.name = ? ORDER BY v.name LIMIT ?`, workspace, project, catalog.MaxViews)
	return views, d.failure("list views", err)
}

// View implements [catalog.Views].
func (d *DB) View(ctx context.Context, workspace, project, name string) (*catalog.View, error) {
	v := catalog.View{Name: name}
	err := d.reader.row(ctx, `SELECT v.title, v.panels, v.tag, v.changed_ns, v.document FROM views v JOIN projects p ON p.id = v.project
		WHERE p.workspace = ? AND p.name = ? AND v.name = ?`, workspace, project, name)(&v.Title, &v.Panels, &v.Tag, &v.ChangedNs, &v.Document)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoView(workspace, project, name)
	}
	if err != nil {
		return nil, d.failure("find a view", err)
	}
	return &v, nil
}

func errNoView(workspace, project, name string) error {
	return model.Errorf(model.CodeNotFound, "there is no view %q in %s/%s", model.Clip(name), workspace, project).
		WithHint("`kymogram view list %s/%s` shows those there are", workspace, project)
}

// PutView implements [catalog.ViewKeeper].
func (d *DB) PutView(ctx context.Context, workspace, project string, v catalog.View, c catalog.Condition) error {
	return d.write(ctx, "store a view", func(tx Tx) error {
		id, err := projectID(ctx, tx, workspace, project)
		if err != nil {
			return err
		}
		tag, err := viewTag(ctx, tx, id, v.Name)
		if err == nil {
			err = holds(c, tag, v.Name)
		}
		if err == nil && tag == "" {
			err = hasRoom(ctx, tx, id)
		}
		if err != nil {
			return err
		}
		return Exec(ctx, tx, `INSERT INTO views (project, name, title, panels, tag, changed_ns, document) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (project, name) DO UPDATE SET title = excluded.title, panels = excluded.panels, tag = excluded.tag, changed_ns = excluded.changed_ns, document = excluded.document`,
			id, v.Name, v.Title, v.Panels, v.Tag, v.ChangedNs, v.Document)
	})
}

// DeleteView implements [catalog.ViewKeeper].
func (d *DB) DeleteView(ctx context.Context, workspace, project, name string, c catalog.Condition) error {
	return d.write(ctx, "delete a view", func(tx Tx) error {
		var id int64
		err := tx.QueryRowContext(ctx, `SELECT id FROM projects WHERE workspace = ? AND name = ?`, workspace, project).Scan(&id)
		if errors.Is(err, sql.ErrNoRows) {
			return errNoView(workspace, project, name)
		}
		if err != nil {
			return err
		}
		tag, err := viewTag(ctx, tx, id, name)
		if err == nil && tag == "" {
			err = errNoView(workspace, project, name)
		}
		if err == nil {
			err = holds(c, tag, name)
		}
		if err != nil {
			return err
		}
		return Exec(ctx, tx, `DELETE FROM views WHERE project = ? AND name = ?`, id, name)
	})
}

// viewTag is the tag of a view, "" where there is none.
func viewTag(ctx context.Context, tx Tx, project int64, name string) (tag string, err error) {
	err = tx.QueryRowContext(ctx, `SELECT tag FROM views WHERE project = ? AND name = ?`, project, name).Scan(&tag)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return tag, err
}

func hasRoom(ctx context.Context, tx Tx, project int64) error {
	var views int
	err := tx.QueryRowContext(ctx, `SELECT count(*) FROM views WHERE project = ?`, project).Scan(&views)
	if err == nil && views >= catalog.MaxViews {
		return model.Errorf(model.CodeLimit, "the project has %d views, the most is %d", views, catalog.MaxViews).
			WithHint("delete one with: kymogram view delete WORKSPACE/PROJECT/NAME")
	}
	return err
}

// holds fails unless a view with this tag, "" for none, is as a condition says.
func holds(c catalog.Condition, tag, name string) error {
	switch {
	case c.Absent && tag != "":
		return model.Errorf(model.CodeConflict, "there is a view %q already", name).
			WithHint("read it, and send its etag with the change")
	case c.Tag != "" && c.Tag != tag:
		return model.Errorf(model.CodeConflict, "the view %q was changed meanwhile, or deleted", name).
			WithHint("read it again, make the change to what it is now, and send its new etag")
	}
	return nil
}
