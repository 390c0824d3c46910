package curve

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// lineage orders attempts, the earliest first.
//
// A later attempt hides points of earlier ones in one of two ways. With ResumeFrom it hides all
// from there on; without, it hides the points at its own steps.
type lineage []model.Attempt

func lineageOf(attempts []model.Attempt) lineage {
	out := slices.Clone(attempts)
	slices.SortFunc(out, func(a, b model.Attempt) int {
		return cmp.Or(cmp.Compare(a.Precedence, b.Precedence), cmp.Compare(a.Number, b.Number))
	})
	return out
}

// resumed is a condition that is false for rows at which a later attempt resumed, or before.
func (l lineage) resumed(n names) string {
	var numbers []uint32
	var from []int64
	least, has := int64(0), false
	for _, a := range slices.Backward(l) {
		if has {
			numbers, from = append(numbers, a.Number), append(from, least)
		}
		if s := a.ResumeFrom; s != nil && (!has || *s < least) {
			least, has = *s, true
		}
	}
	if !has || len(numbers) == 0 {
		return ""
	}
	list := array(numbers, number32)
	return fmt.Sprintf("NOT (%s AND has(%s, %s) AND %s >= transform(%s, %s, %s, toInt64(0)))",
		n.on(1<<step), list, n.of("attempt"), n.cut(), n.of("attempt"), list, array(from, integer))
}

// hides: an attempt that is not the earliest hides steps.
func (l lineage) hides() bool {
	return len(l) > 1 && slices.ContainsFunc(l[1:], func(a model.Attempt) bool { return a.ResumeFrom == nil })
}

// rank is an expression: the place of a row's attempt, from 1, and 0 for an unknown one.
func (l lineage) rank(n names) string {
	return l.ranks(n, func(model.Attempt) bool { return true })
}

// hidingRank is the rank of rows whose attempt hides its own steps, 0 for others.
func (l lineage) hidingRank(n names) string {
	return l.ranks(n, func(a model.Attempt) bool { return a.ResumeFrom == nil })
}

func (l lineage) ranks(n names, counts func(model.Attempt) bool) string {
	numbers, ranks := []uint32{0}, []uint32{0} // an array must not be empty; no attempt is 0
	for i, a := range l {
		if counts(a) {
			numbers, ranks = append(numbers, a.Number), append(ranks, uint32(i+1))
		}
	}
	return fmt.Sprintf("transform(%s, %s, %s, toUInt32(0))", n.of("attempt"), array(numbers, number32), array(ranks, number32))
}
