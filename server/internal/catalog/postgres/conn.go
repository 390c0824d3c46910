package postgres

import (
	"bytes"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/kymogram/kymogram/server/internal/catalog/tables"
	"github.com/kymogram/kymogram/server/internal/psql"
)

// connector opens connections that understand package tables.
type connector struct {
	driver.Connector
	words *psql.Words
}

// Connect implements [driver.Connector].
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	inner, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	plain, ok := inner.(*stdlib.Conn)
	if !ok {
		return nil, fmt.Errorf("the driver's connection is a %T", inner)
	}
	return &conn{Conn: plain, words: c.words}, nil
}

// conn translates queries and arguments, and reads texts back.
type conn struct {
	*stdlib.Conn
	words   *psql.Words
	waiting []statementArgs // are sent with the next
}

type statementArgs struct {
	text string
	args []any
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

// pick gives a turned query its arguments.
func pick(q psql.Query, args []driver.NamedValue) []driver.NamedValue {
	out := make([]driver.NamedValue, len(q.Args))
	for i, at := range q.Args {
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
	q := c.words.Of(text)
	if len(c.waiting) == 0 {
		return c.Conn.ExecContext(ctx, q.Text, pick(q, args))
	}
	r, err := c.send(ctx, &statementArgs{q.Text, values(pick(q, args))})
	if err != nil {
		return nil, err
	}
	r.Close()
	return driver.RowsAffected(r.CommandTag().RowsAffected()), errors.Join(r.Err(), r.batch.Close())
}

// QueryContext implements [driver.QueryerContext].
func (c *conn) QueryContext(ctx context.Context, text string, args []driver.NamedValue) (driver.Rows, error) {
	q := c.words.Of(text)
	if len(c.waiting) > 0 {
		r, err := c.send(ctx, &statementArgs{q.Text, values(pick(q, args))})
		if err != nil {
			return nil, err
		}
		return rows{r}, nil
	}
	found, err := c.Conn.QueryContext(ctx, q.Text, pick(q, args))
	if err != nil {
		return nil, err
	}
	return rows{found}, nil
}

func values(args []driver.NamedValue) []any {
	out := make([]any, len(args))
	for i := range args {
		out[i] = args[i].Value
	}
	return out
}

// queue keeps a statement for the next one.
func (c *conn) queue(text string, args []any) error {
	q := c.words.Of(text)
	given := make([]driver.NamedValue, len(args))
	for i := range args {
		given[i] = driver.NamedValue{Ordinal: i + 1, Value: args[i]}
		if err := c.CheckNamedValue(&given[i]); err != nil {
			return err
		}
		if b, ok := given[i].Value.([]byte); ok {
			given[i].Value = bytes.Clone(b) // the caller may use it again
		}
	}
	c.waiting = append(c.waiting, statementArgs{q.Text, values(pick(q, given))})
	return nil
}

// send sends what waits, and last with it: one way to the server and back. Without last there
// are no rows.
func (c *conn) send(ctx context.Context, last *statementArgs) (*batchRows, error) {
	batch := &pgx.Batch{}
	for _, s := range c.waiting {
		batch.Queue(s.text, s.args...)
	}
	if last != nil {
		batch.Queue(last.text, last.args...)
	}
	results := c.Conn.Conn().SendBatch(ctx, batch)
	n := len(c.waiting)
	c.waiting = nil
	for range n {
		if _, err := results.Exec(); err != nil {
			_ = results.Close() // says the same
			return nil, err
		}
	}
	if last == nil {
		return nil, results.Close()
	}
	found, err := results.Query()
	if err != nil {
		_ = results.Close() // says the same
		return nil, err
	}
	return &batchRows{found, results, c.Conn.Conn().TypeMap()}, nil
}

// batchRows are the rows of a batch's last query, as the driver gives those of a query.
type batchRows struct {
	pgx.Rows
	batch pgx.BatchResults
	types *pgtype.Map
}

// Columns implements [driver.Rows].
func (r *batchRows) Columns() (names []string) {
	for _, f := range r.FieldDescriptions() {
		names = append(names, f.Name)
	}
	return names
}

// Close implements [driver.Rows].
func (r *batchRows) Close() error {
	r.Rows.Close()
	return r.batch.Close()
}

// Next implements [driver.Rows].
func (r *batchRows) Next(into []driver.Value) (err error) {
	if !r.Rows.Next() {
		if err := r.Err(); err != nil {
			return err
		}
		return io.EOF
	}
	raw := r.RawValues()
	for i, f := range r.FieldDescriptions() {
		into[i] = nil
		if raw[i] == nil {
			continue
		}
		t, ok := r.types.TypeForOID(f.DataTypeOID)
		if !ok {
			into[i] = string(raw[i])
		} else if into[i], err = t.Codec.DecodeDatabaseSQLValue(r.types, f.DataTypeOID, f.Format, raw[i]); err != nil {
			return fmt.Errorf("read the column %s: %w", f.Name, err)
		}
	}
	return nil
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
