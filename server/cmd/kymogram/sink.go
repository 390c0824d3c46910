package main

import (
	"bufio"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

// jsonlSink writes one object a point: run, metric, scale, labels, then the
// columns of the points API.
type jsonlSink struct {
	w   *bufio.Writer
	run string
	buf []byte
}

func (s *jsonlSink) batch(line *seriesLine, rows arrow.RecordBatch) error {
	labels, err := json.Marshal(line.Labels)
	if err != nil {
		return err
	}
	head := []byte(`{`)
	if runsOf(rows) == nil { // else it is among the columns
		head = append(httpapi.AppendText([]byte(`{"run":`), s.run), ',')
	}
	head = httpapi.AppendText(append(head, `"metric":`...), line.Metric)
	head = httpapi.AppendText(append(head, `,"scale":`...), line.Scale)
	head = append(append(head, `,"labels":`...), labels...)
	schema := rows.Schema()
	for row := range int(rows.NumRows()) {
		s.buf = append(s.buf[:0], head...)
		for i := range int(rows.NumCols()) {
			if column := rows.Column(i); !column.IsNull(row) {
				s.buf = httpapi.AppendText(append(s.buf, ','), schema.Field(i).Name)
				s.buf = appendJSONCell(append(s.buf, ':'), column, row)
			}
		}
		if _, err := s.w.Write(append(s.buf, '}', '\n')); err != nil {
			return err
		}
	}
	return nil
}

func (s *jsonlSink) close() error { return nil }

func appendJSONCell(dst []byte, column arrow.Array, row int) []byte {
	switch c := column.(type) {
	case *array.Int64:
		return strconv.AppendInt(dst, c.Value(row), 10)
	case *array.Uint32:
		return strconv.AppendUint(dst, uint64(c.Value(row)), 10)
	case *array.Float64:
		return model.AppendJSONFloat(dst, c.Value(row))
	case *array.String:
		return httpapi.AppendText(dst, c.Value(row))
	case *array.Binary:
		if doc := c.Value(row); json.Valid(doc) {
			return append(dst, doc...)
		}
		return httpapi.AppendText(dst, base64.StdEncoding.EncodeToString(c.Value(row)))
	case *array.FixedSizeBinary:
		return httpapi.AppendText(dst, hex.EncodeToString(c.Value(row)))
	}
	return append(dst, "null"...)
}

// textCell is a cell for CSV; a gap is empty.
func textCell(column arrow.Array, row int) string {
	if column == nil || column.IsNull(row) {
		return ""
	}
	switch c := column.(type) {
	case *array.Float64:
		return httpapi.FloatText(c.Value(row))
	case *array.String:
		return httpapi.SafeCSV(c.Value(row))
	case *array.Binary:
		return base64.StdEncoding.EncodeToString(c.Value(row))
	case *array.FixedSizeBinary:
		return hex.EncodeToString(c.Value(row))
	}
	return column.ValueStr(row)
}

// axesOf is every axis of the series, in the order in which they first occur.
func axesOf(series []seriesLine) []string {
	var axes []string
	for _, s := range series {
		for _, axis := range s.Axes {
			if !slices.Contains(axes, axis) {
				axes = append(axes, axis)
			}
		}
	}
	return axes
}

// runsOf is the column of the runs that the points are of, nil when they are all
// of the run that is exported.
func runsOf(rows arrow.RecordBatch) *array.String {
	for i, field := range rows.Schema().Fields() {
		if field.Name == runColumn {
			return rows.Column(i).(*array.String)
		}
	}
	return nil
}

const runColumn = "run"

// columnsOf finds a batch's columns by name; an axis that this series lacks is nil.
func columnsOf(rows arrow.RecordBatch, names []string) ([]arrow.Array, error) {
	columns := make([]arrow.Array, len(names))
	for i, field := range rows.Schema().Fields() {
		at := slices.Index(names, field.Name)
		if field.Name == runColumn {
			continue
		}
		if at < 0 {
			return nil, fmt.Errorf("the run gained the axis %s while it was exported: export it again", field.Name)
		}
		columns[at] = rows.Column(i)
	}
	return columns, nil
}

// csvSink writes one table for all series.
type csvSink struct {
	w     *csv.Writer
	run   string
	names []string // of the columns from the server
}

func newCSVSink(w *bufio.Writer, run string, series []seriesLine) (*csvSink, error) {
	s := &csvSink{w: csv.NewWriter(w), run: run, names: append(axesOf(series), "time_ns", "value", "attempt", "writer")}
	return s, s.w.Write(append([]string{"run", "metric", "scale", "labels", "kind"}, s.names...))
}

func (s *csvSink) batch(line *seriesLine, rows arrow.RecordBatch) error {
	columns, err := columnsOf(rows, s.names)
	if err != nil {
		return err
	}
	labels, err := json.Marshal(line.Labels)
	if err != nil {
		return err
	}
	record := append([]string{s.run, httpapi.SafeCSV(line.Metric), httpapi.SafeCSV(line.Scale), string(labels), line.Kind}, make([]string, len(columns))...)
	runs := runsOf(rows)
	for row := range int(rows.NumRows()) {
		if runs != nil {
			record[0] = runs.Value(row)
		}
		for i, column := range columns {
			record[len(record)-len(columns)+i] = textCell(column, row)
		}
		if err := s.w.Write(record); err != nil {
			return err
		}
	}
	return nil
}

func (s *csvSink) close() error {
	s.w.Flush()
	return s.w.Error()
}

// parquetSink writes one file for all series. Values have a column a type:
// value (float64), value_int64, value_text and value_document, where they occur.
type parquetSink struct {
	run    string
	schema *arrow.Schema
	out    *pqarrow.FileWriter
	names  []string // axes, time_ns, value, attempt, writer
}

// valueColumn is a column of values and the kinds of series that use it.
type valueColumn struct {
	name  string
	typ   arrow.DataType
	kinds []string
}

// valueColumns are by kind; histograms and scatters share one.
func valueColumns() []valueColumn {
	return []valueColumn{
		{"value", arrow.PrimitiveTypes.Float64, []string{"float64"}},
		{"value_int64", arrow.PrimitiveTypes.Int64, []string{"int64"}},
		{"value_text", arrow.BinaryTypes.String, []string{"text"}},
		{"value_document", arrow.BinaryTypes.Binary, []string{"histogram", "scatter"}},
	}
}

func newParquetSink(w *bufio.Writer, run string, series []seriesLine) (*parquetSink, error) {
	axes := axesOf(series)
	fields := parquetFields(axes, series)
	s := &parquetSink{run: run, schema: arrow.NewSchema(fields, nil), names: append(axes, "time_ns", "value", "attempt", "writer")}
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithMaxRowGroupLength(1<<20))
	var err error
	s.out, err = pqarrow.NewFileWriter(s.schema, w, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return nil, fmt.Errorf("begin Parquet file: %w", err)
	}
	return s, nil
}

func parquetFields(axes []string, series []seriesLine) []arrow.Field {
	var fields []arrow.Field
	for _, name := range []string{"run", "metric", "scale", "labels", "kind"} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.String})
	}
	for _, axis := range axes {
		fields = append(fields, arrow.Field{Name: axis, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	fields = append(fields, arrow.Field{Name: "time_ns", Type: arrow.PrimitiveTypes.Int64})
	for i, v := range valueColumns() {
		occurs := slices.ContainsFunc(series, func(s seriesLine) bool { return slices.Contains(v.kinds, s.Kind) })
		if occurs || i == 0 {
			fields = append(fields, arrow.Field{Name: v.name, Type: v.typ, Nullable: true})
		}
	}
	return append(fields,
		arrow.Field{Name: "attempt", Type: arrow.PrimitiveTypes.Uint32},
		arrow.Field{Name: "writer", Type: arrow.BinaryTypes.String})
}

func (s *parquetSink) batch(line *seriesLine, rows arrow.RecordBatch) error {
	columns, err := columnsOf(rows, s.names)
	if err != nil {
		return err
	}
	labels, err := json.Marshal(line.Labels)
	if err != nil {
		return err
	}
	fixed := map[string]string{"run": s.run, "metric": line.Metric, "scale": line.Scale, "labels": string(labels), "kind": line.Kind}
	n := int(rows.NumRows())
	out := make([]arrow.Array, s.schema.NumFields())
	defer func() {
		for _, a := range out {
			if a != nil {
				a.Release()
			}
		}
	}()
	for i, field := range s.schema.Fields() {
		if runs := runsOf(rows); field.Name == runColumn && runs != nil {
			runs.Retain()
			out[i] = runs
			continue
		}
		out[i] = s.column(field, fixed, columns, line.Kind, n)
	}
	batch := array.NewRecordBatch(s.schema, out, int64(n))
	defer batch.Release()
	return s.out.WriteBuffered(batch)
}

// column makes one column of the file: a repeated name, a column of the server's,
// or nulls.
func (s *parquetSink) column(field arrow.Field, fixed map[string]string, columns []arrow.Array, kind string, n int) arrow.Array {
	if text, ok := fixed[field.Name]; ok {
		return repeated(text, n)
	}
	switch source := s.source(field.Name, kind, columns).(type) {
	case nil:
		return array.MakeArrayOfNull(memory.DefaultAllocator, field.Type, n)
	case *array.FixedSizeBinary:
		return hexColumn(source)
	default:
		source.Retain()
		return source
	}
}

// source is the server's column behind a column of the file, nil where this
// kind of series has none.
func (s *parquetSink) source(name, kind string, columns []arrow.Array) arrow.Array {
	for _, v := range valueColumns() {
		if v.name != name {
			continue
		}
		if !slices.Contains(v.kinds, kind) {
			return nil
		}
		name = "value"
		break
	}
	return columns[slices.Index(s.names, name)]
}

func repeated(text string, n int) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for range n {
		b.Append(text)
	}
	return b.NewArray()
}

func hexColumn(source *array.FixedSizeBinary) arrow.Array {
	b := array.NewStringBuilder(memory.DefaultAllocator)
	defer b.Release()
	for i := range source.Len() {
		b.Append(hex.EncodeToString(source.Value(i)))
	}
	return b.NewArray()
}

func (s *parquetSink) close() error {
	if err := s.out.Close(); err != nil {
		return fmt.Errorf("end Parquet file: %w", err)
	}
	return nil
}
