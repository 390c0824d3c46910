package row

import (
	"math"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// Event reads a line of wandb-events.jsonl, what the SDK measured of the machine: a row of
// numbers at its time, without a step. now is the time of one that has none. It is nil where
// the line measures nothing.
func Event(raw []byte, now int64) (*model.RowGroup, error) {
	var line Line
	if err := line.Parse(raw); err != nil {
		return nil, err
	}
	if line.TimeNs != 0 {
		now = line.TimeNs
	}
	g := &model.RowGroup{Unique: model.UniqueTime, TimeNs: []int64{now}}
	at := map[string]int{}
	for _, m := range line.members {
		name, is := strings.CutPrefix(string(m.Key), SystemKeys)
		if !is || strings.HasPrefix(name, "_") || !m.Faithful || !isMetric([]byte(SystemPrefix+name)) {
			continue // W&B's own keys, as _wandb
		}
		c := model.Column{Series: model.SeriesKey{Metric: SystemPrefix + name, Scale: model.ScaleStep}, Kind: model.KindFloat}
		if f, held := Number(m.Value); held {
			c.Floats = []float64{f}
		} else {
			c.Series, c.Kind, c.Texts = typed(c.Series.Metric, TypeJSON), model.KindText, []string{string(m.Value)}
		}
		if i, twice := at[name]; twice {
			g.Columns[i] = c
			continue
		}
		at[name] = len(g.Columns)
		g.Columns = append(g.Columns, c)
	}
	if len(g.Columns) == 0 {
		return nil, nil
	}
	if !math.IsNaN(line.runtime) {
		key := model.SeriesKey{Metric: SystemPrefix + RuntimeKey, Scale: model.ScaleStep}
		g.Columns = append(g.Columns, model.Column{Series: key, Kind: model.KindFloat, Floats: []float64{line.runtime}})
	}
	return g, nil
}
