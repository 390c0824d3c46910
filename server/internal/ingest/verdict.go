package ingest

import (
	"cmp"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// verdict says which records of a batch are refused. The zero verdict takes all.
//
// Where rows have sequences, a record is refused as a whole: all its rows and
// updates. Without, only the faulty column, row or update goes.
//
//	writer's mark 6, batch    7    8    9   10
//	judge                     ok   bad  ok  ok      8 has a label too many
//	store                     7         9   10      and "1 point refused"
//	ack                       mark 10, refused: 8
//
// The mark passes 8, or the client would send it for ever. The count of refused
// points is an update of the batch itself: a batch that comes again is not stored
// again, so nothing is counted twice.
type verdict struct {
	bySeq   map[uint64]*fault
	rows    map[place]*fault // of groups without sequences
	columns map[place]*fault // likewise
	updates map[int]*fault   // updates without a sequence
	all     *fault           // the whole batch
	points  uint64           // refused, known after apply
}

// maxReasons is how many refusals of an ack carry a text beside their code, so
// that an ack stays far smaller than its batch.
const maxReasons = 1_000

// place is a row or a column of a group.
type place struct{ group, index int }

// judge looks at every record. deleted refuses them all.
func judge(b *model.Batch, deleted bool) *verdict {
	v := &verdict{}
	if deleted {
		v.all = &fault{model.CodeRunDeleted, "the run was deleted"}
		v.refuseAll(b)
		return v
	}
	for _, seq := range b.Unreadable {
		put(&v.bySeq, seq, bad("the update %q is not known", "unreadable"))
	}
	for i := range b.Groups {
		v.judgeGroup(i, &b.Groups[i])
	}
	for i := range b.Updates {
		if f := checkUpdate(&b.Updates[i]); f != nil {
			v.refuseUpdate(i, b.Updates[i].Seq, f)
		}
	}
	return v
}

// hopeless says whether no point of a batch can be stored. It looks at points up to the first
// that can.
func hopeless(b *model.Batch) bool {
	for i := range b.Groups {
		g := &b.Groups[i]
		for row := range g.Rows() {
			if checkRow(g, row) != nil {
				continue
			}
			for k := range g.Columns {
				if checkSeries(&g.Columns[k].Series) == nil && checkValue(&g.Columns[k], row) == nil {
					return false
				}
			}
		}
	}
	return b.Points() > 0
}

func (v *verdict) refuseAll(b *model.Batch) {
	for i := range b.Groups {
		for row := range b.Groups[i].Rows() {
			v.refuseRow(i, row, &b.Groups[i], v.all)
		}
	}
	for i := range b.Updates {
		v.refuseUpdate(i, b.Updates[i].Seq, v.all)
	}
	for _, seq := range b.Unreadable {
		put(&v.bySeq, seq, v.all)
	}
}

func (v *verdict) judgeGroup(group int, g *model.RowGroup) {
	for i := range g.Columns {
		c := &g.Columns[i]
		if c.Place == 0 { // else it was checked when it got there
			if f := checkSeries(&c.Series); f != nil {
				v.refuseColumn(group, i, g, f)
			}
		}
		if c.Kind == model.KindFloat || c.Kind == model.KindInt {
			continue
		}
		for row := range g.Rows() {
			if f := checkValue(c, row); f != nil {
				v.refuseRow(group, row, g, f)
			}
		}
	}
	for row := range g.Rows() {
		if f := checkRow(g, row); f != nil {
			v.refuseRow(group, row, g, f)
		}
	}
}

func (v *verdict) refuseColumn(group, column int, g *model.RowGroup, f *fault) {
	if g.Seq == nil {
		put(&v.columns, place{group, column}, f)
		return
	}
	for row := range g.Rows() {
		put(&v.bySeq, g.Seq[row], f)
	}
}

func (v *verdict) refuseRow(group, row int, g *model.RowGroup, f *fault) {
	if g.Seq == nil {
		put(&v.rows, place{group, row}, f)
		return
	}
	put(&v.bySeq, g.Seq[row], f)
}

func (v *verdict) refuseUpdate(i int, seq uint64, f *fault) {
	if seq == 0 {
		put(&v.updates, i, f)
		return
	}
	put(&v.bySeq, seq, f)
}

// put keeps the first fault.
func put[K comparable](m *map[K]*fault, key K, f *fault) {
	if *m == nil {
		*m = map[K]*fault{}
	}
	if (*m)[key] == nil {
		(*m)[key] = f
	}
}

func (v *verdict) clean() bool {
	return len(v.bySeq)+len(v.rows)+len(v.columns)+len(v.updates) == 0
}

// apply takes the refused records out of the batch and leaves a count of their
// points in it, so that the run's ledger knows of them exactly once.
func (v *verdict) apply(b *model.Batch) {
	if v.clean() {
		return
	}
	before := b.Points()
	for i := range b.Groups {
		v.applyGroup(i, &b.Groups[i])
	}
	b.Groups = slices.DeleteFunc(b.Groups, func(g model.RowGroup) bool { return g.Rows() == 0 || len(g.Columns) == 0 })
	v.points = uint64(before - b.Points())
	kept := make([]model.Update, 0, len(b.Updates)+1)
	for i, u := range b.Updates {
		if v.updates[i] == nil && (u.Seq == 0 || v.bySeq[u.Seq] == nil) {
			kept = append(kept, u)
		}
	}
	if v.points > 0 {
		kept = append(kept, model.Update{Op: model.OpRefused, Count: v.points})
	}
	b.Updates = kept
}

func (v *verdict) applyGroup(group int, g *model.RowGroup) {
	if len(v.columns) > 0 {
		kept := make([]model.Column, 0, len(g.Columns)) // the list itself is the receiver's
		for i := range g.Columns {
			if v.columns[place{group, i}] == nil {
				kept = append(kept, g.Columns[i])
			}
		}
		g.Columns = kept
	}
	keep := make([]bool, g.Rows())
	refused := false
	for row := range keep {
		keep[row] = v.rows[place{group, row}] == nil && (g.Seq == nil || v.bySeq[g.Seq[row]] == nil)
		refused = refused || !keep[row]
	}
	if refused {
		keepRows(g, keep)
	}
}

func keepRows(g *model.RowGroup, keep []bool) {
	g.TimeNs = pick(g.TimeNs, keep)
	g.Seq, g.Turn = pick(g.Seq, keep), pick(g.Turn, keep)
	for i := range g.Axes {
		g.Axes[i].Values = pick(g.Axes[i].Values, keep)
	}
	for i := range g.Columns {
		c := &g.Columns[i]
		c.Floats, c.Ints = pick(c.Floats, keep), pick(c.Ints, keep)
		c.Texts, c.Docs = pick(c.Texts, keep), pick(c.Docs, keep)
	}
}

// pick copies what is kept; columns may share their axes with other groups.
func pick[T any](values []T, keep []bool) []T {
	if values == nil {
		return nil
	}
	out := make([]T, 0, len(values))
	for i, v := range values {
		if keep[i] {
			out = append(out, v)
		}
	}
	return out
}

// refusals lists what the ack says, by sequence; 0 stands for records that had
// none.
func (v *verdict) refusals() []model.Refusal {
	if v.clean() {
		return nil
	}
	var out []model.Refusal
	add := func(seq uint64, f *fault) {
		out = append(out, model.Refusal{Seq: seq, Code: f.Code, Message: f.Message})
	}
	for seq, f := range v.bySeq {
		add(seq, f)
	}
	for _, f := range v.columns {
		add(0, f)
	}
	for _, f := range v.updates {
		add(0, f)
	}
	if v.all != nil && len(v.rows) > 0 {
		add(0, v.all)
	} else {
		for _, f := range v.rows {
			add(0, f)
		}
	}
	slices.SortFunc(out, func(a, b model.Refusal) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Message, b.Message))
	})
	return out
}
