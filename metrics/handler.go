package metrics

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"time"

	"github.com/kymogram/kymogram"
)

// Reserved is the group of the metrics that torchelastic itself publishes, and
// the default one.
const Reserved = "torchelastic"

// Data is one metric as a handler gets it.
type Data struct {
	Time  time.Time
	Group string
	Name  string
	Value float64
}

// seconds is Unix seconds, as torchelastic's timestamp.
func (d Data) seconds() float64 { return float64(d.Time.UnixMicro()) / 1e6 }

// Handler brings metrics to a destination. Emit is called by one goroutine of
// the registry at a time; what it returns, and that it panics, is counted.
type Handler interface {
	Emit(Data) error
}

// HandlerFunc is a function as a handler.
type HandlerFunc func(Data) error

// Emit calls the function.
func (f HandlerFunc) Emit(d Data) error { return f(d) }

// Null forgets metrics, as a group without a handler does.
func Null() Handler { return null{} }

type null struct{}

func (null) Emit(Data) error { return nil }

// Console prints metrics as `[timestamp][group]: name=value`.
func Console(w io.Writer) Handler { return &console{w} }

type console struct{ w io.Writer }

func (c *console) Emit(d Data) error {
	_, err := fmt.Fprintf(c.w, "[%s][%s]: %s=%s\n", strconv.FormatFloat(d.seconds(), 'f', -1, 64), d.Group, d.Name,
		strconv.FormatFloat(d.Value, 'g', -1, 64))
	return err
}

// JSONLines writes one JSON object a line: timestamp (Unix seconds), group_name,
// name, value. NaN and the infinities are the texts "NaN", "Infinity" and
// "-Infinity", since JSON has no numbers for them.
func JSONLines(w io.Writer) Handler { return &jsonLines{json.NewEncoder(w)} }

type jsonLines struct{ out *json.Encoder }

func (j *jsonLines) Emit(d Data) error {
	return j.out.Encode(struct {
		Timestamp float64 `json:"timestamp"`
		Group     string  `json:"group_name"`
		Name      string  `json:"name"`
		Value     any     `json:"value"`
	}{d.seconds(), d.Group, d.Name, jsonValue(d.Value)})
}

func jsonValue(v float64) any {
	switch {
	case math.IsNaN(v):
		return "NaN"
	case math.IsInf(v, 1):
		return "Infinity"
	case math.IsInf(v, -1):
		return "-Infinity"
	}
	return v
}

// ToRun logs metrics as series of a run: the series of a metric is
// `<group>/<name>`. Characters that a series' name cannot have become `_`, and
// the label `exact_name` keeps what it should be called.
func ToRun(run *kymogram.Run) Handler { return &toRun{run: run, known: map[[2]string]series{}} }

type toRun struct {
	run   *kymogram.Run
	known map[[2]string]series
}

// maxKnown bounds the names that are remembered; more are worked out each time.
const maxKnown = 10_000

func (t *toRun) Emit(d Data) error {
	key := [2]string{d.Group, d.Name}
	s, ok := t.known[key]
	if !ok {
		s = seriesOf(d.Group, d.Name)
		if len(t.known) < maxKnown {
			t.known[key] = s
		}
	}
	opts := []kymogram.LogOption{kymogram.At(d.Time)}
	if s.exact != "" {
		opts = append(opts, kymogram.Labels(map[string]string{ExactName: s.exact}))
	}
	return t.run.Log(s.name, d.Value, opts...)
}

// FanOut is one handler that gives every metric to several; one that fails or
// blocks holds no other up. It is for [Registry.Configure] only.
func FanOut(handlers ...Handler) Handler { return fanOut(handlers) }

type fanOut []Handler

// Emit is for those who call the handler by themselves; a registry gives each
// its own queue.
func (f fanOut) Emit(d Data) error {
	var errs []error
	for _, h := range f {
		errs = append(errs, h.Emit(d))
	}
	return errors.Join(errs...)
}
