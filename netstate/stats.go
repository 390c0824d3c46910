package netstate

import (
	"context"
	"database/sql"
	"encoding/json"

	"github.com/kymogram/kymogram/internal/report"
)

// GPU is what a proof of GPU found: [Stat]'s gpu_specs.
type GPU = report.GPU

// Stat is a validator's report about one miner.
type Stat = report.Stat

// Stats are those of a validator, by UID.
type Stats map[int]Stat

// WriteStats keeps stats, those of a UID in place of the ones before.
func (d *ComputeDb) WriteStats(ctx context.Context, stats Stats) error {
	return wrap("write stats", d.write(ctx, func(tx execer) error {
		for uid, s := range stats {
			gpu, err := json.Marshal(s.GPU)
			if err != nil {
				return err
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO stats (uid, hotkey, gpu_specs, score, allocated, own_score, reliability_score, created_at)
				VALUES (?, ?, ?, ?, ?, ?, ?, COALESCE(NULLIF(?, ''), CURRENT_TIMESTAMP)) ON CONFLICT(uid) DO UPDATE SET hotkey = excluded.hotkey,
				gpu_specs = excluded.gpu_specs, score = excluded.score, allocated = excluded.allocated, own_score = excluded.own_score,
				reliability_score = excluded.reliability_score, created_at = excluded.created_at`,
				uid, s.Hotkey, string(gpu), s.Score, s.Allocated, s.OwnScore, s.Reliability, s.CreatedAt)
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// RetrieveStats reads all stats. A row that another program damaged lacks only what
// is damaged.
func (d *ComputeDb) RetrieveStats(ctx context.Context) (Stats, error) {
	out := Stats{}
	err := d.rows(ctx, `SELECT uid, hotkey, COALESCE(gpu_specs, 'null'), COALESCE(score, 0), COALESCE(allocated, 0), COALESCE(own_score, 0),
		COALESCE(reliability_score, 0), COALESCE(CAST(created_at AS TEXT), '') FROM stats`, nil, func(r *sql.Rows) error {
		var s Stat
		var gpu string
		if err := r.Scan(&s.UID, &s.Hotkey, &gpu, &s.Score, &s.Allocated, &s.OwnScore, &s.Reliability, &s.CreatedAt); err != nil {
			return err
		}
		s.GPU = report.ReadGPU([]byte(gpu))
		out[s.UID] = s
		return nil
	})
	return out, wrap("retrieve stats", err)
}

// fields are a JSON object by its exact names: encoding/json takes Own_Score for
// own_score, and who reads a stranger must not.
type fields map[string]json.RawMessage

func readFields(raw json.RawMessage) fields {
	var out fields
	if json.Unmarshal(raw, &out) != nil {
		return nil
	}
	return out
}

// field reads one value of exactly that type; ok is false for null too.
func field[T any](f fields, name string) (value T, ok bool) {
	raw, found := f[name]
	return value, found && string(raw) != "null" && json.Unmarshal(raw, &value) == nil
}

// readStats reads the stats of a stranger; the note says what has a wrong form.
func readStats(raw json.RawMessage) (out Stats, note string) {
	found := report.Read(raw, report.MaxUID+1)
	out = make(Stats, len(found.Stats))
	for _, s := range found.Stats {
		out[s.UID] = s
	}
	return out, found.Note()
}
