package httpapi

import (
	"cmp"
	"fmt"
	"io"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/kymogram/kymogram/server/internal/query"
)

// batchRows is how many rows one Arrow record batch and one Parquet row group
// hold, so that the copy which Arrow needs stays small beside the table.
const batchRows = 16 << 10

// batchBytes is what that copy takes, with the message around it.
func batchBytes(format string, r *query.PointsRequest) int64 {
	if format != formatArrow && format != formatParquet {
		return 0
	}
	return query.RowBytes(min(cmp.Or(r.Limit, query.DefaultPoints), batchRows)) * 5 / 4
}

func (c *column) arrowType() arrow.DataType {
	switch c.kind {
	case colInt:
		return arrow.PrimitiveTypes.Int64
	case colUint:
		return arrow.PrimitiveTypes.Uint64
	case colFloat:
		return arrow.PrimitiveTypes.Float64
	case colSmall:
		return arrow.PrimitiveTypes.Uint32
	case colText:
		return arrow.BinaryTypes.String
	case colDoc:
		return arrow.BinaryTypes.Binary
	}
	return &arrow.FixedSizeBinaryType{ByteWidth: 16} // a writer
}

func (t *table) arrowSchema() *arrow.Schema {
	fields := make([]arrow.Field, len(t.columns))
	for i := range t.columns {
		c := &t.columns[i]
		fields[i] = arrow.Field{Name: c.name, Type: c.arrowType(), Nullable: c.has != nil}
	}
	var keys, values []string
	for _, kv := range t.meta {
		keys, values = append(keys, kv[0]), append(values, kv[1])
	}
	meta := arrow.NewMetadata(keys, values)
	return arrow.NewSchema(fields, &meta)
}

// appendTo copies the rows from…to into a builder of arrowType.
func (c *column) appendTo(b array.Builder, from, to int) {
	var has []bool
	if c.has != nil {
		has = c.has[from:to]
	}
	switch b := b.(type) {
	case *array.Int64Builder:
		b.AppendValues(c.ints[from:to], has)
	case *array.Uint64Builder:
		b.AppendValues(c.uints[from:to], has)
	case *array.Float64Builder:
		b.AppendValues(c.floats[from:to], has)
	case *array.Uint32Builder:
		b.AppendValues(c.small[from:to], has)
	case *array.StringBuilder:
		b.AppendValues(c.texts[from:to], has)
	case *array.BinaryBuilder:
		b.AppendValues(c.docs[from:to], has)
	case *array.FixedSizeBinaryBuilder:
		for i := from; i < to; i++ {
			b.Append(c.writers[i][:])
		}
	}
}

// batches yields the rows as Arrow record batches; each is released after use.
func (t *table) batches(schema *arrow.Schema, use func(arrow.RecordBatch) error) error {
	builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer builder.Release()
	for from := 0; from < t.rows; from += batchRows {
		to := min(from+batchRows, t.rows)
		for i := range t.columns {
			t.columns[i].appendTo(builder.Field(i), from, to)
		}
		batch := builder.NewRecordBatch()
		err := use(batch)
		batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

// writeArrow writes an Arrow IPC stream; the schema's metadata names the series.
func (t *table) writeArrow(w io.Writer) error {
	schema := t.arrowSchema()
	out := ipc.NewWriter(w, ipc.WithSchema(schema))
	if err := t.batches(schema, out.Write); err != nil {
		return fmt.Errorf("write Arrow stream: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("end Arrow stream: %w", err)
	}
	return nil
}

// writeParquet writes a Parquet file with the Arrow schema inside, so that
// unsigned types and metadata come back.
func (t *table) writeParquet(w io.Writer) error {
	schema := t.arrowSchema()
	props := parquet.NewWriterProperties(parquet.WithCompression(compress.Codecs.Zstd), parquet.WithDictionaryDefault(false),
		parquet.WithDictionaryFor("writer", true), parquet.WithDictionaryFor("attempt", true))
	out, err := pqarrow.NewFileWriter(schema, w, props, pqarrow.NewArrowWriterProperties(pqarrow.WithStoreSchema()))
	if err != nil {
		return fmt.Errorf("begin Parquet file: %w", err)
	}
	if err := t.batches(schema, out.Write); err != nil {
		return fmt.Errorf("write Parquet file: %w", err)
	}
	if err := out.Close(); err != nil {
		return fmt.Errorf("end Parquet file: %w", err)
	}
	return nil
}
