package uplink

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	pageSize  = 4096
	pointSize = 40 // of a record with a point
)

// page is one of a segment.
type page struct{ segment, number int }

// TestLostPagesAreTold: a power loss leaves zeros for pages of a writer's segments.
// Every point of which a reader finds the number arrives once, also when the stream
// breaks; the numbers of the others are told; the folder goes, and the bytes that
// were not read are kept.
func TestLostPagesAreTold(t *testing.T) {
	for _, tt := range []struct {
		lost []page
		harm fault // to the first two batches
	}{
		{harm: none},
		{harm: reset},
		{lost: []page{{0, 0}}},
		{lost: []page{{0, 7}}},
		{lost: []page{{0, 7}}, harm: reset},
		{lost: []page{{0, 7}}, harm: loseAck},
		{lost: []page{{0, 63}}},
		{lost: []page{{1, 0}}},
		{lost: []page{{1, 0}}, harm: reset},
		{lost: []page{{0, 7}, {1, 20}}},
		{lost: []page{{0, 7}, {1, 0}}, harm: loseAck},
		{lost: []page{{0, 30}, {0, 31}, {2, 0}}},
		{lost: []page{{2, 3}}},
		{lost: []page{{2, 3}, {2, 4}}, harm: reset},
	} {
		t.Run(fmt.Sprint(tt.lost, tt.harm), func(t *testing.T) {
			s := startServer(t)
			s.batch = func(n int) fault {
				if n <= 2 {
					return tt.harm
				}
				return none
			}
			f := newFixture(t, s)
			for i := range int64(20_500) { // in three segments
				f.point("loss", i, 0.5)
			}
			if _, err := f.w.Close(); err != nil { // without a close record: nothing of the program ran any more
				t.Fatal(err)
			}
			damaged := f.lose(tt.lost)
			want, skipped := f.left(damaged, tt.lost)
			f.sync(Options{})
			if diff := cmp.Diff(want, s.stored(), cmp.AllowUnexported(cell{})); diff != "" {
				t.Errorf("stored (-want +got)\n%.2000s", diff)
			}
			if diff := cmp.Diff(skipped, s.skipped); diff != "" {
				t.Errorf("skipped (-want +got)\n%s", diff)
			}
			f.checkEmpty()
			for n, b := range damaged {
				kept, err := os.ReadFile(filepath.Join(f.folder.Path, "rejected", fmt.Sprintf("%s-%08d.seg.bad", f.w.ID, n)))
				hurt := slices.ContainsFunc(tt.lost, func(p page) bool { return p.segment == n })
				if hurt != (err == nil) || hurt && !bytes.Equal(kept, b) {
					t.Errorf("segment %d is kept as %d bytes: %v", n, len(kept), err)
				}
			}
		})
	}
}

// lose puts zeros in place of pages.
func (f *fixture) lose(lost []page) (segments [][]byte) {
	f.Helper()
	for n := range 3 {
		path := filepath.Join(f.folder.WriterPath(f.w.ID), fmt.Sprintf("%08d.seg", n))
		b, err := os.ReadFile(path)
		f.ok(err)
		for _, p := range lost {
			if p.segment == n {
				clear(b[p.number*pageSize : (p.number+1)*pageSize])
			}
		}
		f.ok(os.WriteFile(path, b, 0o600))
		segments = append(segments, b)
	}
	return segments
}

// left says by the layout alone what arrives of points that were logged one by one:
// of each segment those before the first whose head is lost.
func (f *fixture) left(segments [][]byte, lost []page) (want map[cell]int, skipped []model.Skipped) {
	definition := 0 // all segments state the same series
	for _, b := range segments {
		definition = max(definition, 8+(int(binary.LittleEndian.Uint32(b[64:]))+7)/8*8)
	}
	want = maps.Clone(f.want)
	step, seq := int64(0), uint64(1)
	for n, b := range segments {
		gone := func(at int) bool { return slices.Contains(lost, page{n, at / pageSize}) }
		begin := seq // of what is not read to the end
		blind, whole := gone(0), uint64(0)
		seq++
		for at := 64 + definition; at+pointSize <= len(b) && step < int64(len(f.want)); at += pointSize {
			if !blind && gone(at) {
				blind, begin = true, seq
			}
			half := !gone(at) && gone(at+pointSize-1)
			switch {
			case blind && !gone(at) && !half:
				whole++
			case !blind && half:
				skipped = append(skipped, model.Skipped{First: seq, Last: seq, Reason: "torn"})
			}
			if blind || half {
				delete(want, cell{"loss", step, false, "0.5"})
			}
			step, seq = step+1, seq+1
		}
		if !blind {
			continue
		}
		gap := model.Skipped{First: begin, Last: seq - 1, Reason: "quarantined"}
		if n == len(segments)-1 { // nothing tells how many the lost pages had: one at least
			gap.Last, gap.Points = begin+whole, whole
		}
		if last := len(skipped) - 1; last >= 0 && skipped[last].Last+1 == begin && skipped[last].Reason == gap.Reason && gap.Points == 0 {
			skipped[last].Last = gap.Last
			continue
		}
		skipped = append(skipped, gap)
	}
	return want, skipped
}
