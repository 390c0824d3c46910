package read

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
)

// AttemptInfo is the time of a run from one start to the next. Where steps overlap, the
// attempt of higher precedence counts.
type AttemptInfo struct {
	Number         int64  `json:"number"` // in the order of arrival, from 1
	Precedence     int64  `json:"precedence"`
	OpenedNs       int64  `json:"opened_ns"`
	ResumeFromStep *int64 `json:"resume_from_step"`
	// Writers are its processes.
	Writers []Writer `json:"-"`
}

// Writer is a process that logged.
type Writer struct {
	ID       string `json:"id"` // 32 hexadecimal characters
	Attempt  int64  `json:"attempt"`
	State    string `json:"state"`  // open, finished, failed, interrupted, gone
	Signal   string `json:"signal"` // that interrupted it
	Host     string `json:"host"`
	PID      int64  `json:"pid"`
	Rank     *int64 `json:"rank"`
	SDK      string `json:"sdk"`
	OpenedNs int64  `json:"opened_ns"`
	SeenNs   int64  `json:"seen_ns"`
}

// Attempts reads the run's attempts with their processes.
func (r *Run) Attempts(ctx context.Context) ([]AttemptInfo, error) {
	var doc struct {
		Attempts []AttemptInfo `json:"attempts"`
		Writers  []Writer      `json:"writers"`
	}
	if err := r.client.get(ctx, r.path(""), nil, &doc); err != nil {
		return nil, err
	}
	places := make(map[int64]int, len(doc.Attempts))
	for i := range doc.Attempts {
		places[doc.Attempts[i].Number] = i
	}
	for i := range doc.Writers {
		w := &doc.Writers[i]
		at, ok := places[w.Attempt]
		if !ok {
			return nil, model.Errorf(model.CodeInternal, "the server's writer %s is of attempt %d, which is not in its list", w.ID, w.Attempt)
		}
		doc.Attempts[at].Writers = append(doc.Attempts[at].Writers, *w)
	}
	return doc.Attempts, nil
}
