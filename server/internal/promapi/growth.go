package promapi

import (
	"math"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// growth bounds the texts that an expression makes of labels: label_replace with "$1$1" makes
// one twice as long as what it reads, and nested calls would take any memory. For each series
// it is times × the longest label that is read for it + more, in bytes.
type growth struct {
	times, more float64
	names       map[string]bool // the labels that are read for it

	series, longest int // so far
	taken           int64
}

// newGrowth adds up what the calls of an expression may make.
func newGrowth(e parser.Expr) *growth {
	g := &growth{names: map[string]bool{}}
	g.add(e)
	return g
}

// add returns how long a label of the expression may be.
func (g *growth) add(n parser.Node) (times, more float64) {
	times = 1
	for child := range parser.ChildrenIter(n) {
		t, m := g.add(child)
		times, more = max(times, t), max(more, m)
	}
	made := func(parts, text int) {
		t, m := float64(parts)*times, float64(parts)*more+float64(text)
		g.times, g.more = g.times+t, g.more+m
		times, more = max(times, t), max(more, m)
	}
	switch n := n.(type) {
	case *parser.Call:
		switch n.Func.Name {
		case "label_replace": // series, made, replacement, read, pattern
			g.names[textOf(n.Args[3])] = true
			made(strings.Count(textOf(n.Args[2]), "$"), len(textOf(n.Args[1]))+len(textOf(n.Args[2])))
		case "label_join": // series, made, separator, read, …
			read := n.Args[3:]
			for _, name := range read {
				g.names[textOf(name)] = true
			}
			made(len(read), len(textOf(n.Args[1]))+len(read)*len(textOf(n.Args[2])))
		}
	case *parser.AggregateExpr:
		if n.Op == parser.COUNT_VALUES {
			made(0, len(textOf(n.Param))+numberBytes)
		}
	case *parser.BinaryExpr:
		if m := n.VectorMatching; m != nil && len(m.Include) > 0 { // group_left: one's labels for many
			size := 0
			for _, name := range m.Include {
				g.names[name], size = true, size+len(name)
			}
			made(len(m.Include), size)
		}
	}
	return times, more
}

// numberBytes is the longest text of a float64.
const numberBytes = 24

// textOf is a text of an expression.
func textOf(e parser.Expr) string {
	for {
		switch of := e.(type) {
		case *parser.ParenExpr:
			e = of.Expr
			continue
		case *parser.StringLiteral:
			return of.Val
		}
		return ""
	}
}

// one is what the expression makes of a label of so many bytes.
func (g *growth) one(longest int) float64 { return g.times*float64(longest) + g.more }

// read counts a series, and returns the bytes that it adds.
func (g *growth) read(of labels.Labels) int64 {
	if g == nil || g.one(1) == 0 {
		return 0
	}
	g.series++
	of.Range(func(l labels.Label) {
		if g.names[l.Name] {
			g.longest = max(g.longest, len(l.Value))
		}
	})
	before := g.taken
	g.taken = bytesOf(float64(g.series) * g.one(g.longest))
	return g.taken - before
}

// bytesOf is a number of bytes that cannot overflow where it is added.
func bytesOf(n float64) int64 { return int64(min(n, math.MaxInt64/4)) }
