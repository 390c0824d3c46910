package column

import (
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
)

// Places of axes in model.Axes that the rules of curves name.
const (
	Step    = 0
	RLStep  = 1
	Episode = 2
	EnvStep = 3
	NumAxes = 10
)

// WithGaps is added to an axis whose gaps count too: rows without it stand at Gap.
const (
	WithGaps = NumAxes
	Gap      = math.MinInt64
)

// gapsOf is the axis itself, and whether its gaps count.
func gapsOf(axis int) (plain int, gaps bool) {
	if axis >= WithGaps {
		return axis - WithGaps, true
	}
	return axis, false
}

// AxisSet is a bit for each place in model.Axes.
type AxisSet uint16

// Has reports whether the axis is in the set.
func (s AxisSet) Has(axis int) bool { return s&(1<<axis) != 0 }

// RL says that points are told apart by all axes, because a step alone repeats
// in every episode.
func (s AxisSet) RL() bool { return s&(1<<RLStep|1<<Episode|1<<EnvStep) != 0 }

// AxisIndex is the place of an axis in model.Axes, -1 for none.
func AxisIndex(a model.Axis) int { return slices.Index(model.Axes(), a) }

// axisOrder is the order in which axes sort rows: what grows over the whole run
// first, what starts again in every episode last.
func axisOrder() [NumAxes]int {
	return [NumAxes]int{RLStep, Episode, EnvStep, Step, 4, 5, 6, 7, 8, 9}
}

// Cut is the axis that ResumeFrom speaks of, -1 for rows without a step.
func (s AxisSet) Cut() int {
	switch {
	case !s.Has(Step):
		return -1
	case s.Has(RLStep):
		return RLStep
	}
	return Step
}
