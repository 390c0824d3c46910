package kymogram

import (
	"errors"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

// The standard scales.
const (
	ScaleStep        = model.ScaleStep
	ScaleEpisode     = model.ScaleEpisode
	ScaleEnvironment = model.ScaleEnvironment
)

// LogOption is a detail of one log call: [Step], [At], [Scale], [Labels],
// [Evaluation], [Episode], [EnvID].
type LogOption struct {
	kind   optionKind
	number int64
	text   string
	labels map[string]string
}

type optionKind uint8

const (
	optionStep optionKind = iota + 1
	optionTime
	optionScale
	optionLabels
	optionEvaluation
	optionEpisode
	optionEnv
)

// Step gives the point's step; without it the series' next step is taken.
func Step(step int64) LogOption { return LogOption{kind: optionStep, number: step} }

// At gives the point's time; without it the time of the call is taken.
func At(t time.Time) LogOption { return LogOption{kind: optionTime, number: t.UnixNano()} }

// Scale names what the steps count; [ScaleStep] without it.
func Scale(scale string) LogOption { return LogOption{kind: optionScale, text: scale} }

// Labels tell series of one metric apart.
func Labels(labels map[string]string) LogOption {
	return LogOption{kind: optionLabels, labels: labels}
}

// Evaluation is the label evaluation="true".
func Evaluation() LogOption { return LogOption{kind: optionEvaluation} }

// Episode is the episode of an RL point.
func Episode(n int64) LogOption { return LogOption{kind: optionEpisode, number: n} }

// EnvID is the environment of an RL point; "default" without it.
func EnvID(id string) LogOption { return LogOption{kind: optionEnv, text: id} }

// call is what the options of a log call say.
type call struct {
	step, at, episode               int64
	hasStep, hasTime, hasEpisode    bool
	evaluation, distributed, hasEnv bool
	scale, env                      string
	labels                          map[string]string
}

func (r *Run) parse(opts []LogOption) (c call, err error) {
	for i := range opts {
		o := &opts[i]
		switch o.kind {
		case optionStep:
			c.step, c.hasStep = o.number, true
			err = checkStep("step", o.number)
		case optionTime:
			c.at, c.hasTime = o.number, true
		case optionScale:
			c.scale = o.text
		case optionLabels:
			c.labels = o.labels
		case optionEvaluation:
			c.evaluation = true
		case optionEpisode:
			c.episode, c.hasEpisode = o.number, true
			err = checkStep("episode", o.number)
		case optionEnv:
			c.env, c.hasEnv = o.text, true
		}
		if err != nil {
			return c, err
		}
	}
	return c, nil
}

func (c *call) how() int32 {
	if c.distributed {
		return howDistributed
	}
	return howOrdered
}

func (r *Run) timeNs(c *call) int64 {
	if c.hasTime {
		return c.at
	}
	return r.clock.now()
}

// plain reports whether the call means the series without labels.
func (c *call) plain() bool {
	return (c.scale == "" || c.scale == ScaleStep) && len(c.labels) == 0 && !c.evaluation
}

// allLabels are the labels of the series that the call means.
func (c *call) allLabels() map[string]string {
	if !c.evaluation || c.labels["evaluation"] != "" {
		return c.labels
	}
	out := maps.Clone(c.labels)
	if out == nil {
		out = map[string]string{}
	}
	out["evaluation"] = "true"
	return out
}

// Log logs one value. Its error tells of a name or step that can never be
// logged, or of a closed run; the state of the disk, the network and the server
// is never one.
func (r *Run) Log(name string, value float64, opts ...LogOption) error {
	if len(opts) == 0 {
		if s := r.known(name); s != nil {
			return s.Log(value)
		}
	}
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	return r.logNumber(name, math.Float64bits(value), model.KindFloat, c)
}

// LogInt logs one exact int64.
func (r *Run) LogInt(name string, value int64, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	return r.logNumber(name, uint64(value), model.KindInt, c)
}

// LogDistributed logs one value at a step that the ranks of a job agree on. Log
// and LogDistributed do not mix on one series.
func (r *Run) LogDistributed(name string, step int64, value float64, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	c.step, c.hasStep, c.distributed = step, true, true
	if err := checkStep("step", step); err != nil {
		return err
	}
	return r.logNumber(name, math.Float64bits(value), model.KindFloat, c)
}

func (r *Run) logNumber(name string, bits uint64, kind model.Kind, c call) error {
	s, err := r.series(name, kind, &c)
	if err != nil {
		return err
	}
	return s.logNumber(bits, kind, c)
}

// LogText logs one text.
func (r *Run) LogText(name, text string, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	if err := checkText("text", text, len(text)); err != nil {
		return err
	}
	return r.putDocument(name, model.KindText, []byte(text), &c)
}

// LogValues logs values at successive steps, as one record; [LogSlice] takes
// slices of other numbers.
func (r *Run) LogValues(name string, values []float64, opts ...LogOption) error {
	return LogSlice(r, name, values, opts...)
}

// LogMap logs several metrics as one record with one time. Without [Step] each
// takes its own next step.
func (r *Run) LogMap(values map[string]float64, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil || len(values) == 0 {
		return err
	}
	names := slices.Sorted(maps.Keys(values))
	cells := make([]mapCell, len(names))
	for i, name := range names {
		s, err := r.series(name, model.KindFloat, &c)
		if err == nil {
			err = s.claim(howOrdered)
		}
		if err == nil {
			cells[i].bits, err = s.convert(math.Float64bits(values[name]), model.KindFloat)
		}
		if err != nil {
			return err
		}
		cells[i].series = s
	}
	if drop, err := r.admit(len(cells)); drop || err != nil {
		return err
	}
	for i := range cells {
		cells[i].flags, cells[i].step = cells[i].series.steps(&c, 1)
	}
	return r.logCells(cells, r.timeNs(&c))
}

// mapCell is one value of a LogMap.
type mapCell struct {
	series *Series
	bits   uint64
	flags  uint8
	step   int64
}

// logCells writes one block for each kind and sort of step.
func (r *Run) logCells(cells []mapCell, timeNs int64) error {
	for len(cells) > 0 {
		first := cells[0]
		alike := func(c mapCell) bool {
			return c.flags == first.flags && c.series.spool.Kind == first.series.spool.Kind
		}
		var part, rest []mapCell
		for _, c := range cells {
			if alike(c) {
				part = append(part, c)
			} else {
				rest = append(rest, c)
			}
		}
		if err := r.logAlike(part, timeNs); err != nil {
			return err
		}
		cells = rest
	}
	return nil
}

func (r *Run) logAlike(cells []mapCell, timeNs int64) error {
	first := cells[0]
	block := &spool.Block{Kind: first.series.spool.Kind, Rows: 1, Time: constant(timeNs)}
	series := make([]*Series, len(cells))
	steps := make([]int64, len(cells))
	mode := uint8(spool.ModeConstant)
	for i, c := range cells {
		series[i], steps[i] = c.series, c.step
		block.Values = append(block.Values, c.bits)
		if c.step != first.step {
			mode = spool.ModeConstant | spool.ModePerSeries
		}
	}
	if mode == spool.ModeConstant {
		steps = steps[:1]
	}
	block.Axes = []spool.BlockAxis{stepAxis(first.flags, mode, steps...)}
	return r.block(series, block)
}

func (r *Run) block(series []*Series, b *spool.Block) error {
	known := make([]*spool.Series, len(series))
	b.Series = make([]uint32, len(series))
	for i, s := range series {
		known[i], b.Series[i] = s.spool, s.spool.ID
	}
	if err := r.w.Block(known, b); err != nil {
		return closedError(err)
	}
	for _, s := range series {
		s.logged.Add(uint64(b.Rows))
	}
	return nil
}

func constant(values ...int64) spool.Column {
	mode := uint8(spool.ModeConstant)
	if len(values) > 1 {
		mode |= spool.ModePerSeries
	}
	return spool.Column{Mode: mode, Values: values}
}

func stepAxis(flags, mode uint8, steps ...int64) spool.BlockAxis {
	return axis(spool.AxisStep, flags, mode, steps...)
}

func axis(number, flags, mode uint8, values ...int64) spool.BlockAxis {
	if flags&spool.FlagRelative != 0 {
		mode |= spool.ModeRelative
	}
	return spool.BlockAxis{Axis: number, Column: spool.Column{Mode: mode, Values: values}}
}

// LastStep is the step of the last point that this process logged to a series,
// or that the run had when it was opened. While only the server knows where the
// series starts it counts from 0.
func (r *Run) LastStep(name string, opts ...LogOption) (step int64, ok bool) {
	c, err := r.parse(opts)
	if err != nil {
		return 0, false
	}
	key := model.NewSeriesKey(name, c.scale, c.allLabels())
	if s := r.all.find(key.String()); s != nil {
		return s.last()
	}
	next, known := r.starts.of(key.String())
	return next - 1, known && next > 0
}

// Series is the handle of a series of float64.
func (r *Run) Series(name string, opts ...LogOption) (*Series, error) {
	c, err := r.parse(opts)
	if err != nil {
		return nil, err
	}
	s, err := r.series(name, model.KindFloat, &c)
	if err != nil {
		return nil, err
	}
	return s, s.claim(howOrdered)
}

// known is the series without labels of a name that was logged before.
func (r *Run) known(name string) *Series { return r.plain.find(name) }

// series finds or makes the series that a call means.
func (r *Run) series(name string, kind model.Kind, c *call) (*Series, error) {
	if c.plain() {
		if s := r.known(name); s != nil {
			return s, nil
		}
	}
	key := model.NewSeriesKey(name, c.scale, c.allLabels())
	text := key.String()
	if s := r.all.find(text); s != nil {
		return s, nil
	}
	if err := errors.Join(checkMetric(name), checkScale(key.Scale), checkLabels(key.LabelMap())); err != nil {
		return nil, err
	}
	return r.makeSeries(key, text, kind)
}

func (r *Run) makeSeries(key model.SeriesKey, text string, kind model.Kind) (*Series, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s := r.all.find(text); s != nil {
		return s, nil
	}
	known, err := r.w.Series(kind, key)
	if err != nil {
		return nil, err
	}
	s := &Series{run: r, spool: known, key: key}
	if key.Scale == ScaleEnvironment {
		s.env = &envSteps{episode: noEpisode, past: map[int64]int64{}}
	}
	s.next.Store(startOf(r.starts.of(text)))
	r.all.add(text, s)
	if key.Scale == ScaleStep && len(key.Labels) == 0 {
		r.plain.add(key.Metric, s)
	}
	return s, nil
}
