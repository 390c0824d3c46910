package clickhouse

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"sync"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/curve"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse/ledger"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// blockPoints is how many points an insert of an intake has, about; blockBytes of documents.
const (
	blockPoints = 100_000
	blockBytes  = 32 << 20
)

// Intake takes runs from another engine, which decided about their points. No server writes to
// them meanwhile. Nothing of it counts before Commit, which first compares all points.
type Intake struct {
	engine *Engine
	rows   map[uint32]*rows // by shard, not inserted yet
	points int              // in rows
	bytes  int
	mu     sync.Mutex // guards runs
	runs   []*Arriving
	Points uint64 // all that came
}

// Arriving is a run of an intake.
type Arriving struct {
	*lease
	intake *Intake
	// From is the first arrival number that the store does not have.
	From  int64
	place []uint32 // by the writer's place in the other engine
	lsn   uint64
	sums  map[uint32]*curve.Sum // by series
}

// Intake begins one.
func (e *Engine) Intake() *Intake { return &Intake{engine: e, rows: map[uint32]*rows{}} }

// Runs is how many runs it has.
func (in *Intake) Runs() int { return len(in.runs) }

// Open takes in what is known of a run. Its points that arrived at From or later come next. Several
// runs may be opened at once; all else is for one goroutine.
func (in *Intake) Open(ctx context.Context, of *record.Run) (*Arriving, error) {
	r, err := in.engine.ledger.Take(ctx, of.ID, true)
	if err != nil {
		return nil, err
	}
	a := &Arriving{lease: newLease(r), intake: in, sums: map[uint32]*curve.Sum{}}
	if err := a.follows(of); err != nil {
		return nil, err
	}
	a.From, a.Arrivals = a.Arrivals, max(a.Arrivals, of.Arrivals)
	a.lsn = a.position(model.WriterID{}, nil)
	if err := a.meet(ctx, of); err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.runs = append(in.runs, a)
	return a, nil
}

// follows fails where the store has what the run does not have.
func (a *Arriving) follows(of *record.Run) error {
	ahead := !of.Deleted && (a.Deleted || a.Arrivals > of.Arrivals || len(a.Run.Series) > len(of.Series))
	for i := range a.Run.Series {
		ahead = ahead || !of.Deleted && of.Series[i] != a.Run.Series[i].Series
	}
	for _, w := range of.Writers {
		ahead = ahead || a.mark(w.ID) > w.Mark
	}
	if !ahead {
		return nil
	}
	return model.Errorf(model.CodeConflict, "the store has points of run %s that the data folder does not have", of.ID).
		WithHint("A server of the store wrote to it, or the folder is an older copy. Name an empty database of both ClickHouse and PostgreSQL.")
}

// meet takes in all but points.
func (a *Arriving) meet(ctx context.Context, of *record.Run) error {
	a.meetWriters(of.Writers)
	if err := a.meetLosses(ctx, of.Writers); err != nil {
		return err
	}
	if of.Deleted {
		a.remove()
		return nil
	}
	c := a.change
	for _, next := range of.Attempts {
		var changed bool
		if a.Attempts, changed = record.PutAttempt(a.Attempts, next); changed {
			at, _ := record.FindAttempt(a.Attempts, next.Number)
			c.Attempts = append(c.Attempts, a.Attempts[at])
		}
	}
	for _, def := range of.Series[len(a.Run.Series):] {
		s := ledger.Series{Series: def, Known: true}
		a.seriesAt[def.Text] = def.ID
		a.Run.Series, c.Series = append(a.Run.Series, s), append(c.Series, s)
	}
	for _, s := range of.Starts {
		s.Key.Writer = a.place[s.Key.Writer]
		if _, known := a.Starts[s.Key]; !known {
			a.Starts[s.Key] = s.At
			c.Starts = append(c.Starts, s)
		}
	}
	return nil
}

func (a *Arriving) meetWriters(writers []record.Writer) {
	a.place = make([]uint32, len(writers))
	for i := range writers {
		w := &writers[i]
		if w.ID.IsZero() {
			a.place[i] = math.MaxUint32 // its record was lost to damage
			continue
		}
		place, known := a.writerAt[w.ID]
		if !known {
			place = uint32(len(a.Writers))
			a.writerAt[w.ID] = place
			a.Writers = append(a.Writers, ledger.Writer{ID: w.ID})
		}
		a.place[i] = place
		is := &a.Writers[place]
		next := *is
		next.Repinned = is.Repinned || known && !equal(is.Logger, w.Logger)
		next.Attempt, next.Logger, next.Refused, next.Mark = w.Attempt, w.Logger, w.Refused, w.Mark
		*is = next
		a.change.Writers[place] = next
		if w.Mark > 0 {
			a.change.Marks[w.ID] = w.Mark
		}
	}
}

// meetLosses adds the ranges that the ledger does not have.
func (a *Arriving) meetLosses(ctx context.Context, writers []record.Writer) error {
	var all []model.Skipped
	for i := range writers {
		all = append(all, writers[i].Skipped...)
	}
	if len(all) == 0 {
		return nil
	}
	known, err := a.intake.engine.ledger.Losses(ctx, a.ID)
	if err != nil {
		return err
	}
	for _, s := range all {
		if at := slices.Index(known.Skipped, s); at >= 0 {
			known.Skipped = slices.Delete(known.Skipped, at, at+1)
			continue
		}
		a.change.Skipped = append(a.change.Skipped, s)
	}
	return nil
}

// Add takes points. Nothing refers to them afterwards.
func (a *Arriving) Add(ctx context.Context, p *record.Piece) error {
	place := a.place[p.Writer]
	if place == math.MaxUint32 {
		return model.Errorf(model.CodeDamaged, "run %s has points of a writer whose record is lost", a.ID).WithHint("`kymogram data verify` names all damage.")
	}
	w := &a.Writers[place]
	rec := &record.Batch{Run: a.ID, Writer: w.ID, Attempt: p.Attempt, WriterPlace: place, Groups: []record.Group{p.Group}}
	for _, id := range p.Series {
		if int(id) >= len(a.Run.Series) {
			return model.Errorf(model.CodeDamaged, "run %s has points of series %d, which is not defined", a.ID, id).WithHint("`kymogram data verify` names all damage.")
		}
	}
	a.observe(rec, &rec.Groups[0])
	a.change.Points += rec.Points()
	a.sum(rec)
	in := a.intake
	in.of(a.Shard).add(rec, a.lsn, w)
	in.points += int(rec.Points())
	in.bytes += documents(&p.Group)
	in.Points += rec.Points()
	if in.points >= blockPoints || in.bytes >= blockBytes {
		return in.flush(ctx)
	}
	return nil
}

func documents(g *record.Group) (n int) {
	for i := range g.Columns {
		for _, doc := range g.Columns[i].Docs {
			n += len(doc)
		}
	}
	return n
}

// sum counts points as they came, for a comparison with what is stored.
func (a *Arriving) sum(rec *record.Batch) {
	g := &rec.Groups[0]
	shared := SharedOf(rec.Writer, rec.Attempt, &g.Rows)
	for j := range g.Columns {
		s := a.sums[g.Series[j]]
		if s == nil {
			s = &curve.Sum{}
			a.sums[g.Series[j]] = s
		}
		AddTo(s, shared, &g.Columns[j])
	}
}

// SharedOf hashes what the points of each row share.
func SharedOf(w model.WriterID, attempt uint32, rows *column.Rows) []uint64 {
	out := make([]uint64, rows.Len())
	row := curve.Row{Writer: w, Attempt: attempt, Rule: uint8(rows.Mode), Has: uint16(rows.Mask), Axes: make([]int64, column.NumAxes)}
	for i := range out {
		row.Arrival, row.Seq, row.Time = uint64(rows.Arrival[i]), rows.Seq[i], rows.Time[i]
		for k := range row.Axes {
			if rows.Mask.Has(k) {
				row.Axes[k] = rows.Axes[k][i]
			}
		}
		out[i] = row.Shared()
	}
	return out
}

// AddTo counts the points of a column.
func AddTo(s *curve.Sum, shared []uint64, v *column.Values) {
	for i, h := range shared {
		switch v.Kind {
		case model.KindFloat:
			s.Add(h, v.Kind, bits(v, i), 0, nil)
		case model.KindInt:
			s.Add(h, v.Kind, 0, bits(v, i), nil)
		default:
			s.Add(h, v.Kind, 0, 0, v.Docs[i])
		}
	}
}

func (in *Intake) of(shard uint32) *rows {
	if in.rows[shard] == nil {
		in.rows[shard] = &rows{}
	}
	return in.rows[shard]
}

// flush inserts what is gathered.
func (in *Intake) flush(ctx context.Context) error {
	for shard, r := range in.rows {
		if len(r.run) == 0 {
			continue
		}
		if err := in.engine.points.Insert(ctx, shard, r.proof(), r.insert); err != nil {
			return unanswered(err)
		}
	}
	in.rows, in.points, in.bytes = map[uint32]*rows{}, 0, 0
	return nil
}

func unanswered(err error) error {
	if known := (*model.Error)(nil); errors.As(err, &known) {
		return err
	}
	return model.Errorf(model.CodeUnavailable, "ClickHouse did not take points: %v", err).WithHint("Run the same command again: it continues where it stopped.")
}

// Commit compares all points with those that ClickHouse has now. Only when they are the same, they
// and all else of the runs count.
func (in *Intake) Commit(ctx context.Context) error {
	if err := in.flush(ctx); err != nil {
		return err
	}
	if err := in.compare(ctx); err != nil {
		return err
	}
	changes := make([]*ledger.Change, 0, len(in.runs))
	for _, a := range in.runs {
		changes = append(changes, a.settle())
	}
	lost, err := in.engine.ledger.Commit(ctx, changes, nil)
	if err != nil {
		return err
	}
	for id := range lost {
		return model.Errorf(model.CodeConflict, "another process writes to run %s in the store", id).WithHint("Stop all servers of the store, and other moves.")
	}
	return nil
}

func (in *Intake) compare(ctx context.Context) error {
	byShard := map[uint32][]*Arriving{}
	for _, a := range in.runs {
		if len(a.sums) > 0 {
			byShard[a.Shard] = append(byShard[a.Shard], a)
		}
	}
	for shard, list := range byShard {
		var differs error
		_, err := in.engine.points.Ask(ctx, shard, func(ctx context.Context, db driver.Conn, table string) (bool, error) {
			stored, err := storedSums(ctx, db, table, list)
			if err != nil {
				return false, err
			}
			differs = differing(list, stored)
			return differs == nil, nil
		})
		if err = errors.Join(err, differs); err != nil {
			return err
		}
	}
	return nil
}

type seriesOf struct {
	run    model.RunID
	series uint32
}

func storedSums(ctx context.Context, db driver.Conn, table string, list []*Arriving) (map[seriesOf]curve.Sum, error) {
	ids, at := make([]model.RunID, len(list)), map[model.RunID]uint64{}
	for i, a := range list {
		ids[i], at[a.ID] = a.ID, a.lsn
	}
	out := map[seriesOf]curve.Sum{}
	err := curve.Sums(ctx, db, table, ids, slices.Compact(slices.Sorted(maps.Values(at))), func(run model.RunID, lsn uint64, series store.SeriesID, s curve.Sum) {
		if at[run] == lsn {
			out[seriesOf{run, uint32(series)}] = s
		}
	})
	return out, err
}

// differing names the first series whose points are not those that came.
func differing(list []*Arriving, stored map[seriesOf]curve.Sum) error {
	for _, a := range list {
		for id, want := range a.sums {
			if got := stored[seriesOf{a.ID, id}]; got != *want {
				return ErrDiffers(a.ID, a.Run.Series[id].Text, *want, got)
			}
		}
	}
	return nil
}

// ErrDiffers names a series that is not the same on both sides.
func ErrDiffers(run model.RunID, series string, from, to curve.Sum) error {
	key, _ := model.ParseSeriesKey(series)
	return model.Errorf(model.CodeDamaged, "series %s of run %s is not the same on both sides: %d points with checksum %x became %d with %x",
		key.Metric, run, from.Count, from.Check, to.Count, to.Check).
		WithHint("Nothing of this run counts at the new place. Run the command again; when it fails again, look at the disks and logs of both servers.")
}
