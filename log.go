package kymogram

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/backpressure"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/rule"
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
			err = rule.Step("step", o.number)
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
			err = rule.Step("episode", o.number)
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
	return r.clock.Now()
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

// Log logs one value. It fails for an invalid name or step, and when the run is closed.
// It never fails because of the disk, the network or the server.
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
	if err := rule.Step("step", step); err != nil {
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

// admit is what every log call of n points asks before it writes.
func (r *Run) admit(n int) (drop bool, err error) {
	if err := r.errors.Due(); err != nil {
		return true, err
	}
	switch r.gate.Pass(queue{r}, uint64(n)) {
	case backpressure.Passed:
		return false, nil
	case backpressure.Closed:
		return false, ErrClosed
	}
	if r.opts.Backpressure == BackpressureRaise {
		return true, fmt.Errorf("%w (%d)", ErrQueueFull, r.gate.Capacity)
	}
	return true, nil
}

// queue is what the gate asks of the run.
type queue struct{ *Run }

func (q queue) Decided() uint64 {
	page, err := q.w.Status().Read()
	if err != nil {
		page = q.lastPage()
	}
	return page.Acked + page.Refused + page.Dropped.Total()
}

func (q queue) Closed() bool { return q.w.Closed() }

// LogText logs one text.
func (r *Run) LogText(name, text string, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil {
		return err
	}
	if err := rule.Text("text", text, len(text)); err != nil {
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
		cells[i].flags, cells[i].step = cells[i].series.resolve(&c, 1)
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

// Number is what a slice of values may hold.
type Number interface {
	~float32 | ~float64 | ~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// LogSlice logs numbers of any type at successive steps, as one record. A new
// series is one of float64; float32 and integers of at most 16 bits take 4 bytes
// a value in the spool, others 8. An integer that the series cannot hold exactly
// is an error, and nothing of the slice is logged.
func LogSlice[T Number](r *Run, name string, values []T, opts ...LogOption) error {
	c, err := r.parse(opts)
	if err != nil || len(values) == 0 {
		return err
	}
	s, err := r.series(name, model.KindFloat, &c)
	if err == nil {
		err = s.claim(howOrdered)
	}
	if err != nil {
		return err
	}
	rows := int64(len(values))
	if c.hasStep && c.step > rule.MaxStep-rows+1 {
		return invalidf("%d values from step %d on pass the largest step", rows, c.step)
	}
	bits, err := appendBits(make([]uint64, 0, len(values)), s, values)
	if err != nil {
		return err
	}
	if drop, err := r.admit(len(values)); drop || err != nil {
		return err
	}
	flags, step := s.resolve(&c, rows)
	return r.block([]*Series{s}, &spool.Block{
		Kind: s.spool.Kind, Narrow: isNarrow[T](s.spool.Kind), Rows: len(values), Time: constant(r.timeNs(&c)),
		Axes: []spool.BlockAxis{stepAxis(flags, spool.ModeLinear, step)}, Values: bits,
	})
}

func isFloat[T Number]() bool {
	one, two := T(1), T(2)
	return one/two > 0
}

// isNarrow reports whether 4 bytes hold every T in a series of a kind.
func isNarrow[T Number](kind model.Kind) bool {
	of := reflect.TypeFor[T]()
	switch {
	case isFloat[T]():
		return kind == model.KindFloat && of.Size() == 4
	case kind == model.KindInt && of.Kind() == reflect.Int32:
		return true
	}
	return of.Size() <= 2
}

// appendBits appends the values as the series keeps them.
func appendBits[T Number](dst []uint64, s *Series, values []T) ([]uint64, error) {
	dst = slices.Grow(dst, len(values))[:len(dst)+len(values)]
	bits := dst[len(dst)-len(values):]
	if isFloat[T]() && s.spool.Kind == model.KindFloat {
		for i, v := range values {
			bits[i] = math.Float64bits(float64(v))
		}
		return dst, nil
	}
	var err error
	for i, v := range values {
		switch {
		case isFloat[T]():
			bits[i], err = s.convert(math.Float64bits(float64(v)), model.KindFloat)
		case v > 0 && int64(v) < 0:
			err = s.mismatch("%v is beyond int64", v)
		default:
			bits[i], err = s.convert(uint64(int64(v)), model.KindInt)
		}
		if err != nil {
			return nil, err
		}
	}
	return dst, nil
}
