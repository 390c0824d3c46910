package model

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
)

// Limits of a document. A histogram's is Metrana's.
const (
	MaxBins         = 512
	maxScatterTitle = 1024
)

// Histogram is one point of a histogram series: n bins between n + 1 rising
// edges, with either how many values fell into each or their density.
type Histogram struct {
	BinEdges  []float64       `json:"bin_edges"`
	Counts    []float64       `json:"counts,omitempty"`
	Densities []float64       `json:"densities,omitempty"`
	Stats     *HistogramStats `json:"stats,omitempty"`
}

// HistogramStats are exact figures of the values before they were binned. With
// densities, Sum and SumOfSquares are divided by the number of values.
type HistogramStats struct {
	Min          float64 `json:"min"`
	Max          float64 `json:"max"`
	Sum          float64 `json:"sum"`
	SumOfSquares float64 `json:"sum_of_squares"`
}

// Bin is a bucket of a histogram: how many values are from Lo to Hi.
type Bin struct{ Lo, Hi, Count float64 }

// NewHistogram makes a histogram of bins in any order. What lies between two of them is empty.
func NewHistogram(bins []Bin) (*Histogram, error) {
	slices.SortFunc(bins, func(a, b Bin) int { return cmp.Compare(a.Lo, b.Lo) })
	h := &Histogram{Counts: []float64{}}
	for i, b := range bins {
		switch {
		case i == 0:
			h.BinEdges = append(h.BinEdges, b.Lo)
		case b.Lo > bins[i-1].Hi:
			h.BinEdges, h.Counts = append(h.BinEdges, b.Lo), append(h.Counts, 0)
		case b.Lo < bins[i-1].Hi:
			return nil, fmt.Errorf("the bins from %v and from %v overlap", bins[i-1].Lo, b.Lo)
		}
		h.BinEdges, h.Counts = append(h.BinEdges, b.Hi), append(h.Counts, b.Count)
	}
	return h, h.Check()
}

// Scatter is one point of a scatter series: dots in two or three dimensions.
type Scatter struct {
	X      []JSONFloat `json:"x"`
	Y      []JSONFloat `json:"y"`
	Z      []JSONFloat `json:"z,omitempty"`
	XTitle string      `json:"x_title,omitempty"`
	YTitle string      `json:"y_title,omitempty"`
	ZTitle string      `json:"z_title,omitempty"`
}

// CheckDocument says what is wrong with the document of a histogram or scatter.
func CheckDocument(kind Kind, doc []byte) error {
	if kind == KindHistogram {
		var h Histogram
		if err := strict(doc, &h); err != nil {
			return err
		}
		return h.Check()
	}
	var s Scatter
	if err := strict(doc, &s); err != nil {
		return err
	}
	return s.Check()
}

func strict(doc []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(doc))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return fmt.Errorf("not the JSON of api/openapi.yaml: %w", err)
	}
	if d.More() {
		return errors.New("more than one JSON document")
	}
	return nil
}

// Check says what is wrong with a histogram.
func (h *Histogram) Check() error {
	bins := len(h.BinEdges) - 1
	if bins < 1 || bins > MaxBins {
		return fmt.Errorf("bin_edges has %d numbers; a histogram has 2 to %d", len(h.BinEdges), MaxBins+1)
	}
	for i, edge := range h.BinEdges {
		if math.IsNaN(edge) || math.IsInf(edge, 0) || i > 0 && edge <= h.BinEdges[i-1] {
			return fmt.Errorf("bin_edges are finite and strictly rising; number %d is %v", i, edge)
		}
	}
	if (h.Counts == nil) == (h.Densities == nil) {
		return errors.New("a histogram has either counts or densities")
	}
	values, what := h.Counts, "counts"
	if values == nil {
		values, what = h.Densities, "densities"
	}
	if len(values) != bins {
		return fmt.Errorf("%s has %d numbers for %d bins", what, len(values), bins)
	}
	for i, v := range values {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s are finite and not negative; number %d is %v", what, i, v)
		}
	}
	return nil
}

// Check says what is wrong with a scatter.
func (s *Scatter) Check() error {
	if len(s.X) != len(s.Y) || s.Z != nil && len(s.Z) != len(s.X) {
		return fmt.Errorf("x, y and z have %d, %d and %d numbers; they are of equal length", len(s.X), len(s.Y), len(s.Z))
	}
	for _, title := range []string{s.XTitle, s.YTitle, s.ZTitle} {
		if len(title) > maxScatterTitle || !IsClean(title) {
			return fmt.Errorf("the title %q is not at most %d bytes of UTF-8 without control characters", Clip(title), maxScatterTitle)
		}
	}
	return nil
}
