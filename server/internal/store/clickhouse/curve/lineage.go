package curve

import (
	"cmp"
	"fmt"
	"maps"
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

// cuts are, of the attempts before one that resumed, the steps from which on they are hidden.
func (l lineage) cuts() map[uint32]int64 {
	out := map[uint32]int64{}
	least, has := int64(0), false
	for _, a := range slices.Backward(l) {
		if has {
			out[a.Number] = least
		}
		if s := a.ResumeFrom; s != nil && (!has || *s < least) {
			least, has = *s, true
		}
	}
	return out
}

// fewCuts are looked at one by one.
const fewCuts = 4

// resumed is a condition that is false for rows at which a later attempt resumed, or before. It is
// for rows of a survey.
func (l lineage) resumed(n names, v *survey) string {
	cuts := l.cuts()
	if len(cuts) == 0 {
		return ""
	}
	x, stepped := n.cut(), n.on(1<<step)
	if !v.some.has(rlStep) {
		x = n.axis(step)
	}
	if v.every.has(step) {
		stepped = every
	}
	numbers := slices.Sorted(maps.Keys(cuts))
	if len(cuts) <= fewCuts {
		return joinedWith(numbers, " AND ", func(a uint32) string {
			return fmt.Sprintf("NOT (%s)", all(stepped, fmt.Sprintf("%s = %d", n.of("attempt"), a), x+" >= "+integer(cuts[a])))
		})
	}
	from := make([]int64, len(numbers))
	for i, number := range numbers {
		from[i] = cuts[number]
	}
	at := func(places, otherwise string) string {
		return fmt.Sprintf("transform(%s, %s, %s, %s)", n.of("attempt"), array("UInt32", numbers), places, otherwise)
	}
	return fmt.Sprintf("NOT (%s)", all(stepped, at(array("UInt32", numbers), "toUInt32(0)")+" != 0", x+" >= "+at(array("Int64", from), "toInt64(0)")))
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
	numbers, ranks := []uint32{0}, []uint32{0} // ClickHouse takes no empty ones; no attempt is 0
	for i, a := range l {
		if counts(a) {
			numbers, ranks = append(numbers, a.Number), append(ranks, uint32(i+1))
		}
	}
	return fmt.Sprintf("transform(%s, %s, %s, toUInt32(0))", n.of("attempt"), array("UInt32", numbers), array("UInt32", ranks))
}
