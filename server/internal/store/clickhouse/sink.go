package clickhouse

import (
	"context"
	"crypto/rand"

	"github.com/kymogram/kymogram/server/internal/store/clickhouse/cluster"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/journal"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
)

// sink is where rows of a group go before their commit: into the table, or into the log in front
// of it. Blocks are what the log has of them.
type sink interface {
	put(ctx context.Context, shard uint32, r *rows) (blocks []ledger.Block, err error)
}

// table inserts.
type table struct{ points *cluster.Cluster }

func (t table) put(ctx context.Context, shard uint32, r *rows) ([]ledger.Block, error) {
	return nil, t.points.Insert(ctx, shard, r.proof(), r.insert)
}

// log adds to the log, in as many blocks as it takes.
type log struct {
	journal *journal.Journal
	table   table
}

func (l log) put(ctx context.Context, shard uint32, r *rows) (blocks []ledger.Block, err error) {
	parts, fit, err := packed(r, l.journal.Most())
	if err != nil {
		return nil, err
	}
	if !fit { // a document is longer than a message may be
		return l.table.put(ctx, shard, r)
	}
	for _, p := range parts {
		b := ledger.Block{Shard: shard, Runs: p.rows.runs()}
		_, _ = rand.Read(b.ID[:]) // it never fails
		if err := l.journal.Put(ctx, shard, b.ID, p.data); err != nil {
			return nil, err
		}
		blocks = append(blocks, b)
	}
	return blocks, nil
}

// packet is some rows as a block.
type packet struct {
	rows *rows
	data []byte
}

// packed makes blocks of at most so many bytes; fit is false where a row has more.
func packed(r *rows, most int) (out []packet, fit bool, err error) {
	data, err := r.pack()
	if err != nil {
		return nil, false, err
	}
	n := len(r.run)
	switch {
	case len(data) <= most:
		return []packet{{r, data}}, true, nil
	case n == 1:
		return nil, false, nil
	}
	for _, half := range []*rows{r.part(0, n/2), r.part(n/2, n)} {
		parts, fit, err := packed(half, most)
		if err != nil || !fit {
			return nil, fit, err
		}
		out = append(out, parts...)
	}
	return out, true, nil
}
