package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// maxBody bounds the JSON bodies that this package reads; 500 queries with 64
// labels each fit.
const maxBody = 4 << 20

func (a *API) buckets(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "metric", "scale", labelPrefix, "x", "n", "from", "to", "attempt", inheritedParam, "format", "int64")
	id, err := runID(r)
	if err != nil {
		return err
	}
	request := query.BucketsRequest{
		Selector: query.Selector{Run: id, Metric: p.text("metric"), Scale: p.text("scale"), Labels: p.labels()},
		X:        model.Axis(p.text("x")), N: p.size("n", query.MaxBuckets),
		From: p.number("from"), To: p.number("to"), Attempts: p.attempts(), IncludeInherited: p.inherited(),
	}
	format, asText := p.oneOf("format", formatJSON, formatCSV, formatArrow, formatParquet), p.bigText()
	if p.err != nil {
		return p.err
	}
	release, err := a.memory.reserve(r.Context(), query.BucketsBytes(request))
	if err != nil {
		return err
	}
	defer release()
	result, err := a.query.Buckets(r.Context(), request)
	if err != nil {
		return err
	}
	if format != formatJSON {
		return a.cut(r, bucketsTable(result).send(w, format, result.Series.Key.Metric))
	}
	j := a.newJSONWriter(w, asText)
	j.buckets(result, bucketsView{})
	j.raw("\n")
	return a.cut(r, j.flush())
}

func (j *jsonWriter) buckets(r *query.BucketsResult, view bucketsView) {
	j.raw(`{"series":{"run":`)
	j.text(r.Run.String())
	j.raw(",")
	j.seriesKey(r.Series.Key, r.Series.Kind)
	j.raw(`},"x":`)
	j.text(string(r.X))
	j.raw(`,"range":`)
	if n := len(r.Buckets); n == 0 {
		j.raw("null")
	} else {
		j.raw("[")
		j.big(r.Buckets[0].Lo)
		j.raw(",")
		j.big(r.Buckets[n-1].Hi)
		j.raw("]")
	}
	j.raw(`,"columns":`)
	view.of(bucketsTable(r)).writeJSON(j)
	j.raw("}")
}

type bucketsQueries struct {
	Queries []bucketsQuery `json:"queries"`
	bucketsView
}

type bucketsQuery struct {
	Run     string            `json:"run"`
	Metric  string            `json:"metric"`
	Scale   string            `json:"scale"`
	Labels  map[string]string `json:"labels"`
	X       model.Axis        `json:"x"`
	From    *int64            `json:"from"`
	To      *int64            `json:"to"`
	N       int               `json:"n"`
	Attempt attemptText       `json:"attempt"`

	IncludeInherited bool `json:"include_inherited"`
}

// attemptText takes 2, "2" and "all".
type attemptText string

func (t *attemptText) UnmarshalJSON(data []byte) error {
	var text string
	if len(data) > 0 && data[0] == '"' {
		if err := json.Unmarshal(data, &text); err != nil {
			return fmt.Errorf("attempt: %w", err)
		}
		*t = attemptText(text)
		return nil
	}
	if string(data) != "null" {
		*t = attemptText(data)
	}
	return nil
}

func (q *bucketsQuery) request() (query.BucketsRequest, error) {
	id, err := model.ParseRunID(q.Run)
	if err != nil {
		return query.BucketsRequest{}, model.Errorf(model.CodeInvalid, "%q is not the id of a run: %v", q.Run, err)
	}
	attempts, err := query.ParseAttempts(string(q.Attempt))
	return query.BucketsRequest{
		Selector: query.Selector{Run: id, Metric: q.Metric, Scale: q.Scale, Labels: q.Labels},
		X:        q.X, From: q.From, To: q.To, N: q.N, Attempts: attempts, IncludeInherited: q.IncludeInherited,
	}, err
}

func (a *API) bucketsMany(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "int64")
	asText := p.bigText()
	if p.err != nil {
		return p.err
	}
	var body bucketsQueries
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	requests := make([]query.BucketsRequest, len(body.Queries))
	for i := range body.Queries {
		var err error
		if requests[i], err = body.Queries[i].request(); err != nil {
			return numbered("queries", i, err)
		}
	}
	release, err := a.memory.reserve(r.Context(), query.BucketsBytes(requests...))
	if err != nil {
		return err
	}
	defer release()
	results, err := a.query.BucketsMany(r.Context(), requests)
	if err != nil {
		return err
	}
	return a.cut(r, a.writeMany(a.newJSONWriter(w, asText), r, results, body.bucketsView))
}

// numbered says which of a list in the body an error is of.
func numbered(list string, i int, err error) error {
	var e *model.Error
	if !errors.As(err, &e) {
		return err
	}
	out := *e
	out.Message = fmt.Sprintf("%s[%d]: %s", list, i, e.Message)
	return &out
}

func (a *API) writeMany(j *jsonWriter, r *http.Request, results []query.BucketsOutcome, view bucketsView) error {
	j.raw(`{"results":[`)
	for i, outcome := range results {
		if i > 0 {
			j.raw(",")
		}
		if outcome.Err == nil {
			j.buckets(outcome.Result, view)
			continue
		}
		j.raw("{")
		a.failed(j, r, i, outcome.Err)
		j.raw("}")
	}
	j.raw("]}\n")
	return j.flush()
}

// failed writes the error of one query of many, without braces.
func (a *API) failed(j *jsonWriter, r *http.Request, query int, err error) {
	if model.CodeOf(err) == model.CodeInternal && r.Context().Err() == nil {
		a.log.ErrorContext(r.Context(), "a query of many failed", "path", r.URL.Path, "query", query, "err", err)
	}
	j.raw(`"error":`)
	j.value(shown(err))
}

// lists are those of the documents that this package reads: queries, and updates of an
// open. An element takes a structure of some hundred bytes, even an empty one.
var lists = weight.Lists{Depth: 2, Each: 1 << 10}

// readBody reads one JSON document strictly. One that would take much more memory than it
// has bytes is refused before anything is made of it.
func readBody(w http.ResponseWriter, r *http.Request, doc any) error {
	var body bytes.Buffer
	body.Grow(int(min(max(r.ContentLength, 0), maxBody)) + bytes.MinRead)
	if _, err := body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody)); err != nil {
		return unreadable(err)
	}
	if body.Len()+lists.Of(body.Bytes()) > weight.Times*maxBody {
		return model.Errorf(model.CodeTooLarge, "the body of %d bytes would take more than %d MiB of memory", body.Len(), weight.Times*maxBody>>20).
			WithHint("send fewer queries, updates or tags at once")
	}
	dec := json.NewDecoder(&body)
	dec.DisallowUnknownFields()
	err := dec.Decode(doc)
	if err == nil {
		if _, err = dec.Token(); errors.Is(err, io.EOF) {
			return nil
		}
		err = errors.New("more follows after the document")
	}
	return unreadable(err)
}

// unreadable names a body that cannot be read for the client.
func unreadable(err error) error {
	var tooLarge *http.MaxBytesError
	if errors.As(err, &tooLarge) {
		return model.Errorf(model.CodeTooLarge, "the body is larger than %d bytes", tooLarge.Limit)
	}
	if known := model.Shown(err); known != nil {
		return known
	}
	return model.Errorf(model.CodeInvalid, "the body is not the JSON expected: %v", err).WithHint("api/openapi.yaml shows its shape")
}
