package local

import (
	"encoding/binary"
	"hash/crc32"
	"log/slog"
	"testing"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
	"github.com/kymogram/kymogram/server/internal/store/local/segment"
)

func sample() *record.Batch {
	return &record.Batch{
		Run: model.RunID{1}, Writer: model.WriterID{2}, Attempt: 1, Last: 3, NextOrd: 2,
		Skipped: []model.Skipped{{First: 1, Last: 1, Reason: "torn"}}, Series: []record.Series{{ID: 0, Kind: model.KindFloat, Text: "x\x00ML_STEP"}, {ID: 1, Kind: model.KindText, Text: "t\x00ML_STEP"}},
		Starts: []record.Start{{Key: record.StartKey{Writer: 0, Series: 0, Episode: 4, Episodic: true}, At: 7}},
		Groups: []record.Group{{
			Rows: column.Rows{Mask: 1, Axes: [column.NumAxes][]int64{{5, 6}}, Time: []int64{1, 2}, Seq: []uint64{2, 3}, Arrival: []int64{0, 1}}, Series: []uint32{0, 1},
			Columns: []column.Values{{Kind: model.KindFloat, Floats: []float64{1, 2}}, {Kind: model.KindText, Docs: [][]byte{{'a'}, {}}}},
		}},
	}
}

// FuzzReplay gives any bytes to the replay of the log: errors, never a panic.
func FuzzReplay(f *testing.F) {
	enc := &record.Encoder{}
	if err := enc.Batch(sample()); err != nil {
		f.Fatal(err)
	}
	f.Add(enc.Buf)
	s := int64(4)
	enc = &record.Encoder{}
	enc.Attempt(model.RunID{1}, model.Attempt{Number: 1, ResumeFrom: &s})
	f.Add(enc.Buf)
	enc = &record.Encoder{}
	enc.Writer(model.RunID{1}, 0, model.WriterID{2}, 1, new(uint64))
	f.Add(enc.Buf)
	e, err := Open(f.Context(), Config{Dir: "/data", FS: faultfs.New()})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		e.runs = map[model.RunID]*run{}
		for lsn := range uint64(2) {
			_ = e.replay(lsn+1, b)
		}
		for _, r := range e.runs {
			e.hold(r)
			r.mu.Unlock()
			for _, s := range r.series {
				if s != nil {
					_ = e.viewNow(r, s).End()
				}
			}
		}
	})
}

// FuzzSection gives any bytes to the reader of what a segment says of a run, in
// both versions, and to the run that takes it in.
func FuzzSection(f *testing.F) {
	e, err := Open(f.Context(), Config{Dir: "/data", FS: faultfs.New()})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(flushedBody(f))
	f.Fuzz(func(t *testing.T, b []byte) {
		for version := range uint16(2) {
			file := segmentOf(t, b, version+1)
			heads, err := file.ReadDirectory()
			if err != nil || len(heads) != 1 {
				t.Fatal(heads, err)
			}
			sec, err := file.Section(heads[0].Entry)
			if err != nil {
				continue
			}
			r := newRun(model.RunID{1})
			r.byKey = map[string]uint32{}
			r.absorb(&sec.Head)
			r.setAllSeries(sec.Series)
			for _, g := range sec.Groups {
				r.attach(g)
			}
			for _, s := range r.series {
				if s != nil {
					_ = e.viewNow(r, s).End()
				}
			}
		}
	})
}

// flushedBody is what a flush wrote of a run.
func flushedBody(f *testing.F) []byte {
	fs := faultfs.New()
	e, err := Open(f.Context(), Config{Dir: "/data", FS: fs})
	if err != nil {
		f.Fatal(err)
	}
	run := model.RunID{1}
	if err := e.PutAttempt(f.Context(), run, model.Attempt{Number: 1}); err != nil {
		f.Fatal(err)
	}
	b := &model.Batch{Run: run, Writer: model.WriterID{2}, Attempt: 1, First: 1, Last: 2, Groups: []model.RowGroup{{
		Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{0, 1}}}, TimeNs: []int64{5, 6}, Seq: []uint64{1, 2},
		Columns: []model.Column{{Series: model.NewSeriesKey("loss", "", nil), Kind: model.KindFloat, Floats: []float64{1, 2}}, {Series: model.NewSeriesKey("note", "", nil), Kind: model.KindText, Texts: []string{"a", ""}}},
	}}}
	if _, err := e.Append(f.Context(), b); err != nil {
		f.Fatal(err)
	}
	if err := e.Close(); err != nil {
		f.Fatal(err)
	}
	file, err := fs.Open("/data/segments/0000000000000001.kgs", false)
	if err != nil {
		f.Fatal(err)
	}
	heads, err := e.files.Over(1, file).ReadDirectory()
	if err != nil || len(heads) != 1 {
		f.Fatal(heads, err)
	}
	packed := make([]byte, heads[0].Index.Len)
	if _, err := file.ReadAt(packed, heads[0].Index.Off); err != nil {
		f.Fatal(err)
	}
	plain, err := codec.NewDecoder().Bytes(packed, 1, 1<<20)
	if err != nil {
		f.Fatal(err)
	}
	return plain[0]
}

// segmentOf is a segment with one run, of which it says what the bytes are.
func segmentOf(t *testing.T, body []byte, version uint16) *segment.File {
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
	packed, err := codec.NewEncoder().AppendBytes(nil, [][]byte{index})
	if err != nil {
		t.Skip("more than an index may have")
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
	return fileOf(t, append(out, packed...), dir.Buf)
}

// fileOf is a segment of blocks and a directory.
func fileOf(t *testing.T, out, dir []byte) *segment.File {
	at := len(out)
	out = append(out, dir...)
	out = binary.LittleEndian.AppendUint64(out, uint64(at))
	out = binary.LittleEndian.AppendUint32(out, uint32(len(dir)))
	out = binary.LittleEndian.AppendUint32(out, sum(dir))
	out = append(out, "KGSEGEND"...)
	fs := faultfs.New()
	file, err := fs.Open("segment", true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := file.WriteAt(out, 0); err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	return segment.NewFiles(fs, ".", logger, segment.NewDamageList(logger)).Over(7, file)
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
	f.Fuzz(func(t *testing.T, b []byte) {
		for version := range uint16(2) {
			heads, err := fileOf(t, start(version+1), b).ReadDirectory()
			for i := range heads {
				if err == nil {
					newRun(heads[i].Run).absorb(&heads[i])
				}
			}
		}
	})
}
