package curve

import (
	"math"
	"sync/atomic"

	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Memo is what reads of a series worked out, kept until the series changes.
type Memo struct {
	last atomic.Pointer[End]
	long atomic.Pointer[worked] // nil for a short series
}

// DropLong forgets what is of groups that are read no more.
func (m *Memo) DropLong() { m.long.Store(nil) }

// worked is what reads of a long series worked out; it is never written to.
type worked struct {
	overlay *overlay
	tally   *tally
}

// Bytes of what a memo is made of, as the allocator gives them.
const (
	endBytes       = 384
	workedBytes    = 16
	overlayBytes   = 144
	leafBytes      = 136
	blockBytes     = 112
	tallyBytes     = 48
	remainderBytes = 136 + 16*column.NumAxes + 8 // with its sources
)

// Cost is the memory that the memo takes with it.
func (m *Memo) Cost() int {
	n := m.long.Load().cost()
	if m.last.Load() != nil {
		n += endBytes
	}
	return n
}

func (w *worked) cost() (n int) {
	if w == nil {
		return 0
	}
	n = workedBytes
	if o := w.overlay; o != nil {
		n += overlayBytes + leafBytes*cap(o.leaves)
		for _, level := range o.levels {
			n += blockBytes * cap(level)
		}
	}
	if t := w.tally; t != nil {
		n += tallyBytes + remainderBytes*cap(t.left)
	}
	return n
}

// known is what was worked out so far.
func (m *Memo) known() worked {
	if w := m.long.Load(); w != nil {
		return *w
	}
	return worked{}
}

// keep notes what a read worked out of a long series.
func (v *View) keep(change func(*worked)) {
	for {
		old := v.Memo.long.Load()
		next := v.Memo.known()
		change(&next)
		if v.Memo.long.CompareAndSwap(old, &next) {
			v.Kept.add(next.cost() - old.cost())
			return
		}
	}
}

// Kept counts what reads made the series of a run keep since all of it was counted. A
// read may end after the run forgot its series: that counts no more.
type Kept struct {
	total *atomic.Int64
	bytes atomic.Int64
}

const closedKept = math.MinInt64

// Open begins to count into a total.
func (k *Kept) Open(total *atomic.Int64) {
	k.total = total
	k.bytes.Store(0)
}

// Take begins anew: what was kept until now is counted by somebody else.
func (k *Kept) Take() { k.end(0) }

// Close ends the count.
func (k *Kept) Close() { k.end(closedKept) }

func (k *Kept) end(now int64) {
	if old := k.bytes.Swap(now); old != closedKept && k.total != nil {
		k.total.Add(-old)
	}
}

func (k *Kept) add(n int) {
	for old := k.bytes.Load(); k.total != nil && old != closedKept; old = k.bytes.Load() {
		if k.bytes.CompareAndSwap(old, old+int64(n)) {
			k.total.Add(int64(n))
			return
		}
	}
}
