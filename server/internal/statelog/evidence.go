package statelog

import (
	"context"
	"database/sql"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/state"
)

// Evidence is a second record with a sequence that was taken before, and the first.
type Evidence struct {
	RunID    model.RunID
	Sequence uint64
	state.Proof
}

// Evidence lists the second records of a project from an index on.
func (l *Log) Evidence(ctx context.Context, workspace, project string, since uint64) (out []Evidence, err error) {
	rows, err := l.db.QueryContext(ctx, `SELECT f.run, f.sequence, a.record, a.signature, a.payload, f.record, f.signature, f.payload
		FROM projects p JOIN records f ON f.project = p.id AND f.fork = 1 JOIN records a ON a.run = f.run AND a.sequence = f.sequence AND a.fork = 0
		WHERE p.workspace = ? AND p.project = ? AND f.idx >= ? ORDER BY f.idx`, workspace, project, min(since, state.MaxNumber))
	if err != nil {
		return nil, failure("list the evidence", err)
	}
	defer rows.Close()
	for rows.Next() {
		e := Evidence{Proof: state.Proof{A: new(state.Envelope), B: new(state.Envelope)}}
		var run, first, second []byte
		if err := rows.Scan(&run, &e.Sequence, &e.A.Record, &first, &e.A.Payload, &e.B.Record, &second, &e.B.Payload); err != nil {
			return nil, failure("list the evidence", err)
		}
		copy(e.RunID[:], run)
		copy(e.A.Signature[:], first)
		copy(e.B.Signature[:], second)
		out = append(out, e)
	}
	return out, failure("list the evidence", rows.Err())
}

// Grown waits until a project has more records than size, evidence included, or
// until ctx ends; neither is an error.
func (l *Log) Grown(ctx context.Context, workspace, project string, size uint64) error {
	for {
		news := l.newsOf(workspace + "/" + project)
		var now uint64
		err := l.db.QueryRowContext(context.WithoutCancel(ctx), `SELECT size FROM projects WHERE workspace = ? AND project = ?`, workspace, project).Scan(&now)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return failure("read the size of the log", err)
		}
		if now > size {
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return nil
		}
	}
}
