package influxql

import (
	"bufio"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/influxdb/models"
	"github.com/influxdata/influxdb/query"
)

// answer writes results as they come: what is not chunked is one document all the same.
//
//	{"results":[ {"statement_id":0,"series":[ {"name":…,"columns":…,"values":[ […],[…] ]} ]} ]}
type answer struct {
	form   form
	w      *bufio.Writer
	flush  http.Flusher
	lines  *csv.Writer
	header string // of the CSV so far
	bytes  int64  // that a chunk may take

	statement int
	series    bool        // one was begun in this result
	open      *models.Row // the series of the line before, with the lines of its chunk
	size      int64       // of that chunk
	rows      int         // of the request
	partial   bool
	failed    bool
	messages  []*query.Message
	failure   string
	err       error // of the client's connection
}

func newAnswer(w http.ResponseWriter, f form, bytes int64) *answer {
	a := &answer{form: f, w: bufio.NewWriter(w), bytes: bytes}
	a.flush, _ = w.(http.Flusher)
	kind := "application/json"
	if f.csv {
		kind, a.lines = "text/csv", csv.NewWriter(a.w)
	}
	w.Header().Set("Content-Type", kind)
	if !f.csv && !f.chunked {
		a.text(`{"results":[`)
	}
	return a
}

func (a *answer) text(s string) {
	if a.err == nil {
		_, a.err = a.w.WriteString(s)
	}
}

func (a *answer) json(v any) {
	raw, err := json.Marshal(v)
	if err != nil {
		a.err = err
	}
	a.text(string(raw))
}

// begin begins a statement's result.
func (a *answer) begin(statement int) {
	a.statement, a.series, a.open, a.partial, a.messages, a.failure = statement, false, nil, false, nil, ""
	if a.form.csv || a.form.chunked {
		return
	}
	if statement > 0 {
		a.text(",")
	}
	a.text(fmt.Sprintf(`{"statement_id":%d`, statement))
}

func (a *answer) warn(text string) {
	a.messages = append(a.messages, &query.Message{Level: query.WarningLevel, Text: text})
}

func (a *answer) fail(text string) { a.failed, a.failure = true, text }

// cut is why rows end early.
func (a *answer) cut() error {
	if a.err != nil {
		panic(http.ErrAbortHandler)
	}
	a.warn(fmt.Sprintf("the answer was cut at %d rows; ask for chunks (chunked=true), or for less", mostRows))
	return nil
}

// line writes a row of a series. It is false where there must be no more.
func (a *answer) line(name string, tags map[string]string, columns []string, values []any) bool {
	if a.rows++; a.rows > mostRows && !a.form.chunked {
		a.partial = true
		return false
	}
	for i := range values {
		values[i] = a.value(values[i])
	}
	row := &models.Row{Name: name, Tags: tags, Columns: columns}
	same := a.open != nil && a.open.Name == name && maps.Equal(a.open.Tags, tags)
	switch {
	case a.form.csv:
		a.csvRow(row, values)
	case a.form.chunked:
		a.chunkRow(row, values, same)
	default:
		a.documentRow(row, values, same)
	}
	return a.err == nil
}

// chunkRow keeps rows until they are a chunk.
func (a *answer) chunkRow(row *models.Row, values []any, same bool) {
	if !same || len(a.open.Values) >= a.form.chunk || a.size > a.bytes {
		a.chunk(same, true)
		a.open, a.size = row, 0
	}
	a.open.Values = append(a.open.Values, values)
	a.size += sizeOf(values)
}

// chunk writes the rows that are kept. Partial says of a series that it goes on, more of a
// result.
func (a *answer) chunk(partial, more bool) {
	if a.open == nil {
		return
	}
	a.open.Partial = partial
	a.result(&query.Result{StatementID: a.statement, Series: models.Rows{a.open}, Partial: more})
	a.open = nil
}

// sizeOf is about what values take in memory.
func sizeOf(values []any) (n int64) {
	for _, v := range values {
		text, _ := v.(string)
		n += int64(24 + len(text))
	}
	return n
}

// value is one as JSON can say it: not finite numbers are null.
func (a *answer) value(v any) any {
	switch v := v.(type) {
	case time.Time:
		if a.form.epoch > 0 {
			return v.UnixNano() / a.form.epoch
		}
		if a.form.csv {
			return v.UnixNano()
		}
		return v.Format(time.RFC3339Nano)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return nil
		}
	}
	return v
}

func (a *answer) result(r *query.Result) {
	a.json(map[string]any{"results": []*query.Result{r}})
	a.text("\n")
	if a.err == nil {
		a.err = a.w.Flush()
	}
	if a.flush != nil {
		a.flush.Flush()
	}
	a.series = true
}

// documentRow goes on with the series of the row before, or begins one.
func (a *answer) documentRow(row *models.Row, values []any, same bool) {
	if same {
		a.text(",")
	} else {
		a.closeSeries()
		if a.series {
			a.text(",")
		} else {
			a.text(`,"series":[`)
		}
		a.series, a.open = true, row
		head, _ := json.Marshal(row) // texts alone never fail
		a.text(strings.TrimSuffix(string(head), "}") + `,"values":[`)
	}
	a.json(values)
}

func (a *answer) closeSeries() {
	if a.open != nil {
		a.text("]")
		if a.partial {
			a.text(`,"partial":true`)
		}
		a.text("}")
	}
	a.open = nil
}

// csvRow writes a line; a header where the columns change.
func (a *answer) csvRow(r *models.Row, values []any) {
	if header := strings.Join(r.Columns, "\x00"); header != a.header {
		if a.header != "" {
			a.csvLine(nil)
		}
		a.header = header
		a.csvLine(append([]string{"name", "tags"}, r.Columns...))
	}
	tags := make([]string, 0, len(r.Tags))
	for _, name := range slices.Sorted(maps.Keys(r.Tags)) {
		tags = append(tags, name+"="+r.Tags[name])
	}
	line := []string{r.Name, strings.Join(tags, ",")}
	for _, v := range values {
		line = append(line, csvText(v))
	}
	a.csvLine(line)
}

func csvText(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return fmt.Sprint(v)
}

func (a *answer) csvLine(line []string) {
	if a.err != nil {
		return
	}
	if line == nil {
		a.lines.Flush()
		a.text("\n")
		return
	}
	a.err = a.lines.Write(line)
}

// finish ends a statement's result.
func (a *answer) finish() {
	switch {
	case a.form.csv:
		a.lines.Flush()
		if a.failure != "" {
			a.text("error\n" + strconv.Quote(a.failure) + "\n")
		}
	case a.form.chunked:
		a.chunk(false, a.failure != "" || len(a.messages) > 0)
		if a.failure != "" || len(a.messages) > 0 || !a.series {
			r := &query.Result{StatementID: a.statement, Messages: a.messages}
			if a.failure != "" {
				r.Err = fmt.Errorf("%s", a.failure)
			}
			a.result(r)
		}
	default:
		a.finishDocument()
	}
}

func (a *answer) finishDocument() {
	a.closeSeries()
	if a.series {
		a.text("]")
	}
	if len(a.messages) > 0 {
		a.text(`,"messages":`)
		a.json(a.messages)
	}
	if a.failure != "" {
		a.text(`,"error":`)
		a.json(a.failure)
	}
	a.text("}")
}

func (a *answer) end() {
	if !a.form.csv && !a.form.chunked {
		a.text("]}\n")
	}
	if a.err == nil {
		a.err = a.w.Flush()
	}
}
