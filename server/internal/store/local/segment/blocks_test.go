package segment

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// blocked is a group of a step and a number whose blocks sum up so many rows each, as
// docs/format/segment.md says.
func blocked(rows, each int) (g *Group, values []float64, raw []byte) {
	enc := codec.NewEncoder()
	g = &Group{segment: &File{version: version}, Ext: column.Extent{Rows: rows, Mask: 1 << column.Step}, Series: []uint32{0}, Cols: []ColumnMeta{{Kind: model.KindFloat}}}
	e, lo, hi := &encoder{}, []int64(nil), []int64(nil)
	var sums []*column.Aggregate
	for i := range rows {
		values = append(values, float64(i*7919%10_007)/7)
		if i%each == 0 {
			lo = append(lo, int64(2*i))
		}
		if i%each == each-1 || i == rows-1 {
			hi = append(hi, int64(2*i))
			a := column.EmptyAggregate()
			for _, v := range values[i/each*each:] {
				a.Count++
				a.Sum += v
				a.Min, a.Max = min(a.Min, v), max(a.Max, v)
			}
			sums = append(sums, &a)
		}
	}
	for range 2 { // of the time, of the step
		e.Bytes(enc.AppendInts(nil, lo))
		e.Bytes(enc.AppendInts(nil, hi))
	}
	part := &encoder{}
	part.summaries(enc, model.KindFloat, sums)
	e.Bytes(part.Buf)
	return g, values, e.Buf
}

// TestBlocksOfEveryVersion reads blocks of 256 rows, and those of 512 that merges copied
// from files of before version 4.
func TestBlocksOfEveryVersion(t *testing.T) {
	for _, rows := range []int{blocksFromRow, 2304, 2560, 4099, maxGroupRows - 1, maxGroupRows} {
		for _, each := range []int{256, 512} {
			g, values, raw := blocked(rows, each)
			got, err := decodeBlocks(codec.NewDecoder(), raw, g, 0, column.Step)
			if err != nil || len(got) != (rows+each-1)/each {
				t.Fatalf("%d rows by %d: %d blocks, %v", rows, each, len(got), err)
			}
			for i, b := range got {
				part := values[i*each : min((i+1)*each, rows)]
				if b.Lo != int64(2*i*each) || b.Hi != b.Lo+2*int64(len(part)-1) || b.Sum.Count != uint64(len(part)) || b.Sum.Min != slices.Min(part) || b.Sum.Max != slices.Max(part) {
					t.Fatalf("%d rows by %d: block %d is %+v", rows, each, i, b)
				}
			}
		}
	}
}

// TestBlocksAreFine: a file of today has a block for every 256 rows.
func TestBlocksAreFine(t *testing.T) {
	fs := faultfs.New()
	if err := fs.MkdirAll("/data"); err != nil {
		t.Fatal(err)
	}
	w, err := NewFiles(fs, []string{"/data"}, slog.New(slog.DiscardHandler), nil).Create(NewDesk())
	if err != nil {
		t.Fatal(err)
	}
	rows, vals := &column.Rows{Mask: 1 << column.Step}, column.Values{Kind: model.KindFloat}
	for i := range 3000 {
		rows.Axes[column.Step] = append(rows.Axes[column.Step], int64(i))
		rows.Time = append(rows.Time, int64(i))
		vals.Floats = append(vals.Floats, float64(i))
	}
	before := len(w.buf)
	if _, err := w.blockAggregates(rows, []column.Values{vals}); err != nil {
		t.Fatal(err)
	}
	raw := slices.Clone(w.buf[before:])
	w.Abandon()
	g := &Group{segment: &File{version: version}, Ext: column.Extent{Rows: 3000, Mask: 1 << column.Step}, Cols: []ColumnMeta{{Kind: model.KindFloat}}}
	got, err := decodeBlocks(codec.NewDecoder(), raw, g, 0, column.Step)
	if err != nil || len(got) != 12 || got[11].Lo != 2816 || got[11].Hi != 2999 || got[0].Sum.Max != 255 {
		t.Fatalf("%+v, %v", got, err)
	}
}

// FuzzBlocks gives any bytes to the reader of blocks: no panic, and never more blocks
// than the rows can have.
func FuzzBlocks(f *testing.F) {
	for _, each := range []int{256, 512} {
		_, _, raw := blocked(2500, each)
		f.Add(raw, 0)
	}
	dec := codec.NewDecoder()
	f.Fuzz(func(t *testing.T, raw []byte, axis int) {
		g, _, _ := blocked(2500, 256)
		for v := range uint16(version) {
			g.segment.version = v + 1
			got, err := decodeBlocks(dec, raw, g, 0, axis%column.NumAxes)
			if err == nil && len(got) != 10 && len(got) != 5 {
				t.Fatalf("%d blocks", len(got))
			}
		}
	})
}
