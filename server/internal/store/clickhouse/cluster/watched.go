package cluster

import (
	"context"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

// watched notes when a server does not answer queries.
type watched struct {
	driver.Conn
	server *replica
}

// Query implements [driver.Conn].
func (w watched) Query(ctx context.Context, query string, args ...any) (driver.Rows, error) {
	rows, err := w.Conn.Query(ctx, query, args...)
	if ctx.Err() != nil {
		return rows, err // nobody waited
	}
	return rows, w.server.note(err)
}
