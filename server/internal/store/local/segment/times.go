package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// A client that reads the clock for each metric gives every series a group of its own whose
// times are all but those of its neighbours. Such times are kept as differences from times
// that the file has already, of the same run.

// basedTimes is the kind of a column of such differences: behind it are the reference of the
// other column and a column of integers.
const basedTimes = 9

const (
	worthBasing = 64  // bytes of a column of times; below it a reference saves nothing
	maxBases    = 256 // of a run, at once
	maxBaseRows = 1 << 19
)

// timeBase is a column of times in the file that is written.
type timeBase struct {
	rows   int
	lo, hi int64
	ref    Ref
	times  []int64
	from   *Group // where to read the times, when there are none
}

// shared writes what the columns of a group share.
func (w *Writer) shared(r *column.Rows, e *column.Extent) (Ref, error) {
	var out encoder
	put := func(vs []int64) { out.Bytes(w.enc.AppendInts(nil, vs)) }
	for a := range column.NumAxes {
		if r.Mask.Has(a) {
			put(r.Axes[a])
		}
	}
	own, err := w.times(&out, r.Time, e)
	if err != nil {
		return Ref{}, err
	}
	put(castInts(r.Seq))
	if slices.IsSorted(r.Arrival) {
		put(r.Arrival)
	} else { // of a few flushes, in the order of something else
		out.Bytes(w.enc.AppendIntsByList(nil, r.Arrival))
	}
	put(castInts(r.Source))
	ref, err := w.block(out.Buf)
	if own {
		w.addBase(out.Buf, ref, timeBase{rows: e.Rows, lo: e.MinTime, hi: e.MaxTime, times: r.Time}, e.Mask)
	}
	return ref, err
}

// times writes a column of times, and reports whether it stands for itself.
func (w *Writer) times(out *encoder, vs []int64, e *column.Extent) (own bool, err error) {
	plain := w.enc.AppendInts(nil, vs)
	if base := w.base(e); base != nil && len(plain) >= worthBasing {
		if base.times == nil {
			if base.times, err = base.from.Xs(-1); err != nil {
				return false, err
			}
		}
		apart := make([]int64, len(vs))
		for i, v := range vs {
			apart[i] = v - base.times[i]
		}
		var b encoder
		b.Uint(uint64(len(vs)))
		b.U8(basedTimes)
		b.ref(base.ref)
		if b.Buf = w.enc.AppendInts(b.Buf, apart); len(b.Buf) < len(plain) {
			out.Bytes(b.Buf)
			return false, nil
		}
	}
	out.Bytes(plain)
	return true, nil
}

// base is the times that begin nearest to those of a group, of as many rows; nil without any.
func (w *Writer) base(e *column.Extent) (best *timeBase) {
	distance := func(b *timeBase) uint64 { return uint64(max(b.lo, e.MinTime)) - uint64(min(b.lo, e.MinTime)) }
	for i := range w.bases {
		b := &w.bases[i]
		if b.rows == e.Rows && b.lo <= e.MaxTime && e.MinTime <= b.hi && (best == nil || distance(b) < distance(best)) {
			best = b
		}
	}
	return best
}

// addBase notes the times of a block of shared columns that was written.
func (w *Writer) addBase(block []byte, ref Ref, b timeBase, mask column.AxisSet) {
	col, off := timesIn(block, mask)
	if len(col) < worthBasing || len(w.bases) == maxBases || w.baseRows+b.rows > maxBaseRows {
		return
	}
	b.ref = Ref{Off: ref.Off + int64(off), Len: uint32(len(col)), crc: checksum(col)}
	w.bases = append(w.bases, b)
	w.baseRows += b.rows
}

// copyShared takes over what the columns of a group share. Times that another file has the
// other half of are written anew.
func (w *Writer) copyShared(g *Group) (Ref, error) {
	b, err := g.segment.read(g.shared)
	if err != nil {
		return Ref{}, g.bad(g.shared, len(g.Cols), err)
	}
	if col, _ := timesIn(b, g.Ext.Mask); isBased(col) {
		r, err := g.Rows()
		if err != nil {
			return Ref{}, err
		}
		return w.shared(r, &g.Ext)
	}
	ref, err := w.block(b)
	w.addBase(b, ref, timeBase{rows: g.Ext.Rows, lo: g.Ext.MinTime, hi: g.Ext.MaxTime, from: g}, g.Ext.Mask)
	return ref, err
}

// timesIn finds the column of times in a block of shared columns.
func timesIn(block []byte, mask column.AxisSet) (col []byte, off int) {
	d := newDecoder(block)
	for a := range column.NumAxes {
		if mask.Has(a) {
			d.Bytes()
		}
	}
	col = d.Bytes()
	return col, len(block) - len(d.Rest) - len(col)
}

func isBased(col []byte) bool {
	_, n := binary.Uvarint(col)
	return n > 0 && len(col) > n && col[n] == basedTimes
}

// readTimes reads a column of times.
func (g *Group) readTimes(dec *codec.Decoder, col []byte) ([]int64, error) {
	if !isBased(col) {
		return exactly(dec, col, g.Ext.Rows)
	}
	d := newDecoder(col)
	rows, _, ref := d.Uint(), d.U8(), d.ref()
	if d.Err != nil || rows != uint64(g.Ext.Rows) {
		return nil, codec.ErrCorrupt
	}
	out, err := exactly(dec, d.Rest, g.Ext.Rows)
	if err != nil {
		return nil, err
	}
	b, err := g.segment.read(ref)
	if err != nil {
		// Not its place: what is lost with it is told for each group that needs it.
		if at, ok := errors.AsType[*BlockError](err); ok {
			err = at.Err
		}
		return nil, fmt.Errorf("times at byte %d: %w", ref.Off, err)
	}
	base, err := exactly(dec, b, g.Ext.Rows)
	if err != nil {
		return nil, err
	}
	for i, v := range base {
		out[i] += v
	}
	return out, nil
}

// exactly reads a column of so many integers.
func exactly(dec *codec.Decoder, b []byte, n int) ([]int64, error) {
	vs, err := dec.Ints(b, n)
	if err == nil && len(vs) != n {
		err = codec.ErrCorrupt
	}
	return vs, err
}
