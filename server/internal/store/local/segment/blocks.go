package segment

import (
	"slices"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Long groups carry a summary of every column.BlockRows rows, so that a chart of a
// long series reads summaries where a whole group is wider than a bucket.
const (
	blocksFromRow = 2049
	blockRows3    = 512 // of groups that were written before version 4, which merges copy
)

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

// decodeBlocks reads the blocks of a column along an axis that the group has.
func decodeBlocks(dec *codec.Decoder, raw []byte, g *Group, col, axis int) ([]column.Block, error) {
	d := newDecoder(raw)
	var out []column.Block
	for a := -1; a < column.NumAxes; a++ {
		switch {
		case a >= 0 && !g.Ext.Mask.Has(a):
		case a == axis:
			out = d.blockEnds(dec, g.Ext.Rows)
		default:
			d.Bytes()
			d.Bytes()
		}
	}
	for range col {
		d.Bytes()
	}
	part := newDecoder(d.Bytes())
	if part.Err = d.Err; out == nil || d.Err != nil {
		part.Fail()
		return nil, part.Err
	}
	sums := make([]*column.Aggregate, len(out))
	for i := range sums {
		sums[i] = &out[i].Sum
	}
	kind := g.Cols[col].Kind
	if g.segment.version == 1 {
		part.summaries1(dec, slices.Repeat([]model.Kind{kind}, len(out)), sums)
	} else {
		part.summaries(dec, kind, sums)
	}
	return out, part.Err
}

// blockEnds reads the least and the largest x of each block; how many there are tells which
// version made them.
func (d *decoder) blockEnds(dec *codec.Decoder, rows int) []column.Block {
	lo, err := dec.Ints(d.Bytes(), blocks(rows, column.BlockRows))
	if n := len(lo); err != nil || n != blocks(rows, column.BlockRows) && n != blocks(rows, blockRows3) {
		d.Fail()
		return nil
	}
	hi, out := d.ints(dec, len(lo)), make([]column.Block, len(lo))
	for i := range out {
		out[i].Lo, out[i].Hi = lo[i], hi[i]
	}
	return out
}

func blocks(rows, each int) int { return (rows + each - 1) / each }
