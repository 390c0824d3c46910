package netstate

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
)

// GPU is what a proof of GPU found: [Stat]'s gpu_specs.
type GPU struct {
	Name  string `json:"gpu_name"`
	Count int    `json:"num_gpus"`
}

// Stat is what a validator says of one miner.
type Stat struct {
	UID    int    `json:"uid"`
	Hotkey string `json:"hotkey"`
	// GPU is nil where no proof told.
	GPU   *GPU    `json:"gpu_specs"`
	Score float64 `json:"score"` // 0 to 100
	// Allocated: somebody rents the machine. OwnScore: the validator measured the
	// score itself.
	Allocated   bool    `json:"allocated"`
	OwnScore    bool    `json:"own_score"`
	Reliability float64 `json:"reliability_score"`
	CreatedAt   string  `json:"created_at"`
}

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
		s.GPU = readGPU(json.RawMessage(gpu))
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

// readGPU is nil for what is no gpu_specs.
func readGPU(raw json.RawMessage) *GPU {
	f := readFields(raw)
	name, named := field[string](f, "gpu_name")
	count, counted := field[int](f, "num_gpus")
	if !named || !counted {
		return nil
	}
	return &GPU{name, count}
}

const maxUID = math.MaxUint16

// readUID is strict: one text for each number.
func readUID(text string) (int, error) {
	uid, err := strconv.Atoi(text)
	if err != nil || uid < 0 || uid > maxUID || strconv.Itoa(uid) != text {
		return 0, fmt.Errorf("%q is no uid", text)
	}
	return uid, nil
}

// readStat reads an entry of a stranger; ok is false for one that says nothing that
// can be used. A missing gpu_specs is nil.
func readStat(uid int, raw json.RawMessage) (s Stat, ok bool) {
	f := readFields(raw)
	score, ok := field[float64](f, "score")
	if !ok {
		return s, false
	}
	s = Stat{UID: uid, Score: score, GPU: readGPU(f["gpu_specs"])}
	s.Hotkey, _ = field[string](f, "hotkey")
	s.Allocated, _ = field[bool](f, "allocated")
	s.OwnScore, _ = field[bool](f, "own_score")
	s.Reliability, _ = field[float64](f, "reliability_score")
	s.CreatedAt, _ = field[string](f, "created_at")
	return s, true
}

// readStats reads the stats of a stranger and drops what is none.
func readStats(raw json.RawMessage) Stats {
	out := Stats{}
	for key, one := range readFields(raw) {
		uid, err := readUID(key)
		if err != nil {
			continue
		}
		if s, ok := readStat(uid, one); ok {
			out[uid] = s
		}
	}
	return out
}
