package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

func (a *API) series(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "q*", "not*", "kind*", "limit", "cursor", "preview", inheritedParam, "int64")
	id, err := runID(r)
	if err != nil {
		return err
	}
	request := query.SeriesRequest{
		Page: p.page(query.MaxSeries), Run: id, Query: p.values["q"], Not: p.values["not"], Kinds: p.kinds(), Preview: p.preview(),
		IncludeInherited: p.inherited(),
	}
	asText := p.bigText()
	if p.err != nil {
		return p.err
	}
	share, err := a.memory.share(r.Context(), request.Bytes())
	if err != nil {
		return err
	}
	defer share.end()
	request.Ends, request.Texts = true, share.texts
	page, err := a.query.Series(r.Context(), request)
	if err != nil {
		return err
	}
	j := a.newJSONWriter(w, asText)
	j.raw("{")
	j.seriesPage(page)
	j.raw("}\n")
	return a.cut(r, j.flush())
}

// seriesPage writes a page of the list of series, without braces.
func (j *jsonWriter) seriesPage(page *query.SeriesPage) {
	j.raw(`"series":[`)
	for i := range page.Series {
		if i > 0 {
			j.raw(",")
		}
		j.seriesLine(&page.Series[i], page.Inherited)
		j.spill()
	}
	j.raw(`],"next":`)
	j.cursor(page.Next)
}

// preview reads 0…64; absent is 0.
func (p *params) preview() int {
	if p.text("preview") == "0" {
		return 0
	}
	return p.size("preview", query.MaxPreview)
}

// kinds reads which series are wanted by what their values are; none is all.
func (p *params) kinds() (kinds []model.Kind) {
	names := model.KindNames()
	for _, name := range p.values["kind"] {
		i := slices.Index(names, name)
		if i < 0 {
			p.fail(model.Errorf(model.CodeInvalid, "kind is %q, it must be one of %s", name, strings.Join(names, ", ")))
		}
		kinds = append(kinds, model.KindFloat+model.Kind(i))
	}
	return kinds
}

// bigText is int64=string: every 64-bit integer as a string, for JavaScript.
func (p *params) bigText() bool { return p.oneOf("int64", "number", "string") == "string" }

func (j *jsonWriter) seriesLine(s *query.SeriesInfo, inherited bool) {
	j.raw("{")
	j.seriesKey(s.Key, s.Kind)
	j.raw(`,"axes":[`)
	for i, axis := range s.Axes {
		if i > 0 {
			j.raw(",")
		}
		j.text(string(axis))
	}
	j.raw(`],"count":`)
	j.uint(s.Count)
	j.raw(`,"superseded":`)
	j.uint(s.Superseded)
	if inherited {
		j.raw(`,"inherited":`)
		j.uint(s.Inherited)
	}
	j.raw(`,"last":`)
	if s.Last == nil {
		j.raw("null")
	} else {
		j.point(s.Last, s.Kind)
	}
	if s.Preview != nil {
		j.raw(`,"preview":{"x":`)
		j.text(string(s.Preview.X))
		j.raw(`,"columns":`)
		bucketsTable(s.Preview).writeJSON(j)
		j.raw("}")
	}
	j.raw("}")
}

// seriesKey writes what names a series, without braces.
func (j *jsonWriter) seriesKey(key model.SeriesKey, kind model.Kind) {
	j.raw(`"metric":`)
	j.text(key.Metric)
	j.raw(`,"scale":`)
	j.text(key.Scale)
	j.raw(`,"labels":`)
	j.labels(key.Labels)
	j.raw(`,"kind":`)
	j.text(kind.String())
}

// point writes {"step","time_ns","value"}; a series without steps has step null.
func (j *jsonWriter) point(p *query.Point, kind model.Kind) {
	j.raw(`{"step":`)
	if p.Step == nil {
		j.raw("null")
	} else {
		j.big(*p.Step)
	}
	j.raw(`,"time_ns":`)
	j.big(p.TimeNs)
	j.raw(`,"value":`)
	switch kind {
	case model.KindFloat:
		j.float(p.Value.Float)
	case model.KindInt:
		j.big(p.Value.Int)
	case model.KindText:
		j.text(string(p.Value.Doc))
	default:
		j.document(p.Value.Doc)
	}
	j.raw("}")
}

func (a *API) points(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "metric", "scale", labelPrefix, "axis", "from", "to", "attempt", inheritedParam, "limit", "cursor", "format", "int64", "column*")
	id, err := runID(r)
	if err != nil {
		return err
	}
	request := query.PointsRequest{
		Page:     p.page(query.MaxPoints),
		Selector: query.Selector{Run: id, Metric: p.text("metric"), Scale: p.text("scale"), Labels: p.labels()},
		Axis:     model.Axis(p.text("axis")), From: p.number("from"), To: p.number("to"), Attempts: p.attempts(), IncludeInherited: p.inherited(),
	}
	format, asText, wanted := p.oneOf("format", formatJSON, formatCSV, formatArrow, formatParquet), p.bigText(), p.columns(pointColumns())
	if p.err != nil {
		return p.err
	}
	share, err := a.memory.share(r.Context(), request.Bytes()+batchBytes(format, &request))
	if err != nil {
		return err
	}
	defer share.end()
	request.Texts = share.texts
	page, err := a.query.Points(r.Context(), request)
	if err != nil {
		return err
	}
	t := pointsTable(page).only(wanted)
	if format != formatJSON {
		return a.cut(r, t.send(w, format, page.Series.Key.Metric))
	}
	return a.cut(r, writePoints(a.newJSONWriter(w, asText), page, t))
}

func writePoints(j *jsonWriter, page *query.PointsPage, t *table) error {
	j.raw(`{"series":{"run":`)
	j.text(page.Run.String())
	j.raw(",")
	j.seriesKey(page.Series.Key, page.Series.Kind)
	j.raw(`,"axis":`)
	j.text(string(page.Axis))
	j.raw(`},"columns":`)
	t.writeJSON(j)
	j.raw(`,"next":`)
	j.cursor(page.Next)
	j.raw("}\n")
	return j.flush()
}
