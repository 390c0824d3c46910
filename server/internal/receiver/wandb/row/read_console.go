package row

import (
	"context"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// ConsoleLine is a line of output.log.
type ConsoleLine struct {
	Number int64 // from 0
	TimeNs int64
	Text   string
}

// Console reads lines of output.log from a number on, in their order. A page ends sooner
// where the lines are long. next is the number to go on at, nil at the end.
func Console(ctx context.Context, src Source, run model.RunID, from int64, limit int) (lines []ConsoleLine, next *int64, err error) {
	key := model.SeriesKey{Metric: ConsoleMetric, Scale: model.ScaleStep}
	series, err := src.Describe(ctx, run, key)
	if err != nil || series == nil || series.Kind != model.KindText || series.Count == 0 {
		return nil, nil, err
	}
	page, err := src.Points(ctx, query.PointsRequest{
		Selector: query.Selector{Run: run, Metric: key.Metric, Scale: key.Scale},
		Axis:     model.AxisStep, From: &from, Page: query.Page{Limit: limit},
	})
	if err != nil {
		return nil, nil, err
	}
	steps := stepsOf(page.Rows)
	lines = make([]ConsoleLine, len(steps))
	for i := range steps {
		lines[i] = ConsoleLine{steps[i], page.Rows.TimeNs[i], page.Rows.Values.Texts[i]}
	}
	if page.Next != "" && len(steps) > 0 {
		after := steps[len(steps)-1] + 1
		next = &after
	}
	return lines, next, nil
}
