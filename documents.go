package kymogram

import (
	"encoding/json"
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
)

// Histogram is one point of a histogram series: n ≤ 512 bins between n + 1
// rising edges, with either counts or densities.
type Histogram = model.Histogram

// HistogramStats are exact figures of the values before they were binned.
type HistogramStats = model.HistogramStats

// Dots are one point of a scatter series: as many X as Y, and Z in three
// dimensions. NaN and infinities are kept.
type Dots struct {
	X, Y, Z                []float64
	XTitle, YTitle, ZTitle string
}

// LogHistogram logs one histogram. At a step that has one already the later wins.
func (r *Run) LogHistogram(name string, h Histogram, opts ...LogOption) error {
	if err := h.Check(); err != nil {
		return invalidf("histogram %q: %v", name, err)
	}
	return r.logDocument(name, model.KindHistogram, h, opts)
}

// LogScatter logs one scatter. At a step that has one already the later wins.
func (r *Run) LogScatter(name string, d Dots, opts ...LogOption) error {
	s := model.Scatter{X: spelled(d.X), Y: spelled(d.Y), XTitle: d.XTitle, YTitle: d.YTitle, ZTitle: d.ZTitle}
	if d.Z != nil {
		s.Z = spelled(d.Z)
	}
	if err := s.Check(); err != nil {
		return invalidf("scatter %q: %v", name, err)
	}
	return r.logDocument(name, model.KindScatter, s, opts)
}

func spelled(values []float64) []model.JSONFloat {
	out := make([]model.JSONFloat, len(values))
	for i, v := range values {
		out[i] = model.JSONFloat(v)
	}
	return out
}

func (r *Run) logDocument(name string, kind model.Kind, doc any, opts []LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return invalidf("%q cannot be logged: %v", name, err)
	}
	return r.putDocument(name, kind, text, &c)
}

// putDocument logs a text, histogram or scatter.
func (r *Run) putDocument(name string, kind model.Kind, doc []byte, c *call) error {
	s, err := r.series(name, kind, c)
	if err == nil {
		err = s.claim(c.how())
	}
	if err == nil && s.spool.Kind != kind {
		err = s.mismatch("%s does not fit", article(kind))
	}
	if err != nil {
		return err
	}
	if drop, err := r.admit(1); drop || err != nil {
		return err
	}
	flags, step := s.resolve(c, 1)
	return s.count(1, r.w.Document(s.spool, flags, step, r.timeNs(c), doc))
}

func article(kind model.Kind) string { return fmt.Sprintf("a %s", kind) }
