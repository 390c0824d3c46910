package httpapi

import (
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
)

// writeCSV writes a header and the rows; a gap is an empty field.
func (t *table) writeCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	record := make([]string, len(t.columns))
	for i := range t.columns {
		record[i] = t.columns[i].name
	}
	if err := out.Write(record); err != nil {
		return fmt.Errorf("write CSV: %w", err)
	}
	for row := range t.rows {
		for i := range t.columns {
			record[i] = t.columns[i].field(row)
		}
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
