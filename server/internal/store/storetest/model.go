package storetest

import (
	"bytes"
	"cmp"
	"math"
	"math/big"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// naive is the contract written down as plainly as can be: a list of points
// and rules that look at all pairs. It is the oracle of the suite.
type naive struct {
	limit int
	runs  map[model.RunID]*naiveRun
	marks map[model.WriterID]uint64
}

type naiveRun struct {
	deleted  bool
	attempts map[uint32]model.Attempt
	loggers  map[model.WriterID]*uint64
	series   map[string]*naiveSeries
	points   int // arrivals so far
	starts   map[naiveStart]int64
	refused  uint64
	skipped  []model.Skipped
}

type naiveStart struct {
	writer  model.WriterID
	series  string
	episode int64
	has     bool
}

type naiveSeries struct {
	key    model.SeriesKey
	kind   model.Kind
	points []point
}

type point struct {
	axes    map[model.Axis]int64
	time    int64
	writer  model.WriterID
	attempt uint32
	seq     uint64
	arrival int
	mode    model.Uniqueness
	value   store.Number
}

func newNaive(limit int) *naive {
	return &naive{limit: limit, runs: map[model.RunID]*naiveRun{}, marks: map[model.WriterID]uint64{}}
}

func (n *naive) run(id model.RunID) *naiveRun {
	if n.runs[id] == nil {
		n.runs[id] = &naiveRun{attempts: map[uint32]model.Attempt{}, loggers: map[model.WriterID]*uint64{}, series: map[string]*naiveSeries{}, starts: map[naiveStart]int64{}}
	}
	return n.runs[id]
}

func (n *naive) putAttempt(id model.RunID, a model.Attempt) {
	r := n.run(id)
	old, known := r.attempts[a.Number]
	if !known {
		r.attempts[a.Number] = a
		return
	}
	if a.ResumeFrom != nil && (old.ResumeFrom == nil || *a.ResumeFrom < *old.ResumeFrom) {
		old.ResumeFrom = a.ResumeFrom
		r.attempts[a.Number] = old
	}
}

func (n *naive) deleteRun(id model.RunID) {
	r := n.run(id)
	r.deleted, r.series = true, map[string]*naiveSeries{}
}

// cellAt is one value of a batch.
type cellAt struct {
	seq                uint64
	turn               uint32
	group, row, column int
}

// append mirrors Writer.Append for a batch that is well-formed.
func (n *naive) append(b *model.Batch) (model.Ack, model.Code) {
	r := n.run(b.Run)
	if b.First > 0 {
		mark := n.marks[b.Writer]
		if b.Last <= mark {
			return model.Ack{Mark: mark}, ""
		}
		if b.First != mark+1 {
			return model.Ack{Mark: mark}, model.CodeGap
		}
		n.marks[b.Writer] = b.Last
	}
	ack := model.Ack{Mark: b.Last}
	records := recordsOf(b)
	if r.deleted {
		for _, rec := range deletedRecords(b) {
			ack.Refused = append(ack.Refused, model.Refusal{Seq: rec, Code: model.CodeRunDeleted})
		}
		r.refused += uint64(len(ack.Refused))
		r.skipped = append(r.skipped, b.Skipped...)
		return ack, ""
	}
	starts := n.resolveStarts(r, b)
	var taken []cellAt
	for _, rec := range records {
		if code := n.admit(r, b, rec); code != "" {
			ack.Refused = append(ack.Refused, model.Refusal{Seq: rec[0].seq, Code: code})
			continue
		}
		taken = append(taken, rec...)
	}
	for _, c := range taken {
		n.store(r, b, c, starts)
		ack.Stored++
	}
	r.refused += uint64(len(ack.Refused))
	r.skipped = append(r.skipped, b.Skipped...)
	return ack, ""
}

func deletedRecords(b *model.Batch) []uint64 {
	var out []uint64
	for g := range b.Groups {
		if b.Groups[g].Seq == nil && b.Groups[g].Rows() > 0 {
			out = append(out, 0)
		}
		out = append(out, b.Groups[g].Seq...)
	}
	for _, u := range b.Updates {
		out = append(out, u.Seq)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// recordsOf lists the values of each record in the order of arrival.
func recordsOf(b *model.Batch) [][]cellAt {
	var all []cellAt
	for g := range b.Groups {
		for row := range b.Groups[g].Rows() {
			for col := range b.Groups[g].Columns {
				c := cellAt{group: g, row: row, column: col}
				if b.Groups[g].Seq != nil {
					c.seq = b.Groups[g].Seq[row]
				}
				if b.Groups[g].Turn != nil {
					c.turn = b.Groups[g].Turn[row]
				}
				all = append(all, c)
			}
		}
	}
	slices.SortStableFunc(all, func(x, y cellAt) int { return cmp.Or(cmp.Compare(x.seq, y.seq), cmp.Compare(x.turn, y.turn)) })
	var out [][]cellAt
	for i, c := range all {
		same := i > 0 && all[i-1].seq == c.seq && (c.seq > 0 || all[i-1].group == c.group && all[i-1].row == c.row)
		if same {
			out[len(out)-1] = append(out[len(out)-1], c)
		} else {
			out = append(out, []cellAt{c})
		}
	}
	return out
}

// admit makes the series of a record, or says why it is refused.
func (n *naive) admit(r *naiveRun, b *model.Batch, rec []cellAt) model.Code {
	var made []string
	undo := func(code model.Code) model.Code {
		for _, text := range made {
			delete(r.series, text)
		}
		return code
	}
	for _, c := range rec {
		col := &b.Groups[c.group].Columns[c.column]
		text := col.Series.String()
		s := r.series[text]
		if s == nil {
			if len(r.series) >= n.limit {
				return undo(model.CodeLimit)
			}
			s = &naiveSeries{key: col.Series, kind: col.Kind}
			r.series[text] = s
			made = append(made, text)
		}
		if _, ok := convert(col, c.row, s.kind); !ok {
			return undo(model.CodeKindMismatch)
		}
	}
	return ""
}

func convert(c *model.Column, row int, to model.Kind) (store.Number, bool) {
	switch c.Kind {
	case model.KindFloat:
		f := c.Floats[row]
		if to == model.KindInt {
			if math.IsNaN(f) || math.IsInf(f, 0) {
				return store.Number{}, false
			}
			whole, accuracy := big.NewFloat(f).Int64()
			return store.Number{Int: whole}, accuracy == big.Exact
		}
		return store.Number{Float: f}, to == model.KindFloat
	case model.KindInt:
		v := c.Ints[row]
		if to == model.KindFloat {
			f, accuracy := new(big.Float).SetInt64(v).Float64()
			return store.Number{Float: f}, accuracy == big.Exact
		}
		return store.Number{Int: v}, to == model.KindInt
	case model.KindText:
		return store.Number{Doc: []byte(c.Texts[row])}, to == c.Kind
	}
	return store.Number{Doc: c.Docs[row]}, to == c.Kind
}

// resolveStarts finds where relative steps begin, before anything is stored.
func (n *naive) resolveStarts(r *naiveRun, b *model.Batch) map[naiveStart]int64 {
	out, least := map[naiveStart]int64{}, map[naiveStart]int64{}
	for g := range b.Groups {
		group := &b.Groups[g]
		if len(group.Axes) == 0 || !group.Axes[0].Relative {
			continue
		}
		for row := range group.Rows() {
			for col := range group.Columns {
				key := startOf(b, group, row, col)
				if _, fixed := r.starts[key]; fixed {
					continue
				}
				k := group.Axes[0].Values[row]
				if old, ok := least[key]; !ok || k < old {
					least[key] = k
				}
				out[key] = r.nextStep(key)
				if out[key] > 0 && least[key] == 1 { // it counts from 1
					out[key]--
				}
			}
		}
	}
	return out
}

func startOf(b *model.Batch, g *model.RowGroup, row, col int) naiveStart {
	key := naiveStart{writer: b.Writer, series: g.Columns[col].Series.String()}
	if g.Columns[col].Series.Scale == model.ScaleEnvironment {
		for _, a := range g.Axes {
			if a.Axis == model.AxisEpisode {
				key.episode, key.has = a.Values[row], true
			}
		}
	}
	return key
}

func (r *naiveRun) nextStep(key naiveStart) int64 {
	next := int64(0)
	s := r.series[key.series]
	if s == nil {
		return 0
	}
	found := false
	for _, p := range r.curve(s) {
		step, ok := p.axes[model.AxisStep]
		ep, hasEp := p.axes[model.AxisEpisode]
		if !ok || key.has && (!hasEp || ep != key.episode) {
			continue
		}
		if !key.has && hasEp && s.key.Scale == model.ScaleEnvironment { // counts by itself
			continue
		}
		if !found || step+1 > next {
			next, found = step+1, true
		}
	}
	return next
}

func (n *naive) store(r *naiveRun, b *model.Batch, c cellAt, starts map[naiveStart]int64) {
	g := &b.Groups[c.group]
	col := &g.Columns[c.column]
	s := r.series[col.Series.String()]
	p := point{axes: map[model.Axis]int64{}, time: g.TimeNs[c.row], writer: b.Writer, attempt: b.Attempt, seq: c.seq, arrival: r.points, mode: g.Unique}
	r.points++
	for _, a := range g.Axes {
		p.axes[a.Axis] = a.Values[c.row]
		if a.Relative {
			key := startOf(b, g, c.row, c.column)
			if _, fixed := r.starts[key]; !fixed {
				r.starts[key] = starts[key]
			}
			p.axes[a.Axis] += r.starts[key]
		}
	}
	p.value, _ = convert(col, c.row, s.kind)
	if p.value.Doc != nil {
		p.value.Doc = bytes.Clone(p.value.Doc)
	}
	s.points = append(s.points, p)
}

// same says that the rule of uniqueness takes two points for one.
func (r *naiveRun) same(p, q *point) bool {
	if p.mode != q.mode {
		return false
	}
	switch p.mode {
	case model.UniqueTime:
		return p.time == q.time
	case model.UniqueStep:
		a, ok := p.axes[model.AxisStep]
		b, also := q.axes[model.AxisStep]
		return ok && also && a == b
	}
	lp, lq := r.loggers[p.writer], r.loggers[q.writer]
	sameWriter := p.writer == q.writer || lp != nil && lq != nil && *lp == *lq
	return len(p.axes) > 0 && p.attempt == q.attempt && sameWriter && equalAxes(p, q)
}

func equalAxes(p, q *point) bool {
	if len(p.axes) != len(q.axes) {
		return false
	}
	for a, v := range p.axes {
		if w, ok := q.axes[a]; !ok || w != v {
			return false
		}
	}
	return true
}

// unique keeps the latest of each point.
func (r *naiveRun) unique(points []point) []point {
	var out []point
	for i := range points {
		replaced := false
		for j := range points {
			replaced = replaced || points[j].arrival > points[i].arrival && r.same(&points[i], &points[j])
		}
		if !replaced {
			out = append(out, points[i])
		}
	}
	return out
}

func (r *naiveRun) later(a, b uint32) bool {
	x, y := r.attempts[a], r.attempts[b]
	return x.Precedence > y.Precedence || x.Precedence == y.Precedence && x.Number > y.Number
}

func isRL(p *point) bool {
	for _, a := range []model.Axis{model.AxisRLStep, model.AxisEpisode, model.AxisEnvStep} {
		if _, ok := p.axes[a]; ok {
			return true
		}
	}
	return false
}

func (r *naiveRun) hidden(p *point, points []point) bool {
	step, ok := p.axes[model.AxisStep]
	if !ok {
		return false
	}
	if rl, has := p.axes[model.AxisRLStep]; has {
		step = rl
	}
	for _, a := range r.attempts {
		if a.ResumeFrom != nil && r.later(a.Number, p.attempt) && step >= *a.ResumeFrom {
			return true
		}
	}
	for i := range points {
		q := &points[i]
		if !r.later(q.attempt, p.attempt) || r.attempts[q.attempt].ResumeFrom != nil || isRL(p) != isRL(q) {
			continue
		}
		at, has := q.axes[model.AxisStep]
		if has && (isRL(p) && equalAxes(p, q) || !isRL(p) && at == p.axes[model.AxisStep]) {
			return true
		}
	}
	return false
}

func (r *naiveRun) curve(s *naiveSeries) []point {
	points := r.unique(s.points)
	var out []point
	for i := range points {
		if !r.hidden(&points[i], points) {
			out = append(out, points[i])
		}
	}
	return out
}

// selected is what a read with a selection of attempts is about.
func (r *naiveRun) selected(s *naiveSeries, sel store.Attempts) []point {
	if sel.All {
		return slices.Clone(s.points)
	}
	if sel.Number == 0 {
		return r.curve(s)
	}
	var of []point
	for _, p := range s.points {
		if p.attempt == sel.Number {
			of = append(of, p)
		}
	}
	return r.unique(of)
}

// way is what a scan goes along.
type way struct {
	axis model.Axis
	gaps bool
}

// ways are those that are compared.
func ways() []way {
	return []way{{axis: model.AxisStep}, {axis: model.AxisTime}, {axis: model.AxisRLStep}, {axis: model.AxisEpisode}, {model.AxisEpisode, true}, {model.AxisRLStep, true}}
}

// on lists the points of a scan in its order.
func on(points []point, along way) []point {
	var out []point
	for _, p := range points {
		if _, ok := p.at(along); ok {
			out = append(out, p)
		}
	}
	slices.SortFunc(out, func(p, q point) int {
		return cmp.Or(along.compare(&p, &q), bytes.Compare(p.writer[:], q.writer[:]), cmp.Compare(p.seq, q.seq), cmp.Compare(p.arrival, q.arrival))
	})
	return out
}

// compare orders points by x, those of one episode by step, then by time.
func (w way) compare(p, q *point) int {
	px, _ := p.at(w)
	qx, _ := q.at(w)
	order := cmp.Compare(px, qx)
	if w.axis == model.AxisEpisode {
		ps, _ := p.at(way{model.AxisStep, true})
		qs, _ := q.at(way{model.AxisStep, true})
		order = cmp.Or(order, cmp.Compare(ps, qs))
	}
	return cmp.Or(order, cmp.Compare(p.time, q.time))
}

// at is where a point stands along a way, false where it does not.
func (p *point) at(along way) (int64, bool) {
	if x, ok := p.x(along.axis); ok || !along.gaps {
		return x, ok
	}
	return math.MinInt64, true
}

func (p *point) x(axis model.Axis) (int64, bool) {
	if axis == model.AxisTime {
		return p.time, true
	}
	v, ok := p.axes[axis]
	return v, ok
}
