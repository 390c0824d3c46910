package postgres

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/stdlib"

	"github.com/kymogram/kymogram/server/internal/catalog/tables"
)

// connector opens connections that understand package tables.
type connector struct {
	driver.Connector
	queries *queries
}

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	pgx, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("the driver's connection is a %T", inner)
	}
	return &conn{pgx, c.queries}, nil
}

// conn translates queries and arguments, and reads texts back.
type conn struct {
	*stdlib.Conn
	queries *queries
}

var (
	_ driver.NamedValueChecker = (*conn)(nil)
	_ driver.SessionResetter   = (*conn)(nil)
	_ driver.ConnBeginTx       = (*conn)(nil)
)

// CheckNamedValue makes of an argument what PostgreSQL stores.
func (*conn) CheckNamedValue(v *driver.NamedValue) (err error) {
	switch arg := v.Value.(type) {
	case tables.Key:
		v.Value = driver.Value(nil)
		if key := encodeKey(arg.Of); key != nil {
			v.Value = key
		}
		return nil
	case tables.Number:
		v.Value = encodeNumber(arg.Of)
		return nil
	}
	if v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value); err != nil {
		return err
	}
	if text, ok := v.Value.(string); ok {
		v.Value = escape(text)
	}
	return nil
}

func (q query) pick(args []driver.NamedValue) []driver.NamedValue {
	out := make([]driver.NamedValue, len(q.args))
	for i, at := range q.args {
		if at < len(args) {
			out[i] = driver.NamedValue{Ordinal: i + 1, Value: args[at].Value}
		}
	}
	return out
}

// BeginTx implements [driver.ConnBeginTx]. What only reads sees one moment.
func (c *conn) BeginTx(ctx context.Context, o driver.TxOptions) (driver.Tx, error) {
	if o.ReadOnly {
		o.Isolation = driver.IsolationLevel(sql.LevelRepeatableRead)
	}
	return c.Conn.BeginTx(ctx, o)
}

// ExecContext implements [driver.ExecerContext].
func (c *conn) ExecContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Result, error) {
	q := c.queries.of(text)
	return c.Conn.ExecContext(ctx, q.text, q.pick(args))
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	q := c.queries.of(text)
	found, err := c.Conn.QueryContext(ctx, q.text, q.pick(args))
	if err != nil {
		return nil, err
	}
	return rows{found}, nil
}

// PrepareContext implements [driver.ConnPrepareContext]. The driver keeps the statements of
// a connection by their texts, so nothing more is to be prepared.
func (c *conn) PrepareContext(_ context.Context, text string) (driver.Stmt, error) {
	return &statement{c, text}, nil
}

// statement is a query that is asked again.
type statement struct {
	conn *conn
	text string
}

// Close implements [driver.Stmt].
func (*statement) Close() error { return nil }

// NumInput implements [driver.Stmt]: whatever is given.
func (*statement) NumInput() int { return -1 }

// Exec implements [driver.Stmt], for none who use contexts.
func (*statement) Exec([]driver.Value) (driver.Result, error) { return nil, driver.ErrSkip }

// Query implements [driver.Stmt], for none who use contexts.
func (*statement) Query([]driver.Value) (driver.Rows, error) { return nil, driver.ErrSkip }

// ExecContext implements [driver.StmtExecContext].
func (s *statement) ExecContext(ctx context.Context, args []driver.NamedValue) (driver.Result, error) {
	return s.conn.ExecContext(ctx, s.text, args)
}

// QueryContext implements [driver.StmtQueryContext].
func (s *statement) QueryContext(ctx context.Context, args []driver.NamedValue) (driver.Rows, error) {
	return s.conn.QueryContext(ctx, s.text, args)
}

// rows gives texts as they were stored.
type rows struct{ driver.Rows }

// Next implements [driver.Rows].
func (r rows) Next(into []driver.Value) error {
	if err := r.Rows.Next(into); err != nil {
		return err
	}
	for i := range into {
		if text, ok := into[i].(string); ok {
			into[i] = unescape(text)
		}
	}
	return nil
}

// PostgreSQL's texts hold no NUL. It becomes the two characters 01 02, and 01 becomes 01 01.
// What is no UTF-8 becomes U+FFFD, as JSON would make of it.
var (
	escapes   = strings.NewReplacer("\x00", "\x01\x02", "\x01", "\x01\x01")
	unescapes = strings.NewReplacer("\x01\x02", "\x00", "\x01\x01", "\x01")
)

func escape(text string) string {
	return escapes.Replace(strings.ToValidUTF8(text, "\uFFFD"))
}

func unescape(text string) string {
	if strings.IndexByte(text, 1) < 0 {
		return text
	}
	return unescapes.Replace(text)
}
