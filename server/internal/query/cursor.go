package query

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// A cursor is a version byte, 32 bits of a hash of the request that made it and
// a position. The hash is no secret: it catches a cursor that is used with
// another series, axis or filter, where its position would mean nothing.
//
// The position names the last row of a page by everything that orders rows, never
// by a count, since points may arrive between two pages:
//
//	x      7   8   8   8   8   9
//	time   t1  t2  t2  t3  t3  t4
//	writer a   a   b   a   b   a
//	             ▲ the page ended here; the next begins at (8, t2, b)
//
// A point that arrives in front of the mark is not in this reading, one behind it
// is, and none comes twice.
const (
	cursorVersion  = 3
	cursorHead     = 1 + 4
	positionLength = 8 + 8 + 8 + 16 + 8 + 4 + 4
)

var errCursor = model.Errorf(model.CodeInvalid, "the cursor does not belong to this request").
	WithHint("pass `next` of the page before, with the same other parameters, or leave the cursor out to start again")

func requestHash(parts ...string) uint32 {
	h := fnv.New32a()
	for _, p := range parts {
		var n [4]byte
		binary.BigEndian.PutUint32(n[:], uint32(len(p)))
		h.Write(n[:])
		h.Write([]byte(p))
	}
	return h.Sum32()
}

func sealCursor(hash uint32, position []byte) string {
	raw := append(make([]byte, 0, cursorHead+len(position)), cursorVersion)
	raw = binary.BigEndian.AppendUint32(raw, hash)
	return base64.RawURLEncoding.EncodeToString(append(raw, position...))
}

func openCursor(hash uint32, cursor string) ([]byte, error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil || len(raw) < cursorHead || raw[0] != cursorVersion || binary.BigEndian.Uint32(raw[1:]) != hash {
		return nil, errCursor
	}
	return raw[cursorHead:], nil
}

func appendPosition(dst []byte, p *store.Position) []byte {
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Axis))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.Step))
	dst = binary.BigEndian.AppendUint64(dst, uint64(p.TimeNs))
	dst = append(dst, p.Writer[:]...)
	dst = binary.BigEndian.AppendUint64(dst, p.Seq)
	dst = binary.BigEndian.AppendUint32(dst, p.Row)
	return binary.BigEndian.AppendUint32(dst, p.Depth)
}

func readPosition(raw []byte) (*store.Position, error) {
	if len(raw) != positionLength {
		return nil, errCursor
	}
	return &store.Position{
		Axis:   int64(binary.BigEndian.Uint64(raw)),
		Step:   int64(binary.BigEndian.Uint64(raw[8:])),
		TimeNs: int64(binary.BigEndian.Uint64(raw[16:])),
		Writer: model.WriterID(raw[24:40]),
		Seq:    binary.BigEndian.Uint64(raw[40:]),
		Row:    binary.BigEndian.Uint32(raw[48:]),
		Depth:  binary.BigEndian.Uint32(raw[52:]),
	}, nil
}
