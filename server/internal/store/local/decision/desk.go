package decision

import (
	"slices"

	"github.com/kymogram/kymogram/server/internal/store/local/column"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Desk is room for a decision, used again and again: what a small batch needs would
// else be made and thrown away with each.
type Desk struct {
	rec    record.Batch
	groups []draft
	out    []record.Group
	ords   []int64
	zeros  []uint64 // never written

	// A part of each is a draft's: an item for each of its columns.
	texts []string
	of    []record.Series
	cols  []column.Values
	ids   []uint32
}

// What a desk keeps room for.
const (
	keptGroups  = 1 << 10
	keptColumns = 1 << 15
	keptRows    = 1 << 14
)

// room makes room for the columns of the batch.
func (s *resolver) room() {
	columns := 0
	for i := range s.batch.Groups {
		columns += len(s.batch.Groups[i].Columns)
	}
	s.groups, s.out = slices.Grow(s.groups, len(s.batch.Groups)), slices.Grow(s.out, len(s.batch.Groups))
	s.texts, s.of = slices.Grow(s.texts, columns)[:columns], slices.Grow(s.of, columns)[:columns]
	s.cols, s.ids = slices.Grow(s.cols, columns)[:columns], slices.Grow(s.ids, columns)
}

// Clear forgets the decision, and room that few batches need.
func (k *Desk) Clear() {
	k.rec = record.Batch{}
	k.groups, k.out = emptied(k.groups, keptGroups), emptied(k.out, keptGroups)
	k.texts, k.of = emptied(k.texts, keptColumns), emptied(k.of, keptColumns)
	k.cols, k.ids = emptied(k.cols, keptColumns), emptied(k.ids, keptColumns)
	k.ords, k.zeros = emptied(k.ords, keptRows), emptied(k.zeros, keptRows)
}

// emptied keeps the room of a list, which refers to nothing then.
func emptied[T any](list []T, most int) []T {
	if cap(list) > most {
		return nil
	}
	clear(list)
	return list[:0]
}
