package tables

import (
	"context"
	"database/sql"

	"github.com/kymogram/kymogram/server/internal/catalog"
)

// tie links a run that has just got its name to the one that it forks, and the
// forks of its name that came before it. Nothing becomes its own ancestor.
func (o *opening) tie(ctx context.Context, run *runRow) error {
	if o.r.ForkFromRun != "" {
		err := Exec(ctx, o.tx, `UPDATE runs SET parent = (SELECT p.id FROM runs p WHERE p.project = ?2 AND p.name = ?3 AND p.pk <> ?1)
			WHERE pk = ?1`, run.pk, run.project, o.r.ForkFromRun)
		if err != nil {
			return err
		}
	}
	return Exec(ctx, o.tx, `UPDATE runs SET parent = ?4 WHERE project = ?2 AND parent_run = ?3 AND parent_run <> '' AND parent IS NULL AND pk <> ?1
		AND id NOT IN (WITH RECURSIVE up (id) AS (SELECT parent FROM runs WHERE pk = ?1 UNION SELECT r.parent FROM runs r JOIN up ON r.id = up.id)
			SELECT id FROM up WHERE id IS NOT NULL)`, run.pk, run.project, run.name, run.id[:])
}

// decideFork stores the step of a fork that opened before its parent had one.
func (o *opening) decideFork(ctx context.Context, run *runRow) error {
	if o.r.ForkFromRun == "" || o.r.ForkAtStep == nil {
		return nil
	}
	return Exec(ctx, o.tx, `UPDATE runs SET fork_step = ?2 WHERE pk = ?1 AND fork_step IS NULL AND parent_run = ?3`, run.pk, *o.r.ForkAtStep, o.r.ForkFromRun)
}

// maxForks bounds the forks that a run's detail lists.
const maxForks = 1_000

// forksOf finds the forks of a run. The plus keeps SQLite from walking through all runs of
// the project by age, which spares it the sort.
const forksOf = `SELECT r.id, r.name, r.display_name, r.fork_step FROM runs p JOIN runs r ON r.parent = p.id AND +r.project = p.project
	WHERE p.pk = ? AND r.deleted_ns = 0 ORDER BY r.created_ns, r.pk LIMIT ?`

func readForks(ctx context.Context, tx Querier, pk int64, d *catalog.Detail) (err error) {
	d.Forks, err = Collect(ctx, tx, func(rows *sql.Rows) (catalog.Fork, error) {
		var f catalog.Fork
		var id []byte
		err := rows.Scan(&id, &f.Name, &f.DisplayName, &f.ForkStep)
		copy(f.ID[:], id)
		return f, err
	}, forksOf, pk, maxForks)
	return err
}
