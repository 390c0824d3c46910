package transfer

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/kymogram/kymogram/read"
)

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

func newParquetSink(w *bufio.Writer, run string, series []*read.Series) (*parquetSink, error) {
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

func parquetFields(axes []string, series []*read.Series) []arrow.Field {
	var fields []arrow.Field
	for _, name := range []string{"run", "metric", "scale", "labels", "kind"} {
		fields = append(fields, arrow.Field{Name: name, Type: arrow.BinaryTypes.String})
	}
	for _, axis := range axes {
		fields = append(fields, arrow.Field{Name: axis, Type: arrow.PrimitiveTypes.Int64, Nullable: true})
	}
	fields = append(fields, arrow.Field{Name: "time_ns", Type: arrow.PrimitiveTypes.Int64})
	for i, v := range valueColumns() {
		occurs := slices.ContainsFunc(series, func(s *read.Series) bool { return slices.Contains(v.kinds, s.Kind) })
		if occurs || i == 0 {
			fields = append(fields, arrow.Field{Name: v.name, Type: v.typ, Nullable: true})
		}
	}
	return append(fields,
		arrow.Field{Name: "attempt", Type: arrow.PrimitiveTypes.Uint32},
		arrow.Field{Name: "writer", Type: arrow.BinaryTypes.String})
}

func (s *parquetSink) batch(line *read.Series, rows arrow.RecordBatch) error {
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
