package curve

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Reader reads curves. It is safe for parallel use.
type Reader struct {
	db     driver.Conn
	table  string
	source Source
	atOnce uint64 // how many points are resolved with one statement, about
}

// New reads a table that [Create] made, with its database's name where that is needed.
func New(db driver.Conn, table string, source Source) *Reader {
	return &Reader{db: db, table: table, source: source, atOnce: 1 << 18}
}

// place is where a run's rows are read.
func (r *Reader) place(f *Facts) string { return cmp.Or(f.Table, r.table) }

// What a read may take of a server.
const (
	// groupBytes are how much of a group-by lies in memory before it goes to disk.
	groupBytes = 256 << 20
	// StatementBytes is how long a statement may be that names spans: a run that changed hands
	// 100,000 times has a list of that.
	StatementBytes = 16 << 20
)

// each calls take for every row of an answer; take scans the row.
func (r *Reader) each(ctx context.Context, statement string, take func(driver.Rows) error) error {
	limited := clickhouse.Context(ctx, clickhouse.WithSettings(clickhouse.Settings{
		"max_bytes_before_external_group_by": groupBytes, "max_query_size": StatementBytes,
	}))
	rows, err := r.db.Query(limited, statement)
	if err != nil {
		return failed(ctx, err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := take(rows); err != nil {
			return failed(ctx, err)
		}
	}
	return failed(ctx, rows.Err())
}

// failed is CodeTimeout for a read whose caller waits no more. Other errors of ClickHouse mean
// that the points cannot be reached now.
func failed(ctx context.Context, err error) error {
	var told *model.Error
	switch {
	case err == nil || errors.As(err, &told):
		return err
	case ctx.Err() != nil:
		return model.Errorf(model.CodeTimeout, "the read was stopped: %v", ctx.Err())
	}
	return model.Errorf(model.CodeUnavailable, "ClickHouse did not answer a read: %v", err)
}

// one finds a series, CodeNotFound when the run has none with the number.
func (r *Reader) one(ctx context.Context, run model.RunID, id store.SeriesID) (Series, error) {
	list, err := r.source.Series(ctx, run, []store.SeriesID{id})
	if err != nil {
		return Series{}, fmt.Errorf("look up series %d: %w", id, err)
	}
	if len(list) == 0 {
		return Series{}, model.Errorf(model.CodeNotFound, "run %s has no series %d", run, id)
	}
	return list[0], nil
}
