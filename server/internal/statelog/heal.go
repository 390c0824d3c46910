package statelog

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"hash/maphash"
	"io/fs"
	"log/slog"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/catalog/mirror"
)

// Health is what opening the records met.
type Health struct {
	Rebuilt  string   `json:"rebuilt,omitempty"`   // why the file was made anew
	Renewed  string   `json:"renewed,omitempty"`   // why the mirror was made anew
	CaughtUp int      `json:"caught_up"`           // changes that only the mirror had
	Lost     []string `json:"lost,omitempty"`      // what neither of them may have whole
	Regrown  []string `json:"regrown,omitempty"`   // projects whose tree is made anew from their records
	Older    string   `json:"older,omitempty"`     // why both are older than they were
	SetAside []string `json:"set_aside,omitempty"` // files
}

// Healthy says that there was nothing to do.
func (h *Health) Healthy() bool {
	return h.Rebuilt == "" && h.Renewed == "" && h.CaughtUp == 0 && h.Older == "" && len(h.Regrown) == 0
}

// verdict is how a file and its mirror stand to each other.
type verdict struct {
	there, older bool // the file; older: it is of before there were mirrors
	fault        string
	state        *mirror.State
	missing      []mirror.Row // what only the mirror has, when the file is a moment of its past
	changes      int          // how many changes that are
	agree        bool
	hollow       map[state.Hash]struct{} // records of the file that lost their payload
	filled       int                     // how many of them the mirror has whole
}

func (v *verdict) mirrored() bool { return v.state.Base != nil || v.state.Last.LSN > 0 }

// diagnose compares a file with its mirror, row by row. It changes neither.
func diagnose(ctx context.Context, path string) (*verdict, error) {
	v := &verdict{}
	seed := maphash.MakeSeed()
	have := newContent(seed)
	_, err := os.Stat(path)
	if v.there = err == nil; err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if v.there {
		if err := v.read(ctx, path, have); err != nil {
			return nil, err
		}
	}
	return v, v.compare(path, seed, have.total)
}

// read adds up what the file holds; what is wrong with it is its fault.
func (v *verdict) read(ctx context.Context, path string, have *content) error {
	return looking(path, func(db *sql.DB) error {
		*have, v.there, v.fault = *newContent(have.seed), true, ""
		return v.scan(ctx, db, have)
	})
}

func (v *verdict) scan(ctx context.Context, db *sql.DB, have *content) error {
	var at int
	var fault string
	err := db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&at)
	if v.older = err == nil && at < version; err == nil && at > version {
		return errNewer(at)
	}
	if err == nil && at == 0 { // a first start that was cut short made no tables
		v.there, v.older = false, false
		return nil
	}
	if err == nil {
		err = db.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&fault)
	}
	if err == nil && fault != "ok" {
		err = errors.New(fault)
	}
	if err == nil {
		err = addAll(ctx, db, have)
	}
	if err == nil {
		err = derived(ctx, db)
	}
	if err == nil {
		v.hollow, err = hollow(ctx, db)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err != nil {
		v.fault = err.Error()
	}
	return nil
}

func addAll(ctx context.Context, q querier, have *content) error {
	for row, err := range everyRow(ctx, q) {
		if err == nil {
			err = have.add(row)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// hollow are records without the payload that they were signed with, though it was
// never let go.
func hollow(ctx context.Context, q querier) (map[state.Hash]struct{}, error) {
	rows, err := q.QueryContext(ctx, `SELECT r.record FROM records r JOIN runs u ON u.run = r.run WHERE r.payload IS NULL AND (r.fork = 1 OR r.sequence >= u.kept_from)`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	found, none := map[state.Hash]struct{}{}, state.HashOf(nil)
	for rows.Next() {
		var raw []byte
		if err := rows.Scan(&raw); err != nil {
			return nil, err
		}
		if r, err := state.Decode(raw); err == nil && r.PayloadHash != none {
			found[state.HashOf(raw)] = struct{}{}
		}
	}
	return found, rows.Err()
}

// fill notes a record that the mirror has with its payload, and the file without.
func (v *verdict) fill(r mirror.Row) error {
	if len(v.hollow) == 0 || r.Table != rowRecord {
		return nil
	}
	values, err := mirror.Values(r.Values)
	if err != nil || len(values) != 6 || values[5] == nil {
		return err
	}
	record, _ := values[3].([]byte)
	if _, lost := v.hollow[state.HashOf(record)]; lost {
		v.filled++
	}
	return nil
}

// derived checks what follows from the records.
func derived(ctx context.Context, db *sql.DB) error {
	var wrong int64
	err := db.QueryRowContext(ctx, `SELECT
		(SELECT count(*) FROM projects p WHERE size < (SELECT coalesce(max(idx) + 1, 0) FROM records r WHERE r.project = p.id)) +
		(SELECT count(*) FROM projects p WHERE size < (SELECT max(size) FROM heads h WHERE h.project = p.id)) +
		(SELECT count(*) FROM records r WHERE NOT EXISTS (SELECT 1 FROM projects p WHERE p.id = r.project)) +
		(SELECT count(*) FROM (SELECT run, project, max(CASE fork WHEN 0 THEN idx END) AS newest FROM records GROUP BY run) n
			LEFT JOIN runs u ON u.run = n.run AND u.project = n.project WHERE u.idx IS NOT n.newest AND n.newest IS NOT NULL)`).Scan(&wrong)
	if err == nil && wrong > 0 {
		err = fmt.Errorf("%d rows of runs and projects do not fit their records", wrong)
	}
	return err
}

// compare reads the mirror and finds the moment of it that the file is at.
func (v *verdict) compare(path string, seed maphash.Seed, have uint64) (err error) {
	want := newContent(seed)
	row := func(r mirror.Row) error { return errors.Join(v.fill(r), want.add(r)) }
	met := false
	v.state, err = mirror.Read(mirrorDir(path), row, func(_ mirror.Position, rows []mirror.Row) error {
		if !met && want.total == have {
			met = true
		}
		if met {
			v.missing, v.changes = append(v.missing, rows...), v.changes+1
		}
		for _, r := range rows {
			if err := row(r); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil {
		v.agree = want.total == have
		if v.agree {
			v.missing, v.changes = nil, 0
		}
	}
	return err
}

// heal makes a file and its mirror agree; with only set it says what there is to do.
func heal(ctx context.Context, path string, only bool, log *slog.Logger) (*Health, error) {
	v, err := diagnose(ctx, path)
	if err != nil {
		return nil, err
	}
	h := &Health{Lost: v.state.Damage}
	whole := v.there && v.fault == "" && v.filled == 0
	switch {
	case !v.there && v.agree && len(v.state.Damage) == 0: // the first start, or it was cut short
		if only {
			return h, nil
		}
		return h, create(ctx, path)
	case whole && !v.mirrored() && len(v.state.Damage) == 0:
		if !v.older {
			h.Renewed = "it is missing"
		}
	case whole && len(v.state.Damage) > 0:
		h.Renewed = v.state.Damage[0]
	case !v.mirrored():
		return h, model.Errorf(model.CodeUnavailable, "the state records are damaged, and they have no mirror to repair them from: %s", reason(v)).
			WithHint("restore %s from a backup, or move it away to begin anew; everything else is served", filepath.Base(path))
	case whole && v.agree:
		return h, nil
	case whole && v.changes > 0:
		h.CaughtUp = v.changes
	default:
		h.Rebuilt = reason(v)
	}
	if only || h.Healthy() && !v.older {
		return h, nil
	}
	return h, h.mend(ctx, path, v, log)
}

func reason(v *verdict) string {
	switch {
	case !v.there:
		return "the file is missing or empty"
	case v.fault != "":
		return v.fault
	case v.filled > 0:
		return fmt.Sprintf("payloads of %d records are missing", v.filled)
	}
	return "it does not hold what its mirror holds"
}

func (h *Health) mend(ctx context.Context, path string, v *verdict, log *slog.Logger) error {
	switch {
	case h.Rebuilt != "":
		log.Warn("the state records are made anew from their mirror", "why", h.Rebuilt, "file", path)
		if err := h.rebuild(ctx, path); err != nil {
			return fmt.Errorf("make the state records anew: %w", err)
		}
		again, err := diagnose(ctx, path)
		if err != nil {
			return err
		}
		if !again.agree && len(h.Lost) == 0 {
			h.Renewed = "its end was cut: the file has more"
		}
	case h.CaughtUp > 1: // a crash costs one at most
		log.Warn("the state records lacked changes that their mirror has: the file was damaged", "changes", h.CaughtUp, "file", path)
	}
	if h.CaughtUp > 0 {
		if err := loadInto(ctx, path, func(take func(mirror.Row) error) error {
			for _, r := range v.missing {
				if err := take(r); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			return err
		}
	}
	if len(h.Lost) > 0 {
		log.Error("the mirror of the state records is damaged", "lost", h.Lost)
		if err := loadInto(ctx, path, merging(readMirror(path))); err != nil { // what can be read of it
			return err
		}
		h.Renewed = h.Lost[0]
	}
	if h.Renewed == "" && !v.older {
		return nil
	}
	return h.renew(ctx, path, log)
}

// readMirror hands over every row of a mirror that can be read.
func readMirror(path string) func(take func(mirror.Row) error) error {
	return func(take func(mirror.Row) error) error {
		_, err := mirror.Read(mirrorDir(path), take, func(_ mirror.Position, rows []mirror.Row) error {
			for _, r := range rows {
				if err := take(r); err != nil {
					return err
				}
			}
			return nil
		})
		return err
	}
}

// merging leaves out what would take heads from a file that has them.
func merging(rows func(take func(mirror.Row) error) error) func(take func(mirror.Row) error) error {
	return func(take func(mirror.Row) error) error {
		return rows(func(r mirror.Row) error {
			if r.Table == rowRenewed {
				return nil
			}
			return take(r)
		})
	}
}

// salvage hands over the records of a damaged file whose signatures hold, since the end
// of a mirror can be cut, too. Heads are not taken: damage may have made them.
func salvage(ctx context.Context, path string) func(take func(mirror.Row) error) error {
	return func(take func(mirror.Row) error) error {
		err := looking(path, func(db *sql.DB) (failed error) {
			everyRecord(ctx, db, func(row mirror.Row, err error) bool {
				if err == nil && authentic(row) {
					failed = take(row)
				}
				return failed == nil
			})
			return errors.Join(failed, ctx.Err())
		})
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
}

func authentic(r mirror.Row) bool {
	v, err := mirror.Values(r.Values)
	if err != nil || len(v) != 6 {
		return false
	}
	e := &state.Envelope{}
	e.Record, _ = v[3].([]byte)
	e.Payload, _ = v[5].([]byte)
	signature, _ := v[4].([]byte)
	copy(e.Signature[:], signature)
	_, err = (&state.Entry{Envelope: *e, Notes: state.Notes{Dropped: e.Payload == nil}}).Authentic()
	return err == nil
}

// loadInto stores rows in a file, all or none.
func loadInto(ctx context.Context, path string, rows func(take func(mirror.Row) error) error) error {
	db, err := connect(path, writing)
	if err != nil {
		return err
	}
	defer db.Close()
	if err := migrate(ctx, db); err != nil {
		return err
	}
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := rows(func(r mirror.Row) error { return load(ctx, tx, r) }); err != nil {
		return err
	}
	return tx.Commit()
}

// rebuild makes the file from its mirror and sets the old one aside.
func (h *Health) rebuild(ctx context.Context, path string) error {
	made := path + ".rebuilt"
	if err := removeAll(made); err != nil {
		return err
	}
	if err := loadInto(ctx, made, readMirror(path)); err != nil {
		return err
	}
	if err := loadInto(ctx, made, salvage(ctx, path)); err != nil {
		return err
	}
	aside := asideName(path)
	for _, suffix := range []string{"", "-wal"} {
		err := os.Rename(path+suffix, aside+suffix)
		if err == nil {
			h.SetAside = append(h.SetAside, aside+suffix)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := removeAll(path); err != nil { // an index of the old log
		return err
	}
	if err := os.Rename(made, path); err != nil {
		return err
	}
	return wal.OS{}.SyncDir(filepath.Dir(path))
}

func removeAll(path string) error {
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

func asideName(path string) string {
	return path + ".damaged-" + time.Now().UTC().Format("20060102T150405.000000000")
}

// create makes a mirror and then a file, both empty.
func create(ctx context.Context, path string) error {
	if err := os.RemoveAll(mirrorDir(path)); err != nil { // of a start that was cut short
		return err
	}
	if err := mirror.Create(ctx, mirrorDir(path), mirror.Header{Schema: version}, func(func(mirror.Row, error) bool) {}); err != nil {
		return err
	}
	return loadInto(ctx, path, nothing)
}

// renew makes the mirror of a file that is whole.
func (h *Health) renew(ctx context.Context, path string, log *slog.Logger) error {
	if h.Renewed != "" {
		log.Warn("the mirror of the state records is made anew", "why", h.Renewed)
		aside := asideName(path) + "-mirror"
		if _, err := os.Stat(mirrorDir(path)); err == nil {
			if err := mirror.SetAside(mirrorDir(path), aside); err != nil {
				return err
			}
			h.SetAside = append(h.SetAside, aside)
		}
	}
	if err := createMirror(ctx, path); err != nil {
		return err
	}
	// Only now: a file of this version has a mirror.
	return loadInto(ctx, path, nothing)
}

func nothing(func(mirror.Row) error) error { return nil }

func createMirror(ctx context.Context, path string) error {
	return looking(path, func(db *sql.DB) error {
		return mirror.Create(ctx, mirrorDir(path), mirror.Header{Schema: version}, everyRow(ctx, db))
	})
}

// Plan says what there is to repair, Repair does it; no server may use the file.
func Plan(ctx context.Context, path string, log *slog.Logger) (*Health, error) {
	return repair(ctx, path, true, log)
}

// Repair makes a file and its mirror agree, and makes anew what does not follow from
// its records.
func Repair(ctx context.Context, path string, log *slog.Logger) (*Health, error) {
	return repair(ctx, path, false, log)
}

func repair(ctx context.Context, path string, only bool, log *slog.Logger) (*Health, error) {
	h, err := heal(ctx, path, only, log)
	if err != nil || !h.Healthy() || len(h.Lost) > 0 {
		return h, err
	}
	found, err := Inspect(ctx, path, true, func(int64) {})
	if err != nil || len(found.Damage) == 0 {
		return h, err
	}
	h.Rebuilt = strings.TrimPrefix(found.Damage[0], "state records: ")
	if only {
		return h, nil
	}
	return h, h.rebuild(ctx, path)
}

// regrow forgets the tree of each project that lacks a node: the next head makes it
// anew from the records, and must have the root that was signed.
func (f *file) regrow(ctx context.Context) error {
	torn, err := tornTrees(ctx, f.DB)
	if err != nil || len(torn) == 0 {
		return err
	}
	for id, name := range torn {
		f.health.Regrown = append(f.health.Regrown, name)
		f.log.Warn("nodes of the Merkle log are missing: it is made anew from the records", "project", name, "file", f.path)
		if _, err := f.ExecContext(ctx, `UPDATE projects SET tree_size = 0 WHERE id = ?1; DELETE FROM nodes WHERE project = ?1`, id); err != nil {
			return err
		}
	}
	slices.Sort(f.health.Regrown)
	return nil
}

// tornTrees are the projects whose tree has not the number of nodes that its size needs.
func tornTrees(ctx context.Context, q querier) (map[int64]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT id, workspace || '/' || project, tree_size, (SELECT count(*) FROM nodes n WHERE n.project = p.id) FROM projects p`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	torn := map[int64]string{}
	for rows.Next() {
		var id, size, nodes int64
		var name string
		if err := rows.Scan(&id, &name, &size, &nodes); err != nil {
			return nil, err
		}
		if nodes != 2*size-int64(bits.OnesCount64(uint64(size))) {
			torn[id] = name
		}
	}
	return torn, rows.Err()
}
