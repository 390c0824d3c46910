package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

const configPrefix = "config/"

// mergeConfig takes in the configuration of a rank that began offline, so that
// none of them knew which one makes the run: the first value of a path wins, a
// different one is kept under ranks/N/. Another job does not change a run's.
func (o *opening) mergeConfig(ctx context.Context, run *runRow) error {
	if run.created || !o.r.Offline || len(o.r.Initial) == 0 {
		return nil
	}
	var job string
	if err := o.tx.QueryRowContext(ctx, `SELECT orchestration_id FROM runs WHERE pk = ?`, run.pk).Scan(&job); err != nil || job != o.r.OrchestrationID {
		return err
	}
	c := &change{tx: o.tx, pk: run.pk, run: run.id, writer: o.r.Writer, nowNs: o.now.UnixNano()}
	for _, u := range o.r.Initial {
		if u.Op != model.OpSetAttribute || u.Value == nil || !strings.HasPrefix(u.Path, configPrefix) {
			continue
		}
		path, err := o.rankPath(ctx, run, &u)
		if err != nil {
			return err
		}
		if path == "" {
			continue
		}
		u.Path = path
		if err := c.setAttribute(ctx, &u); err != nil {
			return err
		}
	}
	return nil
}

// rankPath is where a rank's value goes; "" when the run has it already, or has
// another and the rank has no number.
func (o *opening) rankPath(ctx context.Context, run *runRow, u *model.Update) (string, error) {
	var known string
	err := o.tx.QueryRowContext(ctx, `SELECT value FROM attributes WHERE run = ? AND path = ?`, run.pk, u.Path).Scan(&known)
	if errors.Is(err, sql.ErrNoRows) {
		return u.Path, nil
	}
	if err != nil {
		return "", fmt.Errorf("read %s of run %s: %w", u.Path, run.id, err)
	}
	given, err := json.Marshal(u.Value)
	if err != nil || string(given) == known || o.r.Rank == nil {
		return "", err
	}
	return fmt.Sprintf("ranks/%d/%s", *o.r.Rank, u.Path), nil
}
