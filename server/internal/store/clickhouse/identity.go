package clickhouse

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// A table of points is of one ledger: with another, nothing in it would count. So its first row
// is of no run: its writer is the store's name. No read of a run meets it, and its log position,
// 0, never counts.

// nameBytes is how long a store's name is: as long as that of a writer.
const nameBytes = 16

// Secret is what all servers of the store have, and nobody else.
func (e *Engine) Secret() []byte { return e.ledger.Secret() }

// Claim gives the table of points the name of the store, or fails where it has another one, or
// should have one. Name is derived from the secret. Call it before the first write.
func (e *Engine) Claim(ctx context.Context, name []byte) error {
	name = name[:nameBytes]
	marked, err := e.ledger.Marked(ctx)
	if err != nil {
		return err
	}
	there, err := e.names(ctx)
	if err != nil {
		return err
	}
	for _, other := range there {
		if !bytes.Equal(other, name) {
			return model.Errorf(model.CodeConflict, "%s has points of another store", Named(e.cfg.Points)).
				WithHint("Look at both addresses. Each PostgreSQL database has points in one ClickHouse database.")
		}
	}
	switch {
	case len(there) > 0:
	case marked:
		return model.Errorf(model.CodeConflict, "%s does not have the points of this store", Named(e.cfg.Points)).
			WithHint("Look at the address: its database. The PostgreSQL database says that points were stored in another one.")
	default:
		err = e.points.Exec(ctx, fmt.Sprintf("INSERT INTO %s (run, writer) SELECT toFixedString('', 16), toFixedString(unhex('%s'), 16)", e.table, hex.EncodeToString(name)))
	}
	if err != nil {
		return fmt.Errorf("name the table of points: %w", err)
	}
	return e.ledger.SetMarked(ctx)
}

// names are those of stores that the table has.
func (e *Engine) names(ctx context.Context) (out [][]byte, err error) {
	rows, err := e.points.Query(ctx, "SELECT DISTINCT writer FROM "+e.table+" WHERE run = toFixedString('', 16)")
	if err != nil {
		return nil, fmt.Errorf("read whose points there are: %w", err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var writer string
		if err := rows.Scan(&writer); err != nil {
			return nil, fmt.Errorf("read whose points there are: %w", err)
		}
		out = append(out, []byte(writer))
	}
	return out, rows.Err()
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

// Probe fails as a write would now.
func (e *Engine) Probe(ctx context.Context) error {
	if err := e.points.Ping(ctx); err != nil {
		e.cfg.Logger.Error("ClickHouse does not answer", "err", err)
		return model.Errorf(model.CodeUnavailable, "ClickHouse cannot be reached").WithHint("Look whether it runs; clients keep what was not acknowledged, and send it again.")
	}
	return e.ledger.Probe(ctx)
}

// Node is the name of this server's data folder.
func (e *Engine) Node() string { return e.cfg.Node }
