package httpapi

import (
	"net/http"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// mostOverviews is how many runs one request may ask for.
const mostOverviews = 100

// overviewsQuery asks for what a page shows first of many runs.
type overviewsQuery struct {
	Runs             []string `json:"runs"`
	Limit            int      `json:"limit"`   // series of a run, 1 to 10,000
	Preview          int      `json:"preview"` // buckets of a series, 0 to 64
	IncludeInherited bool     `json:"include_inherited"`
	Query            string   `json:"q"`       // RE2 on the metrics of the series
	Summary          *bool    `json:"summary"` // of the runs; nil is true
	Detail           *bool    `json:"detail"`  // the runs themselves; nil is true
	Metrics          bool     `json:"metrics"` // names of all metrics of the runs, too
}

// wants is what a switch that is on by default says.
func wants(on *bool) bool { return on == nil || *on }

// requests are those of each run, bad what is wrong with an id.
func (q *overviewsQuery) requests() (out []query.SeriesRequest, bad []error, err error) {
	if len(q.Runs) > mostOverviews {
		return nil, nil, model.Errorf(model.CodeInvalid, "%d runs at once, the most are %d", len(q.Runs), mostOverviews)
	}
	if q.Limit < 0 || q.Limit > query.MaxSeries || q.Preview < 0 || q.Preview > query.MaxPreview {
		return nil, nil, model.Errorf(model.CodeInvalid, "limit must be 1 to %d and preview 0 to %d", query.MaxSeries, query.MaxPreview)
	}
	out, bad = make([]query.SeriesRequest, len(q.Runs)), make([]error, len(q.Runs))
	for i, text := range q.Runs {
		id, err := parseRunID(text)
		bad[i] = err
		out[i] = query.SeriesRequest{
			Page: query.Page{Limit: q.Limit}, Run: id, Query: []string{q.Query}, Preview: q.Preview, IncludeInherited: q.IncludeInherited, Ends: true,
		}
	}
	return out, bad, nil
}

// overviews answers with the documents of many runs, and the first page of the series of each. Only
// one run is in memory at a time.
func (a *API) overviews(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "int64")
	asText := p.bigText()
	if p.err != nil {
		return p.err
	}
	var body overviewsQuery
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	requests, bad, err := body.requests()
	if err != nil {
		return err
	}
	j := a.newJSONWriter(w, asText)
	j.raw(`{"overviews":[`)
	for i := range requests {
		if i > 0 {
			j.raw(",")
		}
		j.raw("{")
		err := bad[i]
		if err == nil {
			err = a.overview(j, r, requests[i], &body)
		}
		if err != nil {
			a.failed(j, r, i, err)
		}
		j.raw("}")
		if j.err != nil || r.Context().Err() != nil {
			break
		}
	}
	j.raw("]")
	if body.Metrics {
		if err := a.metrics(j, r, requests, body.IncludeInherited); err != nil {
			return a.cut(r, err)
		}
	}
	j.raw("}\n")
	return a.cut(r, j.flush())
}

// overview writes a run and its series without braces, or as much of them as there is before an
// error. The memory of the one is given back before the other is waited for.
func (a *API) overview(j *jsonWriter, r *http.Request, request query.SeriesRequest, body *overviewsQuery) error {
	if !wants(body.Detail) {
		return a.overviewSeries(j, r, request)
	}
	err := a.leased(r, query.RunBytes, func(texts query.Admit) error {
		detail, err := a.query.Run(r.Context(), request.Run, texts)
		if err == nil {
			if !wants(body.Summary) {
				detail.Summary = nil // whoever has the list of runs has it
			}
			j.raw(`"run":`)
			j.detail(detail)
			j.raw(",")
		}
		return err
	})
	if err != nil {
		return err
	}
	return a.overviewSeries(j, r, request)
}

func (a *API) overviewSeries(j *jsonWriter, r *http.Request, request query.SeriesRequest) error {
	return a.leased(r, request.Bytes(), func(texts query.Admit) error {
		request.Texts = texts
		page, err := a.query.Series(r.Context(), request)
		if err == nil {
			j.seriesPage(page)
		}
		return err
	})
}

// metrics writes the names of the metrics with numbers of all the runs.
func (a *API) metrics(j *jsonWriter, r *http.Request, of []query.SeriesRequest, inherited bool) error {
	runs := make([]model.RunID, len(of))
	for i := range of {
		runs[i] = of[i].Run
	}
	return a.leased(r, query.MetricsBytes(), func(query.Admit) error {
		list, cut, err := a.query.Metrics(r.Context(), runs, inherited)
		if err != nil {
			return err
		}
		j.raw(`,"metrics":[`)
		for i, m := range list {
			if i > 0 {
				j.raw(",")
			}
			j.raw(`{"metric":`)
			j.text(m.Name)
			j.raw(`,"scale":`)
			j.text(m.Scale)
			j.raw("}")
			j.spill()
		}
		j.raw("]")
		if cut {
			j.raw(`,"metrics_cut":true`)
		}
		return nil
	})
}

// leased does a part of an answer within the caller's share of the memory for answers.
func (a *API) leased(r *http.Request, bytes int64, do func(texts query.Admit) error) error {
	share, err := a.memory.share(r.Context(), bytes)
	if err != nil {
		return err
	}
	defer share.end()
	return do(share.texts)
}
