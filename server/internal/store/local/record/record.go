package record

import (
	"fmt"

	"github.com/kymogram/kymogram/internal/model"
)

// Type is the first byte of a WAL record.
type Type byte

// The types of records.
const (
	TypeBatch1   Type = 1 // of folders of version 1: without the first sequence
	TypeAttempt  Type = 2
	TypeWriter   Type = 3
	TypeDelete   Type = 4
	TypeReleased Type = 5 // meta up to an LSN is durable elsewhere
	TypeBatch    Type = 6
)

// Attempt writes that an attempt is known.
func (e *Encoder) Attempt(run model.RunID, a model.Attempt) {
	e.U8(byte(TypeAttempt))
	e.ID(run)
	e.AttemptBody(a)
}

// Writer writes that a writer is known.
func (e *Encoder) Writer(run model.RunID, place uint32, w model.WriterID, attempt uint32, logger *uint64) {
	e.U8(byte(TypeWriter))
	e.ID(run)
	e.Uint(uint64(place))
	e.ID(w)
	e.Uint(uint64(attempt))
	e.Optional(logger)
}

// Delete writes that a run is deleted.
func (e *Encoder) Delete(run model.RunID) {
	e.U8(byte(TypeDelete))
	e.ID(run)
}

// Released writes that updates up to an LSN are durable elsewhere.
func (e *Encoder) Released(lsn uint64) {
	e.U8(byte(TypeReleased))
	e.Uint(lsn)
}

// Check decodes a record of the log as a whole. It gives the batch, nil for a record of
// another type, and the run that the record deletes, zero for none.
func Check(payload []byte) (b *Batch, deleted model.RunID, err error) {
	d := &Decoder{Rest: payload}
	switch t := Type(d.U8()); t {
	case TypeBatch:
		d.Uint()
		b, err = decodeBatch(d)
		return b, deleted, err
	case TypeBatch1:
		b, err = decodeBatch(d)
		return b, deleted, err
	case TypeDelete:
		deleted = d.ID()
		return nil, deleted, d.Err
	case TypeAttempt, TypeWriter, TypeReleased:
		return nil, deleted, nil
	default:
		return nil, deleted, fmt.Errorf("unknown record type %d", t)
	}
}
