package transfer

import (
	"bufio"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"strconv"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
)

// jsonlSink writes one object a point: run, metric, scale, labels, then the
// columns of the points API.
type jsonlSink struct {
	w   *bufio.Writer
	run string
	buf []byte
}

func (s *jsonlSink) batch(line *read.Series, rows arrow.RecordBatch) error {
	labels, err := json.Marshal(line.Labels)
	if err != nil {
		return err
	}
	head := []byte(`{`)
	if runsOf(rows) == nil { // else it is among the columns
		head = append(model.AppendJSONText([]byte(`{"run":`), s.run), ',')
	}
	head = model.AppendJSONText(append(head, `"metric":`...), line.Metric)
	head = model.AppendJSONText(append(head, `,"scale":`...), line.Scale)
	head = append(append(head, `,"labels":`...), labels...)
	schema := rows.Schema()
	for row := range int(rows.NumRows()) {
		s.buf = append(s.buf[:0], head...)
		for i := range int(rows.NumCols()) {
			if column := rows.Column(i); !column.IsNull(row) {
				s.buf = model.AppendJSONText(append(s.buf, ','), schema.Field(i).Name)
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
		return model.AppendJSONText(dst, c.Value(row))
	case *array.Binary:
		if doc := c.Value(row); json.Valid(doc) {
			return append(dst, doc...)
		}
		return model.AppendJSONText(dst, base64.StdEncoding.EncodeToString(c.Value(row)))
	case *array.FixedSizeBinary:
		return model.AppendJSONText(dst, hex.EncodeToString(c.Value(row)))
	}
	return append(dst, "null"...)
}
