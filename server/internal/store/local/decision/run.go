package decision

import (
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Run is what a decision reads of the state of a run, which does not change meanwhile.
type Run interface {
	// Head is what the run as a whole says to a batch of a writer in an attempt.
	Head(w model.WriterID, attempt uint32) Head
	// Series is the series with a place, the zero value where the run does not know it.
	Series(id store.SeriesID) record.Series
	// Named is the series with a key, the zero value where the run does not know it.
	Named(text string) record.Series
	// Start is where relative steps start, once that is fixed.
	Start(key record.StartKey) (at int64, fixed bool)
	// NextStep is the step at which the curve of a series continues.
	NextStep(key record.StartKey) int64
}

// Head is what a run says to a batch.
type Head struct {
	Gone       bool   // the run is deleted
	Writer     uint32 // place that the writer has or will get
	Source     uint32 // place that the writer in the attempt has or will get
	NextSeries uint32 // place of the next new series
	Made       int    // how many series there are
	Arrivals   int64  // arrival number of the next row
}

// known is false for a series that the run does not have: a key is never empty.
func known(s *record.Series) bool { return s.Text != "" }
