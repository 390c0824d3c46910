package tables

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// artifactsBytes ends a page of artifacts and of collections.
const artifactsBytes = 1 << 20

// artifactColumns are those of an artifact a, its collection c and its project p.
const artifactColumns = `a.id, c.id, p.workspace, p.name, c.name, c.type, coalesce((SELECT o.version FROM artifact_members o WHERE o.artifact = a.id AND o.collection = a.collection), -1),
	a.state, a.digest, a.client_id, a.distributed_id, coalesce(x.description, ''), coalesce(x.metadata, ''), a.tags,
	(SELECT coalesce(json_group_array(json_array(l.collection, lp.workspace, lp.name, lc.name, l.alias)), '[]') FROM artifact_aliases l
		JOIN artifact_collections lc ON lc.id = l.collection JOIN projects lp ON lp.id = lc.project WHERE l.artifact = a.id),
	a.created_ns, a.changed_ns, a.committed_ns, r.id, a.history_step, a.files, a.bytes, a.manifest_sha256, a.manifest_size, a.manifest_md5`

// artifactTables join an artifact a with what artifactColumns needs.
const artifactTables = ` JOIN artifact_collections c ON c.id = a.collection JOIN projects p ON p.id = c.project
	LEFT JOIN artifact_texts x ON x.artifact = a.id LEFT JOIN runs r ON r.pk = a.run`

// scanArtifact reads artifactColumns, then what is in more; texts is the size of what is long.
func scanArtifact(scan func(...any) error, more ...any) (a catalog.Artifact, texts int, err error) {
	var run []byte
	var tags, aliases string
	err = scan(append([]any{
		&a.ID, &a.Sequence, &a.Workspace, &a.Project, &a.Name, &a.Type, &a.Version,
		&a.State, &a.Digest, &a.ClientID, &a.DistributedID, &a.Description, &a.Metadata, &tags, &aliases,
		&a.CreatedNs, &a.ChangedNs, &a.CommittedNs, &run, &a.HistoryStep, &a.Files, &a.Bytes, &a.Manifest.SHA256, &a.Manifest.Size, &a.Manifest.MD5,
	}, more...)...)
	if err != nil {
		return a, 0, err
	}
	copy(a.Run[:], run)
	if a.State == catalog.ArtifactPending {
		a.Files, a.Bytes = 0, 0 // not said yet
	}
	if err := json.Unmarshal([]byte(tags), &a.Tags); err != nil {
		return a, 0, err
	}
	a.Aliases, err = readAliasList(aliases)
	return a, 4*entryBytes + len(a.Description) + len(a.Metadata) + len(tags) + len(aliases), err
}

// readAliasList reads the JSON of artifactColumns.
func readAliasList(text string) (list []catalog.ArtifactAlias, err error) {
	if text == `[]` {
		return nil, nil
	}
	var rows [][5]any
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		collection, err := strconv.ParseInt(fmt.Sprint(row[0]), 10, 64)
		if err != nil {
			return nil, fmt.Errorf("read an alias: %w", err)
		}
		list = append(list, catalog.ArtifactAlias{
			Collection: collection, Workspace: fmt.Sprint(row[1]), Project: fmt.Sprint(row[2]), Name: fmt.Sprint(row[3]), Alias: fmt.Sprint(row[4]),
		})
	}
	slices.SortFunc(list, func(a, b catalog.ArtifactAlias) int {
		return cmp.Or(cmp.Compare(a.Collection, b.Collection), cmp.Compare(a.Alias, b.Alias))
	})
	return list, nil
}

func errNoArtifact(id int64) error {
	return model.Errorf(model.CodeNotFound, "there is no artifact %d", id)
}

// Artifact implements [catalog.ArtifactReader].
func (d *DB) Artifact(ctx context.Context, id int64) (*catalog.Artifact, error) {
	a, _, err := scanArtifact(d.reader.row(ctx, `SELECT `+artifactColumns+` FROM artifacts a`+artifactTables+` WHERE a.id = ?`, id))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoArtifact(id)
	}
	if err != nil {
		return nil, d.failure("find an artifact", err)
	}
	return &a, nil
}

// ArtifactByClient implements [catalog.ArtifactReader].
func (d *DB) ArtifactByClient(ctx context.Context, clientID string) (*catalog.Artifact, error) {
	a, _, err := scanArtifact(d.reader.row(ctx, `SELECT `+artifactColumns+` FROM artifacts a`+artifactTables+`
		WHERE a.client_id = ? AND a.client_id <> '' AND a.state <> 'DELETED' ORDER BY a.id DESC LIMIT 1`, clientID))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, model.Errorf(model.CodeNotFound, "there is no artifact of the client's id %q", model.Clip(clientID))
	}
	if err != nil {
		return nil, d.failure("find an artifact", err)
	}
	return &a, nil
}

// versionOf reads "v" and a number; -1 for another alias.
func versionOf(alias string) int64 {
	digits, ok := strings.CutPrefix(alias, "v")
	if n, err := strconv.ParseUint(digits, 10, 62); ok && err == nil && strconv.FormatUint(n, 10) == digits {
		return int64(n)
	}
	return -1
}

const versionColumns = artifactColumns + `, m.collection, m.version, m.added_ns`

func scanVersion(scan func(...any) error) (m catalog.ArtifactVersion, texts int, err error) {
	m.Artifact, texts, err = scanArtifact(scan, &m.Collection, &m.Index, &m.AddedNs)
	return m, texts, err
}

// ArtifactVersion implements [catalog.ArtifactReader].
func (d *DB) ArtifactVersion(ctx context.Context, name catalog.VersionName) (*catalog.ArtifactVersion, error) {
	const from = `SELECT ` + versionColumns + ` FROM artifact_collections k JOIN artifact_members m ON m.collection = k.id JOIN artifacts a ON a.id = m.artifact` + artifactTables + `
		WHERE k.project = (SELECT id FROM projects WHERE workspace = ? AND name = ?) AND k.name = ?`
	alias := cmp.Or(name.Alias, catalog.AliasLatest)
	queries := []string{
		from + ` AND m.artifact = (SELECT l.artifact FROM artifact_aliases l WHERE l.collection = k.id AND l.alias = ?)`,
		from + ` AND a.digest = ? ORDER BY m.version DESC LIMIT 1`,
	}
	var key any = alias
	if n := versionOf(alias); n >= 0 {
		queries, key = []string{from + ` AND m.version = ?`}, n
	}
	for _, query := range queries {
		m, _, err := scanVersion(d.reader.row(ctx, query, name.Workspace, name.Project, name.Collection, key))
		if err == nil {
			return &m, nil
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return nil, d.failure("find an artifact", err)
		}
	}
	return nil, model.Errorf(model.CodeNotFound, "there is no artifact %s:%s in %s/%s", model.Clip(name.Collection), model.Clip(alias), model.Clip(name.Workspace), model.Clip(name.Project))
}

// artifactsWhere says where the artifacts of a filter are, and what they are sorted by.
func artifactsWhere(f catalog.ArtifactFilter) (where, order string, args []any) {
	if f.Collection != 0 {
		return `artifact_members m JOIN artifacts a ON a.id = m.artifact` + artifactTables + ` WHERE m.collection = ?`, `m.version`, []any{f.Collection}
	}
	return `artifact_runs u JOIN artifact_members m ON m.artifact = u.artifact JOIN artifacts a ON a.id = u.artifact AND a.collection = m.collection` + artifactTables + `
		WHERE u.run = (SELECT q.pk FROM ids JOIN runs q ON q.id = ids.run WHERE ids.id = ?) AND u.role = ?`, `u.artifact`, []any{f.Run[:], f.Role}
}

// Artifacts implements [catalog.ArtifactReader].
func (d *DB) Artifacts(ctx context.Context, f catalog.ArtifactFilter) ([]catalog.ArtifactVersion, string, error) {
	if err := checkLimit(f.Limit); err != nil {
		return nil, "", err
	}
	where, order, args := artifactsWhere(f)
	beyond, direction, after := ` > `, ``, int64(math.MinInt64)
	if f.Newest {
		beyond, direction, after = ` < `, ` DESC`, math.MaxInt64
	}
	if err := continueAt(f.Cursor, &after); err != nil {
		return nil, "", err
	}
	limit := min(cmp.Or(f.Limit, maxPage), maxPage)
	page, next, err := piece(ctx, often{d.reader}, artifactsBytes, func(rows *sql.Rows) (catalog.ArtifactVersion, int, int64, error) {
		m, texts, err := scanVersion(rows.Scan)
		return m, texts, placeOf(f, &m), err
	}, `SELECT `+versionColumns+` FROM `+where+` AND `+order+beyond+`? ORDER BY `+order+direction+` LIMIT ?`, append(args, after, limit+1)...)
	if err != nil {
		return nil, "", d.failure("list artifacts", err)
	}
	if len(page) > limit {
		page = page[:limit]
		next = encodeCursor(placeOf(f, &page[limit-1]))
	}
	return page, next, nil
}

// placeOf is what the artifacts of a filter are sorted by.
func placeOf(f catalog.ArtifactFilter, m *catalog.ArtifactVersion) int64 {
	if f.Collection != 0 {
		return m.Index
	}
	return m.ID
}

// CountArtifacts implements [catalog.ArtifactReader].
func (d *DB) CountArtifacts(ctx context.Context, f catalog.ArtifactFilter) (n int, err error) {
	query, args := `SELECT count(*) FROM artifact_members WHERE collection = ?`, []any{f.Collection}
	if f.Collection == 0 {
		query, args = `SELECT count(*) FROM artifact_runs u JOIN artifacts a ON a.id = u.artifact
			WHERE u.run = (SELECT q.pk FROM ids JOIN runs q ON q.id = ids.run WHERE ids.id = ?) AND u.role = ? AND a.state = 'COMMITTED'`, []any{f.Run[:], f.Role}
	}
	err = d.reader.row(ctx, query, args...)(&n)
	return n, d.failure("count artifacts", err)
}

func checkLimit(limit int) error {
	if limit < 0 || limit > maxPage {
		return model.Errorf(model.CodeInvalid, "the limit %d is not valid", limit).WithHint("It is 1 to %d.", maxPage)
	}
	return nil
}

// ArtifactFiles implements [catalog.ArtifactContents].
func (d *DB) ArtifactFiles(ctx context.Context, id int64, f catalog.FileFilter) ([]catalog.File, string, error) {
	if err := d.hasArtifact(ctx, id); err != nil {
		return nil, "", err
	}
	return d.listFiles(ctx, `artifact_files WHERE artifact = ?`, id, f)
}

// hasArtifact is an error where there is no artifact, or a deleted one.
func (d *DB) hasArtifact(ctx context.Context, id int64) error {
	var there bool
	err := d.reader.row(ctx, `SELECT EXISTS (SELECT 1 FROM artifacts WHERE id = ? AND state <> 'DELETED')`, id)(&there)
	if err == nil && !there {
		return errNoArtifact(id)
	}
	return d.failure("find an artifact", err)
}

// ArtifactFile implements [catalog.ArtifactContents].
func (d *DB) ArtifactFile(ctx context.Context, id int64, name string) (*catalog.File, error) {
	f, err := scanFile(d.reader.row(ctx, `SELECT `+fileColumns+` FROM artifact_files WHERE artifact = ? AND name = ?`, id, name))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, model.Errorf(model.CodeNotFound, "the artifact has no file %q", model.Clip(name))
	}
	if err != nil {
		return nil, d.failure("find a file", err)
	}
	return &f, nil
}

// firstOfSum is one of the files of a project, ?1 and ?2, that have the sum of a list s.
const firstOfSum = ` FROM artifact_files g JOIN artifacts a ON a.id = g.artifact JOIN artifact_collections c ON c.id = a.collection
	WHERE g.md5 = s.value AND g.md5 <> '' AND c.project = (SELECT id FROM projects WHERE workspace = ?1 AND name = ?2) ORDER BY g.artifact, g.name LIMIT 1`

// FilesByMD5 implements [catalog.ArtifactContents].
func (d *DB) FilesByMD5(ctx context.Context, workspace, project string, md5s []string) (map[string]catalog.File, error) {
	if len(md5s) > catalog.MaxMD5s {
		return nil, model.Errorf(model.CodeInvalid, "%d sums at once, at most %d", len(md5s), catalog.MaxMD5s)
	}
	list, err := json.Marshal(md5s)
	if err != nil {
		return nil, fmt.Errorf("encode sums: %w", err)
	}
	found, err := Collect(ctx, d.reader, func(rows *sql.Rows) (catalog.File, error) { return scanFile(rows.Scan) },
		`SELECT `+fileColumns+` FROM json_each(?3) s JOIN artifact_files f ON f.artifact = (SELECT g.artifact`+firstOfSum+`) AND f.name = (SELECT g.name`+firstOfSum+`)`, workspace, project, string(list))
	if err != nil {
		return nil, d.failure("find files by their sums", err)
	}
	out := make(map[string]catalog.File, len(found))
	for _, f := range found {
		out[f.MD5] = f
	}
	return out, nil
}

// Manifests implements [catalog.ArtifactContents].
func (d *DB) Manifests(ctx context.Context, id int64) ([]catalog.ArtifactManifest, error) {
	if err := d.hasArtifact(ctx, id); err != nil {
		return nil, err
	}
	list, err := Collect(ctx, d.reader, func(rows *sql.Rows) (m catalog.ArtifactManifest, err error) {
		return m, rows.Scan(&m.Number, &m.Kind, &m.Name, &m.Digest, &m.Base, &m.Blob.SHA256, &m.Blob.Size, &m.Blob.MD5)
	}, `SELECT number, kind, name, digest, base, sha256, size, md5 FROM artifact_manifests WHERE artifact = ? ORDER BY number`, id)
	return list, d.failure("list manifests", err)
}

// Memberships implements [catalog.ArtifactContents].
func (d *DB) Memberships(ctx context.Context, id int64) ([]catalog.Membership, error) {
	if err := d.hasArtifact(ctx, id); err != nil {
		return nil, err
	}
	list, err := Collect(ctx, d.reader, func(rows *sql.Rows) (m catalog.Membership, err error) {
		return m, rows.Scan(&m.Collection, &m.Workspace, &m.Project, &m.Name, &m.Index, &m.AddedNs)
	}, `SELECT m.collection, p.workspace, p.name, c.name, m.version, m.added_ns FROM artifact_members m
		JOIN artifact_collections c ON c.id = m.collection JOIN projects p ON p.id = c.project
		WHERE m.artifact = ? ORDER BY c.portfolio, m.collection LIMIT ?`, id, catalog.MaxArtifactAliases)
	return list, d.failure("list the collections of an artifact", err)
}

// ArtifactRuns implements [catalog.ArtifactContents].
func (d *DB) ArtifactRuns(ctx context.Context, id int64, role catalog.ArtifactRole) ([]model.RunID, error) {
	if err := d.hasArtifact(ctx, id); err != nil {
		return nil, err
	}
	ids, err := Collect(ctx, d.reader, scanRunID, `SELECT r.id FROM artifact_runs u JOIN runs r ON r.pk = u.run
		WHERE u.artifact = ? AND u.role = ? AND r.deleted_ns = 0 ORDER BY r.created_ns, r.pk LIMIT ?`, id, role, catalog.MaxRunArtifacts)
	return ids, d.failure("list the runs of an artifact", err)
}
