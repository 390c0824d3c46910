package model

// Axis names an int64 column that orders points. Time is not an Axis: every
// point has its time in nanoseconds beside its axes.
type Axis string

// The axes. The number that the spool uses for each is its place in [Axes].
const (
	AxisStep       Axis = "step"
	AxisRLStep     Axis = "rl_step"
	AxisEpisode    Axis = "episode"
	AxisEnvStep    Axis = "env_step"
	AxisWindow     Axis = "window"
	AxisBlock      Axis = "block"
	AxisGlobalStep Axis = "global_step"
	AxisEpoch      Axis = "epoch"
	AxisBatch      Axis = "batch"
	AxisTokens     Axis = "tokens"
	// AxisTime is accepted wherever a reader names an axis.
	AxisTime Axis = "time_ns"
)

// Axes lists every stored axis in canonical order; a new one is appended.
func Axes() []Axis {
	return []Axis{AxisStep, AxisRLStep, AxisEpisode, AxisEnvStep, AxisWindow, AxisBlock, AxisGlobalStep, AxisEpoch, AxisBatch, AxisTokens}
}
