package segment

import (
	"slices"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Long groups carry a summary of every column.BlockRows rows, so that a chart of a
// long series reads summaries where a whole group is wider than a bucket.
const blocksFromRow = 2049

func (w *Writer) blockAggregates(r *column.Rows, cols []column.Values) (Ref, error) {
	n := r.Len()
	if n < blocksFromRow {
		return Ref{}, nil
	}
	e := &encoder{}
	for axis := -1; axis < column.NumAxes; axis++ {
		if axis < 0 || r.Mask.Has(axis) {
			lo, hi := blockEnds(r.X(axis))
			e.Bytes(w.enc.AppendInts(nil, lo))
			e.Bytes(w.enc.AppendInts(nil, hi))
		}
	}
	for i := range cols {
		if !column.Numeric(cols[i].Kind) {
			e.Bytes(nil)
			continue
		}
		var sums []*column.Aggregate
		for lo := 0; lo < n; lo += column.BlockRows {
			sum := column.Summarise(&cols[i], lo, min(lo+column.BlockRows, n))
			sums = append(sums, &sum)
		}
		part := &encoder{}
		part.summaries(w.enc, cols[i].Kind, sums)
		e.Bytes(part.Buf)
	}
	return w.block(e.Buf)
}

func blockEnds(xs []int64) (lo, hi []int64) {
	for part := range slices.Chunk(xs, column.BlockRows) {
		lo, hi = append(lo, slices.Min(part)), append(hi, slices.Max(part))
	}
	return lo, hi
}

// BlockSums reads the blocks of a column along an axis; none when there are no
// blocks or they meet each other.
func (g *Group) BlockSums(col, axis int) ([]column.Block, error) {
	if g.blocks.Len == 0 || !column.Numeric(g.Cols[col].Kind) {
		return nil, nil
	}
	raw, err := g.segment.read(g.blocks)
	if err != nil {
		return nil, err
	}
	dec := g.segment.files.decoder()
	defer g.segment.files.decoders.Put(dec)
	out, err := decodeBlocks(dec, raw, g, col, axis)
	if err != nil {
		return nil, g.segment.Bad(g.blocks, err)
	}
	for i := 1; i < len(out); i++ {
		if out[i].Lo <= out[i-1].Hi || !out[i].Sum.Exact(g.Cols[col].Kind) || !out[i-1].Sum.Exact(g.Cols[col].Kind) {
			return nil, nil
		}
	}
	return out, nil
}

func decodeBlocks(dec *codec.Decoder, raw []byte, g *Group, col, axis int) ([]column.Block, error) {
	e := &g.Ext
	d := newDecoder(raw)
	n := (e.Rows + column.BlockRows - 1) / column.BlockRows
	out := make([]column.Block, n)
	for a := -1; a < column.NumAxes; a++ {
		if a >= 0 && !e.Mask.Has(a) {
			continue
		}
		if a != axis {
			d.Bytes()
			d.Bytes()
			continue
		}
		lo, hi := d.ints(dec, n), d.ints(dec, n)
		for i := range out {
			out[i].Lo, out[i].Hi = lo[i], hi[i]
		}
	}
	for range col {
		d.Bytes()
	}
	part := newDecoder(d.Bytes())
	part.Err = d.Err
	sums := make([]*column.Aggregate, n)
	for i := range sums {
		sums[i] = &out[i].Sum
	}
	kind := g.Cols[col].Kind
	if g.segment.version == 1 {
		part.summaries1(dec, slices.Repeat([]model.Kind{kind}, n), sums)
	} else {
		part.summaries(dec, kind, sums)
	}
	return out, part.Err
}
