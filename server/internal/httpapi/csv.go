package httpapi

import (
	"encoding/base64"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
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
		return FloatText(c.floats[row])
	case colSmall:
		return strconv.FormatUint(uint64(c.small[row]), 10)
	case colText:
		return SafeCSV(c.texts[row])
	case colDoc:
		return base64.StdEncoding.EncodeToString(c.docs[row])
	}
	return c.writers[row].String()
}

// FloatText is the shortest text that reads back equal; NaN, Infinity and
// -Infinity are spelled as in JSON.
func FloatText(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	}
	return strconv.FormatFloat(f, 'g', -1, 64)
}

// SafeCSV keeps a text from becoming a formula in a spreadsheet: one that begins
// with = + - @ tab or return gets an apostrophe in front. One that begins with
// an apostrophe gets a second, so that a reader who drops one has the text back.
func SafeCSV(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r'", rune(text[0])) {
		return "'" + text
	}
	return text
}
