package clickhouse

import (
	"context"
	"fmt"
	"strings"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// rows are points on their way into the table, by column; see [curve.Columns].
type rows struct {
	run, writer     []string
	series, attempt []uint32
	lsn, arrival    []uint64
	seq, logger     []uint64
	logged, rule    []uint8
	has             []uint16
	axes            [column.NumAxes][]int64
	time            []int64
	kind            []uint8
	float           []float64
	int             []int64
	doc             []string
}

// add takes the points of a batch; nothing refers to the batch afterwards.
func (r *rows) add(rec *record.Batch, lsn uint64, w *ledger.Writer) {
	run, writer := string(rec.Run[:]), string(rec.Writer[:])
	var logger uint64
	var logged uint8
	if w.Logger != nil {
		logger, logged = *w.Logger, 1
	}
	for i := range rec.Groups {
		g := &rec.Groups[i]
		for j := range g.Columns {
			n := g.Rows.Len()
			r.run, r.writer = fill(r.run, run, n), fill(r.writer, writer, n)
			r.series, r.attempt, r.lsn = fill(r.series, g.Series[j], n), fill(r.attempt, rec.Attempt, n), fill(r.lsn, lsn, n)
			r.logger, r.logged = fill(r.logger, logger, n), fill(r.logged, logged, n)
			r.rule, r.has, r.kind = fill(r.rule, uint8(g.Rows.Mode), n), fill(r.has, uint16(g.Rows.Mask), n), fill(r.kind, uint8(g.Columns[j].Kind), n)
			r.addRows(&g.Rows)
			r.addValues(&g.Columns[j], n)
		}
	}
}

func (r *rows) addRows(of *column.Rows) {
	for _, n := range of.Arrival {
		r.arrival = append(r.arrival, uint64(n))
	}
	r.seq, r.time = append(r.seq, of.Seq...), append(r.time, of.Time...)
	for a := range r.axes {
		if of.Mask.Has(a) {
			r.axes[a] = append(r.axes[a], of.Axes[a]...)
		} else {
			r.axes[a] = fill(r.axes[a], 0, of.Len())
		}
	}
}

func (r *rows) addValues(v *column.Values, n int) {
	if v.Kind == model.KindFloat {
		r.float = append(r.float, v.Floats...)
	} else {
		r.float = fill(r.float, 0, n)
	}
	if v.Kind == model.KindInt {
		r.int = append(r.int, v.Ints...)
	} else {
		r.int = fill(r.int, 0, n)
	}
	if column.Numeric(v.Kind) {
		r.doc = fill(r.doc, "", n)
		return
	}
	for _, doc := range v.Docs {
		r.doc = append(r.doc, string(doc))
	}
}

func fill[T any](list []T, v T, n int) []T {
	for range n {
		list = append(list, v)
	}
	return list
}

// columns are names and values, in one order.
func (r *rows) columns() (names []string, values []any) {
	names = []string{"run", "series", "lsn", "arrival", "writer", "seq", "attempt", "logger", "logged", "rule", "has", "time", "kind", "float", "int", "doc"}
	values = []any{r.run, r.series, r.lsn, r.arrival, r.writer, r.seq, r.attempt, r.logger, r.logged, r.rule, r.has, r.time, r.kind, r.float, r.int, r.doc}
	for i, a := range model.Axes() {
		names, values = append(names, string(a)), append(values, r.axes[i])
	}
	return names, values
}

// proof is a condition for the last row.
func (r *rows) proof() string {
	at := len(r.run) - 1
	return fmt.Sprintf("run = toFixedString(unhex('%x'), 16) AND series = %d AND step = toInt64('%d') AND arrival = %d AND lsn = %d",
		r.run[at], r.series[at], r.axes[0][at], r.arrival[at], r.lsn[at])
}

// insert sends the rows as one block. After an error it is not known which of them are stored.
func (r *rows) insert(ctx context.Context, db driver.Conn, table string) (err error) {
	names, values := r.columns()
	batch, err := db.PrepareBatch(ctx, "INSERT INTO "+table+" (`"+strings.Join(names, "`, `")+"`)")
	if err != nil {
		return fmt.Errorf("begin an insert: %w", err)
	}
	defer func() {
		if err != nil {
			_ = batch.Abort() // the connection may be gone
		}
	}()
	for i := range values {
		if err := batch.Column(i).Append(values[i]); err != nil {
			return fmt.Errorf("add column %s: %w", names[i], err)
		}
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("insert %d points: %w", len(r.run), err)
	}
	return nil
}
