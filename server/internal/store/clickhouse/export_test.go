package clickhouse

import clickhouse "github.com/ClickHouse/clickhouse-go/v2/lib/driver"

// Wrap puts something between the engine and ClickHouse.
func (e *Engine) Wrap(wrap func(clickhouse.Conn) clickhouse.Conn) { e.points.Wrap(wrap) }
