package clickhouse

import (
	"bytes"
	"context"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// Secret is what all servers of the store have, and nobody else.
func (e *Engine) Secret() []byte { return e.ledger.Secret() }

// Claim gives the points the name of the store, since with another ledger nothing of them would
// count. It fails where they have another one, or should have one. Name is derived from the
// secret. Call it before the first write.
func (e *Engine) Claim(ctx context.Context, name []byte) error {
	name = name[:cluster.NameBytes]
	marked, err := e.ledger.Marked(ctx)
	if err != nil {
		return err
	}
	there, all, err := e.points.Names(ctx)
	if err != nil {
		return err
	}
	for _, other := range there {
		if !bytes.Equal(other, name) {
			return model.Errorf(model.CodeConflict, "%s has points of another store", cluster.Named(e.cfg.Points)).
				WithHint("Look at both addresses. Each PostgreSQL database has points in one ClickHouse database.")
		}
	}
	switch {
	case len(there) > 0:
	case marked && !all:
		return model.Errorf(model.CodeUnavailable, "no server of ClickHouse that answers knows whose points it has").
			WithHint("Start again when the other servers are back.")
	case marked:
		return model.Errorf(model.CodeConflict, "%s does not have the points of this store", cluster.Named(e.cfg.Points)).
			WithHint("Look at the address: its database. The PostgreSQL database says that points were stored in another one.")
	default:
		if err := e.points.Name(ctx, name); err != nil {
			return err
		}
	}
	return e.ledger.SetMarked(ctx)
}

// ClaimFiles says where this server keeps files: in a bucket, or, with an empty place, in its data
// folder. It fails where the other servers keep them elsewhere. Files may move from the folder
// of the only server into a bucket.
func (e *Engine) ClaimFiles(ctx context.Context, place string) error {
	own := "the data folder of server " + e.cfg.Node
	want := place
	if want == "" {
		want = own
	}
	at, err := e.ledger.Files(ctx, want, own)
	if err != nil || at == want {
		return err
	}
	refused := model.Errorf(model.CodeConflict, "the files of this store are in %s", at)
	if place == "" {
		return refused.WithHint("Servers that share points share a bucket, too: give each the same --blob s3://BUCKET/PREFIX. The page docs/scale-out.md says how files move.")
	}
	return refused.WithHint("Give each server the same --blob. To use another place, stop all servers, copy the files there, and run in PostgreSQL: UPDATE ledger_store SET files = NULL")
}

// Guard is a lock of all servers of the store, for their files.
func (e *Engine) Guard() ledger.Guard { return e.ledger.Guard() }

// Probe fails as a write would now. With a log that does not ask ClickHouse.
func (e *Engine) Probe(ctx context.Context) error {
	if e.journal != nil {
		return errors.Join(e.journal.Probe(ctx), e.ledger.Probe(ctx))
	}
	if err := e.points.Ping(ctx); err != nil {
		e.cfg.Logger.Error("ClickHouse does not answer", "err", err)
		return model.Errorf(model.CodeUnavailable, "ClickHouse cannot be reached").WithHint("Look whether it runs; clients keep what was not acknowledged, and send it again.")
	}
	return e.ledger.Probe(ctx)
}

// Node is the name of this server's data folder.
func (e *Engine) Node() string { return e.cfg.Node }
