package segment

import (
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// DamageList is what could not be read, a place in a file once.
type DamageList struct {
	logger *slog.Logger
	told   atomic.Uint64
	mu     sync.Mutex
	seen   map[filePlace]bool
	runs   map[model.RunID][]Lost
}

// NewDamageList makes a list that also writes to a log.
func NewDamageList(logger *slog.Logger) *DamageList {
	return &DamageList{logger: logger, seen: map[filePlace]bool{}, runs: map[model.RunID][]Lost{}}
}

// Lost are points that a damaged block takes with it. Those of a row group
// whose index is whole are among the stored ones of their series.
type Lost struct {
	model.Damage
	Indexed bool
}

// filePlace is a place in a segment.
type filePlace struct {
	segment uint64
	off     int64
}

// Report counts and logs damage, a place in a file once, and says it in the
// ledger of the run, unless that is zero. Nothing is deleted.
func (l *DamageList) Report(run model.RunID, what string, err error, attrs ...any) {
	var at *BlockError
	if errors.As(err, &at) && !l.first(at, run) {
		return
	}
	if !run.IsZero() {
		attrs = append(attrs, "run", run.String())
	}
	l.told.Add(1)
	l.logger.Error("damaged data is left out", append([]any{"what", what, "err", err}, attrs...)...)
}

// Count is how much was reported.
func (l *DamageList) Count() uint64 { return l.told.Load() }

// first notes damage and reports whether it is news.
func (l *DamageList) first(at *BlockError, run model.RunID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := filePlace{at.Segment, at.Off}
	if l.seen[key] {
		return false
	}
	l.seen[key] = true
	if at.Lost.Points > 0 && !run.IsZero() {
		l.runs[run] = append(l.runs[run], at.Lost)
	}
	return true
}

// Lost tells a run's ledger of points that are lost with a whole file.
func (l *DamageList) Lost(run model.RunID, d model.Damage) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runs[run] = append(l.runs[run], Lost{Damage: d})
}

// Of lists what is known to be lost of a run.
func (l *DamageList) Of(run model.RunID) []Lost {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.runs[run])
}

// Lose says how many points an unreadable block takes with it.
func (s *File) Lose(err error, points uint64, tlo, thi int64) error {
	var at *BlockError
	if errors.As(err, &at) {
		at.Lost.Damage = model.Damage{File: filepath.Join("segments", Name(s.ID)), Points: points, MinTimeNs: tlo, MaxTimeNs: thi}
	}
	return err
}

// bad is damage to a block of the group that columns values share, or to one of
// them.
func (g *Group) bad(ref Ref, columns int, err error) error {
	var at *BlockError
	if !errors.As(err, &at) {
		at = &BlockError{Segment: g.segment.ID, Off: ref.Off, Err: err}
		err = at
	}
	at.Lost.Indexed = true
	return g.segment.Lose(err, uint64(g.Ext.Rows*columns), g.Ext.MinTime, g.Ext.MaxTime)
}

// Unread is an error for a file that the disk does not give, nil for one that it
// gives with wrong bytes. Those can be left out for good; a file that comes back
// with the next start must not, as what was stored meanwhile would contradict it.
func Unread(err error, file string) error {
	if err == nil || errors.Is(err, ErrDamaged) || errors.Is(err, record.ErrShort) {
		return nil
	}
	return model.Errorf(model.CodeUnavailable, "cannot read %s: %v", file, err).
		WithHint("check the disk and start again; to start without the points in it for good, move the file elsewhere")
}

// Verify reads every block of a group and tells what is wrong, nil where nothing is.
func (g *Group) Verify(fault func(error)) {
	_, err := g.Rows()
	fault(err)
	for i := range g.Cols {
		v, err := g.Values(i)
		fault(err)
		if err == nil && column.Numeric(v.Kind) && !sameSummary(v.Kind, column.Summarise(&v, 0, v.Len()), g.Cols[i].sum) {
			fault(g.bad(g.Cols[i].ref, 0, errors.New("the values do not add up to their summary")))
		}
		if _, err := g.BlockSums(i, -1); err != nil {
			fault(err)
			break
		}
	}
}

// sameSummary leaves out the sum, which depends on the order of adding.
func sameSummary(kind model.Kind, a, b column.Aggregate) bool {
	same := a.Min == b.Min && a.Max == b.Max
	if kind == model.KindInt {
		same = !b.Exact(kind) || a.Least == b.Least && a.Most == b.Most
	}
	return a.Count == b.Count && a.NaN == b.NaN && a.PosInf == b.PosInf && a.NegInf == b.NegInf && (a.Count == 0 || same)
}
