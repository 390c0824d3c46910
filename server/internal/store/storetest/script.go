package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Script is a random history, fixed by its seed, of which one knows at every
// moment what a crash may leave: what was done, or that and the step under way.
type Script struct {
	golden Golden
	done   *naive // every step that returned without error
	next   *naive // and the one under way
	runs   byte
}

// NewScript starts on an empty engine.
func NewScript(seed uint64) *Script {
	s := &Script{golden: Golden{oracle: newNaive(SeriesLimit), seed: seed, rows: 3}}
	s.settle()
	return s
}

// AfterGolden goes on where [WriteGolden] ends.
func AfterGolden(ctx context.Context, seed uint64) (*Script, error) {
	s := NewScript(seed)
	g := &Golden{oracle: newNaive(SeriesLimit)}
	if err := g.replay(ctx, nil); err != nil {
		return nil, err
	}
	s.golden.oracle, s.runs = g.oracle, 3
	s.settle()
	return s, nil
}

func (s *Script) settle() {
	s.done = s.golden.oracle.clone()
	s.next = s.done
}

// Moment is what an engine may hold.
type Moment struct{ done, next *naive }

// Moment is what a crash may leave now.
func (s *Script) Moment() Moment { return Moment{s.done, s.next} }

// Check holds an engine against a moment.
func (m Moment) Check(ctx context.Context, h *Harness) error {
	err := compare(ctx, h.Engine, m.done, 1000)
	if err == nil || m.next == m.done {
		return err
	}
	if also := compare(ctx, h.Engine, m.next, 1000); also != nil {
		return fmt.Errorf("neither before the step (%w) nor after it (%w)", err, also)
	}
	return nil
}

// Step does one thing. After an error it is not known whether it was done.
func (s *Script) Step(ctx context.Context, h *Harness) error {
	g := &s.golden
	if s.runs == 0 || s.runs < 6 && g.next()%9 == 0 {
		s.runs++
		return s.try(func() error { return g.attempt(ctx, h, model.RunID{s.runs}, model.Attempt{Number: 1, Precedence: 1}) })
	}
	run := model.RunID{1 + byte(g.next()%uint64(s.runs))}
	switch op := g.next() % 16; {
	case op == 0 && !g.oracle.run(run).deleted:
		resume := int64(g.next() % 30)
		return s.try(func() error {
			return g.attempt(ctx, h, run, model.Attempt{Number: 2, Precedence: 2, ResumeFrom: &resume})
		})
	case op == 1 && g.next()%4 == 0: // as a person does, or retention
		return s.try(func() error {
			g.oracle.deleteRun(run)
			return h.Engine.DeleteRun(ctx, run)
		})
	case op <= 5:
		return h.Upkeep(h.Engine, int(op))
	}
	attempt := uint32(1)
	if _, two := g.oracle.run(run).attempts[2]; two && g.next()%2 == 0 {
		attempt = 2
	}
	return s.try(func() error { return g.append(ctx, h, g.batch(run, attempt)) })
}

// try does a step whose outcome a crash leaves open.
func (s *Script) try(step func() error) error {
	kept := s.golden.oracle
	s.golden.oracle = kept.clone()
	// The oracle learns of the step before the engine does it, see Golden.
	s.next = s.golden.oracle
	if err := step(); err != nil {
		return err
	}
	s.done = s.next
	return nil
}

func (n *naive) clone() *naive {
	out := newNaive(n.limit)
	maps.Copy(out.marks, n.marks)
	for id, r := range n.runs {
		c := out.run(id)
		c.deleted, c.points, c.refused, c.skipped = r.deleted, r.points, r.refused, slices.Clone(r.skipped)
		maps.Copy(c.attempts, r.attempts)
		maps.Copy(c.loggers, r.loggers)
		maps.Copy(c.starts, r.starts)
		for text, s := range r.series {
			c.series[text] = &naiveSeries{key: s.key, kind: s.kind, points: slices.Clone(s.points)}
		}
	}
	return out
}
