package state

import (
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

// FuzzSection gives any bytes to the reader of what a segment says of a run, in
// both versions, and to the run that takes it in.
func FuzzSection(f *testing.F) {
	f.Add(flushedBody(f))
	m := newMaker()
	f.Fuzz(func(t *testing.T, b []byte) {
		for version := range uint16(2) {
			file := m.segmentOf(t, b, version+1)
			heads, err := file.ReadDirectory()
			if err != nil || len(heads) != 1 {
				t.Fatal(heads, err)
			}
			sec, err := file.Section(heads[0].Entry, true)
			if err != nil {
				continue
			}
			r := testTable().newRun(model.RunID{1})
			r.absorb(&sec.Head)
			r.setAllSeries(sec.Series)
			for _, g := range sec.Groups {
				r.attach(g)
			}
			for _, s := range r.series {
				if s != nil {
					_ = r.view(s).End()
				}
			}
		}
	})
}

// testTable is a table of no runs.
func testTable() *Table {
	return NewTable(Limits{FlushRows: 1024, FlushBytes: 8 << 20, MemoryBytes: 256 << 20}, time.Now, segment.NewDamageList(slog.New(slog.DiscardHandler)))
}

// flushedBody is what a flush writes of a run.
func flushedBody(f *testing.F) []byte {
	t, fs := testTable(), faultfs.New()
	r := t.Ensure(model.RunID{1})
	r.Hold()
	r.ApplyAttempt(model.Attempt{Number: 1}, 1)
	err := r.Apply(&record.Batch{
		Run: r.ID, Writer: model.WriterID{2}, Attempt: 1, Last: 2, NextOrd: 2,
		Series: []record.Series{{ID: 0, Kind: model.KindFloat, Text: "x\x00ML_STEP"}, {ID: 1, Kind: model.KindText, Text: "t\x00ML_STEP"}},
		Groups: []record.Group{{
			Rows:    column.Rows{Mask: 1, Axes: [column.NumAxes][]int64{{5, 6}}, Time: []int64{1, 2}, Seq: []uint64{1, 2}, Arrival: []int64{0, 1}},
			Series:  []uint32{0, 1},
			Columns: []column.Values{{Kind: model.KindFloat, Floats: []float64{1, 2}}, {Kind: model.KindText, Docs: [][]byte{{'a'}, {}}}},
		}},
	}, 2)
	r.Unlock()
	if err != nil {
		f.Fatal(err)
	}
	w, err := segment.NewFiles(fs, []string{"/data"}, slog.New(slog.DiscardHandler), t.damage).Create(segment.NewDesk())
	if err != nil {
		f.Fatal(err)
	}
	if err := r.Freeze().Write(f.Context(), w); err != nil {
		f.Fatal(err)
	}
	file, err := w.Finish(nil)
	if err != nil {
		f.Fatal(err)
	}
	index := file.Runs[0].Index
	raw, err := fs.Open("/data/"+segment.Name(file.ID), false)
	if err != nil {
		f.Fatal(err)
	}
	packed := make([]byte, index.Len)
	if _, err := raw.ReadAt(packed, index.Off); err != nil {
		f.Fatal(err)
	}
	plain, err := codec.NewDecoder().Bytes(packed, 1, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	return plain[0]
}

// maker makes segments of any bytes.
type maker struct {
	enc   *codec.Encoder
	files *segment.Files
}

func newMaker() *maker {
	logger := slog.New(slog.DiscardHandler)
	return &maker{codec.NewEncoder(), segment.NewFiles(faultfs.New(), []string{"."}, logger, segment.NewDamageList(logger))}
}

// segmentOf is a segment with one run, of which it says what the bytes are.
func (m *maker) segmentOf(t *testing.T, body []byte, version uint16) *segment.File {
	run := model.RunID{1}
	var known record.Encoder // an attempt, a writer and a source
	known.Uint(1)
	known.AttemptBody(model.Attempt{Number: 1})
	known.Uint(1)
	known.Uint(0)
	known.ID(model.WriterID{1})
	known.Uint(1)
	known.Optional(nil)
	for range 3 {
		known.Uint(3)
	}
	known.Skipped([]model.Skipped{{First: 1, Last: 2, Reason: "torn"}})
	for _, v := range []uint64{1, 0, 0, 1} {
		known.Uint(v)
	}
	index := body
	if version == 1 {
		var e record.Encoder
		e.ID(run)
		e.Flag(false)
		e.Uint(3)
		e.Int(2)
		index = append(append(e.Buf, known.Buf...), body...)
	}
	out := start(version)
	packed, err := m.enc.AppendBytes(nil, [][]byte{index})
	if err != nil {
		t.Fatal(err)
	}
	var dir record.Encoder
	dir.Uint(7)
	dir.Uint(0)
	dir.Uint(1)
	dir.ID(run)
	dir.Uint(uint64(len(out)))
	dir.Uint(uint64(len(packed)))
	dir.Buf = binary.LittleEndian.AppendUint32(dir.Buf, sum(packed))
	if version > 1 {
		dir.Uint(3)
		dir.Uint(0)
		dir.Flag(false)
		dir.Int(2)
		dir.Uint(0)
		dir.Buf = append(dir.Buf, known.Buf...)
	}
	return m.fileOf(t, append(out, packed...), dir.Buf)
}

// fileOf is a segment of blocks and a directory.
func (m *maker) fileOf(t *testing.T, out, dir []byte) *segment.File {
	at := len(out)
	out = append(out, dir...)
	out = binary.LittleEndian.AppendUint64(out, uint64(at))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(dir)))
	out = binary.LittleEndian.AppendUint32(out, sum(dir))
	out = append(out, "KGSEGEND"...)
	file, err := faultfs.New().Open("segment", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(out, 0); err != nil {
		t.Fatal(err)
	}
	return m.files.Over(7, file)
}

func start(version uint16) []byte {
	return binary.LittleEndian.AppendUint16([]byte("KGSEG\x00"), version)
}

func sum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

// FuzzHeads gives any bytes to the reader of a segment's directory, and to the
// runs that take it in.
func FuzzHeads(f *testing.F) {
	var dir record.Encoder
	for _, v := range []uint64{7, 1, 3, 0} {
		dir.Uint(v)
	}
	f.Add(dir.Buf)
	m := newMaker()
	f.Fuzz(func(t *testing.T, b []byte) {
		for version := range uint16(2) {
			heads, err := m.fileOf(t, start(version+1), b).ReadDirectory()
			for i := range heads {
				if err == nil {
					testTable().newRun(heads[i].Run).absorb(&heads[i])
				}
			}
		}
	})
}
