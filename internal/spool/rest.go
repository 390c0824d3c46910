package spool

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/kymogram/kymogram/internal/model"
)

// walkLimit bounds the bytes that one [Rest.Count] walks, not counting the
// tail's own segment and the last one.
const walkLimit = 256 << 20

// Rest counts the points that a tail has not read yet. It looks at the heads of
// records only, and once at every segment that is full. The zero value is ready.
type Rest struct {
	whole map[uint64]uint64 // points of full segments
}

// Count is what lies beyond t. known is false while a long backlog is not walked
// to its end; later calls go on.
func (r *Rest) Count(t *Tail) (points uint64, known bool, err error) {
	numbers, err := segmentNumbers(t.dir)
	if err != nil {
		return 0, false, err
	}
	budget := int64(walkLimit)
	for i, n := range numbers {
		var p uint64
		switch reading := t.file != nil && n == t.number; {
		case t.file != nil && n < t.number, t.file == nil && n < t.next:
			delete(r.whole, n)
			continue
		case reading:
			p, _, err = walk(t, n, t.off)
		case i == len(numbers)-1:
			p, _, err = walk(t, n, headerSize)
		case budget > 0:
			p, err = r.full(t, n, &budget)
		default:
			return 0, false, nil
		}
		if err != nil {
			return 0, false, err
		}
		points += p
	}
	return points, true, nil
}

// full is what a segment with a successor holds: it does not change any more.
func (r *Rest) full(t *Tail, number uint64, budget *int64) (uint64, error) {
	if points, ok := r.whole[number]; ok {
		return points, nil
	}
	points, walked, err := walk(t, number, headerSize)
	if err != nil {
		return 0, err
	}
	if r.whole == nil {
		r.whole = map[uint64]uint64{}
	}
	r.whole[number] = points
	*budget -= walked
	return points, nil
}

// walk counts the points of a segment from off. What it cannot read counts as
// nothing: the tail says what became of it.
func walk(t *Tail, number uint64, off int64) (points uint64, walked int64, err error) {
	err = eachHead(t.dir, t.id, number, off, func(payload []byte, length uint32) {
		points += pointsOf(payload, length)
		walked += int64(recordSize(int(length)))
	})
	return points, walked, err
}

// eachHead visits the records of a segment from off with the first bytes of each
// payload. A segment that is gone or damaged has none.
func eachHead(dir string, id model.WriterID, number uint64, off int64, visit func(payload []byte, length uint32)) error {
	f, err := os.Open(segmentPath(dir, number))
	if errors.Is(err, os.ErrNotExist) {
		return nil // delivered or set aside meanwhile
	}
	if err != nil {
		return fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	if _, err := readHeader(f, id, number); err != nil {
		return nil //nolint:nilerr // a damaged segment is the tail's business
	}
	in := bufio.NewReaderSize(io.NewSectionReader(f, off, 1<<62), readAhead)
	for {
		head, _ := in.Peek(headSize + blockSides) // short at the end of the file
		if len(head) < headSize {
			return nil
		}
		length := binary.LittleEndian.Uint32(head)
		if length == 0 || length == sealedMark {
			return nil
		}
		payload := [blockSides]byte{}
		n := copy(payload[:], head[headSize:])
		if _, err := in.Discard(recordSize(int(length))); err != nil {
			return nil //nolint:nilerr // the end, or a length that is wild
		}
		visit(payload[:n], length)
	}
}

// blockSides is where the sizes of a block's payload end.
const blockSides = 12

// narrowest is the size of the smallest value.
const narrowest = 4

// pointsOf is [Record.Points] from the first bytes of a payload.
func pointsOf(payload []byte, length uint32) uint64 {
	switch {
	case len(payload) == 0:
		return 0
	case payload[0] == TypePoint || payload[0] == TypeDocument:
		return 1
	case payload[0] != TypeBlock || len(payload) < blockSides:
		return 0
	}
	rows := uint64(binary.LittleEndian.Uint32(payload[4:]))
	series := uint64(binary.LittleEndian.Uint32(payload[8:]))
	if points := rows * series; points <= uint64(length)/narrowest { // else it is damaged
		return points
	}
	return 0
}
