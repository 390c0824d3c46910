package segment

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"path/filepath"

	"github.com/kymogram/kymogram/internal/model"
)

// maxSalvage is how much of a damaged file is searched: its directory is at the end.
const maxSalvage = 64 << 20

// LostWith is what a damaged segment had and nothing else has. What the log still
// has of a run begins with the arrival number that firstOrd says.
func (f *Files) LostWith(id uint64, firstOrd func(model.RunID) int64) (map[model.RunID]model.Damage, error) {
	file, err := f.fs.Open(filepath.Join(f.dir, Name(id)), false)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	s := f.Over(id, file)
	s.version = version
	if s.Size, err = file.Size(); err != nil {
		return nil, err
	}
	var first [headSize]byte
	if _, err := file.ReadAt(first[:], 0); err == nil && binary.LittleEndian.Uint16(first[len(magic):]) == 1 {
		s.version = 1
	}
	lost := map[model.RunID]model.Damage{}
	for _, sec := range s.salvage() {
		if d := sec.lostBefore(firstOrd(sec.Run)); d.Points > 0 {
			d.File = filepath.Join("segments", Name(id))
			lost[sec.Run] = d
		}
	}
	return lost, nil
}

// lostBefore counts the points of rows that arrived before one that is not lost.
func (s *Section) lostBefore(ord int64) (d model.Damage) {
	for _, p := range s.Groups {
		g := p.Whole()
		n, tlo, thi := 0, int64(math.MaxInt64), int64(math.MinInt64)
		if r, err := g.Rows(); err != nil {
			n, tlo, thi = g.Ext.Rows, g.Ext.MinTime, g.Ext.MaxTime
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
		d.Points += uint64(n * len(g.Cols))
		d.MinTimeNs, d.MaxTimeNs = min(d.MinTimeNs, tlo), max(d.MaxTimeNs, thi)
	}
	return d
}

// salvage finds the entries of a directory by trying every place.
func (s *File) salvage() (found []*Section) {
	tail := make([]byte, min(s.Size, maxSalvage))
	base := s.Size - int64(len(tail))
	n, err := s.file.ReadAt(tail, base)
	if err != nil && !errors.Is(err, io.EOF) {
		tail = tail[:n]
	}
	for at := 0; at+16+6 <= len(tail); at++ {
		d := newDecoder(tail[at:])
		ref := Entry{Run: d.ID(), Index: d.ref()}
		if d.Err != nil || !plausible(tail, ref.Index.Off-base, ref.Index.Len) {
			continue
		}
		sec, err := s.Section(ref, true)
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
	return length > 2 && off >= 0 && off <= int64(len(tail))-int64(length) && tail[off] == 1 && tail[off+1] <= 1
}
