package mirror

import (
	"encoding/binary"
	"fmt"
	"hash/crc64"
)

// The kinds of records. Behind the kind stands the chain before it.
const (
	kindChanges byte = iota + 1
	// kindCheckpoint: from here on the database's own file may have everything up
	// to here, even where its log was cut before.
	kindCheckpoint
	kindCheckpointed
)

const recordHead = 9 // kind and chain

// Position is a place in the history: the number of its last change, and the
// checksum of all changes up to it.
type Position struct{ LSN, Chain uint64 }

// Row is a row as a change left it.
type Row struct {
	Table  string
	Key    []byte
	Values []byte // nil: the row is gone
}

func appendRow(dst []byte, r Row) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(r.Table))), r.Table...)
	dst = append(binary.AppendUvarint(dst, uint64(len(r.Key))), r.Key...)
	if r.Values == nil {
		return binary.AppendUvarint(dst, 0)
	}
	return append(binary.AppendUvarint(dst, uint64(len(r.Values))+1), r.Values...)
}

func cutRow(b []byte) (r Row, rest []byte, err error) {
	table, b, err := cutBytes(b)
	if err != nil {
		return r, nil, err
	}
	r.Table = string(table)
	if r.Key, b, err = cutBytes(b); err != nil {
		return r, nil, err
	}
	n, size := binary.Uvarint(b)
	if size <= 0 || n > uint64(len(b)-size)+1 {
		return r, nil, errShort
	}
	if b = b[size:]; n == 0 {
		return r, b, nil
	}
	r.Values = b[: n-1 : n-1]
	return r, b[n-1:], nil
}

// Rows reads the rows of a change, or of a piece of a snapshot.
func rowsOf(b []byte, each func(Row) error) error {
	for len(b) > 0 {
		row, rest, err := cutRow(b)
		if err != nil {
			return err
		}
		if err := each(row); err != nil {
			return err
		}
		b = rest
	}
	return nil
}

func encode(kind byte, chain uint64, rows []Row) []byte {
	b := binary.LittleEndian.AppendUint64([]byte{kind}, chain)
	for _, r := range rows {
		b = appendRow(b, r)
	}
	return b
}

func decode(payload []byte) (kind byte, chain uint64, body []byte, err error) {
	if len(payload) < recordHead {
		return 0, 0, nil, errShort
	}
	kind, chain = payload[0], binary.LittleEndian.Uint64(payload[1:])
	if kind < kindChanges || kind > kindCheckpointed {
		return 0, 0, nil, fmt.Errorf("no record has the kind %d", kind)
	}
	return kind, chain, payload[recordHead:], nil
}

// extend is the chain with one more change, which names the one before it.
func extend(payload []byte) uint64 { return crc64.Checksum(payload, crc64.MakeTable(crc64.ECMA)) }
