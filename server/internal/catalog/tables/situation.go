package tables

import (
	"context"
	"database/sql"

	"github.com/kymogram/kymogram/internal/model"
)

// situation is what an open finds. It is read in one query: a database elsewhere is asked once,
// and not for one thing after the other.
type situation struct {
	opened    bool   // the writer is known
	attempt   uint32 // of it
	ofWriter  *runRow
	project   int64 // 0 where there is none yet
	identity  bool  // the job had a run of this name
	purgedNs  int64 // when that run was purged
	own       *runRow
	ofName    *runRow
	recovered *runRow // by the local ULID
	idTaken   bool    // the local ULID means a run
}

// found is a run of the situation, where there is one.
func found(as string) string {
	return as + `.pk, ` + as + `.id, ` + as + `.project, ` + as + `.name, ` + as + `.created_ns, ` + as + `.deleted_ns, ` + as + `.orchestration_id`
}

// Each join finds one row at most, by a key.
var situationQuery = `SELECT w.attempt, p.id, i.purged_ns, EXISTS (SELECT 1 FROM ids WHERE id = ?5), ` + found("k") + `, ` + found("o") + `, ` + found("t") + `, ` + found("l") + `
	FROM (SELECT 1 AS one) here
	LEFT JOIN writers w ON w.id = ?1 LEFT JOIN runs k ON k.id = w.run
	LEFT JOIN projects p ON p.workspace = ?2 AND p.name = ?3
	LEFT JOIN identities i ON i.project = p.id AND i.name = ?4 AND i.orchestration_id = ?6 LEFT JOIN runs o ON o.id = i.run
	LEFT JOIN runs t ON t.project = p.id AND t.name = ?4
	LEFT JOIN runs l ON l.id = ?5 AND l.orchestration_id = '' AND l.deleted_ns = 0`

func readSituation(ctx context.Context, tx Tx, r *model.OpenRequest) (s situation, err error) {
	var attempt, project, purged sql.NullInt64
	var runs [4]maybeRun
	into := []any{&attempt, &project, &purged, &s.idTaken}
	for i := range runs {
		into = append(into, runs[i].into()...)
	}
	err = tx.QueryRowContext(ctx, situationQuery, r.Writer[:], r.Workspace, r.Project, r.RunName, r.LocalRun[:], r.OrchestrationID).Scan(into...)
	s.opened, s.attempt, s.project, s.identity, s.purgedNs = attempt.Valid, uint32(attempt.Int64), project.Int64, purged.Valid, purged.Int64
	s.ofWriter, s.own, s.ofName, s.recovered = runs[0].row(), runs[1].row(), runs[2].row(), runs[3].row()
	return s, err
}

// maybeRun is a row of runs that may not be there.
type maybeRun struct {
	pk, project, created, deleted sql.NullInt64
	id                            []byte
	name, job                     sql.NullString
}

func (m *maybeRun) into() []any {
	return []any{&m.pk, &m.id, &m.project, &m.name, &m.created, &m.deleted, &m.job}
}

func (m *maybeRun) row() *runRow {
	if !m.pk.Valid {
		return nil
	}
	run := &runRow{
		pk: m.pk.Int64, project: m.project.Int64, name: m.name.String, createdNs: m.created.Int64, deletedNs: m.deleted.Int64,
		job: m.job.String, nameless: m.job.String == "",
	}
	copy(run.id[:], m.id)
	return run
}
