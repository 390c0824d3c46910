package table

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/duration"
)

// JSON prints a document, one line. What a server sent goes out as it came.
func JSON(w io.Writer, doc any) error {
	if raw, ok := doc.(json.RawMessage); ok {
		_, err := fmt.Fprintf(w, "%s\n", raw)
		return err
	}
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}

// When writes a time for a table, in the reader's zone and with it: filters read it as it is.
func When(ns int64) string {
	if ns == 0 {
		return "-"
	}
	return time.Unix(0, ns).Format("2006-01-02 15:04:05Z07:00")
}

// Printable keeps names from moving the cursor or colouring the terminal.
func Printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || (r >= 0x7f && r < 0xa0) {
			return '\ufffd'
		}
		return r
	}, s)
}

// Bytes writes a size in KiB or MiB.
func Bytes(n int64) string {
	if n < 1<<20 {
		return strconv.FormatFloat(float64(n)/(1<<10), 'f', 1, 64) + " KiB"
	}
	return strconv.FormatFloat(float64(n)/(1<<20), 'f', 1, 64) + " MiB"
}

// Count writes a count with commas.
func Count(n uint64) string {
	digits := strconv.FormatUint(n, 10)
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return b.String()
}

// Age is how long ago something was, in its two largest units.
func Age(ns int64) string {
	if ns == 0 {
		return "-"
	}
	d := time.Since(time.Unix(0, ns))
	if d < 0 {
		return "in the future" // a clock was wrong
	}
	return duration.Short(d)
}

// Duration writes milliseconds as a person says them.
func Duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		return duration.Text(d.Round(time.Second))
	}
	return duration.Text(d.Round(100 * time.Millisecond))
}

// Rank names a process of a distributed run after what it stands behind, "" for none.
func Rank(rank *int64) string {
	if rank == nil {
		return ""
	}
	return fmt.Sprintf(", rank %d", *rank)
}

// Compact shows a JSON value on one line, strings without quotes.
func Compact(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
