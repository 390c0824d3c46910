package curve

import (
	"cmp"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store/local/record"
)

// Lineage answers, by source, what the rules of curves ask about writers and
// attempts. It is immutable and may cover fewer sources than came since.
//
// A later attempt hides points of earlier ones, in one of two ways:
//
//	step                   0         100        200        300
//	attempt 1              ├────────────────────────────────┤
//	attempt 2, from 150                   ├──────┤              ResumeFrom hides all behind it
//	curve                  ├──── 1 ──────┤├── 2 ─┤
//	attempt 2, from none                  ├ ─ ─ ─┤              only its own steps are hidden
//	curve                  ├──── 1 ───────┤1 or 2├─── 1 ────┤
type Lineage struct {
	Writers []model.WriterID
	of      []rule // by source
}

// rule is what holds for the points of a source.
type rule struct {
	attempt uint32
	// ident is equal for sources whose equal points are the same point: the
	// source itself, or the first of its attempt with the same logger.
	ident    uint32
	rank     int   // of the attempt, by rising precedence
	hideFrom int64 // the smallest ResumeFrom of later attempts, if hidden
	hidden   bool
	hides    bool // false for an attempt with ResumeFrom: it hides by hideFrom alone
}

type pinned struct {
	attempt uint32
	logger  uint64
}

// NewLineage knows what is known now.
func NewLineage(attempts []model.Attempt, sources []record.Source, writers []record.Writer) *Lineage {
	if len(attempts) == 1 && len(sources) == 1 && sources[0].Attempt == attempts[0].Number && int(sources[0].Writer) < len(writers) {
		return soleLineage(&attempts[0], writers[sources[0].Writer].ID)
	}
	ranked := slices.Clone(attempts)
	slices.SortFunc(ranked, func(a, b model.Attempt) int {
		return cmp.Or(cmp.Compare(a.Precedence, b.Precedence), cmp.Compare(a.Number, b.Number))
	})
	rank := make(map[uint32]int, len(ranked))
	hideFrom := make([]int64, len(ranked))
	hidden := make([]bool, len(ranked))
	least, has := int64(math.MaxInt64), false
	for i := len(ranked) - 1; i >= 0; i-- {
		rank[ranked[i].Number] = i
		hideFrom[i], hidden[i] = least, has
		if s := ranked[i].ResumeFrom; s != nil {
			least, has = min(least, *s), true
		}
	}
	l := &Lineage{Writers: make([]model.WriterID, len(sources)), of: make([]rule, len(sources))}
	loggers := map[pinned]uint32{}
	for i, s := range sources {
		w := &record.Writer{}
		if int(s.Writer) < len(writers) {
			w = &writers[s.Writer]
		}
		ident := uint32(i)
		if w.Logger != nil {
			key := pinned{s.Attempt, *w.Logger}
			if first, ok := loggers[key]; ok {
				ident = first
			} else {
				loggers[key] = ident
			}
		}
		l.Writers[i] = w.ID
		l.of[i] = rule{attempt: s.Attempt, ident: ident, rank: -1}
		if at, known := rank[s.Attempt]; known { // else its record was lost to damage: it hides nothing and is not hidden
			l.of[i] = rule{s.Attempt, ident, at, hideFrom[at], hidden[at], ranked[at].ResumeFrom == nil}
		}
	}
	return l
}

// soleLineage is that of most runs: it is made for each record of a small one.
func soleLineage(a *model.Attempt, writer model.WriterID) *Lineage {
	l := &struct {
		Lineage
		writers [1]model.WriterID
		rules   [1]rule
	}{writers: [1]model.WriterID{writer}, rules: [1]rule{{attempt: a.Number, hideFrom: math.MaxInt64, hides: a.ResumeFrom == nil}}}
	l.Writers, l.of = l.writers[:], l.rules[:]
	return &l.Lineage
}

// oneAttempt reports whether sources are all of one attempt.
func (l *Lineage) oneAttempt(srcs []uint32) bool {
	for _, s := range srcs[1:] {
		if l.of[s].attempt != l.of[srcs[0]].attempt {
			return false
		}
	}
	return true
}

// shareIdent reports whether any two sources count as one writer.
func (l *Lineage) shareIdent(a, b []uint32) bool {
	for _, x := range a {
		for _, y := range b {
			if l.of[x].ident == l.of[y].ident {
				return true
			}
		}
	}
	return false
}

// mayHide reports whether a point of one source hides one of another attempt at
// the same step: the later attempt's do, unless it resumed from a step.
func (l *Lineage) mayHide(a, b []uint32) bool {
	for _, x := range a {
		for _, y := range b {
			if l.of[x].attempt != l.of[y].attempt && (l.of[x].rank >= l.of[y].rank && l.of[x].hides || l.of[y].rank >= l.of[x].rank && l.of[y].hides) {
				return true
			}
		}
	}
	return false
}
