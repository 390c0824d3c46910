package local

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
	"github.com/kymogram/kymogram/server/internal/store/local/state"
)

// Moment is a store as its files were at one moment, for a copy of all runs. Heads of runs and
// the log are in memory, as in the server that wrote them. Points of segments are read in pieces.
type Moment struct {
	engine *Engine // without a log or a keeper: it only replays
	runs   []model.RunID
	last   uint64
}

// piecePoints is how many points a piece has, about.
const piecePoints = 1 << 16

// Moment reads the folder. Beside a server that writes (live) it leaves out what a crash of the
// machine may still undo: records that are not synced. It fails where anything is damaged.
func (f *Folder) Moment(ctx context.Context, live bool) (*Moment, error) {
	quiet := slog.New(slog.DiscardHandler)
	damage := segment.NewDamageList(quiet)
	e := &Engine{
		cfg: Config{Dir: f.dir, FS: f.fs, Logger: quiet}.withDefaults(), damage: damage,
		files: segment.NewFiles(f.fs, []string{filepath.Join(f.dir, "segments")}, quiet, damage),
		table: state.NewTable(state.Limits{}, time.Now, damage),
	}
	m := &Moment{engine: e}
	segments, err := f.segments(e.files)
	if err != nil {
		return nil, err
	}
	m.last = e.table.Load(segments) - 1
	upTo := uint64(math.MaxUint64)
	if live && f.tip > 0 {
		upTo = f.tip
	}
	if err := m.replay(ctx, f, upTo); err != nil {
		return nil, err
	}
	if m.last < f.tip {
		return nil, errDamage("the log", fmt.Errorf("it ends at record %d, and was synced up to record %d", m.last, f.tip))
	}
	for _, r := range e.table.All() {
		m.runs = append(m.runs, r.ID)
	}
	slices.SortFunc(m.runs, func(a, b model.RunID) int { return bytes.Compare(a[:], b[:]) })
	return m, nil
}

// segments are those that hold what is stored.
func (f *Folder) segments(files *segment.Files) (out []segment.Opened, err error) {
	for _, file := range f.segs {
		id, _ := segment.ParseName(filepath.Base(file.name))
		s := files.Over(id, file.file)
		heads, err := s.ReadDirectory()
		if err != nil {
			return nil, errDamage(file.name, err)
		}
		out = append(out, segment.Opened{File: s, Heads: heads})
	}
	replaced := func(id uint64) bool {
		return slices.ContainsFunc(out, func(o segment.Opened) bool { return o.Replaces(id) })
	}
	for _, id := range f.lists.IDs {
		there := slices.ContainsFunc(out, func(o segment.Opened) bool { return o.ID == id })
		if !there && !replaced(id) {
			return nil, errDamage(segment.Name(id), segment.ErrMissing)
		}
	}
	var live []segment.Opened
	for _, o := range out {
		if !replaced(o.ID) {
			live = append(live, o)
		}
	}
	return live, nil
}

// replay takes in the log up to a record.
func (m *Moment) replay(ctx context.Context, f *Folder, upTo uint64) error {
	damage, err := wal.Inspect(f.log, func(lsn uint64, payload []byte) error {
		if lsn > upTo {
			return nil
		}
		m.last = max(m.last, lsn)
		if err := m.engine.replay(lsn, payload); err != nil {
			return errDamage("the log", fmt.Errorf("record %d: %w", lsn, err))
		}
		return ctx.Err()
	})
	for _, l := range f.log {
		if first, ok := wal.FirstLSN(l.Name); ok {
			m.last = max(m.last, first-1)
		}
	}
	for _, d := range damage {
		if err == nil && !d.Torn {
			err = errDamage(d.File, fmt.Errorf("%d bytes at %d are no records", d.Bytes, d.Offset))
		}
	}
	if n := m.engine.damage.Count(); err == nil && n > 0 {
		err = errDamage("segments", fmt.Errorf("%d places contradict one another", n))
	}
	return err
}

func errDamage(where string, err error) error {
	return model.Errorf(model.CodeDamaged, "%s: %v", where, err).
		WithHint("`kymogram data verify --data DIR` names all damage. Restore a backup, or export and import the runs.")
}

// Runs are all that the store knows, also deleted ones, by rising id.
func (m *Moment) Runs() []model.RunID { return m.runs }

// Last is the last record.
func (m *Moment) Last() uint64 { return m.last }

// Head is a run without its series and starts.
func (m *Moment) Head(id model.RunID) record.Run { return m.engine.table.Run(id).Whole().Run }

// Run is a run without its points.
func (m *Moment) Run(id model.RunID) (*record.Run, error) {
	w := m.engine.table.Run(id).Whole()
	out := &w.Run
	if out.Deleted {
		return out, nil
	}
	out.Series = make([]record.Series, w.Made)
	starts := map[record.StartKey]bool{}
	take := func(series []record.Series, fixed []record.Start) {
		for _, s := range series {
			out.Series[s.ID] = s
		}
		for _, s := range fixed {
			if !starts[s.Key] {
				starts[s.Key] = true
				out.Starts = append(out.Starts, s)
			}
		}
	}
	for _, p := range w.Places {
		sec, err := p.Segment.Section(*p.Ref(), false)
		if err != nil {
			return nil, errDamage(segment.Name(p.Segment.ID), err)
		}
		take(sec.Series, sec.Starts)
	}
	for _, payload := range w.Late {
		rec, err := record.DecodeBatch(payload)
		if err != nil {
			return nil, errDamage("the log", err)
		}
		take(rec.Series, rec.Starts)
	}
	for i := range out.Series {
		if out.Series[i].Text == "" {
			return nil, errDamage("run "+id.String(), fmt.Errorf("what defined its series %d is lost", i))
		}
	}
	return out, nil
}

// Points gives the points of a run that arrived at a number or later, in pieces.
func (m *Moment) Points(ctx context.Context, id model.RunID, from int64, yield func(*record.Piece) error) error {
	w := m.engine.table.Run(id).Whole()
	for _, p := range w.Places {
		sec, err := p.Segment.Section(*p.Ref(), true)
		if err != nil {
			return errDamage(segment.Name(p.Segment.ID), err)
		}
		for _, g := range sec.Groups {
			if err := ctx.Err(); err != nil {
				return err
			}
			if err := flushed(g.Whole(), w.Sources, from, yield); err != nil {
				return err
			}
		}
	}
	for _, payload := range w.Late {
		rec, err := record.DecodeBatch(payload)
		if err != nil {
			return errDamage("the log", err)
		}
		for i := range rec.Groups {
			piece := &record.Piece{Source: record.Source{Writer: rec.WriterPlace, Attempt: rec.Attempt}, Group: rec.Groups[i]}
			if since(&piece.Group, from); piece.Rows.Len() == 0 {
				continue
			}
			if err := yield(piece); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// since leaves the rows of a group that arrived at a number or later.
func since(g *record.Group, from int64) {
	pick := arrived(g.Rows.Arrival, from)
	if pick == nil {
		return
	}
	g.Rows = pickedRows(&g.Rows, pick)
	for i := range g.Columns {
		g.Columns[i] = pickedValues(&g.Columns[i], pick)
	}
}

// arrived lists the rows that arrived at a number or later, nil for all.
func arrived(arrivals []int64, from int64) []int32 {
	if from <= 0 || len(arrivals) > 0 && slices.Min(arrivals) >= from {
		return nil
	}
	pick := []int32{}
	for i, at := range arrivals {
		if at >= from {
			pick = append(pick, int32(i))
		}
	}
	return pick
}

func pickedRows(r *column.Rows, pick []int32) column.Rows {
	out := column.Rows{Mask: r.Mask, Mode: r.Mode}
	from := *r
	from.Source = make([]uint32, r.Len()) // a record has none
	out.Add(&from, pick)
	out.Source = nil
	return out
}

func pickedValues(v *column.Values, pick []int32) column.Values {
	out := column.Values{Kind: v.Kind}
	out.Add(v, pick)
	return out
}

// flushed gives the rows of a group of a segment, by source, some columns at once.
func flushed(g *segment.Group, sources []record.Source, from int64, yield func(*record.Piece) error) error {
	rows, err := g.Rows()
	if err != nil {
		return errDamage("segments", err)
	}
	picks := map[uint32][]int32{}
	var order []uint32
	for i, source := range rows.Source {
		if rows.Arrival[i] < from {
			continue
		}
		if int(source) >= len(sources) {
			return errDamage("segments", fmt.Errorf("source %d is lost: %w", source, segment.ErrDamaged))
		}
		if picks[source] == nil {
			order = append(order, source)
		}
		picks[source] = append(picks[source], int32(i))
	}
	width := max(1, piecePoints/rows.Len())
	for lo := 0; lo < len(g.Series) && len(order) > 0; lo += width {
		hi := min(lo+width, len(g.Series))
		columns := make([]column.Values, hi-lo)
		for i := range columns {
			if columns[i], err = g.Values(lo + i); err != nil {
				return errDamage("segments", err)
			}
		}
		for _, source := range order {
			pick := picks[source]
			piece := &record.Piece{Source: sources[source], Group: record.Group{Rows: pickedRows(rows, pick), Series: g.Series[lo:hi]}}
			for i := range columns {
				piece.Columns = append(piece.Columns, pickedValues(&columns[i], pick))
			}
			if err := yield(piece); err != nil {
				return err
			}
		}
	}
	return nil
}

// Pending is updates of a batch that the catalog does not have for sure.
type Pending struct {
	LSN    uint64
	Run    model.RunID
	Writer model.WriterID
	Doc    []byte
}

// Pending lists them by rising LSN.
func (m *Moment) Pending() (out []Pending) {
	for _, p := range m.engine.meta.pending() {
		out = append(out, Pending{p.lsn, p.run, p.writer, p.doc})
	}
	return out
}
