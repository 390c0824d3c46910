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
	head := frameHead(lsn, payload)
	dst = append(append(dst, head[:]...), payload...)
	return append(dst, make([]byte, padding(payload))...)
}

// padding is how many zeros stand behind a payload.
func padding(payload []byte) int { return int(frameSize(len(payload))) - headerSize - len(payload) }

// frameHead is what stands before a payload.
func frameHead(lsn uint64, payload []byte) (head [headerSize]byte) {
	binary.LittleEndian.PutUint32(head[:], frameMagic)
	binary.LittleEndian.PutUint32(head[4:], uint32(len(payload)))
	binary.LittleEndian.PutUint64(head[16:], lsn)
	binary.LittleEndian.PutUint32(head[8:], frameSum(head[:], payload))
	return head
}

// frameSum covers the length as well, so that a flipped length is damage too.
func frameSum(head, payload []byte) uint32 {
	sum := crc32.Update(0, castagnoli(), head[4:8])
	sum = crc32.Update(sum, castagnoli(), head[12:headerSize])
	return crc32.Update(sum, castagnoli(), payload)
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
	if binary.LittleEndian.Uint32(b[8:]) != frameSum(b, b[headerSize:headerSize+int(n)]) {
		return 0, nil, 0, false
	}
	return binary.LittleEndian.Uint64(b[16:]), b[headerSize : headerSize+int(n)], frameSize(int(n)), true
}
