package ledger

import (
	"context"
	"errors"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// Drain is one who brings blocks of the log into a shard: a number of inserts, of which all count
// that it committed. After a failure nobody knows what an insert left, so a new drain goes on.
type Drain struct {
	Shard  uint32
	Epoch  uint64
	Number uint64 // of the last insert that counts
}

// drainEpochs are those of drains. Epochs of leases are below, so no log position is of both.
const drainEpochs = 1 << 23

// LSN is the log position of the next insert.
func (d *Drain) LSN() uint64 { return LSN(drainEpochs|d.Epoch, d.Number+1) }

// BeginDrain makes a new one.
func (l *Ledger) BeginDrain(ctx context.Context, shard uint32) (*Drain, error) {
	d := &Drain{Shard: shard}
	err := l.pool.QueryRow(ctx, `WITH made AS (SELECT nextval(pg_get_serial_sequence('ledger_drains', 'epoch')) AS epoch)
		INSERT INTO ledger_drains (epoch, first, shard, node) OVERRIDING SYSTEM VALUE SELECT epoch, epoch, $1, $2 FROM made RETURNING epoch`, shard, l.holder).Scan(&d.Epoch)
	if err == nil && d.Epoch >= drainEpochs {
		return nil, model.Errorf(model.CodeInternal, "the log was drained by %d servers, and there are no more numbers", d.Epoch)
	}
	return d, failure("begin to drain the log", err)
}

// EndDrain says that no insert of it comes any more.
func (l *Ledger) EndDrain(ctx context.Context, d *Drain) error {
	_, err := l.pool.Exec(ctx, `UPDATE ledger_drains SET ended = now() WHERE epoch = $1 AND ended IS NULL`, int64(d.Epoch))
	return failure("end a drain of the log", err)
}

// ErrDrained is for blocks that another one drained, and for a drain that was ended. Nothing was
// done.
var ErrDrained = errors.New("another server drained the log")

// CommitDrain commits an insert: its points count from now on, and its blocks are done with. Points
// are those of each run.
func (l *Ledger) CommitDrain(ctx context.Context, d *Drain, blocks []BlockID, points map[model.RunID]uint64) error {
	runs, counts := make([][]byte, 0, len(points)), make([]int64, 0, len(points))
	for run, n := range points {
		runs, counts = append(runs, run[:]), append(counts, int64(n))
	}
	err := l.write(ctx, "commit a drain of the log", func(tx pgx.Tx) error {
		var drains, found int64
		b := &pgx.Batch{}
		b.Queue(`UPDATE ledger_drains SET last = $2 WHERE epoch = $1 AND ended IS NULL AND last = $2 - 1`, int64(d.Epoch), int64(d.Number+1)).Exec(affected(&drains))
		b.Queue(`DELETE FROM ledger_blocks WHERE id = ANY($1) AND number > 0`, bytesOf(blocks)).Exec(affected(&found))
		b.Queue(`SELECT 1 FROM ledger_runs WHERE id = ANY($1) ORDER BY id FOR UPDATE`, runs) // in one order everywhere
		b.Queue(`UPDATE ledger_runs r SET points = r.points + n.points FROM unnest($1::bytea[], $2::bigint[]) AS n (run, points) WHERE r.id = n.run AND NOT r.deleted`, runs, counts)
		if err := tx.SendBatch(ctx, b).Close(); err != nil {
			return err
		}
		if drains != 1 || found != int64(len(blocks)) {
			return ErrDrained
		}
		return nil
	})
	if err == nil {
		d.Number++
	}
	return err
}

func affected(n *int64) func(ct pgconn.CommandTag) error {
	return func(ct pgconn.CommandTag) error { *n = ct.RowsAffected(); return nil }
}

// spansOfDrains are those of the shard, for a run that has points in them.
const spansOfDrains = `ledger_drains d WHERE r.logged > 0 AND d.shard = r.shard AND (d.last > 0 OR d.first = 0)`

func drained(firsts, epochs, lasts []uint64) (out []curve.Span) {
	for i := range epochs {
		s := curve.Span{First: LSN(drainEpochs|firsts[i], 0), Last: LSN(drainEpochs|epochs[i], lasts[i])}
		out = append(out, s)
	}
	return out
}
