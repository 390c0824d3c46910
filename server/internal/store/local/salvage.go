package local

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path/filepath"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// maxSalvage is how much of a damaged file is searched: its directory is at the end.
const maxSalvage = 64 << 20

// mourn tells the ledgers of the runs of segments without a readable directory
// what those had of them. What an entry says is not served, since no checksum
// holds it; it is believed where it points to an index whose checksum does.
func (e *Engine) mourn(damaged []uint64) {
	for _, id := range damaged {
		name := segmentName(id)
		lost, err := e.lostWith(id)
		if err != nil {
			e.cfg.Logger.Warn("look for the runs of a damaged segment", "file", name, "err", err)
		}
		points := uint64(0)
		for run, d := range lost {
			points += d.Points
			e.bad.runs[run] = append(e.bad.runs[run], lostPoints{Damage: d})
		}
		e.cfg.Logger.Error("ledgers tell of the points in a damaged segment, as far as its directory can be read", "file", name, "runs", len(lost), "points", points)
	}
}

// lostWith is what a damaged segment had and nothing else has.
func (e *Engine) lostWith(id uint64) (map[model.RunID]model.Damage, error) {
	file, err := e.cfg.FS.Open(filepath.Join(e.segmentDir(), segmentName(id)), false)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := &segment{id: id, engine: e, file: file, version: segmentVersion}
	if s.size, err = file.Size(); err != nil {
		return nil, err
	}
	var first [segmentHead]byte
	if _, err := file.ReadAt(first[:], 0); err == nil && binary.LittleEndian.Uint16(first[len(segmentMagic):]) == 1 {
		s.version = 1
	}
	lost := map[model.RunID]model.Damage{}
	for _, sec := range s.salvage() {
		if d := sec.lostBefore(e.firstOrd(sec.run)); d.Points > 0 {
			d.File = filepath.Join("segments", segmentName(id))
			lost[sec.run] = d
		}
	}
	return lost, nil
}

// firstOrd is the arrival number of the first row that the log still has of a
// run: from there on nothing is lost.
func (e *Engine) firstOrd(id model.RunID) int64 {
	least := int64(math.MaxInt64)
	r := e.runs[id]
	if r == nil {
		return least
	}
	for _, l := range r.late {
		rec, err := record.DecodeBatch(l.payload)
		if err != nil {
			continue
		}
		for i := range rec.Groups {
			least = min(least, slices.Min(rec.Groups[i].Rows.Arrival))
		}
	}
	return least
}

// lostBefore counts the points of rows that arrived before one that is not lost.
func (s *section) lostBefore(ord int64) (d model.Damage) {
	for _, g := range s.groups {
		n, tlo, thi := 0, int64(math.MaxInt64), int64(math.MinInt64)
		if r, err := g.Rows(); err != nil {
			n, tlo, thi = g.ext.Rows, g.ext.MinTime, g.ext.MaxTime
		} else {
			for i := range r.Arrival {
				if r.Arrival[i] < ord {
					n, tlo, thi = n+1, min(tlo, r.Time[i]), max(thi, r.Time[i])
				}
			}
		}
		if n == 0 {
			continue
		}
		if d.Points == 0 {
			d.MinTimeNs, d.MaxTimeNs = tlo, thi
		}
		d.Points += uint64(n * len(g.cols))
		d.MinTimeNs, d.MaxTimeNs = min(d.MinTimeNs, tlo), max(d.MaxTimeNs, thi)
	}
	return d
}

// salvage finds the entries of a directory by trying every place.
func (s *segment) salvage() (found []*section) {
	tail := make([]byte, min(s.size, maxSalvage))
	base := s.size - int64(len(tail))
	n, err := s.file.ReadAt(tail, base)
	if err != nil && !errors.Is(err, io.EOF) {
		tail = tail[:n]
	}
	for at := 0; at+16+6 <= len(tail); at++ {
		d := newDecoder(tail[at:])
		ref := runRef{run: d.ID(), index: d.ref()}
		if d.Err != nil || !plausible(tail, ref.index.off-base, ref.index.len) {
			continue
		}
		sec, err := s.section(ref)
		if err != nil {
			continue
		}
		found = append(found, sec)
		at = len(tail) - len(d.Rest) - 1
	}
	return found
}

// plausible is a cheap look at what a reference names: an index is a column of
// one value, raw or zstd.
func plausible(tail []byte, off int64, length uint32) bool {
	return length > 2 && off >= 0 && off+int64(length) <= int64(len(tail)) && tail[off] == 1 && tail[off+1] <= 1
}
