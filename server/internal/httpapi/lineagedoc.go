package httpapi

import (
	"math"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

type lineageDoc struct {
	Ancestors []ancestorDoc `json:"ancestors"`
	Broken    *brokenDoc    `json:"broken"`
	Forks     []forkDoc     `json:"forks"`
}

type relativeDoc struct {
	ID          model.RunID `json:"id"`
	Name        string      `json:"name"`
	DisplayName string      `json:"display_name"`
}

type ancestorDoc struct {
	relativeDoc
	UpTo *int64 `json:"up_to"` // nil: everything
}

type brokenDoc struct {
	Name string     `json:"name"`
	Code model.Code `json:"code"`
}

type forkDoc struct {
	relativeDoc
	ForkStep *int64 `json:"fork_step"`
}

func newLineageDoc(l *query.Lineage) lineageDoc {
	doc := lineageDoc{Ancestors: []ancestorDoc{}, Forks: []forkDoc{}}
	for _, a := range l.Ancestors {
		one := ancestorDoc{relativeDoc: relativeDoc{a.ID, a.Name, a.DisplayName}}
		if a.UpTo < math.MaxInt64 {
			one.UpTo = &a.UpTo
		}
		doc.Ancestors = append(doc.Ancestors, one)
	}
	if l.Broken != nil {
		doc.Broken = &brokenDoc{l.Broken.Name, l.Broken.Code}
	}
	for _, f := range l.Forks {
		doc.Forks = append(doc.Forks, forkDoc{relativeDoc{f.ID, f.Name, f.DisplayName}, f.ForkStep})
	}
	return doc
}
