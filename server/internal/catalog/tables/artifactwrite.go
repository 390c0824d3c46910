package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// artifactEdit is a change of artifacts in a transaction.
type artifactEdit struct {
	tx    Tx
	nowNs int64
}

// artifactRow is what a change needs of an artifact.
type artifactRow struct {
	id, collection int64
	state          catalog.ArtifactState
	aliases        []string // of a pending one
	tags           []string
	files          int64
}

// onArtifact changes one that is not deleted, and reads it.
func (d *DB) onArtifact(ctx context.Context, act string, id int64, now time.Time, change func(ctx context.Context, e *artifactEdit, a *artifactRow) error) (*catalog.Artifact, error) {
	var out *catalog.Artifact
	err := d.write(ctx, act, func(tx Tx) error {
		e := &artifactEdit{tx, now.UnixNano()}
		a, err := e.find(ctx, id)
		if err == nil {
			err = change(ctx, e, a)
		}
		if err == nil {
			out, err = e.read(ctx, id)
		}
		return err
	})
	return out, err
}

func (e *artifactEdit) find(ctx context.Context, id int64) (*artifactRow, error) {
	a := &artifactRow{id: id}
	var aliases, tags string
	err := e.tx.QueryRowContext(ctx, `SELECT collection, state, aliases, tags, files FROM artifacts WHERE id = ?`, id).Scan(&a.collection, &a.state, &aliases, &tags, &a.files)
	if errors.Is(err, sql.ErrNoRows) || err == nil && a.state == catalog.ArtifactDeleted {
		return nil, errNoArtifact(id)
	}
	if err == nil {
		err = json.Unmarshal([]byte(aliases), &a.aliases)
	}
	if err == nil {
		err = json.Unmarshal([]byte(tags), &a.tags)
	}
	return a, err
}

func (e *artifactEdit) read(ctx context.Context, id int64) (*catalog.Artifact, error) {
	row := e.tx.QueryRowContext(ctx, `SELECT `+artifactColumns+` FROM artifacts a`+artifactTables+` WHERE a.id = ?`, id)
	a, _, err := scanArtifact(row.Scan)
	return &a, err
}

// CreateArtifact implements [catalog.ArtifactKeeper].
func (d *DB) CreateArtifact(ctx context.Context, workspace, project string, n catalog.NewArtifact, now time.Time) (*catalog.Artifact, error) {
	var out *catalog.Artifact
	err := d.write(ctx, "create an artifact", func(tx Tx) error {
		e := &artifactEdit{tx, now.UnixNano()}
		id, err := e.create(ctx, workspace, project, &n)
		if err == nil {
			out, err = e.read(ctx, id)
		}
		return err
	})
	return out, err
}

func (e *artifactEdit) create(ctx context.Context, workspace, project string, n *catalog.NewArtifact) (id int64, err error) {
	run, err := e.runOf(ctx, n.Run)
	if err != nil {
		return 0, err
	}
	collection, err := e.collection(ctx, workspace, project, n.Collection, n.Type, false)
	if err != nil {
		return 0, err
	}
	id, state, err := e.same(ctx, collection, n)
	if err != nil {
		return 0, err
	}
	switch {
	case id == 0:
		if id, err = e.insert(ctx, collection, run, n); err != nil {
			return 0, err
		}
	case state == catalog.ArtifactCommitted:
		err = e.setAliases(ctx, collection, id, n.Aliases)
	}
	if err == nil && run != nil {
		err = e.tie(ctx, *run, id, catalog.RoleLogged)
	}
	return id, err
}

// runOf is the row of a run, nil for none.
func (e *artifactEdit) runOf(ctx context.Context, run model.RunID) (*int64, error) {
	if run.IsZero() {
		return nil, nil
	}
	var pk int64
	err := e.tx.QueryRowContext(ctx, `SELECT r.pk FROM ids JOIN runs r ON r.id = ids.run WHERE ids.id = ?`, run[:]).Scan(&pk)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoRun(run)
	}
	return &pk, err
}

// collection finds or makes one.
func (e *artifactEdit) collection(ctx context.Context, workspace, project, name, kind string, portfolio bool) (id int64, err error) {
	place, err := projectID(ctx, e.tx, workspace, project)
	if err != nil {
		return 0, err
	}
	var has string
	var linked bool
	err = e.tx.QueryRowContext(ctx, `SELECT id, type, portfolio FROM artifact_collections WHERE project = ? AND name = ?`, place, name).Scan(&id, &has, &linked)
	switch {
	case err == nil && has != kind:
		return 0, model.Errorf(model.CodeConflict, "the artifacts of %q have the type %q, not %q", name, has, kind).WithHint("Give it another name, or that type.")
	case err == nil && linked != portfolio:
		return 0, model.Errorf(model.CodeConflict, "%q is %s", name, map[bool]string{true: "a portfolio: it has links only", false: "no portfolio: nothing is linked to it"}[linked])
	case !errors.Is(err, sql.ErrNoRows):
		return id, err
	}
	if err := e.atMost(ctx, catalog.MaxCollections, "the project has %d collections of artifacts, the most is %d", `SELECT count(*) FROM artifact_collections WHERE project = ?`, place); err != nil {
		return 0, err
	}
	err = e.tx.QueryRowContext(ctx, `INSERT INTO artifact_collections (project, name, type, portfolio, description, tags, created_ns, changed_ns, next) VALUES (?, ?, ?, ?, '', '[]', ?, ?, 0) RETURNING id`,
		place, name, kind, portfolio, e.nowNs, e.nowNs).Scan(&id)
	return id, err
}

// atMost is an error where a count has reached its most.
func (e *artifactEdit) atMost(ctx context.Context, most int, message, query string, args ...any) error {
	var n int
	if err := e.tx.QueryRowContext(ctx, query, args...).Scan(&n); err != nil || n < most {
		return err
	}
	return model.Errorf(model.CodeLimit, message, n, most).WithHint("Delete some first.")
}

// same finds the artifact that a creation means, 0 for a new one.
func (e *artifactEdit) same(ctx context.Context, collection int64, n *catalog.NewArtifact) (id int64, state catalog.ArtifactState, err error) {
	for _, q := range []struct {
		asked bool
		where string
		key   string
	}{
		{n.ClientID != "", `client_id = ? AND client_id <> '' AND collection = ? AND state <> 'DELETED'`, n.ClientID},
		{n.DistributedID != "", `distributed_id = ? AND collection = ? AND state = 'PENDING'`, n.DistributedID},
		{!n.Anew && n.DistributedID == "", `digest = ? AND collection = ? AND state = 'COMMITTED'`, n.Digest},
	} {
		if !q.asked {
			continue
		}
		err = e.tx.QueryRowContext(ctx, `SELECT id, state FROM artifacts WHERE `+q.where+` ORDER BY id DESC LIMIT 1`, q.key, collection).Scan(&id, &state)
		if !errors.Is(err, sql.ErrNoRows) {
			return id, state, err
		}
	}
	return 0, "", nil
}

func (e *artifactEdit) insert(ctx context.Context, collection int64, run *int64, n *catalog.NewArtifact) (id int64, err error) {
	if err := e.atMost(ctx, catalog.MaxVersions, "the collection has had %d artifacts, the most is %d", `SELECT count(*) FROM artifacts WHERE collection = ?`, collection); err != nil {
		return 0, err
	}
	tags, aliases := listText(nil, n.Tags, nil), listText(nil, n.Aliases, nil)
	err = e.tx.QueryRowContext(ctx, `INSERT INTO artifacts (collection, state, digest, client_id, distributed_id, tags, aliases, created_ns, changed_ns, committed_ns, run, history_step,
		files, bytes, manifest_sha256, manifest_size, manifest_md5) VALUES (?, 'PENDING', ?, ?, ?, ?, ?, ?, ?, 0, ?, ?, 0, 0, '', 0, '') RETURNING id`,
		collection, n.Digest, n.ClientID, n.DistributedID, tags, aliases, e.nowNs, e.nowNs, run, n.HistoryStep).Scan(&id)
	if err != nil || n.Description == "" && n.Metadata == "" {
		return id, err
	}
	return id, Exec(ctx, e.tx, `INSERT INTO artifact_texts (artifact, description, metadata) VALUES (?, ?, ?)`, id, n.Description, n.Metadata)
}

// listText is the JSON of a sorted list with some added and others removed.
func listText(list, add, remove []string) string {
	kept := slices.DeleteFunc(slices.Concat(list, add), func(s string) bool { return slices.Contains(remove, s) })
	slices.Sort(kept)
	text, err := json.Marshal(slices.Compact(kept))
	if err != nil || len(kept) == 0 {
		return `[]` // strings always marshal
	}
	return string(text)
}

// tie notes what a run does with an artifact.
func (e *artifactEdit) tie(ctx context.Context, run, artifact int64, role catalog.ArtifactRole) error {
	if err := e.atMost(ctx, catalog.MaxRunArtifacts, "the run has %d artifacts, the most is %d",
		`SELECT count(*) FROM artifact_runs WHERE run = ? AND role = ? AND artifact <> ?`, run, role, artifact); err != nil {
		return err
	}
	return Exec(ctx, e.tx, `INSERT INTO artifact_runs (run, role, artifact, at_ns) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, run, role, artifact, e.nowNs)
}

// setAliases moves aliases of a collection to an artifact.
func (e *artifactEdit) setAliases(ctx context.Context, collection, artifact int64, aliases []string) error {
	for _, alias := range aliases {
		err := Exec(ctx, e.tx, `INSERT INTO artifact_aliases (collection, alias, artifact) VALUES (?, ?, ?)
			ON CONFLICT (collection, alias) DO UPDATE SET artifact = excluded.artifact`, collection, alias, artifact)
		if err != nil {
			return err
		}
	}
	return e.atMost(ctx, catalog.MaxArtifactAliases+1, "the artifact would have %d aliases, one more than the most; it is below %d",
		`SELECT count(*) FROM artifact_aliases WHERE artifact = ?`, artifact)
}

// AddArtifactFiles implements [catalog.ArtifactKeeper].
func (d *DB) AddArtifactFiles(ctx context.Context, id int64, files []catalog.File) error {
	return d.write(ctx, "add files to an artifact", func(tx Tx) error {
		e := &artifactEdit{tx: tx}
		a, err := e.find(ctx, id)
		if err != nil {
			return err
		}
		before := a.files
		for i := range files {
			if err := e.addFile(ctx, a, &files[i]); err != nil {
				return err
			}
		}
		if a.files > catalog.MaxArtifactFiles {
			return model.Errorf(model.CodeLimit, "the artifact would have %d files, the most is %d", a.files, catalog.MaxArtifactFiles).WithHint("Split it into several artifacts.")
		}
		if a.files == before {
			return nil
		}
		return Exec(ctx, tx, `UPDATE artifacts SET files = ? WHERE id = ?`, a.files, id)
	})
}

func (e *artifactEdit) addFile(ctx context.Context, a *artifactRow, f *catalog.File) error {
	if a.state != catalog.ArtifactPending {
		var there bool
		err := e.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM artifact_files WHERE artifact = ? AND name = ? AND sha256 = ?)`, a.id, f.Name, f.SHA256).Scan(&there)
		if err == nil && !there {
			return errCommitted(a.id)
		}
		return err
	}
	res, err := e.tx.ExecContext(ctx, `INSERT INTO artifact_files (artifact, name, sha256, size, content_type, md5, changed_ns) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		a.id, f.Name, f.SHA256, f.Size, f.ContentType, f.MD5, f.TimeNs)
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err != nil || n > 0 {
		a.files += n
		return err
	}
	return Exec(ctx, e.tx, `UPDATE artifact_files SET sha256 = ?, size = ?, content_type = ?, md5 = ?, changed_ns = ? WHERE artifact = ? AND name = ?`,
		f.SHA256, f.Size, f.ContentType, f.MD5, f.TimeNs, a.id, f.Name)
}

func errCommitted(id int64) error {
	return model.Errorf(model.CodeConflict, "the artifact %d is committed: its files stay as they are", id).WithHint("Make a new version.")
}

// PutManifest implements [catalog.ArtifactKeeper].
func (d *DB) PutManifest(ctx context.Context, id int64, m catalog.ArtifactManifest) (number int64, err error) {
	err = d.write(ctx, "store a manifest", func(tx Tx) error {
		e := &artifactEdit{tx: tx}
		a, err := e.find(ctx, id)
		if err == nil && a.state != catalog.ArtifactPending {
			err = errCommitted(id)
		}
		if err != nil {
			return err
		}
		var last int64
		if err := tx.QueryRowContext(ctx, `SELECT coalesce(max(number), 0) FROM artifact_manifests WHERE artifact = ?`, id).Scan(&last); err != nil {
			return err
		}
		number = m.Number
		switch {
		case number == 0 && last >= catalog.MaxManifests:
			return model.Errorf(model.CodeLimit, "the manifest has %d parts, the most is %d", last, catalog.MaxManifests)
		case number == 0:
			number = last + 1
		case number < 0 || number > last:
			return model.Errorf(model.CodeNotFound, "the manifest has no part %d", number)
		}
		return Exec(ctx, tx, `INSERT INTO artifact_manifests (artifact, number, kind, name, digest, base, sha256, size, md5) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (artifact, number) DO UPDATE SET kind = excluded.kind, name = excluded.name, digest = excluded.digest, base = excluded.base, sha256 = excluded.sha256, size = excluded.size, md5 = excluded.md5`,
			id, number, m.Kind, m.Name, m.Digest, m.Base, m.Blob.SHA256, m.Blob.Size, m.Blob.MD5)
	})
	return number, err
}

// CommitArtifact implements [catalog.ArtifactKeeper].
func (d *DB) CommitArtifact(ctx context.Context, id int64, c catalog.ArtifactContent, now time.Time) (*catalog.Artifact, error) {
	return d.onArtifact(ctx, "commit an artifact", id, now, func(ctx context.Context, e *artifactEdit, a *artifactRow) error {
		if a.state != catalog.ArtifactPending {
			return nil
		}
		c := c // it may be done again
		if c.Files == 0 && c.Bytes == 0 {
			var sum float64 // of sizes that an integer may not hold together
			if err := e.tx.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(CAST(size AS DOUBLE PRECISION)), 0) FROM artifact_files WHERE artifact = ?`, id).Scan(&c.Files, &sum); err != nil {
				return err
			}
			c.Bytes = int64(min(sum, 1<<62))
		}
		err := Exec(ctx, e.tx, `UPDATE artifacts SET state = 'COMMITTED', aliases = '[]', changed_ns = ?2, committed_ns = ?2, files = ?3, bytes = ?4,
			manifest_sha256 = ?5, manifest_size = ?6, manifest_md5 = ?7, digest = CASE ?8 WHEN '' THEN digest ELSE ?8 END WHERE id = ?1`,
			id, e.nowNs, c.Files, c.Bytes, c.Manifest.SHA256, c.Manifest.Size, c.Manifest.MD5, c.Digest)
		if err != nil {
			return err
		}
		return e.join(ctx, a.collection, id, a.aliases)
	})
}

// join makes an artifact the latest version of a collection.
func (e *artifactEdit) join(ctx context.Context, collection, artifact int64, aliases []string) error {
	err := Exec(ctx, e.tx, `INSERT INTO artifact_members (collection, version, artifact, added_ns) SELECT id, next, ?, ? FROM artifact_collections WHERE id = ?`, artifact, e.nowNs, collection)
	if err != nil {
		return err
	}
	if err := Exec(ctx, e.tx, `UPDATE artifact_collections SET next = next + 1, changed_ns = ? WHERE id = ?`, e.nowNs, collection); err != nil {
		return err
	}
	return e.setAliases(ctx, collection, artifact, append(slices.Clone(aliases), catalog.AliasLatest))
}

// EditArtifact implements [catalog.ArtifactKeeper].
func (d *DB) EditArtifact(ctx context.Context, id int64, change catalog.ArtifactEdit, now time.Time) (*catalog.Artifact, error) {
	return d.onArtifact(ctx, "edit an artifact", id, now, func(ctx context.Context, e *artifactEdit, a *artifactRow) error {
		for _, text := range []struct {
			column string
			value  *string
		}{{"description", change.Description}, {"metadata", change.Metadata}} {
			if text.value == nil {
				continue
			}
			err := Exec(ctx, e.tx, `INSERT INTO artifact_texts (artifact, description, metadata) VALUES (?, '', '') ON CONFLICT DO NOTHING`, id)
			if err == nil {
				err = Exec(ctx, e.tx, `UPDATE artifact_texts SET `+text.column+` = ? WHERE artifact = ?`, *text.value, id)
			}
			if err != nil {
				return err
			}
		}
		if err := e.editAliases(ctx, a, &change); err != nil {
			return err
		}
		tags, err := tagText(a.tags, change.AddTags, change.RemoveTags)
		if err != nil {
			return err
		}
		return Exec(ctx, e.tx, `UPDATE artifacts SET tags = ?, changed_ns = ? WHERE id = ?`, tags, e.nowNs, id)
	})
}

func tagText(tags, add, remove []string) (string, error) {
	text := listText(tags, add, remove)
	var list []string
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return "", fmt.Errorf("read tags: %w", err)
	}
	if len(list) > catalog.MaxArtifactTags {
		return "", model.Errorf(model.CodeLimit, "it would have %d tags, the most is %d", len(list), catalog.MaxArtifactTags)
	}
	return text, nil
}

// editAliases changes those of one collection.
func (e *artifactEdit) editAliases(ctx context.Context, a *artifactRow, change *catalog.ArtifactEdit) error {
	collection := change.Collection
	if collection == 0 {
		collection = a.collection
	}
	if a.state == catalog.ArtifactPending && collection == a.collection {
		list := a.aliases
		if change.Aliases != nil {
			list = *change.Aliases
		}
		text, err := tagText(list, change.AddAliases, change.RemoveAliases)
		if err != nil {
			return err
		}
		return Exec(ctx, e.tx, `UPDATE artifacts SET aliases = ? WHERE id = ?`, text, a.id)
	}
	if change.Aliases == nil && len(change.AddAliases)+len(change.RemoveAliases) == 0 {
		return nil
	}
	var member bool
	if err := e.tx.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM artifact_members WHERE artifact = ? AND collection = ?)`, a.id, collection).Scan(&member); err != nil {
		return err
	}
	if !member {
		return model.Errorf(model.CodeNotFound, "the artifact %d is no version of the collection %d", a.id, collection)
	}
	if change.Aliases != nil {
		if err := Exec(ctx, e.tx, `DELETE FROM artifact_aliases WHERE artifact = ? AND collection = ? AND alias <> ?`, a.id, collection, catalog.AliasLatest); err != nil {
			return err
		}
		if err := e.setAliases(ctx, collection, a.id, *change.Aliases); err != nil {
			return err
		}
	}
	for _, alias := range change.RemoveAliases {
		if err := Exec(ctx, e.tx, `DELETE FROM artifact_aliases WHERE artifact = ? AND collection = ? AND alias = ?`, a.id, collection, alias); err != nil {
			return err
		}
	}
	return e.setAliases(ctx, collection, a.id, change.AddAliases)
}
