package httpapi

import (
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// table is the answer of points and buckets before it takes a format: named
// columns of equal length, in order.
type table struct {
	rows    int
	columns []column
	meta    [][2]string // key and value, for the formats that carry them
	next    string
}

// column holds its values in the slice of its type.
type column struct {
	name    string
	kind    columnKind
	has     []bool // nil: no gaps
	ints    []int64
	uints   []uint64
	floats  []float64
	small   []uint32
	texts   []string
	docs    [][]byte
	writers []model.WriterID
}

type columnKind uint8

const (
	colInt columnKind = iota
	colUint
	colFloat
	colSmall
	colText
	colDoc
	colWriter
)

func (c *column) gap(row int) bool { return c.has != nil && !c.has[row] }

// pointsTable lays out a page of points: the series' axes, time, value, attempt
// and writer.
func pointsTable(page *query.PointsPage) *table {
	rows := page.Rows
	t := &table{rows: len(rows.TimeNs), next: page.Next, meta: seriesMeta(page)}
	for i, axis := range rows.Axes {
		c := column{name: string(axis.Axis), kind: colInt, ints: axis.Values}
		if i < len(rows.Has) {
			c.has = rows.Has[i]
		}
		t.columns = append(t.columns, c)
	}
	t.columns = append(t.columns,
		column{name: "time_ns", kind: colInt, ints: rows.TimeNs},
		valueColumn(&rows.Values),
		column{name: "attempt", kind: colSmall, small: rows.Attempt},
		column{name: "writer", kind: colWriter, writers: rows.Writer},
	)
	if page.Runs != nil {
		t.columns = append(t.columns, column{name: "run", kind: colText, texts: runTexts(page)})
	}
	return t
}

// pointColumns names the columns that a page of points may have.
func pointColumns() (names []string) {
	for _, axis := range model.Axes() {
		names = append(names, string(axis))
	}
	return append(names, "time_ns", "value", "attempt", "writer", "run")
}

// only leaves the columns that were asked for; none: all.
func (t *table) only(wanted []string) *table {
	if len(wanted) > 0 {
		t.columns = slices.DeleteFunc(t.columns, func(c column) bool { return !slices.Contains(wanted, c.name) })
	}
	return t
}

// runTexts is the run that each row is of.
func runTexts(page *query.PointsPage) []string {
	names := make([]string, len(page.Runs))
	for i, id := range page.Runs {
		names[i] = id.String()
	}
	out := make([]string, len(page.Rows.TimeNs))
	for i := range out {
		out[i] = names[0]
		if page.Rows.Depth != nil {
			out[i] = names[page.Rows.Depth[i]]
		}
	}
	return out
}

func valueColumn(v *model.Column) column {
	switch v.Kind {
	case model.KindFloat:
		return column{name: "value", kind: colFloat, floats: v.Floats}
	case model.KindInt:
		return column{name: "value", kind: colInt, ints: v.Ints}
	case model.KindText:
		return column{name: "value", kind: colText, texts: v.Texts}
	}
	return column{name: "value", kind: colDoc, docs: v.Docs}
}

func seriesMeta(page *query.PointsPage) [][2]string {
	key := page.Series.Key
	meta := [][2]string{
		{"run", page.Run.String()},
		{"metric", key.Metric},
		{"scale", key.Scale},
		{"kind", page.Series.Kind.String()},
		{"axis", string(page.Axis)},
		{"next", page.Next},
	}
	for _, l := range key.Labels {
		meta = append(meta, [2]string{labelPrefix + l.Name, l.Value})
	}
	return meta
}

// bucketsTable lays out buckets; min, max and mean have gaps where a bucket has
// no finite value. An int64 series has whole numbers as min and max.
func bucketsTable(r *query.BucketsResult) *table {
	n := len(r.Buckets)
	whole := r.Series.Kind == model.KindInt
	ints, floats, uints := make([][]int64, 4), make([][]float64, 3), make([][]uint64, 5)
	for i := range ints {
		ints[i] = make([]int64, n)
	}
	for i := range floats {
		floats[i] = make([]float64, n)
	}
	for i := range uints {
		uints[i] = make([]uint64, n)
	}
	has := make([]bool, n)
	for i, b := range r.Buckets {
		ints[0][i], ints[1][i], ints[2][i], ints[3][i] = b.Lo, b.Hi, b.MinInt, b.MaxInt
		floats[0][i], floats[1][i] = b.Min, b.Max
		floats[2][i], has[i] = query.Mean(b)
		uints[0][i], uints[1][i], uints[2][i], uints[3][i] = b.Count, b.NaN, b.PosInf, b.NegInf
		uints[4][i] = b.Inherited
	}
	t := &table{rows: n, columns: []column{
		{name: "lo", kind: colInt, ints: ints[0]},
		{name: "hi", kind: colInt, ints: ints[1]},
		endColumn("min", whole, ints[2], floats[0], has),
		endColumn("max", whole, ints[3], floats[1], has),
		{name: "mean", kind: colFloat, floats: floats[2], has: has},
	}}
	names := []string{"count", "nan", "pos_inf", "neg_inf"}
	if r.Inherited {
		names = append(names, "inherited")
	}
	for i, name := range names {
		t.columns = append(t.columns, column{name: name, kind: colUint, uints: uints[i]})
	}
	return t
}

// endColumn is exact: beyond 2^53 a float64 is not.
func endColumn(name string, whole bool, ints []int64, floats []float64, has []bool) column {
	if whole {
		return column{name: name, kind: colInt, ints: ints, has: has}
	}
	return column{name: name, kind: colFloat, floats: floats, has: has}
}

// The formats of points and buckets.
const (
	formatJSON    = "json"
	formatCSV     = "csv"
	formatArrow   = "arrow"
	formatParquet = "parquet"
)

// NextHeader carries the next page's cursor beside the formats that have no
// place for it in a body.
const NextHeader = "Kymogram-Next"

// send answers with a table in a format other than JSON.
func (t *table) send(w http.ResponseWriter, format, name string) error {
	h := w.Header()
	if t.next != "" {
		h.Set(NextHeader, t.next)
	}
	h.Set("Content-Disposition", fmt.Sprintf("attachment; filename=%q", fileName(name, format)))
	switch format {
	case formatCSV:
		h.Set("Content-Type", "text/csv; charset=utf-8")
		return t.writeCSV(w)
	case formatArrow:
		h.Set("Content-Type", "application/vnd.apache.arrow.stream")
		return t.writeArrow(w)
	}
	h.Set("Content-Type", "application/vnd.apache.parquet")
	return t.writeParquet(w)
}

// fileName is a metric's name made safe for a header and a disk.
func fileName(metric, format string) string {
	safe := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9', r == '.', r == '-', r == '_':
			return r
		}
		return '_'
	}, metric)
	return strings.TrimLeft(safe[:min(len(safe), 100)], ".") + "." + format
}

// writeJSON writes the "columns" object.
func (t *table) writeJSON(j *jsonWriter) {
	j.raw("{")
	for i := range t.columns {
		if i > 0 {
			j.raw(",")
		}
		j.text(t.columns[i].name)
		j.raw(":[")
		t.columns[i].writeJSON(j, t.rows)
		j.raw("]")
	}
	j.raw("}")
}

func (c *column) writeJSON(j *jsonWriter, rows int) {
	if c.kind == colWriter {
		c.writeWriters(j)
		return
	}
	for row := range rows {
		if row > 0 {
			j.raw(",")
		}
		if c.gap(row) {
			j.raw("null")
		} else {
			c.writeValue(j, row)
		}
		j.spill()
	}
}

// writeWriters knows that most rows have the writer of the row before.
func (c *column) writeWriters(j *jsonWriter) {
	var text [2 + 2*len(model.WriterID{})]byte
	for row := range c.writers {
		if row == 0 || c.writers[row] != c.writers[row-1] {
			hex.Encode(text[1:], c.writers[row][:])
			text[0], text[len(text)-1] = '"', '"'
		}
		if row > 0 {
			j.raw(",")
		}
		j.buf = append(j.buf, text[:]...)
		j.spill()
	}
}

func (c *column) writeValue(j *jsonWriter, row int) {
	switch c.kind {
	case colInt:
		j.big(c.ints[row])
	case colUint:
		j.uint(c.uints[row])
	case colFloat:
		j.float(c.floats[row])
	case colSmall:
		j.uint(uint64(c.small[row]))
	case colText:
		j.text(c.texts[row])
	case colDoc:
		j.document(c.docs[row])
	}
}
