package ledger

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/kymogram/kymogram/internal/model"
)

// BlockID names a block of the log. It is random, so that each try of a write has another one.
type BlockID = [16]byte

// Block is points of some runs that were put into the log. They count once a commit has it.
type Block struct {
	ID    BlockID
	Shard uint32
	Runs  []model.RunID

	number uint64 // set by the commit
}

// lastBlocks has the last block of each run whose points are in a log. Those of all others are
// inserted already.
func lastBlocks(blocks []Block) map[model.RunID]uint64 {
	out := map[model.RunID]uint64{}
	for i := range blocks {
		for _, run := range blocks[i].Runs {
			out[run] = max(out[run], blocks[i].number)
		}
	}
	return out
}

// queueBlocks notes what has to be drained: of each block the runs that are still held and there.
func queueBlocks(b *pgx.Batch, changes []*Change, blocks []Block) {
	count := map[model.RunID]bool{}
	for _, c := range changes {
		count[c.Run] = !c.Delete
	}
	for i := range blocks {
		var runs [][]byte
		for _, run := range blocks[i].Runs {
			if count[run] {
				runs = append(runs, run[:])
			}
		}
		if len(runs) > 0 {
			b.Queue(`INSERT INTO ledger_blocks (id, number, shard, runs) VALUES ($1, $2, $3, $4)`, blocks[i].ID[:], int64(blocks[i].number), blocks[i].Shard, runs)
		}
	}
}

// Due is a block whose points count.
type Due struct {
	Number uint64        // they are drained in this order
	Runs   []model.RunID // those that are not deleted
	// Turn: all blocks of the shard before it are among those that were asked for, or drained.
	Turn bool
}

// Blocks finds those of a shard that count and are not drained.
func (l *Ledger) Blocks(ctx context.Context, shard uint32, ids []BlockID) (map[BlockID]Due, error) {
	rows, err := l.pool.Query(ctx, `WITH other AS (SELECT min(number) AS number FROM ledger_blocks WHERE shard = $2 AND number > 0 AND id <> ALL($1))
		SELECT b.id, b.number, b.number < coalesce(other.number, b.number + 1), ARRAY(SELECT r.id FROM ledger_runs r WHERE r.id = ANY(b.runs) AND NOT r.deleted)
		FROM ledger_blocks b, other WHERE b.id = ANY($1) AND b.number > 0`, bytesOf(ids), shard)
	if err != nil {
		return nil, failure("look up blocks of the log", err)
	}
	out := map[BlockID]Due{}
	err = each(rows, func(row pgx.CollectableRow) error {
		var id []byte
		var runs [][]byte
		var d Due
		err := row.Scan(&id, &d.Number, &d.Turn, &runs)
		for i := range runs {
			d.Runs = append(d.Runs, model.RunID(runs[i]))
		}
		out[BlockID(id)] = d
		return err
	})
	return out, failure("look up blocks of the log", err)
}

// GiveUp makes sure that blocks never count, and says of which that is so. A commit that is under
// way is waited for: either it has the block, or it fails.
func (l *Ledger) GiveUp(ctx context.Context, ids []BlockID) (gone []BlockID, err error) {
	if _, err := l.pool.Exec(ctx, `INSERT INTO ledger_blocks (id, number, shard, runs) SELECT id, 0, 0, '{}' FROM unnest($1::bytea[]) AS n (id)
		ON CONFLICT (id) DO NOTHING`, bytesOf(ids)); err != nil {
		return nil, failure("give up blocks of the log", err)
	}
	rows, err := l.pool.Query(ctx, `SELECT id FROM ledger_blocks WHERE id = ANY($1) AND number = 0`, bytesOf(ids))
	if err != nil {
		return nil, failure("give up blocks of the log", err)
	}
	err = each(rows, func(row pgx.CollectableRow) error {
		var id []byte
		err := row.Scan(&id)
		gone = append(gone, BlockID(id))
		return err
	})
	return gone, failure("give up blocks of the log", err)
}

func bytesOf(ids []BlockID) [][]byte {
	out := make([][]byte, len(ids))
	for i := range ids {
		out[i] = ids[i][:]
	}
	return out
}

// Drained reports whether all blocks of a run up to a number are in the table of points.
func (l *Ledger) Drained(ctx context.Context, shard uint32, run model.RunID, number uint64) (yes bool, err error) {
	err = l.pool.QueryRow(ctx, `SELECT NOT EXISTS (SELECT 1 FROM ledger_blocks WHERE shard = $3 AND number BETWEEN 1 AND $2 AND $1 = ANY(runs))`, run[:], int64(number), shard).Scan(&yes)
	return yes, failure("look for blocks of the log", err)
}

// Backlog is what has to be drained: how many blocks, and how old the first is.
type Backlog struct {
	Blocks int64
	Oldest time.Duration
}

const backlogOf = `SELECT count(*), coalesce(extract(epoch FROM now() - min(at)), 0)::float8 FROM ledger_blocks WHERE number > 0`

// Backlog counts the blocks that are not drained.
func (l *Ledger) Backlog(ctx context.Context) (b Backlog, err error) {
	var seconds float64
	err = l.pool.QueryRow(ctx, backlogOf).Scan(&b.Blocks, &seconds)
	b.Oldest = time.Duration(seconds * float64(time.Second))
	return b, failure("count blocks of the log", err)
}

// Log gives the store a log, where it has none. It returns the one that all servers use.
func (l *Ledger) Log(ctx context.Context, made string) (at string, err error) {
	_, err = l.pool.Exec(ctx, `UPDATE ledger_store SET log = $1 WHERE log IS NULL AND $1 <> ''`, made)
	if err == nil {
		err = l.pool.QueryRow(ctx, `SELECT coalesce(log, '') FROM ledger_store`).Scan(&at)
	}
	return at, failure("note which log is used", err)
}
