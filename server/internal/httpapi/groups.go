package httpapi

import (
	"math"
	"net/http"

	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
)

type groupsDoc struct {
	Runs   int        `json:"runs"`
	Groups int        `json:"groups"`
	Shown  []groupDoc `json:"shown"`
}

type groupDoc struct {
	Values  []any           `json:"values"` // null: the runs have none
	Types   []any           `json:"types"`  // of the values: 1 and "1" are two groups, and so are NaN and "NaN"
	Member  string          `json:"member,omitempty"`
	Runs    int             `json:"runs"`
	Columns []statisticsDoc `json:"columns"`
}

type statisticsDoc struct {
	N         int          `json:"n"`
	NotFinite int          `json:"not_finite,omitempty"`
	Mean      *float64     `json:"mean"`
	Std       *float64     `json:"std"`
	Min       *float64     `json:"min"`
	Max       *float64     `json:"max"`
	MinRun    *relativeDoc `json:"min_run"`
	MaxRun    *relativeDoc `json:"max_run"`
}

// newRefDoc is null where no run has a value.
func newRefDoc(r catalog.Ref) *relativeDoc {
	if r.ID.IsZero() {
		return nil
	}
	return &relativeDoc{r.ID, r.Name, r.DisplayName}
}

func newGroupDoc(g *query.Group) groupDoc {
	doc := groupDoc{Values: make([]any, len(g.Values)), Types: make([]any, len(g.Values)), Member: g.Member, Runs: g.Runs, Columns: make([]statisticsDoc, len(g.Columns))}
	for i, v := range g.Values {
		if v.Type != "" {
			doc.Values[i], doc.Types[i] = plain(v), v.Type
		}
	}
	for i := range g.Columns {
		c := &g.Columns[i]
		finite := func(v float64) *float64 {
			if c.N == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
				return nil
			}
			return &v
		}
		doc.Columns[i] = statisticsDoc{
			c.N, c.NotFinite, finite(c.Mean), finite(c.Std()), finite(c.Min), finite(c.Max), newRefDoc(c.MinRun), newRefDoc(c.MaxRun),
		}
	}
	return doc
}

func (a *API) groups(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, append([]string{"by*", "sort", "limit"}, runsParams...)...)
	request := query.GroupsRequest{RunsRequest: p.runs(r), By: p.values["by"], Order: p.text("sort")}
	request.Limit = p.size("limit", query.MaxGroups)
	if p.err != nil {
		return p.err
	}
	return a.leased(r, request.Bytes(), func(query.Admit) error {
		out, err := a.query.Groups(r.Context(), request)
		if err != nil {
			return err
		}
		doc := groupsDoc{out.Runs, out.Groups, make([]groupDoc, len(out.Shown))}
		for i := range out.Shown {
			doc.Shown[i] = newGroupDoc(&out.Shown[i])
		}
		return writeJSON(w, doc)
	})
}
