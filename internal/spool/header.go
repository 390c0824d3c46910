package spool

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

const (
	segmentMagic  = "KYMSPOOL"
	formatVersion = 3 // the newest that is read
	goVersion     = 2 // that is written here: Go has no columns of stretches
	oldestVersion = 1 // that is read: all of its values have 8 bytes
	headerSize    = 64
	segmentSuffix = ".seg"
	badSuffix     = ".bad"
)

// Header is the first 64 bytes of a segment.
type Header struct {
	Writer    model.WriterID
	Number    uint64
	First     uint64 // sequence of the first record
	CreatedNs int64
}

// errNewer marks a segment of a later format: it is left alone, not damaged.
var errNewer = fmt.Errorf("the spool has a newer format than this program reads (%d to %d): update kymogram where it delivers", oldestVersion, formatVersion)

// readable reports whether this program reads a version of the format.
func readable(version int) bool { return version >= oldestVersion && version <= formatVersion }

func (h Header) encode() []byte {
	b := make([]byte, headerSize)
	copy(b, segmentMagic)
	binary.LittleEndian.PutUint16(b[8:], goVersion)
	binary.LittleEndian.PutUint16(b[10:], headerSize)
	copy(b[16:], h.Writer[:])
	binary.LittleEndian.PutUint64(b[32:], h.Number)
	binary.LittleEndian.PutUint64(b[40:], h.First)
	binary.LittleEndian.PutUint64(b[48:], uint64(h.CreatedNs))
	binary.LittleEndian.PutUint32(b[60:], crc32.ChecksumIEEE(b[:60]))
	return b
}

// decodeHeader checks and reads a segment's header.
func decodeHeader(b []byte) (Header, error) {
	var h Header
	if len(b) < headerSize || string(b[:8]) != segmentMagic {
		return h, errors.New("not a spool segment")
	}
	if crc32.ChecksumIEEE(b[:60]) != binary.LittleEndian.Uint32(b[60:]) {
		return h, errors.New("segment header is damaged")
	}
	if !readable(int(binary.LittleEndian.Uint16(b[8:]))) || binary.LittleEndian.Uint16(b[10:]) != headerSize {
		return h, errNewer
	}
	copy(h.Writer[:], b[16:])
	h.Number = binary.LittleEndian.Uint64(b[32:])
	h.First = binary.LittleEndian.Uint64(b[40:])
	h.CreatedNs = int64(binary.LittleEndian.Uint64(b[48:]))
	if h.First == 0 {
		return h, errors.New("segment header is damaged: its first sequence is 0")
	}
	return h, nil
}

func segmentName(number uint64) string { return fmt.Sprintf("%08d%s", number, segmentSuffix) }

func segmentPath(dir string, number uint64) string {
	return filepath.Join(dir, segmentName(number))
}

// segmentNumbers lists the segments of a writer's folder in rising order.
func segmentNumbers(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list segments: %w", err)
	}
	var out []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if !ok {
			continue
		}
		if n, err := strconv.ParseUint(name, 10, 64); err == nil {
			out = append(out, n)
		}
	}
	slices.Sort(out)
	return out, nil
}

// readHeader reads and checks the header of segment number of a writer.
func readHeader(f io.ReaderAt, writer model.WriterID, number uint64) (Header, error) {
	b := make([]byte, headerSize)
	if _, err := f.ReadAt(b, 0); err != nil && !errors.Is(err, io.EOF) {
		return Header{}, fmt.Errorf("read segment header: %w", err)
	}
	h, err := decodeHeader(b)
	if err != nil {
		return h, err
	}
	if h.Writer != writer || h.Number != number {
		return h, fmt.Errorf("segment header names writer %s, number %d", h.Writer, h.Number)
	}
	return h, nil
}

func headerOf(dir string, writer model.WriterID, number uint64) (Header, error) {
	f, err := os.Open(segmentPath(dir, number))
	if err != nil {
		return Header{}, fmt.Errorf("open segment: %w", err)
	}
	defer f.Close()
	return readHeader(f, writer, number)
}
