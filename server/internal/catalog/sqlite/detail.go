package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// GetRun implements [catalog.Runs]; a run in the trash is found, with DeletedNs.
func (d *DB) GetRun(ctx context.Context, id model.RunID) (*catalog.Detail, error) {
	// One transaction, so that the parts belong together.
	tx, err := d.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, d.failure("read a run", err)
	}
	defer tx.Rollback()
	detail, err := readDetail(ctx, tx, id)
	return detail, d.failure("read a run", err)
}

// Lookup implements [catalog.Journal].
func (d *DB) Lookup(ctx context.Context, id model.RunID) (*catalog.Run, error) {
	l, err := scanListed(d.reader.QueryRowContext(ctx, `SELECT `+runColumns+` FROM ids JOIN runs r ON r.id = ids.run JOIN projects p ON p.id = r.project WHERE ids.id = ?`, id[:]).Scan)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, d.missing(ctx, id)
	}
	return &l.Run, d.failure("find a run", err)
}

// missing says why a run is not there.
func (d *DB) missing(ctx context.Context, id model.RunID) error {
	var reserved bool
	err := d.reader.QueryRowContext(ctx, `SELECT EXISTS (SELECT 1 FROM ids WHERE id = ?)`, id[:]).Scan(&reserved)
	if err != nil {
		return d.failure("find a run", err)
	}
	if reserved {
		return model.Errorf(model.CodeRunDeleted, "the run %s was deleted", id)
	}
	return errNoRun(id)
}

func readDetail(ctx context.Context, tx *sql.Tx, id model.RunID) (*catalog.Detail, error) {
	detail := &catalog.Detail{}
	row := tx.QueryRowContext(ctx, `SELECT `+runColumns+`, r.dropped, r.refused
		FROM ids JOIN runs r ON r.id = ids.run JOIN projects p ON p.id = r.project WHERE ids.id = ?`, id[:])
	l, err := scanListed(row.Scan, &detail.Dropped, &detail.Refused)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, errNoRun(id)
	}
	if err != nil {
		return nil, err
	}
	detail.Run = l.Run
	for _, read := range []func(context.Context, *sql.Tx, int64, *catalog.Detail) error{
		readAttributes, readEnvAttributes, readAttemptList, readWriters, readAliases, readEvents, readShared, readForks,
	} {
		if err := read(ctx, tx, l.pk, detail); err != nil {
			return nil, err
		}
	}
	return detail, nil
}

func scanAttribute(rows *sql.Rows) (catalog.Attribute, error) {
	var a catalog.Attribute
	var value string
	if err := rows.Scan(&a.Path, &value); err != nil {
		return a, err
	}
	return a, json.Unmarshal([]byte(value), &a.Value)
}

func readAttributes(ctx context.Context, tx *sql.Tx, pk int64, d *catalog.Detail) (err error) {
	d.Attributes, err = collect(ctx, tx, scanAttribute, `SELECT path, value FROM attributes WHERE run = ? ORDER BY path`, pk)
	return err
}

func readEnvAttributes(ctx context.Context, tx *sql.Tx, pk int64, d *catalog.Detail) (err error) {
	d.EnvAttributes, err = collect(ctx, tx, func(rows *sql.Rows) (catalog.EnvAttribute, error) {
		var a catalog.EnvAttribute
		var value string
		if err := rows.Scan(&a.Env, &a.Episode, &a.Path, &value); err != nil {
			return a, err
		}
		return a, json.Unmarshal([]byte(value), &a.Value)
	}, `SELECT env, CASE scoped WHEN 1 THEN episode END, path, value FROM env_attributes WHERE run = ? ORDER BY env, scoped, episode, path`, pk)
	return err
}

func readAttemptList(ctx context.Context, tx *sql.Tx, pk int64, d *catalog.Detail) (err error) {
	d.Attempts, err = readAttempts(ctx, tx, pk)
	return err
}

func readWriters(ctx context.Context, tx *sql.Tx, _ int64, d *catalog.Detail) (err error) {
	d.Writers, err = collect(ctx, tx, func(rows *sql.Rows) (catalog.WriterInfo, error) {
		var w catalog.WriterInfo
		var id []byte
		var logger *int64
		err := rows.Scan(&id, &w.Attempt, &w.State, &w.Host, &w.PID, &w.Rank, &w.Hotkey, &w.SDK, &logger, &w.OpenedNs, &w.SeenNs, &w.Silent)
		copy(w.ID[:], id)
		if logger != nil {
			v := uint64(*logger)
			w.LoggerID = &v
		}
		return w, err
	}, `SELECT id, attempt, state, host, pid, rank, hotkey, sdk, logger_id, opened_ns, seen_ns, expired FROM writers WHERE run = ? ORDER BY opened_ns, id`, d.ID[:])
	return err
}

func readAliases(ctx context.Context, tx *sql.Tx, _ int64, d *catalog.Detail) (err error) {
	d.Aliases, err = collect(ctx, tx, scanRunID, `SELECT id FROM ids WHERE run = ?1 AND id <> ?1 ORDER BY id`, d.ID[:])
	return err
}

func readEvents(ctx context.Context, tx *sql.Tx, pk int64, d *catalog.Detail) (err error) {
	d.Events, err = collect(ctx, tx, func(rows *sql.Rows) (catalog.Event, error) {
		var e catalog.Event
		var tags string
		if err := rows.Scan(&e.TimeNs, &e.Name, &e.Text, &tags); err != nil {
			return e, err
		}
		return e, json.Unmarshal([]byte(tags), &e.Tags)
	}, `SELECT time_ns, name, text, tags FROM events WHERE run = ? ORDER BY time_ns, id`, pk)
	return err
}

func readShared(ctx context.Context, tx *sql.Tx, pk int64, d *catalog.Detail) (err error) {
	d.Shared, err = collect(ctx, tx, func(rows *sql.Rows) (model.SharedEnvironment, error) {
		var s model.SharedEnvironment
		var a, b []byte
		err := rows.Scan(&s.Env, &s.TimeNs, &a, &b)
		copy(s.Writers[0][:], a)
		copy(s.Writers[1][:], b)
		return s, err
	}, `SELECT env, time_ns, writer, other FROM shared_environments WHERE run = ? ORDER BY env, time_ns, writer, other`, pk)
	return err
}

// maxConfig is how many attributes of a run a table shows (api/http.md).
const maxConfig = 100

// Configs implements [catalog.Runs].
func (d *DB) Configs(ctx context.Context, ids []model.RunID) (map[model.RunID][]catalog.Attribute, error) {
	out := make(map[model.RunID][]catalog.Attribute, len(ids))
	for _, id := range ids {
		// '0' is the character after '/': the range holds what starts with config/.
		found, err := collect(ctx, d.reader, scanAttribute, `SELECT path, value FROM attributes
			WHERE run = (SELECT pk FROM runs WHERE id = ?) AND path >= 'config/' AND path < 'config0' ORDER BY path LIMIT ?`, id[:], maxConfig)
		if err != nil {
			return nil, d.failure("read configs", err)
		}
		if len(found) > 0 {
			out[id] = found
		}
	}
	return out, nil
}
