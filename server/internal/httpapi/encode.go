package httpapi

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
)

// spillBytes is how much JSON gathers before it goes to the client: large enough
// that a write costs nothing, small enough that an answer of 1,000,000 rows is
// never in memory as text.
const spillBytes = 64 << 10

// jsonWriter builds JSON by appending, without reflection, and streams it.
type jsonWriter struct {
	w       io.Writer
	buf     []byte
	buffers *sync.Pool // takes buf at the end; nil: none does
	bigText bool       // int64=string
	err     error
}

func (a *API) newJSONWriter(w http.ResponseWriter, bigText bool) *jsonWriter {
	w.Header().Set("Content-Type", "application/json")
	buf, _ := a.buffers.Get().(*[]byte)
	if buf == nil {
		buf = new(make([]byte, 0, spillBytes+4096))
	}
	return &jsonWriter{w: w, buf: *buf, buffers: &a.buffers, bigText: bigText}
}

func (j *jsonWriter) spill() {
	if len(j.buf) >= spillBytes {
		_ = j.send() // flush tells
	}
}

// flush ends the writer with the first error of all writes.
func (j *jsonWriter) flush() error {
	err := j.send()
	if buf := j.buf; j.buffers != nil && cap(buf) <= 2*spillBytes { // a long document makes it longer
		j.buffers.Put(&buf)
	}
	j.buf = nil
	return err
}

func (j *jsonWriter) send() error {
	if j.err == nil && len(j.buf) > 0 {
		_, j.err = j.w.Write(j.buf)
	}
	j.buf = j.buf[:0]
	return j.err
}

// value writes a document as [writeJSON] does.
func (j *jsonWriter) value(doc any) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(doc); err != nil {
		j.err = cmp.Or(j.err, err)
		return
	}
	j.buf = append(j.buf, bytes.TrimSuffix(b.Bytes(), []byte("\n"))...)
}

// open writes an object without its end: more of it follows.
func (j *jsonWriter) open(doc any) {
	j.value(doc)
	j.buf = bytes.TrimSuffix(j.buf, []byte("}"))
}

func (j *jsonWriter) raw(s string) { j.buf = append(j.buf, s...) }

func (j *jsonWriter) text(s string) { j.buf = model.AppendJSONText(j.buf, s) }

func (j *jsonWriter) big(n int64) {
	if !j.bigText {
		j.buf = strconv.AppendInt(j.buf, n, 10)
		return
	}
	j.buf = append(j.buf, '"')
	j.buf = append(strconv.AppendInt(j.buf, n, 10), '"')
}

func (j *jsonWriter) uint(n uint64) { j.buf = strconv.AppendUint(j.buf, n, 10) }

func (j *jsonWriter) float(f float64) { j.buf = model.AppendJSONFloat(j.buf, f) }

// document writes a histogram or scatter: as it is when it is JSON, else base64.
func (j *jsonWriter) document(doc []byte) {
	if json.Valid(doc) {
		j.buf = append(j.buf, doc...)
		return
	}
	encoded, _ := json.Marshal(doc)
	j.buf = append(j.buf, encoded...)
}

// labels writes a label set as an object in the order of its names.
func (j *jsonWriter) labels(labels []model.Label) {
	j.raw("{")
	for i, l := range labels {
		if i > 0 {
			j.raw(",")
		}
		j.text(l.Name)
		j.raw(":")
		j.text(l.Value)
	}
	j.raw("}")
}

// cursor writes the next page's cursor, null at the end.
func (j *jsonWriter) cursor(next string) {
	if next == "" {
		j.raw("null")
		return
	}
	j.text(next)
}

// writeJSON answers with a small document.
func writeJSON(w http.ResponseWriter, doc any) error {
	w.Header().Set("Content-Type", "application/json")
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	return enc.Encode(doc)
}
