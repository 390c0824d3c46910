package decision

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unsafe"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// resolver decides what a batch means: which series it names or makes, which of
// its records are refused, where relative steps start, in which order its rows
// arrived. It reads the run's state and changes nothing.
type resolver struct {
	*Desk
	limit int // of series in the run
	run   Run
	head  Head
	batch *model.Batch

	apart   bool                      // each column is a known series of its own
	fresh   map[string]record.Series  // series that the batch makes
	starts  map[record.StartKey]int64 // starts that this batch needs and nobody fixed yet
	firsts  map[record.StartKey]int64 // the smallest relative step of each, see leastSteps
	fixed   map[record.StartKey]bool
	refused []model.Refusal
}

// draft is a row group on its way into a record.
type draft struct {
	*model.RowGroup
	texts    []string        // key of each column
	of       []record.Series // of each column, zero where the run does not know it
	cols     []column.Values
	ords     []int64 // arrival numbers
	relative []int64 // the step axis before it is resolved, nil when absolute
	// relativeEnv is the environment step where it is relative with the step.
	relativeEnv []int64
	begin       [][]int64 // per column, where each row starts, nil when nothing is relative
	drop        []bool    // refused rows, nil for none
}

// Of decides what a batch means. It refuses records that would make more series
// than the limit.
//
//	batch ─▶ draft ─▶ easy? ── yes ───────────┐
//	         (where     │ no                  ▼
//	         steps      └──▶ judgeRecords ─▶ emit ─▶ record, refusals
//	         start)
//
// Three things make it hard:
//   - Steps may be relative: the client counts from its own start, because it does
//     not know where the curve ends. The start is the step after the last one of the
//     curve. It is fixed once for a writer, a series and an episode, and stored with
//     the record, so it never moves again. Columns of one group may start at
//     different steps; emit then writes the group once for each start.
//   - A record is all rows of one sequence, over all groups. It is taken or refused
//     as a whole. Most batches cannot be refused: easy finds that out without a look
//     at single records.
//   - The arrival number says which of two equal points came later. Groups that share
//     no series count from the same number. Their rows then stay equal, and a flush
//     stores the axes of both once.
//
// The record is good until Clear, and no longer than the batch.
func (k *Desk) Of(r Run, b *model.Batch, limit int) (*record.Batch, []model.Refusal, error) {
	head := r.Head(b.Writer, b.Attempt)
	s := &resolver{Desk: k, limit: limit, run: r, head: head, batch: b}
	s.rec = record.Batch{Run: b.Run, Writer: b.Writer, Attempt: b.Attempt, WriterPlace: head.Writer, SourcePlace: head.Source, First: b.First, Last: b.Last, NextOrd: head.Arrivals, Skipped: b.Skipped, Updates: b.Updates}
	if head.Gone {
		s.refuseAll()
	} else {
		if err := s.draft(); err != nil {
			return nil, nil, err
		}
		if !s.easy() {
			s.judgeRecords()
		}
		s.emit()
	}
	s.rec.Refused = uint64(len(s.refused))
	return &s.rec, s.refused, nil
}

// refuseAll names every record of a batch for a deleted run.
func (s *resolver) refuseAll() {
	seqs := map[uint64]bool{}
	for i := range s.batch.Groups {
		g := &s.batch.Groups[i]
		for _, seq := range g.Seq {
			seqs[seq] = true
		}
		if len(g.Seq) == 0 && g.Rows() > 0 {
			seqs[0] = true
		}
	}
	for _, u := range s.batch.Updates {
		seqs[u.Seq] = true
	}
	for seq := range seqs {
		s.refuse(seq, model.CodeRunDeleted, "run %s is deleted", s.batch.Run)
	}
	slices.SortFunc(s.refused, func(a, b model.Refusal) int { return int(a.Seq) - int(b.Seq) })
	s.rec.Updates = nil
}

func (s *resolver) refuse(seq uint64, code model.Code, format string, args ...any) {
	s.refused = append(s.refused, model.Refusal{Seq: seq, Code: code, Message: fmt.Sprintf(format, args...)})
}

// draft wraps the groups and looks up where relative steps start.
func (s *resolver) draft() error {
	s.room()
	last, at := int64(-1), 0
	s.apart = true
	for i := range s.batch.Groups {
		g := &s.batch.Groups[i]
		if g.Rows() == 0 || len(g.Columns) == 0 {
			continue
		}
		to := at + len(g.Columns)
		d := draft{RowGroup: g, texts: s.texts[at:to:to], of: s.of[at:to:to], cols: s.cols[at:to:to]}
		at = to
		rising := d.name(s.run)
		if !rising {
			if err := d.twice(); err != nil {
				return err
			}
		}
		s.apart = s.apart && rising && int64(d.of[0].ID) > last
		if s.apart {
			last = int64(d.of[len(d.of)-1].ID)
		}
		if len(g.Axes) > 0 && g.Axes[0].Relative {
			d.relative = g.Axes[0].Values
			d.follow()
		}
		s.groups = append(s.groups, d)
	}
	for i := range s.groups {
		d := &s.groups[i]
		for j := range d.cols {
			if d.relative != nil {
				d.begin = append(d.begin, s.begins(d, j))
			}
		}
	}
	return nil
}

// name takes the columns, the keys of their series, and what the run knows by these.
// Rising: it knows them all, in the order of their places, so each is another one.
func (d *draft) name(r Run) (rising bool) {
	rising = true
	for j := range d.Columns {
		c := &d.Columns[j]
		if d.texts[j] = c.Text; c.Text == "" {
			d.texts[j] = c.Series.String()
		}
		d.cols[j] = valuesOf(c)
		d.of[j] = find(r, c, d.texts[j])
		rising = rising && known(&d.of[j]) && (j == 0 || d.of[j-1].ID < d.of[j].ID)
	}
	return rising
}

// find is the series of a column, zero where the run does not know it. The place that it had
// in an earlier batch is a guess: that may have been another run's.
func find(r Run, c *model.Column, text string) record.Series {
	if c.Place > 0 {
		if s := r.Series(store.SeriesID(c.Place - 1)); s.Text == text {
			return s
		}
	}
	s := r.Named(text)
	if known(&s) {
		c.Place = s.ID + 1
	}
	return s
}

// twice fails where a series is in two columns.
func (d *draft) twice() error {
	if len(d.texts) == 1 {
		return nil
	}
	named := make(map[string]bool, len(d.texts))
	for j, text := range d.texts {
		if named[text] {
			return model.Errorf(model.CodeInvalid, "series %s is in two columns of one row group", d.Columns[j].Series.Metric)
		}
		named[text] = true
	}
	return nil
}

func valuesOf(c *model.Column) column.Values {
	v := column.Values{Kind: c.Kind, Floats: c.Floats, Ints: c.Ints, Docs: c.Docs}
	if c.Kind == model.KindText {
		v.Docs = make([][]byte, len(c.Texts))
		for i, t := range c.Texts {
			v.Docs[i] = unsafe.Slice(unsafe.StringData(t), len(t)) // read only: records and memory copy it
		}
	}
	return v
}

// begins is where each row of a column with relative steps starts.
func (s *resolver) begins(d *draft, col int) []int64 {
	of, episodes := &d.of[col], d.episodes(col)
	out := make([]int64, d.Rows())
	if !known(of) {
		return out
	}
	if episodes == nil {
		start := s.start(record.StartKey{Writer: s.rec.WriterPlace, Series: of.ID})
		for i := range out {
			out[i] = start
		}
		return out
	}
	for i, ep := range episodes {
		if i > 0 && ep == episodes[i-1] {
			out[i] = out[i-1]
			continue
		}
		out[i] = s.start(record.StartKey{Writer: s.rec.WriterPlace, Series: of.ID, Episode: ep, Episodic: true})
	}
	return out
}

// start is the fixed start of a key, or what it would be fixed to now.
func (s *resolver) start(key record.StartKey) int64 {
	if at, ok := s.run.Start(key); ok {
		return at
	}
	if at, ok := s.starts[key]; ok {
		return at
	}
	at := s.run.NextStep(key)
	if at > 0 && s.least(key) == 1 {
		at-- // its steps count from 1: the first still follows the last
	}
	if s.starts == nil {
		s.starts = map[record.StartKey]int64{}
	}
	s.starts[key] = at
	return at
}

// least is the smallest relative step that the batch has for a key.
func (s *resolver) least(key record.StartKey) int64 {
	if s.firsts == nil {
		s.firsts = s.leastSteps()
	}
	return s.firsts[key]
}

// leastSteps looks at every column with relative steps once.
func (s *resolver) leastSteps() map[record.StartKey]int64 {
	out := map[record.StartKey]int64{}
	for i := range s.groups {
		d := &s.groups[i]
		for j := range d.cols {
			if of := &d.of[j]; known(of) && d.relative != nil {
				d.takeLeast(out, record.StartKey{Writer: s.rec.WriterPlace, Series: of.ID}, d.episodes(j))
			}
		}
	}
	return out
}

// takeLeast lowers the steps of a column's keys to those that its rows have.
func (d *draft) takeLeast(out map[record.StartKey]int64, key record.StartKey, episodes []int64) {
	if episodes == nil {
		takeLess(out, key, slices.Min(d.relative))
		return
	}
	key.Episodic = true
	for row, ep := range episodes {
		key.Episode = ep
		takeLess(out, key, d.relative[row])
	}
}

func takeLess(out map[record.StartKey]int64, key record.StartKey, k int64) {
	if old, ok := out[key]; !ok || k < old {
		out[key] = k
	}
}

// easy is true when no record can be refused: known series of the same kind, or
// new ones inside the limit, and no step past the end of int64.
func (s *resolver) easy() bool {
	var fresh map[string]record.Series
	var order []record.Series
	for i := range s.groups {
		g := &s.groups[i]
		for j := range g.cols {
			if g.relative != nil && (overflows(g.begin[j], g.relative) || g.relativeEnv != nil && overflows(g.begin[j], g.relativeEnv)) {
				return false
			}
			kind := g.cols[j].Kind
			if old := &g.of[j]; known(old) {
				if old.Kind != kind {
					return false
				}
				continue
			}
			def, ok := fresh[g.texts[j]]
			if !ok {
				if fresh == nil {
					fresh = map[string]record.Series{}
				}
				def = record.Series{ID: s.head.NextSeries + uint32(len(order)), Kind: kind, Text: g.texts[j]}
				fresh[def.Text] = def
				order = append(order, def)
			}
			if def.Kind != kind {
				return false
			}
		}
	}
	if s.head.Made+len(order) > s.limit {
		return false
	}
	s.fresh, s.rec.Series = fresh, order
	return true
}

func overflows(begin, k []int64) bool {
	for i := range k {
		if k[i] > math.MaxInt64-begin[i] {
			return true
		}
	}
	return false
}

// unit is a record: the rows of one sequence, or one row of a foreign writer.
type unit struct {
	seq  uint64
	turn uint32
	rows []rowAt
}

type rowAt struct{ group, row int }

func (s *resolver) units() []unit {
	at := map[uint64]int{}
	var out []unit
	for i := range s.groups {
		g := &s.groups[i]
		for row := range g.Rows() {
			if len(g.Seq) == 0 {
				out = append(out, unit{turn: g.turn(row), rows: []rowAt{{i, row}}})
				continue
			}
			k, ok := at[g.Seq[row]]
			if !ok {
				k = len(out)
				at[g.Seq[row]] = k
				out = append(out, unit{seq: g.Seq[row]})
			}
			out[k].rows = append(out[k].rows, rowAt{i, row})
		}
	}
	slices.SortStableFunc(out, func(a, b unit) int { return cmp.Or(cmp.Compare(a.seq, b.seq), cmp.Compare(a.turn, b.turn)) })
	return out
}

// turn is 0 where rows have none.
func (d *draft) turn(row int) uint32 {
	if d.Turn == nil {
		return 0
	}
	return d.Turn[row]
}

// judgeRecords takes or refuses each record by itself, in order of sequence, else of turn.
func (s *resolver) judgeRecords() {
	s.fresh = map[string]record.Series{}
	for _, u := range s.units() {
		fresh, refusal := s.judge(u)
		if refusal != nil {
			refusal.Seq = u.seq
			s.refused = append(s.refused, *refusal)
			s.dropRows(u)
			continue
		}
		for _, def := range fresh {
			s.fresh[def.Text] = def
			s.rec.Series = append(s.rec.Series, def)
		}
	}
}

func (s *resolver) dropRows(u unit) {
	for _, at := range u.rows {
		g := &s.groups[at.group]
		if g.drop == nil {
			g.drop = make([]bool, g.Rows())
		}
		g.drop[at.row] = true
	}
}

// judge returns the series that a record makes, or why it is refused.
func (s *resolver) judge(u unit) ([]record.Series, *model.Refusal) {
	var fresh []record.Series
	made := map[string]record.Series{} // fresh, by key
	for _, at := range u.rows {
		g := &s.groups[at.group]
		for j := range g.cols {
			def, found := s.lookUp(g, j, made)
			if !found {
				if s.head.Made+len(s.fresh)+len(fresh) >= s.limit {
					return nil, refusal(model.CodeLimit, "series %s would be more than the %d that a run may have", g.shown(j), s.limit)
				}
				def = record.Series{ID: s.head.NextSeries + uint32(len(s.rec.Series)+len(fresh)), Kind: g.cols[j].Kind, Text: g.texts[j]}
				fresh, made[def.Text] = append(fresh, def), def
			}
			if def.Kind != g.cols[j].Kind {
				if _, _, ok := column.Convert(&g.cols[j], at.row, def.Kind); !ok {
					return nil, refusal(model.CodeKindMismatch, "series %s holds %s and the value is a %s that cannot be converted exactly", g.shown(j), def.Kind, g.cols[j].Kind)
				}
			}
			if g.relative != nil && g.largest(at.row) > math.MaxInt64-g.begin[j][at.row] {
				return nil, refusal(model.CodeBadRecord, "series %s has no step left after %d", g.shown(j), g.begin[j][at.row]-1)
			}
		}
	}
	return fresh, nil
}

// shown is a column's metric for a message: there is one for each record that is refused.
func (d *draft) shown(col int) string { return model.Clip(d.Columns[col].Series.Metric) }

func refusal(code model.Code, format string, args ...any) *model.Refusal {
	return &model.Refusal{Code: code, Message: fmt.Sprintf(format, args...)}
}

// lookUp finds the series of a column: of the run, of the batch, or of the record that is
// judged.
func (s *resolver) lookUp(d *draft, col int, made map[string]record.Series) (record.Series, bool) {
	text := d.texts[col]
	if old := d.of[col]; known(&old) {
		return old, true
	}
	if def, ok := s.fresh[text]; ok {
		return def, true
	}
	def, ok := made[text]
	return def, ok
}

// emit turns the drafts into the groups of the record.
func (s *resolver) emit() {
	s.arrive()
	for i := range s.groups {
		s.emitGroup(&s.groups[i])
	}
	s.rec.Groups = s.out
}

// arrive numbers the rows of each group by (sequence, group, row), or by turn. Groups that
// share no series count from the same number, so that equal axes stay equal.
func (s *resolver) arrive() {
	if s.repeats() {
		s.number(s.groups)
		return
	}
	for i := range s.groups {
		if d := &s.groups[i]; slices.IsSorted(d.Seq) && slices.IsSorted(d.Turn) {
			d.ords = s.following(d.Rows())
		} else {
			s.number(s.groups[i : i+1])
		}
	}
}

// following are the next so many arrival numbers, one list for all who ask.
func (s *resolver) following(n int) []int64 {
	for next := s.head.Arrivals; len(s.ords) < n; {
		s.ords = append(s.ords, next+int64(len(s.ords)))
	}
	s.rec.NextOrd = max(s.rec.NextOrd, s.head.Arrivals+int64(n))
	return s.ords[:n:n]
}

// repeats reports whether any series is in two columns of the batch.
func (s *resolver) repeats() bool {
	if s.apart || len(s.groups) == 1 {
		return false // draft saw to that
	}
	seen := map[string]bool{}
	for i := range s.groups {
		for _, text := range s.groups[i].texts {
			if seen[text] {
				return true
			}
			seen[text] = true
		}
	}
	return false
}

func (s *resolver) number(groups []draft) {
	if groups[0].Turn != nil {
		s.byTurn(groups)
		return
	}
	var order []rowAt
	for i := range groups {
		d := &groups[i]
		d.ords = make([]int64, d.Rows())
		for row := range d.Rows() {
			order = append(order, rowAt{i, row})
		}
	}
	seq := func(at rowAt) uint64 {
		if d := &groups[at.group]; len(d.Seq) > 0 {
			return d.Seq[at.row]
		}
		return 0
	}
	slices.SortStableFunc(order, func(a, b rowAt) int { return cmp.Compare(seq(a), seq(b)) })
	for n, at := range order {
		groups[at.group].ords[at.row] = s.head.Arrivals + int64(n)
	}
	s.rec.NextOrd = max(s.rec.NextOrd, s.head.Arrivals+int64(len(order)))
}

// byTurn takes turns for arrival numbers.
func (s *resolver) byTurn(groups []draft) {
	for i := range groups {
		d := &groups[i]
		d.ords = make([]int64, d.Rows())
		for row, turn := range d.Turn {
			d.ords[row] = s.head.Arrivals + int64(turn)
			s.rec.NextOrd = max(s.rec.NextOrd, d.ords[row]+1)
		}
	}
}

// emitGroup writes a draft without its refused rows, once for each set of
// columns that start at the same steps.
func (s *resolver) emitGroup(d *draft) {
	pick := d.taken()
	if pick != nil && len(pick) == 0 {
		return
	}
	base := s.shared(d, pick)
	if d.relative == nil {
		s.emitWhole(d, base, pick)
		return
	}
	at := map[string]int{}
	for j := range d.cols {
		def, _ := s.lookUp(d, j, nil)
		key := d.signature(j)
		k, ok := at[key]
		if !ok {
			k = len(s.out)
			at[key] = k
			s.out = append(s.out, record.Group{Rows: d.resolved(base, j, pick)})
		}
		g := &s.out[k]
		g.Series = append(g.Series, def.ID)
		g.Columns = append(g.Columns, d.column(j, def.Kind, pick))
		s.fix(d, j, def.ID, pick)
	}
}

// emitWhole writes a draft whose columns all start at the same steps.
func (s *resolver) emitWhole(d *draft, rows column.Rows, pick []int32) {
	from := len(s.ids)
	for j := range d.cols {
		def, _ := s.lookUp(d, j, nil)
		s.ids = append(s.ids, def.ID)
		if pick != nil || def.Kind != d.cols[j].Kind {
			d.cols[j] = d.column(j, def.Kind, pick)
		}
	}
	s.out = append(s.out, record.Group{Rows: rows, Series: s.ids[from:len(s.ids):len(s.ids)], Columns: d.cols})
}

// taken lists the rows that are not refused, nil for all.
func (d *draft) taken() []int32 {
	if d.drop == nil {
		return nil
	}
	pick := []int32{}
	for i, drop := range d.drop {
		if !drop {
			pick = append(pick, int32(i))
		}
	}
	return pick
}

// shared is the rows of a draft as they came.
func (s *resolver) shared(d *draft, pick []int32) column.Rows {
	r := column.Rows{Mode: d.Unique, Time: d.TimeNs, Seq: d.Seq, Arrival: d.ords}
	if len(r.Seq) == 0 {
		s.zeros = slices.Grow(s.zeros, d.Rows())
		r.Seq = s.zeros[:d.Rows():d.Rows()]
	}
	for _, a := range d.Axes {
		at := column.AxisIndex(a.Axis)
		r.Mask |= 1 << at
		r.Axes[at] = a.Values
	}
	if pick == nil {
		return r
	}
	out := column.Rows{Mask: r.Mask, Mode: r.Mode}
	r.Source = make([]uint32, d.Rows())
	out.Add(&r, pick)
	return out
}

// signature is equal for columns whose relative steps resolve to the same.
func (d *draft) signature(col int) string {
	b := make([]byte, 0, 8*len(d.begin[col]))
	for _, v := range d.begin[col] {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	return string(b)
}

// resolved is the shared rows with the steps of a column made absolute.
func (d *draft) resolved(base column.Rows, col int, pick []int32) column.Rows {
	steps := make([]int64, d.Rows())
	for i, k := range d.relative {
		steps[i] = d.begin[col][i] + k
	}
	base.Axes[column.Step] = column.AppendPicked(nil, steps, pick)
	if d.relativeEnv == nil {
		return base
	}
	env := make([]int64, d.Rows())
	for i, k := range d.relativeEnv {
		env[i] = d.begin[col][i] + k
	}
	base.Axes[column.EnvStep] = column.AppendPicked(nil, env, pick)
	return base
}

// follow finds an environment step that is relative with the step: both count
// from the same start.
func (d *draft) follow() {
	for i := range d.Axes {
		if d.Axes[i].Axis == model.AxisEnvStep && d.Axes[i].Relative {
			d.relativeEnv = d.Axes[i].Values
		}
	}
}

// largest is the most that is added to the start of a row.
func (d *draft) largest(row int) int64 {
	if d.relativeEnv == nil {
		return d.relative[row]
	}
	return max(d.relative[row], d.relativeEnv[row])
}

// column is a column's values in its series' kind.
func (d *draft) column(col int, kind model.Kind, pick []int32) column.Values {
	v := d.cols[col]
	out := column.Values{Kind: v.Kind}
	if pick == nil {
		out = v
	} else {
		out.Add(&v, pick)
	}
	if kind == v.Kind {
		return out
	}
	conv := column.Values{Kind: kind}
	for i := range out.Len() {
		f, n, _ := column.Convert(&out, i, kind)
		if kind == model.KindFloat {
			conv.Floats = append(conv.Floats, f)
		} else {
			conv.Ints = append(conv.Ints, n)
		}
	}
	return conv
}

// fix puts the starts that a column used into the record.
func (s *resolver) fix(d *draft, col int, id uint32, pick []int32) {
	for _, key := range s.keysOf(d, col, id, pick) {
		if _, done := s.run.Start(key); !done && !s.fixed[key] {
			if s.fixed == nil {
				s.fixed = map[record.StartKey]bool{}
			}
			s.fixed[key] = true
			s.rec.Starts = append(s.rec.Starts, record.Start{Key: key, At: s.starts[key]})
		}
	}
}

func (s *resolver) keysOf(d *draft, col int, id uint32, pick []int32) []record.StartKey {
	plain := record.StartKey{Writer: s.rec.WriterPlace, Series: id}
	episodes := d.episodes(col)
	if episodes == nil {
		return []record.StartKey{plain}
	}
	var out []record.StartKey
	for _, ep := range column.AppendPicked(nil, episodes, pick) {
		key := record.StartKey{Writer: plain.Writer, Series: id, Episode: ep, Episodic: true}
		if len(out) == 0 || out[len(out)-1] != key {
			out = append(out, key)
		}
	}
	return out
}

// episodes is the episode of each row where steps count within one, else nil.
func (d *draft) episodes(col int) []int64 {
	if d.Columns[col].Series.Scale != model.ScaleEnvironment {
		return nil
	}
	for _, a := range d.Axes {
		if a.Axis == model.AxisEpisode {
			return a.Values
		}
	}
	return nil
}
