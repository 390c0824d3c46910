package segment

import (
	"log/slog"
	"slices"
	"testing"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// FuzzBody gives any bytes to the reader of a segment's index.
func FuzzBody(f *testing.F) {
	file, err := faultfs.New().Open("empty", true)
	if err != nil {
		f.Fatal(err)
	}
	seg := NewFiles(faultfs.New(), []string{"/data"}, slog.New(slog.DiscardHandler), nil).Over(0, file)
	s := sampleSection()
	f.Add(s.encodeBody(codec.NewEncoder()))
	f.Fuzz(func(_ *testing.T, b []byte) {
		for seg.version = 1; seg.version <= version; seg.version++ {
			_ = (&Section{}).decodeBody(newDecoder(b), seg, true)
		}
	})
}

// FuzzShared gives any bytes to the reader of what the columns of a group share.
func FuzzShared(f *testing.F) {
	file, err := faultfs.New().Open("other", true)
	if err != nil {
		f.Fatal(err)
	}
	enc := codec.NewEncoder()
	other := enc.AppendInts(nil, []int64{10, 20, 31})
	if _, err := file.WriteAt(other, 0); err != nil {
		f.Fatal(err)
	}
	seg := NewFiles(faultfs.New(), []string{"/data"}, slog.New(slog.DiscardHandler), nil).Over(0, file)
	seg.version, seg.Size = version, int64(len(other))
	three := func(put *encoder) { put.Bytes(enc.AppendInts(nil, []int64{1, 2, 3})) }
	times := &encoder{}
	times.Uint(3)
	times.U8(basedTimes)
	times.ref(Ref{Len: uint32(len(other)), crc: checksum(other)})
	times.Buf = enc.AppendInts(times.Buf, []int64{1, 1, 2})
	all := &encoder{}
	three(all)
	all.Bytes(times.Buf)
	for range 3 {
		three(all)
	}
	g := &Group{segment: seg, Ext: column.Extent{Rows: 3, Mask: 1}}
	d := codec.NewDecoder()
	if r, err := g.decodeRows(d, all.Buf); err != nil || !slices.Equal(r.Time, []int64{11, 21, 33}) {
		f.Fatalf("%+v, %v", r, err)
	}
	f.Add(all.Buf)
	f.Fuzz(func(t *testing.T, b []byte) {
		if r, err := g.decodeRows(d, b); err == nil && (len(r.Time) != 3 || len(r.Axes[0]) != 3 || len(r.Arrival) != 3) {
			t.Fatalf("%+v", r)
		}
	})
}

func sampleSection() *Section {
	ext := column.Extent{Rows: 2, Mask: 1, Sources: []uint32{0}, Last: 1}
	s := &Section{Series: []record.Series{{ID: 0, Kind: model.KindFloat, Text: "x\x00ML_STEP"}, {ID: 1, Kind: model.KindText, Text: "t\x00ML_STEP"}}, Groups: []Packed{&Group{Ext: ext, Series: []uint32{0, 1}, Cols: []ColumnMeta{{Kind: model.KindFloat}, {Kind: model.KindText}}}}}
	s.Head = Head{
		Entry: Entry{Run: model.RunID{1}}, Attempts: []model.Attempt{{Number: 1}},
		Writers: []PlacedWriter{{0, record.Writer{ID: model.WriterID{1}, Mark: 3, Skipped: []model.Skipped{{First: 1, Last: 2, Reason: "torn"}}}}}, Sources: []PlacedSource{{0, record.Source{Writer: 0, Attempt: 1}}},
	}
	s.count()
	return s
}

// FuzzDirectory gives any bytes to the reader of a segment's directory.
func FuzzDirectory(f *testing.F) {
	enc := &encoder{}
	enc.Uint(7)
	enc.origin(Origin{1, 2000, 300})
	enc.Uint(1)
	enc.Uint(3)
	enc.Uint(1)
	enc.head(&sampleSection().Head)
	f.Add(enc.Buf)
	f.Fuzz(func(_ *testing.T, b []byte) {
		for v := range uint16(version) {
			seg := &File{ID: 7, version: v + 1}
			heads, err := seg.decodeDirectory(newDecoder(b))
			for i := range heads {
				if err == nil {
					heads[i].Merge(&heads[0])
				}
			}
		}
	})
}
