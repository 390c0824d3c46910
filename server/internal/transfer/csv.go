package transfer

import (
	"bufio"
	"encoding/base64"
	"encoding/csv"
	"encoding/hex"
	"encoding/json"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
)

// csvSink writes one table for all series.
type csvSink struct {
	w     *csv.Writer
	run   string
	names []string // of the columns from the server
}

func newCSVSink(w *bufio.Writer, run string, series []*read.Series) (*csvSink, error) {
	s := &csvSink{w: csv.NewWriter(w), run: run, names: append(axesOf(series), "time_ns", "value", "attempt", "writer")}
	return s, s.w.Write(append([]string{"run", "metric", "scale", "labels", "kind"}, s.names...))
}

func (s *csvSink) batch(line *read.Series, rows arrow.RecordBatch) error {
	columns, err := columnsOf(rows, s.names)
	if err != nil {
		return err
	}
	labels, err := json.Marshal(line.Labels)
	if err != nil {
		return err
	}
	record := append([]string{s.run, model.SafeCSV(line.Metric), model.SafeCSV(line.Scale), string(labels), line.Kind}, make([]string, len(columns))...)
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

// textCell is a cell for CSV; a gap is empty.
func textCell(column arrow.Array, row int) string {
	if column == nil || column.IsNull(row) {
		return ""
	}
	switch c := column.(type) {
	case *array.Float64:
		return model.FloatText(c.Value(row))
	case *array.String:
		return model.SafeCSV(c.Value(row))
	case *array.Binary:
		return base64.StdEncoding.EncodeToString(c.Value(row))
	case *array.FixedSizeBinary:
		return hex.EncodeToString(c.Value(row))
	}
	return column.ValueStr(row)
}
