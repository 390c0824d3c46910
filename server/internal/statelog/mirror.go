package statelog

import (
	"context"
	"database/sql"
	"fmt"
	"hash/maphash"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
	"github.com/kymogram/kymogram/server/internal/transparency"
)

// The mirror of state.db holds what was taken and signed, and nothing that follows
// from it: these kinds of rows.
const (
	rowRecord      = "records"      // workspace, project, index: run, received, fork, record, signature, payload
	rowHead        = "heads"        // workspace, project, size: root, time, signature
	rowCosignature = "cosignatures" // workspace, project, size, hotkey: signature
	rowRenewed     = "renewed"      // workspace, project: the heads before are of another key
)

// mirrorDir is the folder of a file's mirror.
func mirrorDir(path string) string { return path + "-mirror" }

// rowOf makes a row of the key's values and the others.
func rowOf(table string, key, values []any) (r mirror.Row, err error) {
	r = mirror.Row{Table: table, Values: []byte{}}
	if r.Key, err = mirror.AppendValues(nil, key); err == nil {
		r.Values, err = mirror.AppendValues(r.Values, values)
	}
	return r, err
}

// nullable is a payload as both places keep it: none and an empty one are the same.
func nullable(payload []byte) any {
	if len(payload) == 0 {
		return nil
	}
	return payload
}

// truth is how both databases keep it.
func truth(yes bool) int64 {
	if yes {
		return 1
	}
	return 0
}

func recordRow(workspace, project string, e *state.Entry) (mirror.Row, error) {
	return rowOf(rowRecord, []any{workspace, project, int64(e.Index)},
		[]any{e.RunID[:], e.ReceivedNs, truth(e.Fork), e.Record, e.Signature[:], nullable(e.Payload)})
}

func headRow(h *transparency.SignedHead) (mirror.Row, error) {
	return rowOf(rowHead, []any{h.Workspace, h.Project, int64(h.Size)}, []any{h.Root[:], int64(h.TimeMs), h.Signature[:]})
}

func cosignatureRow(workspace, project string, size uint64, c transparency.Cosignature) (mirror.Row, error) {
	return rowOf(rowCosignature, []any{workspace, project, int64(size), c.Hotkey[:]}, []any{c.Signature[:]})
}

// load stores a row of the mirror, and what follows from it. A row that is there stays.
func load(ctx context.Context, tx transaction, r mirror.Row) error {
	key, err := mirror.Values(r.Key)
	if err != nil {
		return err
	}
	values, err := mirror.Values(r.Values)
	if err != nil {
		return err
	}
	shape := map[string][2]int{rowRecord: {3, 6}, rowHead: {3, 3}, rowCosignature: {4, 1}, rowRenewed: {2, 0}}
	if want, ok := shape[r.Table]; !ok || len(key) != want[0] || len(values) != want[1] {
		return fmt.Errorf("a row of %q has %d and %d values", r.Table, len(key), len(values))
	}
	var id int64
	_, err = tx.ExecContext(ctx, `INSERT INTO projects (workspace, project) VALUES (?, ?) ON CONFLICT DO NOTHING`, key[0], key[1])
	if err == nil {
		err = tx.QueryRowContext(ctx, `SELECT id FROM projects WHERE workspace = ? AND project = ?`, key[0], key[1]).Scan(&id)
	}
	if err != nil {
		return err
	}
	switch r.Table {
	case rowRecord:
		return loadRecord(ctx, tx, id, key[2], values)
	case rowHead:
		// A head that is longer than the log makes a gap, and nothing is signed over a gap.
		_, err = tx.ExecContext(ctx, `INSERT INTO heads (project, size, root, time_ms, signature) VALUES (?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`, id, key[2], values[0], values[1], values[2])
		if err == nil {
			err = reach(ctx, tx, id, key[2])
		}
	case rowCosignature:
		_, err = tx.ExecContext(ctx, `INSERT INTO cosignatures (project, size, hotkey, signature) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`, id, key[2], key[3], values[0])
	case rowRenewed:
		err = forgetHeads(ctx, tx, id)
	}
	return err
}

// reach makes a project have at least a size.
func reach(ctx context.Context, tx transaction, id int64, size any) error {
	_, err := tx.ExecContext(ctx, `UPDATE projects SET size = ?2 WHERE id = ?1 AND size < ?2`, id, size)
	return err
}

func forgetHeads(ctx context.Context, tx transaction, id int64) error {
	_, err := tx.ExecContext(ctx, `DELETE FROM heads WHERE project = ?`, id)
	if err == nil {
		_, err = tx.ExecContext(ctx, `DELETE FROM cosignatures WHERE project = ?`, id)
	}
	return err
}

func loadRecord(ctx context.Context, tx transaction, id int64, index any, v []any) error {
	raw, _ := v[3].([]byte)
	r, err := state.Decode(raw)
	if err != nil {
		return err
	}
	hash := (&state.Envelope{Record: raw}).Hash()
	done, err := tx.ExecContext(ctx, `INSERT INTO records (project, idx, run, sequence, hash, received_ns, fork, record, signature, payload) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		id, index, v[0], r.Sequence, hash[:], v[1], v[2], raw, v[4], v[5])
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); n == 0 || err != nil {
		return err
	}
	payload, _ := v[5].([]byte)
	fork, _ := v[2].(int64)
	kept := int64(len(payload)) * (1 - fork)
	_, err = tx.ExecContext(ctx, `INSERT INTO runs AS u (run, project, idx, role, netuid, hotkey, records, forks, payload_bytes, kept_from) VALUES (?, ?, ?, ?, ?, ?, 1, ?, ?, 0)
		ON CONFLICT (run) DO UPDATE SET records = u.records + 1, forks = u.forks + excluded.forks, payload_bytes = u.payload_bytes + excluded.payload_bytes,
		idx = CASE WHEN excluded.forks = 0 AND excluded.idx > u.idx THEN excluded.idx ELSE u.idx END`, v[0], id, index, r.Role, r.Netuid, r.Hotkey[:], fork, kept)
	if at, ok := index.(int64); err == nil && ok {
		err = reach(ctx, tx, id, at+1)
	}
	return err
}

// everyRow hands over what a file holds, as rows of a mirror. A payload that is not
// the one that was signed is an error.
func everyRow(ctx context.Context, q querier) mirror.Rows {
	return func(yield func(mirror.Row, error) bool) {
		for _, each := range []func(context.Context, querier, func(mirror.Row, error) bool) bool{everyRecord, everyHead, everyCosignature} {
			if !each(ctx, q, yield) {
				return
			}
		}
	}
}

// every makes a row of each row of a query; yield decides whether one that is damaged
// ends it.
func every(ctx context.Context, q querier, yield func(mirror.Row, error) bool, row func(*sql.Rows) (mirror.Row, error), query string) bool {
	rows, err := q.QueryContext(ctx, query)
	if err != nil {
		return yield(mirror.Row{}, err) && false
	}
	defer rows.Close()
	for rows.Next() {
		if r, err := row(rows); !yield(r, err) {
			return false
		}
	}
	if err := rows.Err(); err != nil {
		return yield(mirror.Row{}, err) && false
	}
	return true
}

func everyRecord(ctx context.Context, q querier, yield func(mirror.Row, error) bool) bool {
	return every(ctx, q, yield, func(rows *sql.Rows) (r mirror.Row, err error) {
		var workspace, project string
		var e state.Entry
		var run, hash, signature []byte
		if err := rows.Scan(&workspace, &project, &e.Index, &run, &e.Sequence, &hash, &e.ReceivedNs, &e.Fork, &e.Record, &signature, &e.Payload); err != nil {
			return r, err
		}
		if copy(e.RunID[:], run) != len(run) || copy(e.Signature[:], signature) != len(signature) {
			return r, fmt.Errorf("record %d is not whole", e.Index)
		}
		record, err := state.Decode(e.Record)
		if digest := e.Hash(); err == nil && (string(hash) != string(digest[:]) || record.Sequence != e.Sequence) {
			err = fmt.Errorf("its row is not that of the record")
		}
		if err == nil && len(e.Payload) > 0 && state.HashOf(e.Payload) != record.PayloadHash {
			err = fmt.Errorf("its payload is not the one that was signed")
		}
		if err != nil {
			return r, fmt.Errorf("record %d of %s/%s: %w", e.Index, workspace, project, err)
		}
		return recordRow(workspace, project, &e)
	}, `SELECT p.workspace, p.project, r.`+prefixed+` FROM projects p JOIN records r ON r.project = p.id ORDER BY p.id, r.idx`)
}

func everyHead(ctx context.Context, q querier, yield func(mirror.Row, error) bool) bool {
	return every(ctx, q, yield, func(rows *sql.Rows) (r mirror.Row, err error) {
		var h transparency.SignedHead
		var root, signature []byte
		if err := rows.Scan(&h.Workspace, &h.Project, &h.Size, &root, &h.TimeMs, &signature); err != nil {
			return r, err
		}
		copy(h.Root[:], root)
		copy(h.Signature[:], signature)
		return headRow(&h)
	}, `SELECT p.workspace, p.project, h.size, h.root, h.time_ms, h.signature FROM projects p JOIN heads h ON h.project = p.id ORDER BY p.id, h.size`)
}

func everyCosignature(ctx context.Context, q querier, yield func(mirror.Row, error) bool) bool {
	return every(ctx, q, yield, func(rows *sql.Rows) (r mirror.Row, err error) {
		var workspace, project string
		var size uint64
		var hotkey, signature []byte
		if err := rows.Scan(&workspace, &project, &size, &hotkey, &signature); err != nil {
			return r, err
		}
		var c transparency.Cosignature
		copy(c.Hotkey[:], hotkey)
		copy(c.Signature[:], signature)
		return cosignatureRow(workspace, project, size, c)
	}, `SELECT p.workspace, p.project, c.size, c.hotkey, c.signature FROM projects p JOIN cosignatures c ON c.project = p.id ORDER BY p.id, c.size, c.hotkey`)
}

// content is a sum over rows in any order: equal sums, equal rows. Payloads are left
// out: one that was let go is still in the mirror.
type content struct {
	seed  maphash.Seed
	total uint64
	heads map[string]uint64 // of a project, with their cosignatures
}

func newContent(seed maphash.Seed) *content { return &content{seed: seed, heads: map[string]uint64{}} }

func (c *content) add(r mirror.Row) error {
	key, err := mirror.Values(r.Key)
	if err != nil || len(key) < 2 {
		return fmt.Errorf("a row of %q has no project: %w", r.Table, err)
	}
	project := fmt.Sprint(key[0], "/", key[1])
	if r.Table == rowRenewed {
		c.total -= c.heads[project]
		delete(c.heads, project)
		return nil
	}
	values := r.Values
	if r.Table == rowRecord {
		all, err := mirror.Values(r.Values)
		if err == nil && len(all) != 6 {
			err = model.Errorf(model.CodeInternal, "a record has %d values", len(all))
		}
		if err == nil {
			values, err = mirror.AppendValues(nil, all[:5])
		}
		if err != nil {
			return err
		}
	}
	sum := maphash.String(c.seed, fmt.Sprintf("%s %x %x", r.Table, r.Key, values))
	if c.total += sum; r.Table != rowRecord {
		c.heads[project] += sum
	}
	return nil
}
