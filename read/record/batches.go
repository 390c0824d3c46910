package record

import (
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// Batches ranges over the record batches of [read.Run.Arrow] or [read.Series.Arrow], at most
// 16,384 rows each. A batch is released when the next one is asked for; Retain keeps it. All
// have one schema, unless the series gains an axis meanwhile. A series without points gives
// one batch without rows. An error is the last thing that it yields.
func Batches(parts iter.Seq2[io.Reader, error]) iter.Seq2[arrow.RecordBatch, error] {
	return func(yield func(arrow.RecordBatch, error) bool) {
		some := false
		var schema *arrow.Schema
		for part, err := range parts {
			if err != nil {
				yield(nil, err)
				return
			}
			reader, err := ipc.NewReader(part)
			if err != nil {
				yield(nil, fmt.Errorf("read points: %w", err))
				return
			}
			schema = common(reader.Schema())
			more, rows, err := each(reader, schema, yield)
			reader.Release()
			if err != nil {
				yield(nil, fmt.Errorf("read points: %w", err))
				return
			}
			if some = some || rows; !more {
				return
			}
		}
		if !some && schema != nil {
			builder := array.NewRecordBuilder(memory.DefaultAllocator, schema)
			defer builder.Release()
			empty := builder.NewRecordBatch()
			defer empty.Release()
			yield(empty, nil)
		}
	}
}

// each yields the batches of a stream; more is false when nobody wants the next one.
func each(reader *ipc.Reader, schema *arrow.Schema, yield func(arrow.RecordBatch, error) bool) (more, some bool, err error) {
	for reader.Next() {
		of := reader.RecordBatch()
		batch := array.NewRecordBatch(schema, of.Columns(), of.NumRows())
		more, some = yield(batch, nil), true
		batch.Release()
		if !more {
			return false, some, nil
		}
	}
	if err := reader.Err(); err != nil && !errors.Is(err, io.EOF) {
		return false, some, err
	}
	return true, some, nil
}

// common is a part's schema without what may differ from the next part's: the cursor, and
// whether an axis has gaps.
func common(part *arrow.Schema) *arrow.Schema {
	fields := part.Fields()
	for i := range fields {
		switch fields[i].Name {
		case "time_ns", "value", "attempt", "writer", "run":
		default:
			fields[i].Nullable = true
		}
	}
	meta := part.Metadata().ToMap()
	delete(meta, "next")
	of := arrow.MetadataFrom(meta)
	return arrow.NewSchema(fields, &of)
}
