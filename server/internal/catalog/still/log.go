package still

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// The log of SQLite (https://www.sqlite.org/fileformat2.html#walformat): a header, then
// frames of a page each. A checksum goes on from frame to frame, so the first one that
// is wrong ends the log. A frame with a size ends a transaction.
const (
	logMagic    = 0x377f0682 // or one more, for checksums of big-endian words
	logVersion  = 3007000
	logHeader   = 32
	frameHeader = 24
	minPage     = 512
	maxPage     = 1 << 16
	defaultPage = 4096
)

// log is what was committed to a log.
type log struct {
	pageSize int64
	pages    uint32           // of the database
	frames   map[uint32]int64 // where the log has the newest content of a page
}

// logReader reads frames in their order.
type logReader struct {
	in    *bufio.Reader
	salts [8]byte
	order binary.ByteOrder
	sum   [2]uint32
	buf   []byte
}

// readLog is without frames where there is nothing to take from a log.
func readLog(f *os.File) (*log, error) {
	out := &log{frames: map[uint32]int64{}}
	r := &logReader{in: bufio.NewReaderSize(io.NewSectionReader(f, 0, 1<<62), 1<<20)}
	ok, err := r.header(out)
	pending := map[uint32]int64{}
	for at := int64(logHeader); ok && err == nil; at += frameHeader + out.pageSize {
		var page, size uint32
		if page, size, ok, err = r.frame(); !ok || err != nil {
			break
		}
		pending[page] = at + frameHeader
		if size == 0 {
			continue
		}
		out.pages = size
		for page, at := range pending {
			out.frames[page] = at
		}
		clear(pending)
	}
	return out, err
}

// read fills p; it is false at the end of the log.
func (r *logReader) read(p []byte) (bool, error) {
	_, err := io.ReadFull(r.in, p)
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return false, nil
	}
	return err == nil, err
}

func (r *logReader) header(out *log) (ok bool, err error) {
	h := make([]byte, logHeader)
	if ok, err = r.read(h); !ok {
		return false, err
	}
	magic, size := binary.BigEndian.Uint32(h), binary.BigEndian.Uint32(h[8:])
	if magic&^1 != logMagic || binary.BigEndian.Uint32(h[4:]) != logVersion || size < minPage || size > maxPage || size&(size-1) != 0 {
		return false, nil
	}
	r.order = binary.LittleEndian
	if magic&1 == 1 {
		r.order = binary.BigEndian
	}
	out.pageSize, r.buf = int64(size), make([]byte, frameHeader+size)
	copy(r.salts[:], h[16:])
	r.add(h[:24])
	return r.summed(h[24:]), nil
}

// frame is the next one that is whole.
func (r *logReader) frame() (page, size uint32, ok bool, err error) {
	if ok, err = r.read(r.buf); !ok {
		return 0, 0, false, err
	}
	page, size = binary.BigEndian.Uint32(r.buf), binary.BigEndian.Uint32(r.buf[4:])
	r.add(r.buf[:8])
	r.add(r.buf[frameHeader:])
	return page, size, page > 0 && [8]byte(r.buf[8:16]) == r.salts && r.summed(r.buf[16:24]), nil
}

// add goes on with the checksum.
func (r *logReader) add(b []byte) {
	s0, s1 := r.sum[0], r.sum[1]
	for ; len(b) >= 8; b = b[8:] {
		s0 += r.order.Uint32(b) + s1
		s1 += r.order.Uint32(b[4:]) + s0
	}
	r.sum = [2]uint32{s0, s1}
}

func (r *logReader) summed(b []byte) bool {
	return binary.BigEndian.Uint32(b) == r.sum[0] && binary.BigEndian.Uint32(b[4:]) == r.sum[1]
}
