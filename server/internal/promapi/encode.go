package promapi

import (
	"bufio"
	"encoding/json"
	"io"
	"math"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
)

// writer writes Prometheus' JSON piece by piece: an answer is never whole in memory.
// An error of the client's connection is kept by the buffer; the rest goes nowhere.
type writer struct{ *bufio.Writer }

func newWriter(w io.Writer) writer { return writer{bufio.NewWriterSize(w, 16<<10)} }

func (w writer) raw(s string) { _, _ = w.WriteString(s) }

// text writes a JSON string.
func (w writer) text(s string) {
	b, _ := json.Marshal(strings.ToValidUTF8(s, "\ufffd"))
	_, _ = w.Write(b)
}

func (w writer) time(ms int64) {
	b := w.AvailableBuffer()
	if ms < 0 {
		b = append(b, '-')
	}
	b = strconv.AppendUint(b, magnitude(ms/1000), 10)
	if part := magnitude(ms % 1000); part != 0 {
		b = append(b, '.', byte('0'+part/100), byte('0'+part/10%10), byte('0'+part%10))
	}
	_, _ = w.Write(b)
}

func magnitude(v int64) uint64 {
	if v < 0 {
		return uint64(-v)
	}
	return uint64(v)
}

func (w writer) value(v float64) {
	form := byte('f')
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		form = 'e'
	}
	b := append(w.AvailableBuffer(), '"')
	_, _ = w.Write(append(strconv.AppendFloat(b, v, form, -1, 64), '"'))
}

func (w writer) labels(of labels.Labels) {
	w.raw("{")
	first := true
	of.Range(func(l labels.Label) {
		if !first {
			w.raw(",")
		}
		first = false
		w.text(l.Name)
		w.raw(":")
		w.text(l.Value)
	})
	w.raw("}")
}

func (w writer) point(t int64, v float64) {
	w.raw("[")
	w.time(t)
	w.raw(",")
	w.value(v)
	w.raw("]")
}

// result writes what the engine made.
func (w writer) result(value parser.Value) {
	w.raw(`{"resultType":`)
	w.text(string(value.Type()))
	w.raw(`,"result":`)
	switch v := value.(type) {
	case promql.Scalar:
		w.point(v.T, v.V)
	case promql.String:
		w.raw("[")
		w.time(v.T)
		w.raw(",")
		w.text(v.V)
		w.raw("]")
	case promql.Vector:
		list(w, len(v), func(i int) {
			w.raw(`{"metric":`)
			w.labels(v[i].Metric)
			w.raw(`,"value":`)
			w.point(v[i].T, v[i].F)
			w.raw("}")
		})
	case promql.Matrix:
		list(w, len(v), func(i int) {
			w.raw(`{"metric":`)
			w.labels(v[i].Metric)
			w.raw(`,"values":`)
			list(w, len(v[i].Floats), func(k int) { w.point(v[i].Floats[k].T, v[i].Floats[k].F) })
			w.raw("}")
		})
	}
	w.raw("}")
}

func list(w writer, n int, item func(i int)) {
	w.raw("[")
	for i := range n {
		if i > 0 {
			w.raw(",")
		}
		item(i)
	}
	w.raw("]")
}

func (w writer) texts(all []string) { list(w, len(all), func(i int) { w.text(all[i]) }) }

// notes writes warnings or infos, if there are any.
func (w writer) notes(name string, all []string) {
	if len(all) > 0 {
		w.raw(`,"` + name + `":`)
		w.texts(all)
	}
}
