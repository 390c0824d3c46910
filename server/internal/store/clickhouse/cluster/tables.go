package cluster

import (
	"context"
	"errors"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// prepare makes the tables on each server. One that is away gets them at a later start; that
// none answers is an error.
func (c *Cluster) prepare(ctx context.Context) error {
	for i, shard := range c.shards {
		var failed []error
		for _, r := range shard {
			if err := c.make(ctx, r); err != nil {
				failed = append(failed, fmt.Errorf("%s: %w", r.address, err))
			}
		}
		if len(failed) == len(shard) || model.CodeOf(errors.Join(failed...)) == model.CodeInvalid {
			return errors.Join(failed...)
		}
		for _, err := range failed {
			c.log.Warn("a replica is away, and is used when it is back", "shard", i+1, "err", err)
		}
	}
	return nil
}

func (c *Cluster) make(ctx context.Context, r *replica) error {
	for _, statement := range c.statements() {
		if err := r.note(r.conn.Exec(ctx, statement)); err != nil {
			return unreachable(err)
		}
	}
	if c.name == "" {
		return nil
	}
	var engine string
	err := r.conn.QueryRow(ctx, "SELECT engine FROM system.tables WHERE database = currentDatabase() AND name = "+text(table)).Scan(&engine)
	if err != nil {
		return unreachable(err)
	}
	if engine != "Distributed" {
		return model.Errorf(model.CodeInvalid, "the table %s is one of a single server (%s), not of a cluster", table, engine).
			WithHint("Name another database for the cluster, or leave out ?cluster= to serve this one.")
	}
	return nil
}

// statements make the tables of a server.
func (c *Cluster) statements() []string {
	if c.name == "" {
		return []string{curve.Create(table, curve.Form{Current: c.current})}
	}
	engine := fmt.Sprintf("ReplicatedMergeTree(%s, '{replica}')", text("/clickhouse/tables/{shard}/"+c.options.Auth.Database+"/"+table))
	return []string{
		curve.Create(localTable, curve.Form{Engine: engine, Current: c.current}),
		fmt.Sprintf("CREATE TABLE IF NOT EXISTS %s AS %s ENGINE = Distributed(%s, %s, %s)", table, localTable, text(c.name), text(c.options.Auth.Database), text(localTable)),
	}
}
