package wal

import (
	"encoding/binary"
	"hash/crc32"
)

// A frame is: magic u32, payload length u32, CRC32C u32 over everything behind
// it, zero u32, LSN u64, payload, zeros up to a multiple of 8. Little-endian.
const (
	frameMagic = 0x4c57474b // "KGWL"
	headerSize = 24
	frameAlign = 8
	// MaxRecord bounds a record; a longer length in a file is damage.
	MaxRecord = 1 << 30
)

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }

func frameSize(payload int) int64 {
	return int64(headerSize+payload+frameAlign-1) &^ (frameAlign - 1)
}

func appendFrame(dst []byte, lsn uint64, payload []byte) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, frameMagic)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(payload)))
	dst = append(dst, 0, 0, 0, 0, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint64(dst, lsn)
	dst = append(dst, payload...)
	for len(dst)-start < int(frameSize(len(payload))) {
		dst = append(dst, 0)
	}
	frame := dst[start:]
	binary.LittleEndian.PutUint32(frame[8:], frameSum(frame, len(payload)))
	return dst
}

// frameSum covers the length as well, so that a flipped length is damage too.
func frameSum(frame []byte, payload int) uint32 {
	sum := crc32.Update(0, castagnoli(), frame[4:8])
	return crc32.Update(sum, castagnoli(), frame[12:headerSize+payload])
}

// parseFrame reads the frame at the start of b.
func parseFrame(b []byte) (lsn uint64, payload []byte, size int64, ok bool) {
	if len(b) < headerSize || binary.LittleEndian.Uint32(b) != frameMagic {
		return 0, nil, 0, false
	}
	n := binary.LittleEndian.Uint32(b[4:])
	if n > MaxRecord || frameSize(int(n)) > int64(len(b)) {
		return 0, nil, 0, false
	}
	if binary.LittleEndian.Uint32(b[8:]) != frameSum(b, int(n)) {
		return 0, nil, 0, false
	}
	return binary.LittleEndian.Uint64(b[16:]), b[headerSize : headerSize+int(n)], frameSize(int(n)), true
}
