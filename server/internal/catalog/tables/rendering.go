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

func (c *change) setRendering(ctx context.Context, r *model.Rendering) error {
	if r == nil {
		return model.Errorf(model.CodeBadRecord, "the update %q has no rendering", model.OpRendering)
	}
	doc, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return Exec(ctx, c.tx, `INSERT INTO renderings (run, id, env, episode, time_ns, sha256, doc) VALUES (?, ?, ?, ?, ?, ?, ?)
		ON CONFLICT (run, id) DO UPDATE SET env = excluded.env, episode = excluded.episode, time_ns = excluded.time_ns, sha256 = excluded.sha256, doc = excluded.doc`,
		c.pk, r.ID, r.Env, r.Episode, r.TimeNs, r.SHA256, string(doc))
}

// renderingCursor is the last video of a page.
type renderingCursor struct {
	Env     string `json:"v"`
	Episode int64  `json:"e"`
	TimeNs  int64  `json:"t"`
	ID      string `json:"i"`
}

const byRun = `FROM renderings v JOIN runs r ON r.pk = v.run JOIN ids ON ids.run = r.id WHERE ids.id = ?`

// ListRenderings implements [catalog.Renderings].
func (d *DB) ListRenderings(ctx context.Context, run model.RunID, f catalog.RenderingFilter) (page []model.Rendering, next string, err error) {
	f.Limit = cmp.Or(f.Limit, maxPage)
	query, args, err := renderingQuery(run, f)
	if err != nil {
		return nil, "", err
	}
	page, next, err = piece(ctx, d.reader, videosBytes, scanRendering, query, args...)
	if err != nil {
		return nil, "", d.failure("list renderings", err)
	}
	if len(page) > f.Limit {
		page = page[:f.Limit]
		next = encodeCursor(cursorBehind(&page[f.Limit-1]))
	}
	return page, next, nil
}

func cursorBehind(r *model.Rendering) renderingCursor {
	return renderingCursor{r.Env, r.Episode, r.TimeNs, r.ID}
}

func renderingQuery(run model.RunID, f catalog.RenderingFilter) (query string, args []any, err error) {
	query, args = `SELECT v.doc `+byRun, []any{run[:]}
	if f.Env != "" {
		query, args = query+` AND v.env = ?`, append(args, f.Env)
	}
	if f.Episode != nil {
		query, args = query+` AND v.episode = ?`, append(args, *f.Episode)
	}
	if f.Tag != "" {
		query, args = query+` AND EXISTS (SELECT 1 FROM json_each(v.doc, '$.tags') WHERE value = ?)`, append(args, f.Tag)
	}
	if f.Cursor != "" {
		var after renderingCursor
		if err := decodeCursor(f.Cursor, &after); err != nil {
			return "", nil, err
		}
		query, args = query+` AND (v.env, v.episode, v.time_ns, v.id) > (?, ?, ?, ?)`, append(args, after.Env, after.Episode, after.TimeNs, after.ID)
	}
	return query + ` ORDER BY v.env, v.episode, v.time_ns, v.id LIMIT ?`, append(args, f.Limit+1), nil
}

// Rendering implements [catalog.Renderings].
func (d *DB) Rendering(ctx context.Context, run model.RunID, id string) (*model.Rendering, error) {
	var doc string
	err := d.reader.row(ctx, `SELECT v.doc `+byRun+` AND v.id = ?`, run[:], id)(&doc)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, model.Errorf(model.CodeNotFound, "the run has no rendering %q", model.Clip(id)).
			WithHint("`kymogram renderings list RUN` shows those that it has")
	}
	var out model.Rendering
	if err == nil {
		err = json.Unmarshal([]byte(doc), &out)
	}
	if err != nil {
		return nil, d.failure("find a rendering", err)
	}
	return &out, nil
}

// namingArtifacts are the artifacts that name the blob ?1 as a file or a manifest.
const namingArtifacts = `SELECT artifact FROM artifact_files WHERE sha256 = ?1
	UNION SELECT artifact FROM artifact_manifests WHERE sha256 = ?1 AND sha256 <> ''
	UNION SELECT id FROM artifacts WHERE manifest_sha256 = ?1 AND manifest_sha256 <> ''`

// Naming implements [catalog.Renderings].
func (d *DB) Naming(ctx context.Context, blob string) ([]catalog.Place, error) {
	places, err := Collect(ctx, d.reader, func(rows *sql.Rows) (p catalog.Place, err error) {
		return p, rows.Scan(&p.Workspace, &p.Project)
	}, `SELECT workspace, name FROM projects WHERE ?1 <> '' AND id IN (
			SELECT r.project FROM renderings v JOIN runs r ON r.pk = v.run WHERE v.sha256 = ?1 AND r.deleted_ns = 0
			UNION SELECT r.project FROM files v JOIN runs r ON r.pk = v.run WHERE v.sha256 = ?1 AND r.deleted_ns = 0
			UNION SELECT c.project FROM artifact_collections c JOIN (
				SELECT collection FROM artifacts WHERE id IN (`+namingArtifacts+`) UNION SELECT collection FROM artifact_members WHERE artifact IN (`+namingArtifacts+`)
			) v ON v.collection = c.id)`, blob)
	if err != nil {
		return nil, d.failure("find who names a blob", err)
	}
	return places, nil
}

func scanRendering(rows *sql.Rows) (r model.Rendering, texts int, behind renderingCursor, err error) {
	var doc []byte
	if err = rows.Scan(&doc); err == nil {
		err = json.Unmarshal(doc, &r)
	}
	return r, len(doc), cursorBehind(&r), err
}
