package top

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/rivo/uniseg"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/table"
)

// The widths of a table: of its curves, and of the longest name that is not cut. The other rows
// are filled up to the longest; `--json` has all names whole.
const (
	onceCells = 30
	onceName  = 100
)

// Snapshot is a run at one moment, with all of its metrics.
type Snapshot struct {
	state state
	rows  []*read.Series
	now   time.Time
}

// Once reads a run once.
func Once(ctx context.Context, options Options) (*Snapshot, error) {
	s := source{options.Server, options.Run}
	got := s.refresh(ctx, request{all: true, pattern: options.Metric})
	if got.err != nil {
		return nil, got.err
	}
	rows := order(got.all, Sorts[sortIndex(options.Sort)], false)
	curves, err := s.curves(ctx, rows, options.Axis, onceCells, wholeAxis)
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &Snapshot{state{about: got.about, readAt: now, all: got.all, curves: curves}, rows, now}, nil
}

// Print writes a head and a table.
func (s *Snapshot) Print(out io.Writer) error {
	a := &s.state.about
	fmt.Fprintf(out, "%s  %s\n", clean(string(a.Status)), clean(a.Workspace+"/"+a.Project+"/"+a.Name))
	metrics := "metrics"
	if len(s.rows) == 1 {
		metrics = "metric"
	}
	fmt.Fprintf(out, "%s · %s %s\n\n", strings.Join(s.state.facts(s.now), " · "), table.Count(uint64(len(s.rows))), metrics)
	if len(s.rows) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "METRIC\tLAST\tMIN\tMAX\tPOINTS\tRATE\tNOT FINITE\tCURVE")
	for _, row := range s.rows {
		c := s.state.curves[key(row)]
		low, high, _ := c.limits()
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", fit(title(row), min(uniseg.StringWidth(title(row)), onceName)), last(row, numberWidth), value(low), value(high), row.Count,
			speed(s.state.rate(row, s.now)), marks(c), strings.TrimRight(spark(c, onceCells), " "))
	}
	return w.Flush()
}

// Document is the snapshot for machines.
func (s *Snapshot) Document() any {
	type metric struct {
		Metric    string            `json:"metric"`
		Scale     string            `json:"scale"`
		Labels    map[string]string `json:"labels"`
		Kind      string            `json:"kind"`
		Points    uint64            `json:"points"`
		Step      *int64            `json:"step"`
		Last      *model.JSONFloat  `json:"last"`
		Min       *model.JSONFloat  `json:"min"`
		Max       *model.JSONFloat  `json:"max"`
		NaN       uint64            `json:"nan"`
		Infinite  uint64            `json:"infinite"`
		PerSecond float64           `json:"points_per_second"`
	}
	list := make([]metric, len(s.rows))
	for i, row := range s.rows {
		c := s.state.curves[key(row)]
		low, high, nans := c.limits()
		m := metric{Metric: row.Metric, Scale: row.Scale, Labels: row.Labels, Kind: row.Kind, Points: row.Count, NaN: nans, PerSecond: s.state.rate(row, s.now)}
		if c != nil {
			m.Infinite = c.infinite
		}
		if row.Last != nil {
			v := model.JSONFloat(row.Last.Float)
			m.Step, m.Last = row.Last.Step, &v
		}
		m.Min, m.Max = finite(low), finite(high)
		list[i] = m
	}
	return map[string]any{"run": s.state.about, "metrics": list}
}

func finite(v float64) *model.JSONFloat {
	if math.IsNaN(v) {
		return nil
	}
	out := model.JSONFloat(v)
	return &out
}
