package tables

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Idle implements [catalog.Retention].
func (d *DB) Idle(ctx context.Context, before time.Time, limit int) ([]catalog.Run, error) {
	runs, err := Collect(ctx, d.reader, scanIdle, `SELECT r.id, p.workspace, p.name, r.name, r.seen_ns, r.deleted_ns FROM runs r JOIN projects p ON p.id = r.project
		WHERE (r.status <> ?1 OR r.deleted_ns > 0) AND r.seen_ns < ?2 AND NOT EXISTS (SELECT 1 FROM tags t WHERE t.run = r.pk AND t.tag = ?3)
		ORDER BY r.deleted_ns = 0, r.seen_ns, r.pk LIMIT ?4`, model.StatusRunning, before.UnixNano(), catalog.TagKeep, limit)
	return runs, d.failure("list idle runs", err)
}

func scanIdle(rows *sql.Rows) (r catalog.Run, err error) {
	var id []byte
	err = rows.Scan(&id, &r.Workspace, &r.Project, &r.Name, &r.LastNs, &r.DeletedNs)
	copy(r.ID[:], id)
	return r, err
}

// Referenced implements [catalog.Retention].
func (d *DB) Referenced(ctx context.Context, blobs []string) (map[string]bool, error) {
	list, err := json.Marshal(blobs)
	if err != nil {
		return nil, fmt.Errorf("encode blobs: %w", err)
	}
	named, err := Collect(ctx, d.reader, ScanText, `SELECT value FROM json_each(?) WHERE EXISTS (SELECT 1 FROM renderings WHERE sha256 = value)
		OR EXISTS (SELECT 1 FROM files WHERE sha256 = value) OR EXISTS (SELECT 1 FROM artifact_files WHERE sha256 = value)
		OR EXISTS (SELECT 1 FROM artifact_manifests WHERE sha256 = value AND sha256 <> '') OR EXISTS (SELECT 1 FROM artifacts WHERE manifest_sha256 = value AND manifest_sha256 <> '')`, string(list))
	if err != nil {
		return nil, d.failure("look for references to blobs", err)
	}
	out := make(map[string]bool, len(named))
	for _, hash := range named {
		out[hash] = true
	}
	return out, nil
}
