package curve

import (
	"context"
	"log/slog"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Series is what a curve is of.
type Series struct {
	ID   uint32
	Kind model.Kind
	Text string // of the key
}

// Key is made anew by each call: kept, it would take more memory than the rest.
func (s *Series) Key() model.SeriesKey {
	key, _ := model.ParseSeriesKey(s.Text)
	return key
}

// Setting is what the views of an engine share.
type Setting struct {
	Limits Limits
	// Damaged hears what could not be read; the rest is served.
	Damaged func(run model.RunID, what string, err error, attrs ...any)
}

// Views finds series.
type Views interface {
	// View takes a view of a series of a run.
	View(run model.RunID, id store.SeriesID) (*View, error)
}

// View is a series as it was when a read began; reading it takes no lock.
type View struct {
	*Setting
	Run     model.RunID
	Series  Series
	Memo    *Memo // what earlier reads of it worked out
	Kept    *Kept
	Mask    column.AxisSet
	Version uint64 // of the series
	Epoch   uint64 // of the rules of the run
	Layout  uint64 // of the chunks in segments
	Lineage *Lineage
	// Ended says that nobody waits for the read any more; nil: it goes on to its end.
	Ended func() error
	// Chunks in segments, then those in memory; not to be written to.
	Chunks     []column.Chunk
	InSegments int
}

// until are views whose reads stop when their context ends, also in the middle of what
// is worked out. What was read until then is not an answer: who reads asks the context.
type until struct {
	Views
	ctx context.Context
}

// View implements [Views].
func (u until) View(run model.RunID, id store.SeriesID) (*View, error) {
	v, err := u.Views.View(run, id)
	if err == nil {
		v.Ended = u.ctx.Err
	}
	return v, err
}

// over says that the read has ended.
func (v *View) over() bool { return v.Ended != nil && v.Ended() != nil }

// stored is a group on disk: it lives as long as its series, and reads parts of
// itself.
type stored interface {
	column.Group
	Xs(axis int) ([]int64, error)
	BlockSums(col, axis int) ([]column.Block, error)
}

// lost counts what could not be read; the rest is served.
func (v *View) lost(err error) {
	v.Damaged(v.Run, "row group", err, slog.String("series", v.Series.Text))
}

// read loads what a piece lacks; false when it is damaged.
func (v *View) read(p *piece) (*column.Rows, column.Values, bool) {
	r := p.rows
	if r == nil {
		var err error
		if r, err = p.Group.Rows(); err != nil {
			v.lost(err)
			return nil, column.Values{}, false
		}
		p.rows = r
	}
	vals, err := p.Group.Values(p.Col)
	if err != nil {
		v.lost(err)
		return nil, column.Values{}, false
	}
	return r, vals, true
}
