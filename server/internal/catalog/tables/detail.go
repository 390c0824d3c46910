package tables

import (
	"context"
	"database/sql"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// GetRun implements [catalog.Details]; a run in the trash is found, with DeletedNs.
func (d *DB) GetRun(ctx context.Context, id model.RunID) (*catalog.Detail, error) {
	release, err := d.reader.turn(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
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
	l, err := scanListed(d.reader.row(ctx, `SELECT `+runColumns+` FROM ids JOIN runs r ON r.id = ids.run JOIN projects p ON p.id = r.project WHERE ids.id = ?`, id[:]))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, d.missing(ctx, id)
	}
	return &l.Run, d.failure("find a run", err)
}

// missing says why a run is not there.
func (d *DB) missing(ctx context.Context, id model.RunID) error {
	var reserved bool
	err := d.reader.row(ctx, `SELECT EXISTS (SELECT 1 FROM ids WHERE id = ?)`, id[:])(&reserved)
	if err != nil {
		return d.failure("find a run", err)
	}
	if reserved {
		return model.Errorf(model.CodeRunDeleted, "the run %s was deleted", id)
	}
	return errNoRun(id)
}

func readDetail(ctx context.Context, tx Querier, id model.RunID) (*catalog.Detail, error) {
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
	for _, read := range []func(context.Context, Querier, int64, *catalog.Detail) error{
		readLists, readAttemptList, readAliases, readShared, readForks,
	} {
		if err := read(ctx, tx, l.pk, detail); err != nil {
			return nil, err
		}
	}
	return detail, nil
}

func readAttemptList(ctx context.Context, tx Querier, pk int64, d *catalog.Detail) (err error) {
	d.Attempts, err = readAttempts(ctx, tx, pk)
	return err
}

func readAliases(ctx context.Context, tx Querier, _ int64, d *catalog.Detail) (err error) {
	d.Aliases, err = Collect(ctx, tx, scanRunID, `SELECT id FROM ids WHERE run = ?1 AND id <> ?1 ORDER BY id`, d.ID[:])
	return err
}

func readShared(ctx context.Context, tx Querier, pk int64, d *catalog.Detail) (err error) {
	d.Shared, err = Collect(ctx, tx, func(rows *sql.Rows) (model.SharedEnvironment, error) {
		var s model.SharedEnvironment
		var a, b []byte
		err := rows.Scan(&s.Env, &s.TimeNs, &a, &b)
		copy(s.Writers[0][:], a)
		copy(s.Writers[1][:], b)
		return s, err
	}, `SELECT env, time_ns, writer, other FROM shared_environments WHERE run = ? ORDER BY env, time_ns, writer, other`, pk)
	return err
}
