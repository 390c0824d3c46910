package httpapi

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// kymographType is a line of JSON, then a byte for each cell.
const kymographType = "application/vnd.kymogram.kymograph"

type kymographQuery struct {
	kymographRow
	Rows    []kymographRow `json:"rows"`
	X       model.Axis     `json:"x"`
	From    *int64         `json:"from"`
	To      *int64         `json:"to"`
	Columns int            `json:"columns"`
	Reduce  string         `json:"reduce"`
	Limits  []*float64     `json:"limits"`
	Cells   *bool          `json:"cells"`
	Fit     bool           `json:"fit"`

	IncludeInherited bool `json:"include_inherited"`
}

// kymographRow is a series; what a row leaves out is that of the query.
type kymographRow struct {
	Run    string            `json:"run"`
	Metric string            `json:"metric"`
	Scale  string            `json:"scale"`
	Labels map[string]string `json:"labels"`
}

func (q *kymographQuery) request() (query.KymographRequest, error) {
	r := query.KymographRequest{
		X: q.X, From: q.From, To: q.To, Columns: cmp.Or(q.Columns, query.DefaultBucket),
		Reduce: query.Reduction(cmp.Or(q.Reduce, string(query.ReduceMean))), IncludeInherited: q.IncludeInherited,
		NoCells: !wants(q.Cells), Fit: q.Fit,
	}
	if q.Limits != nil {
		if len(q.Limits) != 2 {
			return r, model.Errorf(model.CodeInvalid, "limits has %d numbers, it must have 2", len(q.Limits))
		}
		r.Lo, r.Hi = q.Limits[0], q.Limits[1]
	}
	if q.Labels != nil {
		return r, model.Errorf(model.CodeInvalid, "labels are those of a row").WithHint(`give them in "rows"`)
	}
	for i, row := range q.Rows {
		id, err := model.ParseRunID(cmp.Or(row.Run, q.Run))
		if err != nil {
			return r, model.Errorf(model.CodeInvalid, "rows[%d]: %q is not the id of a run: %v", i, model.Clip(cmp.Or(row.Run, q.Run)), err)
		}
		metric := cmp.Or(row.Metric, q.Metric)
		if metric == "" {
			return r, model.Errorf(model.CodeInvalid, "rows[%d] has no metric", i)
		}
		key := model.NewSeriesKey(metric, cmp.Or(row.Scale, q.Scale), row.Labels)
		r.Rows = append(r.Rows, query.KymographRow{Run: id, Key: key})
	}
	return r, nil
}

func (a *API) kymograph(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "int64")
	asText := p.bigText()
	if p.err != nil {
		return p.err
	}
	var body kymographQuery
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	request, err := body.request()
	if err != nil {
		return err
	}
	release, err := a.memory.reserve(r.Context(), request.Bytes())
	if err != nil {
		return err
	}
	defer release()
	k, err := a.query.Kymograph(r.Context(), request)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", kymographType)
	return a.cut(r, sendKymograph(w, r, k, asText))
}

// sendKymograph packs the whole answer with a compressor that keeps state: the one of other
// answers makes noise larger.
func sendKymograph(w http.ResponseWriter, r *http.Request, k *query.Kymograph, asText bool) error {
	w.Header().Add("Vary", "Accept-Encoding")
	if !strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		return writeKymograph(w, k, asText)
	}
	var packed bytes.Buffer
	pack, err := gzip.NewWriterLevel(&packed, gzip.BestSpeed)
	if err != nil {
		return fmt.Errorf("pack a picture: %w", err)
	}
	if err := errors.Join(writeKymograph(pack, k, asText), pack.Close()); err != nil {
		return err
	}
	w.Header().Set("Content-Encoding", "gzip")
	_, err = packed.WriteTo(w)
	return err
}

func writeKymograph(to io.Writer, k *query.Kymograph, asText bool) error {
	j := &jsonWriter{w: to, buf: make([]byte, 0, spillBytes), bigText: asText}
	j.kymograph(k)
	if err := j.flush(); err != nil {
		return err
	}
	_, err := to.Write(k.Cells)
	return err
}

// kymograph writes the line in front of the cells.
func (j *jsonWriter) kymograph(k *query.Kymograph) {
	j.raw(`{"x":`)
	j.text(string(k.X))
	j.raw(`,"from":`)
	j.big(k.From)
	j.raw(`,"to":`)
	j.big(k.To)
	j.raw(`,"columns":`)
	j.uint(uint64(k.Columns))
	j.raw(`,"limits":`)
	if math.IsNaN(k.Lo) {
		j.raw("null")
	} else {
		j.raw("[")
		j.float(k.Lo)
		j.raw(",")
		j.float(k.Hi)
		j.raw("]")
	}
	j.raw(`,"rows":`)
	rowsTable(k.Rows).writeJSON(j)
	j.raw(`,"profile":`)
	digits := profileDigits
	if k.Cells == nil {
		digits = curveDigits
	}
	profileTable(k.Profile, digits).writeJSON(j)
	j.raw("}\n")
}

// Digits are enough for a picture: exact values are those of buckets.
const (
	rowDigits     = 6
	profileDigits = 4
	curveDigits   = 7 // of a profile that comes alone, to be drawn as a chart
)

// rowsTable has a gap as last value of a row that there is not.
func rowsTable(rows []query.RowSummary) *table {
	known, finite := make([]bool, len(rows)), make([]bool, len(rows))
	floats, counts := columnsOf[float64](4, len(rows)), columnsOf[uint64](4, len(rows))
	numbers := make([]uint32, len(rows))
	for i, r := range rows {
		known[i], finite[i] = !r.Absent, r.Count > 0
		floats[0][i], floats[1][i], floats[2][i], floats[3][i] = r.Last, r.Min, r.Max, r.Mean
		counts[0][i], counts[1][i], counts[2][i], counts[3][i] = r.Count, r.NaN, r.PosInf, r.NegInf
		numbers[i] = r.Number
	}
	t := &table{rows: len(rows), columns: []column{
		{name: "number", kind: colSmall, small: numbers, has: known},
		{name: "last", kind: colFloat, floats: floats[0], has: known},
	}}
	t.summary(floats[1:], counts, finite)
	return t.rounded(rowDigits)
}

// summary adds the columns of finite values and of counts.
func (t *table) summary(floats [][]float64, counts [][]uint64, finite []bool) {
	for i, name := range []string{"min", "max", "mean"} {
		t.columns = append(t.columns, column{name: name, kind: colFloat, floats: floats[i], has: finite})
	}
	for i, name := range []string{"count", "nan", "pos_inf", "neg_inf"} {
		t.columns = append(t.columns, column{name: name, kind: colUint, uints: counts[i]})
	}
}

func profileTable(profile []query.ColumnSummary, digits int) *table {
	finite := make([]bool, len(profile))
	floats, counts := columnsOf[float64](3, len(profile)), columnsOf[uint64](4, len(profile))
	rows := make([]uint32, len(profile))
	for i, c := range profile {
		finite[i], rows[i] = c.Count > 0, uint32(c.Rows)
		floats[0][i], floats[1][i], floats[2][i] = c.Min, c.Max, c.Mean
		counts[0][i], counts[1][i], counts[2][i], counts[3][i] = c.Count, c.NaN, c.PosInf, c.NegInf
	}
	t := &table{rows: len(profile)}
	t.summary(floats, counts, finite)
	t.columns = append(t.columns, column{name: "rows", kind: colSmall, small: rows})
	return t.rounded(digits)
}

func (t *table) rounded(digits int) *table {
	for i := range t.columns {
		t.columns[i].round(digits)
	}
	return t
}

func columnsOf[T any](columns, rows int) [][]T {
	out := make([][]T, columns)
	for i := range out {
		out[i] = make([]T, rows)
	}
	return out
}
