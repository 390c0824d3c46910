package tables

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

const collectionColumns = `c.id, p.workspace, p.name, c.name, c.type, c.portfolio, c.description, c.tags, c.created_ns, c.changed_ns,
	(SELECT count(*) FROM artifact_members m WHERE m.collection = c.id),
	coalesce((SELECT l.artifact FROM artifact_aliases l WHERE l.collection = c.id AND l.alias = 'latest'), 0)`

const collectionTables = ` FROM artifact_collections c JOIN projects p ON p.id = c.project`

func scanCollection(scan func(...any) error) (c catalog.Collection, texts int, err error) {
	var tags string
	err = scan(&c.ID, &c.Workspace, &c.Project, &c.Name, &c.Type, &c.Portfolio, &c.Description, &tags, &c.CreatedNs, &c.ChangedNs, &c.Versions, &c.Latest)
	if err == nil {
		err = json.Unmarshal([]byte(tags), &c.Tags)
	}
	return c, 2*entryBytes + len(c.Name) + len(c.Type) + len(c.Description) + len(tags), err
}

// ArtifactTypes implements [catalog.ArtifactCollections].
func (d *DB) ArtifactTypes(ctx context.Context, workspace, project string) ([]catalog.ArtifactType, error) {
	types, err := Collect(ctx, d.reader, func(rows *sql.Rows) (t catalog.ArtifactType, err error) {
		return t, rows.Scan(&t.Name, &t.CreatedNs, &t.Collections)
	}, `SELECT type, min(created_ns), count(*) FROM artifact_collections
		WHERE project = (SELECT id FROM projects WHERE workspace = ? AND name = ?) GROUP BY type ORDER BY type`, workspace, project)
	return types, d.failure("list types of artifacts", err)
}

// Collections implements [catalog.ArtifactCollections].
func (d *DB) Collections(ctx context.Context, f catalog.CollectionFilter) ([]catalog.Collection, string, error) {
	if err := checkLimit(f.Limit); err != nil {
		return nil, "", err
	}
	w := &where{}
	w.add(`c.project = (SELECT id FROM projects WHERE workspace = ? AND name = ?)`, f.Workspace, f.Project)
	if f.Type != "" {
		w.add(`c.type = ?`, f.Type)
	}
	if f.Sequences {
		w.add(`c.portfolio = FALSE`)
	}
	after := ""
	if err := continueAt(f.Cursor, &after); err != nil {
		return nil, "", err
	}
	w.add(`c.name > ?`, after)
	limit := min(cmp.Or(f.Limit, maxPage), maxPage)
	page, next, err := piece(ctx, d.reader, artifactsBytes, func(rows *sql.Rows) (catalog.Collection, int, string, error) {
		c, texts, err := scanCollection(rows.Scan)
		return c, texts, c.Name, err
	}, `SELECT `+collectionColumns+collectionTables+` WHERE `+w.String()+` ORDER BY c.name LIMIT ?`, append(w.args, limit+1)...)
	if err != nil {
		return nil, "", d.failure("list collections of artifacts", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = encodeCursor(page[limit-1].Name)
	}
	return page, next, nil
}

// Collection implements [catalog.ArtifactCollections].
func (d *DB) Collection(ctx context.Context, id int64) (*catalog.Collection, error) {
	c, _, err := scanCollection(d.reader.row(ctx, `SELECT `+collectionColumns+collectionTables+` WHERE c.id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoCollection(id)
	}
	if err != nil {
		return nil, d.failure("find a collection of artifacts", err)
	}
	return &c, nil
}

func errNoCollection(id int64) error {
	return model.Errorf(model.CodeNotFound, "there is no collection of artifacts %d", id)
}

// FindCollection implements [catalog.ArtifactCollections].
func (d *DB) FindCollection(ctx context.Context, workspace, project, name string) (*catalog.Collection, error) {
	c, _, err := scanCollection(d.reader.row(ctx, `SELECT `+collectionColumns+collectionTables+`
		WHERE c.project = (SELECT id FROM projects WHERE workspace = ? AND name = ?) AND c.name = ?`, workspace, project, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, model.Errorf(model.CodeNotFound, "there is no collection of artifacts %s in %s/%s", model.Clip(name), model.Clip(workspace), model.Clip(project))
	}
	if err != nil {
		return nil, d.failure("find a collection of artifacts", err)
	}
	return &c, nil
}

// CollectionAliases implements [catalog.ArtifactCollections].
func (d *DB) CollectionAliases(ctx context.Context, collection int64, limit int, cursor string) ([]string, string, error) {
	if err := checkLimit(limit); err != nil {
		return nil, "", err
	}
	after := ""
	if err := continueAt(cursor, &after); err != nil {
		return nil, "", err
	}
	limit = cmp.Or(limit, maxPage)
	page, err := Collect(ctx, d.reader, ScanText, `SELECT alias FROM artifact_aliases WHERE collection = ? AND alias > ? ORDER BY alias LIMIT ?`, collection, after, limit+1)
	if err != nil {
		return nil, "", d.failure("list aliases", err)
	}
	if len(page) > limit {
		return page[:limit], encodeCursor(page[limit-1]), nil
	}
	return page, "", nil
}
