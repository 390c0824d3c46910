package kymogram

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"math"
	"strings"
	"sync"
)

// The series that a program's output is kept in, with the stream as a label.
const (
	consoleMetric = "console"
	streamLabel   = "stream"
	streamLog     = "log"
	longestLine   = 8 << 10 // bytes; the rest of a longer one is cut
)

// HandlerOptions say what a handler of [NewHandler] keeps. The zero value keeps every line
// of level Info and above.
type HandlerOptions struct {
	// Level is the least that is kept; Info when nil. The next handler has its own.
	Level slog.Leveler
	// Points picks numeric attributes that are logged as points as well, by their name with
	// the groups in front, as "train/loss"; nil: none. [AllNumbers] picks all.
	Points func(name string) bool
	// Step is the attribute that has the step of these points, "step" when empty. It is no
	// point itself. Without it a point takes its series' next step.
	Step string
}

// AllNumbers is for [HandlerOptions.Points].
func AllNumbers(string) bool { return true }

// NewHandler makes a handler that keeps log lines with the run, in its text series console,
// and passes each record on to next, which may be nil. Lines after [Run.Close] only go to
// next. Do not pass the handler of slog.Default to it and then make it the default: that one
// leads back.
func NewHandler(run *Run, next slog.Handler, opts HandlerOptions) slog.Handler {
	if opts.Level == nil {
		opts.Level = slog.LevelInfo
	}
	if opts.Step == "" {
		opts.Step = "step"
	}
	return newHandler(run, next, opts)
}

// keeper is what a handler needs of a run.
type keeper interface {
	LogPoint(p Point) error
	LogMap(values map[string]float64, opts ...LogOption) error
}

func newHandler(run keeper, next slog.Handler, opts HandlerOptions) *handler {
	lines := &lineBuffer{}
	text := slog.NewTextHandler(&lines.text, &slog.HandlerOptions{Level: slog.Level(math.MinInt), ReplaceAttr: withoutTime})
	return &handler{run: run, next: next, opts: opts, lines: lines, text: text}
}

// withoutTime: the point has the time.
func withoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey && a.Value.Kind() == slog.KindTime {
		return slog.Attr{}
	}
	return a
}

// lineBuffer is where all handlers of one family write their lines, one at a time.
type lineBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

type handler struct {
	run   keeper
	next  slog.Handler // nil: none
	opts  HandlerOptions
	lines *lineBuffer
	text  slog.Handler // writes to lines
	group string       // "train/" within WithGroup("train")
	with  []slog.Attr  // of WithAttrs, named with their groups
}

// Enabled says whether anyone wants the record.
func (h *handler) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= h.opts.Level.Level() || h.next != nil && h.next.Enabled(ctx, level)
}

// Handle keeps the record and passes it on.
func (h *handler) Handle(ctx context.Context, record slog.Record) error {
	var passed error
	if h.next != nil && h.next.Enabled(ctx, record.Level) {
		passed = h.next.Handle(ctx, record.Clone())
	}
	if record.Level < h.opts.Level.Level() {
		return passed
	}
	kept := h.keep(ctx, record)
	if h.opts.Points != nil {
		kept = errors.Join(kept, h.points(record))
	}
	if errors.Is(kept, ErrClosed) {
		kept = nil
	}
	return errors.Join(passed, kept)
}

// keep logs the line.
func (h *handler) keep(ctx context.Context, record slog.Record) error {
	h.lines.mu.Lock()
	h.lines.text.Reset()
	err := h.text.Handle(ctx, record)
	line := strings.TrimSuffix(h.lines.text.String(), "\n")
	h.lines.mu.Unlock()
	if err != nil {
		return err
	}
	if len(line) > longestLine {
		line = strings.ToValidUTF8(line[:longestLine], "") + "…"
	}
	return h.run.LogPoint(Point{
		Fields: []Field{{Metric: consoleMetric, Value: line}}, Labels: map[string]string{streamLabel: streamLog}, Time: record.Time,
	})
}

// points logs the numbers among the attributes.
func (h *handler) points(record slog.Record) error {
	found := numbers{values: map[string]float64{}, step: h.opts.Step}
	for _, a := range h.with {
		found.add("", a)
	}
	record.Attrs(func(a slog.Attr) bool {
		found.add(h.group, a)
		return true
	})
	for name := range found.values {
		if !h.opts.Points(name) {
			delete(found.values, name)
		}
	}
	if !record.Time.IsZero() {
		found.options = append(found.options, At(record.Time))
	}
	return h.run.LogMap(found.values, found.options...)
}

// numbers are numeric attributes by name, and the step.
type numbers struct {
	step    string
	values  map[string]float64
	options []LogOption
}

func (n *numbers) add(prefix string, a slog.Attr) {
	v := a.Value.Resolve()
	name := prefix + a.Key
	switch v.Kind() {
	case slog.KindGroup:
		if a.Key != "" {
			prefix = name + "/"
		}
		for _, inner := range v.Group() {
			n.add(prefix, inner)
		}
	case slog.KindInt64:
		if a.Key == n.step {
			n.options = append(n.options, Step(v.Int64()))
		} else {
			n.values[name] = float64(v.Int64())
		}
	case slog.KindUint64:
		if a.Key == n.step && v.Uint64() <= math.MaxInt64 {
			n.options = append(n.options, Step(int64(v.Uint64())))
		} else {
			n.values[name] = float64(v.Uint64())
		}
	case slog.KindFloat64:
		n.values[name] = v.Float64()
	case slog.KindDuration:
		n.values[name] = v.Duration().Seconds()
	case slog.KindAny:
		if f, ok := v.Any().(float32); ok {
			n.values[name] = float64(f)
		}
	}
}

// WithAttrs adds attributes to every record.
func (h *handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	if len(attrs) == 0 {
		return h
	}
	out := *h
	out.text = h.text.WithAttrs(attrs)
	if h.next != nil {
		out.next = h.next.WithAttrs(attrs)
	}
	out.with = append([]slog.Attr(nil), h.with...)
	for _, a := range attrs {
		if a.Key != "" || a.Value.Kind() == slog.KindGroup {
			out.with = append(out.with, prefixed(h.group, a))
		}
	}
	return &out
}

// prefixed is an attribute in the groups that are open.
func prefixed(group string, a slog.Attr) slog.Attr {
	if group == "" {
		return a
	}
	return slog.Attr{Key: strings.TrimSuffix(group, "/"), Value: slog.GroupValue(a)}
}

// WithGroup puts what comes into a group.
func (h *handler) WithGroup(name string) slog.Handler {
	if name == "" {
		return h
	}
	out := *h
	out.text = h.text.WithGroup(name)
	if h.next != nil {
		out.next = h.next.WithGroup(name)
	}
	out.group = h.group + name + "/"
	return &out
}
