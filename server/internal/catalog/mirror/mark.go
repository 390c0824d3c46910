package mirror

import (
	"encoding/binary"
	"hash/crc32"
	"os"
)

// A mark says, apart from a database and its mirror, how far both were. Older copies
// of them agree with each other; the mark knows a later change. It is written in place
// after each change and not synced, so it may lag and never leads. One that is missing
// or damaged says nothing.
const markSize = 20 // LSN u64, chain u64, CRC32C u32

// ReadMark is the change that a mark names, the zero one when it names none.
func ReadMark(path string) Position {
	b, err := os.ReadFile(path)
	if err != nil || !wholeMark(b) {
		return Position{}
	}
	return Position{binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint64(b[8:])}
}

// DamagedMark says that a mark is there and says nothing.
func DamagedMark(path string) bool {
	b, err := os.ReadFile(path)
	return err == nil && !wholeMark(b)
}

func wholeMark(b []byte) bool {
	return len(b) >= markSize && crc32.Checksum(b[:16], castagnoli()) == binary.LittleEndian.Uint32(b[16:])
}

// WriteMark notes a change that is durable.
func WriteMark(f *os.File, at Position) error {
	b := binary.LittleEndian.AppendUint64(make([]byte, 0, markSize), at.LSN)
	b = binary.LittleEndian.AppendUint64(b, at.Chain)
	_, err := f.WriteAt(binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli())), 0)
	return err
}

func castagnoli() *crc32.Table { return crc32.MakeTable(crc32.Castagnoli) }
