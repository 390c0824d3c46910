package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// LinkArtifact implements [catalog.ArtifactLinker].
func (d *DB) LinkArtifact(ctx context.Context, id int64, to catalog.VersionName, aliases []string, now time.Time) (*catalog.ArtifactVersion, error) {
	out := &catalog.ArtifactVersion{}
	a, err := d.onArtifact(ctx, "link an artifact", id, now, func(ctx context.Context, e *artifactEdit, a *artifactRow) error {
		if a.state != catalog.ArtifactCommitted {
			return model.Errorf(model.CodeConflict, "the artifact %d is not committed yet", id)
		}
		var kind string
		if err := e.tx.QueryRowContext(ctx, `SELECT type FROM artifact_collections WHERE id = ?`, a.collection).Scan(&kind); err != nil {
			return err
		}
		portfolio, err := e.collection(ctx, to.Workspace, to.Project, to.Collection, kind, true)
		if err != nil {
			return err
		}
		read := func() error {
			return e.tx.QueryRowContext(ctx, `SELECT collection, version, added_ns FROM artifact_members WHERE artifact = ? AND collection = ?`, id, portfolio).Scan(&out.Collection, &out.Index, &out.AddedNs)
		}
		if err := read(); !errors.Is(err, sql.ErrNoRows) {
			if err != nil {
				return err
			}
			return e.setAliases(ctx, portfolio, id, aliases)
		}
		if err := e.atMost(ctx, catalog.MaxVersions, "the portfolio has %d links, the most is %d", `SELECT count(*) FROM artifact_members WHERE collection = ?`, portfolio); err != nil {
			return err
		}
		if err := e.join(ctx, portfolio, id, aliases); err != nil {
			return err
		}
		return read()
	})
	if err != nil {
		return nil, err
	}
	out.Artifact = *a
	return out, nil
}

// UnlinkArtifact implements [catalog.ArtifactLinker].
func (d *DB) UnlinkArtifact(ctx context.Context, id, portfolio int64) error {
	return d.write(ctx, "unlink an artifact", func(tx Tx) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM artifact_members WHERE artifact = ? AND collection = (SELECT id FROM artifact_collections WHERE id = ? AND portfolio = TRUE)`, id, portfolio)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, model.Errorf(model.CodeNotFound, "the artifact %d is not linked to the collection %d", id, portfolio))
		}
		if err := Exec(ctx, tx, `DELETE FROM artifact_aliases WHERE artifact = ? AND collection = ?`, id, portfolio); err != nil {
			return err
		}
		return (&artifactEdit{tx: tx}).moveLatest(ctx, portfolio)
	})
}

// moveLatest gives a collection without [catalog.AliasLatest] that of its last version.
func (e *artifactEdit) moveLatest(ctx context.Context, collection int64) error {
	return Exec(ctx, e.tx, `INSERT INTO artifact_aliases (collection, alias, artifact)
		SELECT collection, ?, artifact FROM artifact_members WHERE collection = ? ORDER BY version DESC LIMIT 1 ON CONFLICT DO NOTHING`, catalog.AliasLatest, collection)
}

// UseArtifact implements [catalog.ArtifactLinker].
func (d *DB) UseArtifact(ctx context.Context, id int64, run model.RunID, role catalog.ArtifactRole, now time.Time) error {
	return d.write(ctx, "use an artifact", func(tx Tx) error {
		e := &artifactEdit{tx, now.UnixNano()}
		if _, err := e.find(ctx, id); err != nil {
			return err
		}
		pk, err := e.runOf(ctx, run)
		if err != nil {
			return err
		}
		if pk == nil {
			return errNoRun(run)
		}
		return e.tie(ctx, *pk, id, role)
	})
}

// EditCollection implements [catalog.ArtifactLinker].
func (d *DB) EditCollection(ctx context.Context, id int64, change catalog.CollectionEdit, now time.Time) (*catalog.Collection, error) {
	var out catalog.Collection
	err := d.write(ctx, "edit a collection of artifacts", func(tx Tx) error {
		read := func() (err error) {
			out, _, err = scanCollection(tx.QueryRowContext(ctx, `SELECT `+collectionColumns+collectionTables+` WHERE c.id = ?`, id).Scan)
			if errors.Is(err, sql.ErrNoRows) {
				return errNoCollection(id)
			}
			return err
		}
		if err := read(); err != nil {
			return err
		}
		if change.Name != nil && *change.Name != out.Name {
			var taken bool
			err := tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM artifact_collections c JOIN artifact_collections o ON o.project = c.project WHERE c.id = ? AND o.name = ?)`, id, *change.Name).Scan(&taken)
			if err != nil {
				return err
			}
			if taken {
				return model.Errorf(model.CodeConflict, "the project has a collection of artifacts %q already", *change.Name)
			}
		}
		tags, err := tagText(out.Tags, change.AddTags, change.RemoveTags)
		if err != nil {
			return err
		}
		err = Exec(ctx, tx, `UPDATE artifact_collections SET name = coalesce(?2, name), type = coalesce(?3, type), description = coalesce(?4, description), tags = ?5, changed_ns = ?6 WHERE id = ?1`,
			id, change.Name, change.Type, change.Description, tags, now.UnixNano())
		if err != nil {
			return err
		}
		return read()
	})
	if err != nil {
		return nil, err
	}
	return &out, nil
}

// DeleteArtifact implements [catalog.ArtifactRemover].
func (d *DB) DeleteArtifact(ctx context.Context, id int64, aliases bool, now time.Time) error {
	return d.write(ctx, "delete an artifact", func(tx Tx) error {
		e := &artifactEdit{tx, now.UnixNano()}
		if _, err := e.find(ctx, id); err != nil {
			return err
		}
		if !aliases {
			var text string
			err := tx.QueryRowContext(ctx, `SELECT coalesce(json_group_array(alias), '[]') FROM (SELECT alias FROM artifact_aliases WHERE artifact = ? AND alias <> ? LIMIT 10) a`, id, catalog.AliasLatest).Scan(&text)
			if err != nil {
				return err
			}
			var has []string
			if err := json.Unmarshal([]byte(text), &has); err != nil {
				return err
			}
			if len(has) > 0 {
				return model.Errorf(model.CodeConflict, "the artifact has the aliases %q", has).WithHint("Remove them first, or delete it with them.")
			}
		}
		return e.delete(ctx, id)
	})
}

// delete leaves the number of an artifact only.
func (e *artifactEdit) delete(ctx context.Context, id int64) error {
	latest, err := Collect(ctx, e.tx, scanInt, `SELECT collection FROM artifact_aliases WHERE artifact = ? AND alias = ?`, id, catalog.AliasLatest)
	if err != nil {
		return err
	}
	for _, table := range []string{"artifact_members", "artifact_aliases", "artifact_files", "artifact_manifests", "artifact_runs", "artifact_texts"} {
		if err := Exec(ctx, e.tx, `DELETE FROM `+table+` WHERE artifact = ?`, id); err != nil {
			return err
		}
	}
	for _, collection := range latest {
		if err := e.moveLatest(ctx, collection); err != nil {
			return err
		}
	}
	return Exec(ctx, e.tx, `UPDATE artifacts SET state = 'DELETED', client_id = '', distributed_id = '', tags = '[]', aliases = '[]', changed_ns = ?, files = 0, bytes = 0,
		manifest_sha256 = '', manifest_size = 0, manifest_md5 = '' WHERE id = ?`, e.nowNs, id)
}

func scanInt(rows *sql.Rows) (n int64, err error) { return n, rows.Scan(&n) }

// DeleteCollection implements [catalog.ArtifactRemover].
func (d *DB) DeleteCollection(ctx context.Context, id int64) error {
	return d.write(ctx, "delete a collection of artifacts", func(tx Tx) error {
		e := &artifactEdit{tx: tx}
		// Portfolios whose latest link goes with the collection's artifacts.
		others, err := Collect(ctx, tx, scanInt, `SELECT l.collection FROM artifacts a JOIN artifact_aliases l ON l.artifact = a.id WHERE a.collection = ?1 AND l.collection <> ?1 AND l.alias = ?2`, id, catalog.AliasLatest)
		if err != nil {
			return err
		}
		res, err := tx.ExecContext(ctx, `DELETE FROM artifact_collections WHERE id = ?`, id) // the rest by ON DELETE CASCADE
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, errNoCollection(id))
		}
		for _, other := range others {
			if err := e.moveLatest(ctx, other); err != nil {
				return err
			}
		}
		return nil
	})
}

// expireBatch is how many artifacts a transaction deletes.
const expireBatch = 100

// ExpireArtifacts implements [catalog.ArtifactRemover].
func (d *DB) ExpireArtifacts(ctx context.Context, before time.Time) (n int, err error) {
	err = d.write(ctx, "delete pending artifacts", func(tx Tx) error {
		old, err := Collect(ctx, tx, scanInt, `SELECT id FROM artifacts WHERE state = 'PENDING' AND created_ns < ? ORDER BY created_ns LIMIT ?`, before.UnixNano(), expireBatch)
		if err != nil {
			return err
		}
		e := &artifactEdit{tx, before.UnixNano()}
		for _, id := range old {
			if err := e.delete(ctx, id); err != nil {
				return err
			}
		}
		n = len(old)
		return nil
	})
	return n, err
}
