package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// PutKey implements [catalog.Keys].
func (d *DB) PutKey(ctx context.Context, k catalog.Key) error {
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return d.failure("store a key", err)
	}
	return d.write(ctx, "store a key", func(tx Tx) error {
		if err := tellKey(tx, k.ID); err != nil {
			return err
		}
		return Exec(ctx, tx, `INSERT INTO keys (id, name, sha256, scopes, workspace, project, created_ns, expires_ns, revoked_ns, last_ns)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET name = excluded.name, sha256 = excluded.sha256, scopes = excluded.scopes,
			workspace = excluded.workspace, project = excluded.project, created_ns = excluded.created_ns, expires_ns = excluded.expires_ns,
			revoked_ns = excluded.revoked_ns, last_ns = excluded.last_ns`,
			k.ID, k.Name, k.SHA256[:], string(scopes), k.Workspace, k.Project, k.CreatedNs, k.ExpiresNs, k.RevokedNs, k.LastNs)
	})
}

const keyColumns = `id, name, sha256, scopes, workspace, project, created_ns, expires_ns, revoked_ns, last_ns`

func scanKey(rows *sql.Rows) (catalog.Key, error) {
	var k catalog.Key
	var hash []byte
	var scopes string
	if err := rows.Scan(&k.ID, &k.Name, &hash, &scopes, &k.Workspace, &k.Project, &k.CreatedNs, &k.ExpiresNs, &k.RevokedNs, &k.LastNs); err != nil {
		return k, err
	}
	copy(k.SHA256[:], hash)
	return k, json.Unmarshal([]byte(scopes), &k.Scopes)
}

// FindKey implements [catalog.Keys].
func (d *DB) FindKey(ctx context.Context, sha256 [32]byte) (*catalog.Key, error) {
	keys, err := Collect(ctx, d.reader, scanKey, `SELECT `+keyColumns+` FROM keys WHERE sha256 = ?`, sha256[:])
	if err != nil {
		return nil, d.failure("find a key", err)
	}
	if len(keys) == 0 {
		return nil, model.Errorf(model.CodeNotFound, "there is no such key")
	}
	return &keys[0], nil
}

// ListKeys implements [catalog.Keys].
func (d *DB) ListKeys(ctx context.Context) ([]catalog.Key, error) {
	keys, err := Collect(ctx, d.reader, scanKey, `SELECT `+keyColumns+` FROM keys ORDER BY created_ns, id`)
	return keys, d.failure("list keys", err)
}

// RevokeKey implements [catalog.Keys]. The first revocation counts.
func (d *DB) RevokeKey(ctx context.Context, id string, now time.Time) error {
	const revoke = `UPDATE keys SET revoked_ns = CASE revoked_ns WHEN 0 THEN ?2 ELSE revoked_ns END WHERE id = ?1`
	return d.write(ctx, "revoke a key", func(tx Tx) error {
		if err := onKey(ctx, tx, id, revoke, now); err != nil {
			return err
		}
		return tellKey(tx, id)
	})
}

// UseKey implements [catalog.Keys].
func (d *DB) UseKey(ctx context.Context, id string, now time.Time) error {
	return d.write(ctx, "record the use of a key", func(tx Tx) error {
		return onKey(ctx, tx, id, `UPDATE keys SET last_ns = `+greater("last_ns", "?2")+` WHERE id = ?1`, now)
	})
}

func onKey(ctx context.Context, tx Tx, id, query string, now time.Time) error {
	res, err := tx.ExecContext(ctx, query, id, now.UnixNano())
	if err != nil {
		return err
	}
	n, err := res.RowsAffected()
	if err == nil && n == 0 {
		return model.Errorf(model.CodeNotFound, "there is no key %q", model.Clip(id)).WithHint("`kymogram key list` shows the keys.")
	}
	return err
}
