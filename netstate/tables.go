package netstate

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"
)

// keptPoG is how many results of a hotkey's proof of GPU are kept.
const keptPoG = 4

// maxMisses is after how many looks without specs a miner's details are blanked.
const maxMisses = 5

// stampForm is the time of SQLite's CURRENT_TIMESTAMP.
const stampForm = "2006-01-02 15:04:05"

func stamp(at time.Time) string {
	if at.IsZero() {
		at = time.Now()
	}
	return at.UTC().Format(stampForm)
}

// RunID is the run of a hotkey, "" when none is known.
func (d *ComputeDb) RunID(ctx context.Context, hotkey string) (id string, err error) {
	_, err = d.row(ctx, "SELECT run_id FROM wandb_runs WHERE hotkey = ?", []any{hotkey}, &id)
	return id, wrap("read the run of "+hotkey, err)
}

// SaveRunID remembers the run of a hotkey. A run that is known already stays: the
// answer is the one that counts.
func (d *ComputeDb) SaveRunID(ctx context.Context, hotkey, id string) (kept string, err error) {
	if err := d.exec(ctx, "INSERT OR IGNORE INTO wandb_runs (hotkey, run_id) VALUES (?, ?)", hotkey, id); err != nil {
		return "", wrap("save the run of "+hotkey, err)
	}
	return d.RunID(ctx, hotkey)
}

// replaceRunID puts another run in place of one, unless another process did.
func (d *ComputeDb) replaceRunID(ctx context.Context, hotkey, old, id string) error {
	err := d.exec(ctx, "UPDATE wandb_runs SET run_id = ? WHERE hotkey = ? AND run_id = ?", id, hotkey, old)
	return wrap("replace the run of "+hotkey, err)
}

// AddPoG keeps a result of a proof of GPU, the newest 4 of a hotkey.
func (d *ComputeDb) AddPoG(ctx context.Context, hotkey string, gpu GPU, at time.Time) error {
	return wrap("keep a proof of GPU", d.write(ctx, func(tx execer) error {
		_, err := tx.ExecContext(ctx, "INSERT INTO pog_stats (hotkey, gpu_name, num_gpus, created_at) VALUES (?, ?, ?, ?)", hotkey, gpu.Name, gpu.Count, stamp(at))
		if err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, `DELETE FROM pog_stats WHERE hotkey = ?1 AND id NOT IN (
			SELECT id FROM pog_stats WHERE hotkey = ?1 ORDER BY id DESC LIMIT ?2)`, hotkey, keptPoG)
		return err
	}))
}

// PoG are the kept results of a hotkey, newest first.
func (d *ComputeDb) PoG(ctx context.Context, hotkey string) (out []GPU, err error) {
	err = d.rows(ctx, "SELECT gpu_name, num_gpus FROM pog_stats WHERE hotkey = ? ORDER BY id DESC", []any{hotkey}, func(r *sql.Rows) error {
		var one GPU
		err := r.Scan(&one.Name, &one.Count)
		out = append(out, one)
		return err
	})
	return out, wrap("read the proofs of GPU", err)
}

// Challenge is the result of one challenge.
type Challenge struct {
	UID        int
	Hotkey     string
	Success    bool
	Elapsed    time.Duration
	Difficulty int
	At         time.Time // now when zero
}

// AddChallenges keeps results, and the miners that they are of.
func (d *ComputeDb) AddChallenges(ctx context.Context, results ...Challenge) error {
	return wrap("keep challenges", d.write(ctx, func(tx execer) error {
		for _, c := range results {
			if _, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO miner (uid, ss58_address) VALUES (?, ?)", c.UID, c.Hotkey); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, `INSERT INTO challenge_details (uid, ss58_address, success, elapsed_time, difficulty, created_at)
				VALUES (?, ?, ?, ?, ?, ?)`, c.UID, c.Hotkey, c.Success, c.Elapsed.Seconds(), c.Difficulty, stamp(c.At))
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// Challenges are how many of a hotkey's challenges were kept and how many of them succeeded.
func (d *ComputeDb) Challenges(ctx context.Context, hotkey string) (all, succeeded int, err error) {
	_, err = d.row(ctx, "SELECT COUNT(*), COALESCE(SUM(success), 0) FROM challenge_details WHERE ss58_address = ?", []any{hotkey}, &all, &succeeded)
	return all, succeeded, wrap("read challenges", err)
}

// SaveMiner gives a hotkey its UID, and takes both from who had them before.
func (d *ComputeDb) SaveMiner(ctx context.Context, uid int, hotkey string) error {
	return wrap("keep a miner", d.write(ctx, func(tx execer) error {
		if _, err := tx.ExecContext(ctx, "DELETE FROM miner WHERE (uid = ?1) <> (ss58_address = ?2)", uid, hotkey); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, "INSERT OR IGNORE INTO miner (uid, ss58_address) VALUES (?, ?)", uid, hotkey)
		return err
	}))
}

// SaveMinerDetails keeps a miner's specs. Nil counts as a miss; after 5 in a row the
// details are blanked.
func (d *ComputeDb) SaveMinerDetails(ctx context.Context, hotkey string, details any) error {
	if details == nil {
		return wrap("count a miss", d.exec(ctx, `INSERT INTO miner_details (hotkey, details, no_specs_count) VALUES (?1, '{}', 1) ON CONFLICT(hotkey) DO UPDATE SET
			no_specs_count = MIN(no_specs_count + 1, ?2), details = CASE WHEN no_specs_count + 1 >= ?2 THEN '{}' ELSE details END`, hotkey, maxMisses))
	}
	text, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode a miner's details: %w", err)
	}
	return wrap("keep a miner's details", d.exec(ctx, `INSERT INTO miner_details (hotkey, details) VALUES (?, ?)
		ON CONFLICT(hotkey) DO UPDATE SET details = excluded.details, no_specs_count = 0`, hotkey, string(text)))
}

// MinerDetails are the kept specs as JSON, nil for a miner that is not known.
func (d *ComputeDb) MinerDetails(ctx context.Context, hotkey string) (json.RawMessage, error) {
	var text string
	found, err := d.row(ctx, "SELECT details FROM miner_details WHERE hotkey = ?", []any{hotkey}, &text)
	if !found {
		return nil, wrap("read a miner's details", err)
	}
	return json.RawMessage(text), nil
}

// Listed are the hotkeys of a list, with their details.
type Listed map[string]json.RawMessage

// Allocate marks a hotkey as allocated.
func (d *ComputeDb) Allocate(ctx context.Context, hotkey string, details any) error {
	return d.list(ctx, "allocation", hotkey, details)
}

// Deallocate takes the mark away.
func (d *ComputeDb) Deallocate(ctx context.Context, hotkey string) error {
	return wrap("deallocate", d.exec(ctx, "DELETE FROM allocation WHERE hotkey = ?", hotkey))
}

// Allocations are the allocated hotkeys.
func (d *ComputeDb) Allocations(ctx context.Context) (Listed, error) {
	return d.listed(ctx, "allocation")
}

// Penalize puts a hotkey on the blacklist.
func (d *ComputeDb) Penalize(ctx context.Context, hotkey string, details any) error {
	return d.list(ctx, "blacklist", hotkey, details)
}

// Pardon takes it off.
func (d *ComputeDb) Pardon(ctx context.Context, hotkey string) error {
	return wrap("pardon", d.exec(ctx, "DELETE FROM blacklist WHERE hotkey = ?", hotkey))
}

// Penalized are the hotkeys of the blacklist.
func (d *ComputeDb) Penalized(ctx context.Context) (Listed, error) { return d.listed(ctx, "blacklist") }

func (d *ComputeDb) list(ctx context.Context, table, hotkey string, details any) error {
	text, err := json.Marshal(details)
	if err != nil {
		return fmt.Errorf("encode the details of %s: %w", hotkey, err)
	}
	return wrap("keep "+table, d.exec(ctx, "INSERT INTO "+table+` (hotkey, details) VALUES (?, ?)
		ON CONFLICT(hotkey) DO UPDATE SET details = excluded.details`, hotkey, string(text)))
}

func (d *ComputeDb) listed(ctx context.Context, table string) (Listed, error) {
	out := Listed{}
	err := d.rows(ctx, "SELECT hotkey, COALESCE(details, '') FROM "+table, nil, func(r *sql.Rows) error {
		var hotkey, details string
		err := r.Scan(&hotkey, &details)
		out[hotkey] = json.RawMessage(details)
		return err
	})
	return out, wrap("read "+table, err)
}

func wrap(act string, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", act, err)
	}
	return nil
}
