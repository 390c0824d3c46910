package importer

import (
	"bufio"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// maxRecord bounds a record of a foreign log: one larger is damage.
const maxRecord = 256 << 20

// castagnoli is CRC-32C, which TFRecord masks so that a CRC of a CRC is safe.
func masked(b []byte) uint32 {
	crc := crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}

// damaged is a part of a log that cannot be read. The log goes on behind it
// when rest is false.
type damaged struct {
	offset int64
	text   string
	rest   bool
}

// tfRecords gives the records of a TFRecord file, and the damage between them.
// A record: u64 length, u32 masked CRC of the length, data, u32 masked CRC of it.
func tfRecords(r io.Reader, record func(data []byte), damage func(damaged)) error {
	in := bufio.NewReaderSize(r, 1<<16)
	var head [12]byte
	for offset := int64(0); ; {
		n, err := io.ReadFull(in, head[:])
		if errors.Is(err, io.EOF) {
			return nil
		}
		if errors.Is(err, io.ErrUnexpectedEOF) {
			damage(damaged{offset, "the file ends within a record: the program was killed, or still writes", true})
			return nil
		}
		if err != nil {
			return err
		}
		length := binary.LittleEndian.Uint64(head[:])
		if masked(head[:8]) != binary.LittleEndian.Uint32(head[8:]) || length > maxRecord {
			damage(damaged{offset, "the length of a record is damaged; what follows cannot be found", true})
			return nil
		}
		data, err := readExactly(in, int(length)+4)
		if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
			damage(damaged{offset, "the file ends within a record: the program was killed, or still writes", true})
			return nil
		}
		if err != nil {
			return err
		}
		if masked(data[:length]) == binary.LittleEndian.Uint32(data[length:]) {
			record(data[:length])
		} else {
			damage(damaged{offset, "the checksum of a record is wrong", false})
		}
		offset += int64(n) + int64(length) + 4
	}
}

// readExactly reads n bytes without trusting n: a damaged length must not take
// more memory than the file has.
func readExactly(r io.Reader, n int) ([]byte, error) {
	const step = 1 << 20
	out := make([]byte, 0, min(n, step))
	for len(out) < n {
		want := min(n-len(out), step)
		out = append(out, make([]byte, want)...)
		if _, err := io.ReadFull(r, out[len(out)-want:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}
