package tables

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
// none of them knew which one makes the run. Another job does not change a run's.
func (o *opening) mergeConfig(ctx context.Context, run *runRow) error {
	if run.created || !o.r.Offline {
		return nil
	}
	var job string
	if err := o.tx.QueryRowContext(ctx, `SELECT orchestration_id FROM runs WHERE pk = ?`, run.pk).Scan(&job); err != nil || job != o.r.OrchestrationID {
		return err
	}
	o.heard = true
	c := &change{tx: o.tx, pk: run.pk, run: run.id, writer: o.r.Writer, nowNs: o.now.UnixNano()}
	for i := range o.r.Initial {
		u := &o.r.Initial[i]
		if u.Op != model.OpSetAttribute || u.Value == nil || !strings.HasPrefix(u.Path, configPrefix) {
			continue
		}
		if err := c.setFirst(ctx, u, o.r.Rank); err != nil {
			return err
		}
	}
	return nil
}

// initialRow is what a writer's row says of its initial values.
type initialRow struct {
	heard bool
	rank  *int64
}

// setLater sets a value of the configuration that came behind the open.
func (c *change) setLater(ctx context.Context, u *model.Update) error {
	if c.said == nil {
		var row initialRow
		err := c.tx.QueryRowContext(ctx, `SELECT initial, rank FROM writers WHERE id = ?`, c.writer[:]).Scan(&row.heard, &row.rank)
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("find writer %s: %w", c.writer, err)
		}
		c.said = &row
	}
	if !c.said.heard {
		return nil
	}
	return c.setFirst(ctx, u, c.said.rank)
}

// setFirst sets an attribute that the run lacks: the first value of a path wins.
// Another one of a rank is kept under ranks/N/; one without a rank is passed over.
func (c *change) setFirst(ctx context.Context, u *model.Update, rank *int64) error {
	text, err := json.Marshal(u.Value)
	if err != nil {
		return err
	}
	done, err := c.tx.ExecContext(ctx, insertAttribute+` DO NOTHING`, c.pk, u.Path, u.Value.Type, string(text), sortKey(u.Value))
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); n > 0 || err != nil || rank == nil {
		return err
	}
	var known string
	if err := c.tx.QueryRowContext(ctx, `SELECT value FROM attributes WHERE run = ? AND path = ?`, c.pk, u.Path).Scan(&known); err != nil || known == string(text) {
		return err
	}
	return c.setAttribute(ctx, &model.Update{Path: fmt.Sprintf("ranks/%d/%s", *rank, u.Path), Value: u.Value})
}
