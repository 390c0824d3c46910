package query

import (
	"encoding/binary"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// maxSteps bounds an expression's program: what one rune can cost.
const maxSteps = 10_000

// maxStates bounds an automaton's memory, about 1 KiB a state. An expression
// that needs more is rare; package regexp answers it.
const maxStates = 2_000

// automaton answers one expression for many names. It keeps the states that the
// names lead to (a lazy DFA), so that a rune costs a look-up: a twentieth of
// what package regexp takes. Not safe for concurrent use.
//
// The libraries with a DFA were measured: one answers some expressions wrongly,
// one knows no anchors, one needs a WebAssembly runtime. The figures are in
// docs/design/0016-own-code.md.
type automaton struct {
	re       *regexp.Regexp
	prog     *syntax.Prog
	anchored bool // a match begins with the name
	contexts bool // some instruction asks for more of the rune before than whether there is one
	states   map[string]*state
	start    *state
	found    *state
}

// state is where threads of the program stand between two runes.
type state struct {
	threads []uint32 // instructions, before the empty ones are followed
	before  rune     // stands for the rune before: -1 for none
	over    bool     // the answer is known
	match   bool     // the answer, if it is known or the name ends here
	next    [utf8.RuneSelf]*state
	wide    map[rune]*state
	ended   bool // match is set
}

// newAutomaton compiles an expression in the syntax of package regexp.
func newAutomaton(expression string) (*automaton, error) {
	re, err := regexp.Compile(expression)
	if err != nil {
		return nil, err
	}
	parsed, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return nil, err
	}
	prog, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return nil, err
	}
	if len(prog.Inst) > maxSteps {
		return nil, fmt.Errorf("it is too large: %d steps of at most %d", len(prog.Inst), maxSteps)
	}
	a := &automaton{re: re, prog: prog, anchored: prog.StartCond()&syntax.EmptyBeginText != 0, states: map[string]*state{}}
	const ofNeighbours = syntax.EmptyBeginLine | syntax.EmptyEndLine | syntax.EmptyWordBoundary | syntax.EmptyNoWordBoundary
	a.contexts = slices.ContainsFunc(prog.Inst, func(i syntax.Inst) bool {
		return i.Op == syntax.InstEmptyWidth && syntax.EmptyOp(i.Arg)&ofNeighbours != 0
	})
	a.start = a.state([]uint32{uint32(prog.Start)}, -1)
	a.found = &state{over: true, match: true}
	return a, nil
}

// matches reports whether the expression matches anywhere in a name.
func (a *automaton) matches(name string) bool {
	s := a.start
	for at := 0; at < len(name) && !s.over; {
		var next *state
		size := 1
		if b := name[at]; b < utf8.RuneSelf {
			if s.next[b] == s { // guessed by the processor, which the look-up behind is not
				at++
				continue
			}
			if next = s.next[b]; next == nil {
				next = a.step(s, rune(b))
				s.next[b] = next
			}
		} else {
			var r rune
			r, size = utf8.DecodeRuneInString(name[at:])
			next = a.stepWide(s, r)
		}
		if next == nil {
			return a.re.MatchString(name)
		}
		s, at = next, at+size
	}
	if !s.over && !s.ended {
		_, s.match = a.follow(s, -1)
		s.ended = true
	}
	return s.match
}

func (a *automaton) stepWide(s *state, r rune) *state {
	next := s.wide[r]
	if next == nil {
		if next = a.step(s, r); next != nil && len(s.wide) < maxStates {
			if s.wide == nil {
				s.wide = map[rune]*state{}
			}
			s.wide[r] = next
		}
	}
	return next
}

// step is the state behind a rune, nil when there are too many.
func (a *automaton) step(s *state, r rune) *state {
	reached, match := a.follow(s, r)
	if match {
		return a.found
	}
	var threads []uint32
	if !a.anchored {
		threads = append(threads, uint32(a.prog.Start))
	}
	for _, pc := range reached {
		if inst := &a.prog.Inst[pc]; inst.MatchRune(r) {
			threads = append(threads, inst.Out)
		}
	}
	return a.state(threads, a.context(r))
}

// follow runs a state's threads up to the instructions that take the rune r (-1:
// the end), and reports whether one arrives at the match.
func (a *automaton) follow(s *state, r rune) (reached []uint32, match bool) {
	holds := syntax.EmptyOpContext(s.before, r)
	seen := make([]bool, len(a.prog.Inst))
	for todo := slices.Clone(s.threads); len(todo) > 0; {
		pc := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch inst := &a.prog.Inst[pc]; inst.Op {
		case syntax.InstMatch:
			return nil, true
		case syntax.InstAlt, syntax.InstAltMatch:
			todo = append(todo, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop:
			todo = append(todo, inst.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(inst.Arg)&^holds == 0 {
				todo = append(todo, inst.Out)
			}
		case syntax.InstRune, syntax.InstRune1, syntax.InstRuneAny, syntax.InstRuneAnyNotNL:
			reached = append(reached, pc)
		case syntax.InstFail:
		}
	}
	return reached, false
}

// context stands for all runes that are the same to what follows them.
func (a *automaton) context(r rune) rune {
	switch {
	case !a.contexts:
		return ' '
	case r == '\n':
		return r
	case syntax.IsWordChar(r):
		return 'a'
	}
	return ' '
}

func (a *automaton) state(threads []uint32, before rune) *state {
	slices.Sort(threads)
	threads = slices.Compact(threads)
	key := binary.AppendVarint(nil, int64(before))
	for _, pc := range threads {
		key = binary.AppendUvarint(key, uint64(pc))
	}
	s := a.states[string(key)]
	if s == nil && len(a.states) < maxStates {
		s = &state{threads: threads, before: before, over: len(threads) == 0}
		a.states[string(key)] = s
	}
	return s
}
