package httpapi

import (
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"iter"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
)

// writeCSV writes a header and the rows; a gap is an empty field.
func (t *table) writeCSV(w io.Writer) error {
	return writeRecords(csv.NewWriter(w), func(yield func([]string) bool) {
		record := make([]string, len(t.columns))
		for i := range t.columns {
			record[i] = t.columns[i].name
		}
		more := yield(record)
		for row := 0; more && row < t.rows; row++ {
			for i := range t.columns {
				record[i] = t.columns[i].field(row)
			}
			more = yield(record)
		}
	})
}

// writeRecords writes a part of a file.
func writeRecords(out *csv.Writer, records iter.Seq[[]string]) error {
	for record := range records {
		if err := out.Write(record); err != nil {
			return fmt.Errorf("write CSV: %w", err)
		}
	}
	out.Flush()
	if err := out.Error(); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	return nil
}

func (c *column) field(row int) string {
	if c.gap(row) {
		return ""
	}
	switch c.kind {
	case colInt:
		return strconv.FormatInt(c.ints[row], 10)
	case colUint:
		return strconv.FormatUint(c.uints[row], 10)
	case colFloat:
		return model.FloatText(c.floats[row])
	case colSmall:
		return strconv.FormatUint(uint64(c.small[row]), 10)
	case colText:
		return model.SafeCSV(c.texts[row])
	case colDoc:
		return base64.StdEncoding.EncodeToString(c.docs[row])
	}
	return c.writers[row].String()
}
