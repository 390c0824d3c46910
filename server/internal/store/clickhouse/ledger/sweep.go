package ledger

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
)

// Unfreed lists deleted runs whose points may still be there, by shard: those that are due.
func (l *Ledger) Unfreed(ctx context.Context, limit int) (map[uint32][]model.RunID, error) {
	rows, err := l.pool.Query(ctx, `SELECT id, shard FROM ledger_runs WHERE deleted AND NOT freed AND due <= now() ORDER BY due LIMIT $1`, limit)
	if err != nil {
		return nil, failure("look for deleted runs", err)
	}
	out := map[uint32][]model.RunID{}
	err = each(rows, func(row pgx.CollectableRow) error {
		var id []byte
		var shard uint32
		err := row.Scan(&id, &shard)
		out[shard] = append(out[shard], model.RunID(id))
		return err
	})
	return out, failure("look for deleted runs", err)
}

// Freed notes that no points of deleted runs are left. Those that were deleted lately are looked
// at again.
func (l *Ledger) Freed(ctx context.Context, runs []model.RunID) error {
	return l.look(ctx, `freed = taken < now() - interval '`+settledAfter+`', due = now() + interval '`+settledAfter+`'`, runs)
}

// Unfree notes that points of deleted runs are being deleted.
func (l *Ledger) Unfree(ctx context.Context, runs []model.RunID) error {
	return l.look(ctx, `due = now() + interval '1 minute'`, runs)
}

func (l *Ledger) look(ctx context.Context, set string, runs []model.RunID) error {
	ids := make([][]byte, len(runs))
	for i := range runs {
		ids[i] = runs[i][:]
	}
	_, err := l.pool.Exec(ctx, `UPDATE ledger_runs SET `+set+` WHERE id = ANY($1)`, ids)
	return failure("note what became of deleted runs", err)
}

// Past is what is settled of a run: no insert of these epochs can arrive any more.
type Past struct {
	Run   model.RunID
	Shard uint32
	Below uint64       // log positions below it are settled
	Spans []curve.Span // of those that count
}

// settledAfter is how old an epoch is before those before it are settled: an insert that nobody
// waits for has long ended.
const settledAfter = "1 hour"

// Unswept lists runs with spans that may have rows between them that do not count.
func (l *Ledger) Unswept(ctx context.Context, limit int) ([]Past, error) {
	var out []Past
	err := l.read(ctx, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, `SELECT r.id, r.shard, r.epoch FROM ledger_runs r WHERE NOT r.deleted AND r.taken < now() - interval '`+settledAfter+`'
			AND EXISTS (SELECT 1 FROM ledger_spans s WHERE s.run = r.id AND s.epoch < r.epoch AND s.first > 0) ORDER BY random() LIMIT $1`, limit)
		if err != nil {
			return err
		}
		if err := each(rows, func(row pgx.CollectableRow) error {
			var id []byte
			var shard uint32
			var epoch uint64
			err := row.Scan(&id, &shard, &epoch)
			out = append(out, Past{Run: model.RunID(id), Shard: shard, Below: LSN(epoch, 0)})
			return err
		}); err != nil {
			return err
		}
		for i := range out {
			if err := out[i].load(ctx, tx); err != nil {
				return err
			}
		}
		return nil
	})
	return out, err
}

func (p *Past) load(ctx context.Context, tx pgx.Tx) error {
	rows, err := tx.Query(ctx, spansOf, p.Run[:])
	if err != nil {
		return err
	}
	return each(rows, func(row pgx.CollectableRow) error {
		var first, epoch, last uint64
		err := row.Scan(&first, &epoch, &last)
		s := curve.Span{First: LSN(first, 0), Last: LSN(epoch, last)}
		if s.Last < p.Below {
			p.Spans = append(p.Spans, s)
		}
		return err
	})
}

// Swept makes one span of those of a run that are settled: nothing is between them.
func (l *Ledger) Swept(ctx context.Context, p Past) error {
	below := int64(p.Below >> numberBits)
	return l.write(ctx, "merge spans", func(tx pgx.Tx) error {
		// A take may come between, a commit of these epochs cannot.
		if _, err := tx.Exec(ctx, `DELETE FROM ledger_spans s WHERE run = $1 AND epoch < (SELECT max(epoch) FROM ledger_spans WHERE run = $1 AND epoch < $2)`, p.Run[:], below); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `UPDATE ledger_spans SET first = 0 WHERE run = $1 AND epoch < $2`, p.Run[:], below)
		return err
	})
}

// PastDrain is a drain that is settled: no insert of it can arrive any more.
type PastDrain struct {
	Epoch uint64
	Left  curve.Span // of its inserts that do not count
}

// drainsAtOnce is how many are swept in one round.
const drainsAtOnce = 200

// UnsweptDrains ends the drains of servers that are gone, forgets blocks that were given up a day
// ago, and lists by shard the drains that are settled, and all before them.
func (l *Ledger) UnsweptDrains(ctx context.Context) (map[uint32][]PastDrain, error) {
	b := &pgx.Batch{}
	b.Queue(`UPDATE ledger_drains SET ended = now() WHERE ended IS NULL AND ` + gone)
	b.Queue(`DELETE FROM ledger_blocks WHERE number = 0 AND at < now() - interval '1 day'`)
	out := map[uint32][]PastDrain{}
	b.Queue(`SELECT epoch, last, shard FROM ledger_drains d WHERE first > 0 AND NOT EXISTS (SELECT 1 FROM ledger_drains o
		WHERE o.shard = d.shard AND o.epoch <= d.epoch AND (o.ended IS NULL OR o.ended > now() - interval '`+settledAfter+`')) ORDER BY epoch LIMIT $1`, drainsAtOnce).Query(func(rows pgx.Rows) error {
		return each(rows, func(row pgx.CollectableRow) error {
			var epoch, last uint64
			var shard uint32
			err := row.Scan(&epoch, &last, &shard)
			left := curve.Span{First: LSN(drainEpochs|epoch, last+1), Last: LSN((drainEpochs|epoch)+1, 0) - 1}
			out[shard] = append(out[shard], PastDrain{epoch, left})
			return err
		})
	})
	return out, failure("look for old drains", l.pool.SendBatch(ctx, b).Close())
}

// SweptDrains makes one row of some drains and those before: nothing is left that does not count.
func (l *Ledger) SweptDrains(ctx context.Context, shard uint32, drains []PastDrain) error {
	top := int64(drains[len(drains)-1].Epoch)
	return l.write(ctx, "merge drains", func(tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`DELETE FROM ledger_drains WHERE shard = $1 AND epoch < $2`, shard, top)
		b.Queue(`UPDATE ledger_drains SET first = 0 WHERE shard = $1 AND epoch = $2`, shard, top)
		return tx.SendBatch(ctx, b).Close()
	})
}
