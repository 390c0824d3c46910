package remote

import (
	"encoding/json"
	"fmt"
	"math"

	"github.com/kymogram/kymogram/internal/model"
)

// Buckets are the columns of buckets, as an answer has them.
type Buckets struct {
	Lo     []int64  `json:"lo"`
	Hi     []int64  `json:"hi"`
	Min    Floats   `json:"min"`
	Max    Floats   `json:"max"`
	Mean   Floats   `json:"mean"`
	Count  []uint64 `json:"count"`
	NaN    []uint64 `json:"nan"`
	PosInf []uint64 `json:"pos_inf"`
	NegInf []uint64 `json:"neg_inf"`
	// Inherited is nil unless what is inherited was asked for.
	Inherited []uint64 `json:"inherited"`
}

// Check fails where the columns differ in length.
func (b *Buckets) Check() error {
	lengths := []int{len(b.Hi), len(b.Min), len(b.Max), len(b.Mean), len(b.Count), len(b.NaN), len(b.PosInf), len(b.NegInf)}
	if b.Inherited != nil {
		lengths = append(lengths, len(b.Inherited))
	}
	for _, length := range lengths {
		if length != len(b.Lo) {
			return model.Errorf(model.CodeInternal, "the server's columns differ in length")
		}
	}
	return nil
}

// Floats is a column of numbers; a gap is NaN.
type Floats []float64

// UnmarshalJSON reads a column of the API: NaN and the infinities are texts, a gap is null.
func (f *Floats) UnmarshalJSON(text []byte) error {
	var column []*model.JSONFloat
	if err := json.Unmarshal(text, &column); err != nil {
		return fmt.Errorf("read a column of numbers: %w", err)
	}
	*f = make(Floats, len(column))
	for i, v := range column {
		if (*f)[i] = math.NaN(); v != nil {
			(*f)[i] = float64(*v)
		}
	}
	return nil
}
