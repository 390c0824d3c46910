package local

import (
	"testing"

	"github.com/kymogram/kymogram/internal/codec"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wal/faultfs"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
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
					_ = e.viewOf(r, s).end()
				}
			}
		}
	})
}

// FuzzSection gives any bytes to the reader of a segment's index.
func FuzzSection(f *testing.F) {
	e, err := Open(f.Context(), Config{Dir: "/data", FS: faultfs.New()})
	if err != nil {
		f.Fatal(err)
	}
	file, err := faultfs.New().Open("empty", true)
	if err != nil {
		f.Fatal(err)
	}
	seg := &segment{engine: e, file: file}
	s := sampleSection()
	f.Add(s.encodeBody(codec.NewEncoder()))
	f.Fuzz(func(t *testing.T, b []byte) {
		for version := range uint16(2) {
			seg.version = version + 1
			sec := section{}
			if sec.decodeBody(newDecoder(b), seg) != nil {
				continue
			}
			r := newRun(model.RunID{1})
			r.byKey = map[string]uint32{}
			r.absorb(&s.head)
			r.setAllSeries(sec.series)
			for _, g := range sec.groups {
				r.attach(g)
			}
			for _, s := range r.series {
				if s != nil {
					_ = e.viewOf(r, s).end()
				}
			}
		}
	})
}

func sampleSection() *section {
	ext := column.Extent{Rows: 2, Mask: 1, Sources: []uint32{0}, Last: 1}
	s := &section{series: sample().Series, groups: []*segmentGroup{{ext: ext, series: []uint32{0, 1}, cols: []columnMeta{{kind: model.KindFloat}, {kind: model.KindText}}}}}
	s.head = head{
		runRef: runRef{run: model.RunID{1}}, attempts: []model.Attempt{{Number: 1}},
		writers: []placedWriter{{0, record.Writer{ID: model.WriterID{1}, Mark: 3, Skipped: []model.Skipped{{First: 1, Last: 2, Reason: "torn"}}}}}, sources: []placedSource{{0, record.Source{Writer: 0, Attempt: 1}}},
	}
	s.count()
	return s
}

// FuzzDirectory gives any bytes to the reader of a segment's directory.
func FuzzDirectory(f *testing.F) {
	enc := &encoder{}
	enc.Uint(7)
	enc.Uint(1)
	enc.Uint(3)
	enc.Uint(1)
	enc.head(&sampleSection().head)
	f.Add(enc.Buf)
	f.Fuzz(func(t *testing.T, b []byte) {
		for version := range uint16(2) {
			seg := &segment{id: 7, version: version + 1}
			heads, err := seg.decodeDirectory(newDecoder(b))
			for i := range heads {
				if err == nil {
					newRun(heads[i].run).absorb(&heads[i])
				}
			}
		}
	})
}
