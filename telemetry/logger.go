package telemetry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kymogram/kymogram"
)

// The roles of a subnet.
const (
	Miner      = "miner"
	Validator  = "validator"
	Evaluator  = "evaluator"
	Aggregator = "aggregator"
)

// Tags tell series apart; those that count steps are axes.
type Tags map[string]any

// Fields are what was measured.
type Fields map[string]any

// Options say which process logs. The zero value is a process without a name.
type Options struct {
	Database string // the project: else INFLUXDB_DATABASE, else "tplr"
	Org      string // the workspace: else INFLUXDB_ORG, else "tplr"
	Token    string // the key of the server

	Prefix    string // before every measurement
	UID       string
	Version   string // of the program
	RuntimeID string // of this process; a random one when empty
	Role      string
	Group     string
	JobType   string
	// Config describes the run: its plain values, secrets replaced.
	Config map[string]any

	Log *slog.Logger // slog.Default when nil
	// Run are further options of the run of the points, such as its server.
	Run kymogram.Options
}

// Call is a point as a [Sink] gets it.
type Call struct {
	Measurement string // with its prefix
	Tags        map[string]string
	Fields      map[string]any // float64, int64 or string
	Time        time.Time
}

// Sink takes points. Write never waits for a network; its error says what was not kept.
type Sink interface {
	Write(call *Call) error
	Flush(ctx context.Context) error
	Close(ctx context.Context) error
}

// Logger logs points. Its methods are safe for concurrent use.
type Logger struct {
	opts Options
	sink Sink
	said sync.Map // causes that were told

	machine *machine

	logged, sampledOut, failed atomic.Uint64
}

// Counts is what became of the calls of [Logger.Log].
type Counts struct {
	Logged     uint64 // kept, in full
	SampledOut uint64 // left out by [SampleRate]
	Failed     uint64 // of which something was not kept; the log says why
}

// New makes a logger whose points go to the Kymogram server, through the spool.
func New(ctx context.Context, opts Options) (*Logger, error) {
	opts = opts.filled()
	l := WithSink(opts, nil)
	sink, err := openRun(ctx, opts, l.tell)
	if err != nil {
		return nil, err
	}
	l.sink = sink
	return l, nil
}

// WithSink makes a logger with another sink.
func WithSink(opts Options, sink Sink) *Logger {
	return &Logger{opts: opts.filled(), sink: sink, machine: newMachine()}
}

// filled are the options with their defaults.
func (o Options) filled() Options {
	o.Database = first(o.Database, os.Getenv("INFLUXDB_DATABASE"), "tplr")
	o.Org = first(o.Org, os.Getenv("INFLUXDB_ORG"), "tplr")
	if o.RuntimeID == "" {
		o.RuntimeID = rand.Text()
	}
	if o.Log == nil {
		o.Log = slog.Default()
	}
	return o
}

// Filled are the options with their defaults, as a [Sink] outside this package needs them.
func (o Options) Filled() Options { return o.filled() }

func first(texts ...string) string {
	for _, text := range texts {
		if text != "" {
			return text
		}
	}
	return ""
}

// Option says more of one point.
type Option func(*details)

type details struct {
	at          time.Time
	system, gpu bool
	rate        float64
}

// At is the time of the point.
func At(t time.Time) Option { return func(d *details) { d.at = t } }

// WithSystemMetrics adds use of the processor and memory.
func WithSystemMetrics() Option { return func(d *details) { d.system = true } }

// WithGPUMetrics adds the memory of the first graphics card, and which card that is.
func WithGPUMetrics() Option { return func(d *details) { d.gpu = true } }

// SampleRate keeps that share of the calls.
func SampleRate(share float64) Option { return func(d *details) { d.rate = share } }

// Log logs a point. It never fails: what is not kept is counted, and told once in the log.
func (l *Logger) Log(measurement string, tags Tags, fields Fields, opts ...Option) {
	d := details{rate: 1}
	for _, o := range opts {
		o(&d)
	}
	if d.rate < 1 && mathrand.Float64() >= d.rate {
		l.sampledOut.Add(1)
		return
	}
	if d.at.IsZero() {
		d.at = time.Now()
	}
	c := &Call{Measurement: l.opts.Prefix + measurement, Tags: textsOf(tags), Fields: ProcessFields(fields), Time: d.at}
	l.measure(c, &d)
	err := errNoField
	if len(c.Fields) > 0 {
		err = l.sink.Write(c)
	}
	if err != nil {
		l.failed.Add(1)
		l.tell(measurement+err.Error(), fmt.Sprintf("a point of %s is not kept as it is: %v", c.Measurement, err))
		return
	}
	l.logged.Add(1)
}

var errNoField = errors.New("it has no field")

// measure adds what the machine says; without it the point is kept.
func (l *Logger) measure(c *Call, d *details) {
	if d.system {
		found, err := l.SystemMetrics()
		for name, value := range found {
			c.Fields["sys_"+name] = value
		}
		l.warn("system metrics", err)
	}
	if d.gpu {
		found, err := l.GPUMetrics()
		for name, value := range found {
			if name == gpuName || name == gpuID {
				c.Tags[name] = textOf(value)
			} else {
				c.Fields[name] = value
			}
		}
		l.warn("GPU metrics", err)
	}
}

func (l *Logger) warn(what string, err error) {
	if err != nil {
		l.tell(what, fmt.Sprintf("points have no %s: %v", what, err))
	}
}

// tell warns, once for each cause.
func (l *Logger) tell(once, text string) {
	if _, said := l.said.LoadOrStore(once, true); !said {
		l.opts.Log.Warn(text)
	}
}

// Counts is what became of the calls so far.
func (l *Logger) Counts() Counts {
	return Counts{Logged: l.logged.Load(), SampledOut: l.sampledOut.Load(), Failed: l.failed.Load()}
}

// Flush waits until everything logged before is delivered.
func (l *Logger) Flush(ctx context.Context) error { return l.sink.Flush(ctx) }

// Close waits for the delivery, as long as ctx allows; what is left stays on the disk for later.
func (l *Logger) Close(ctx context.Context) error { return l.sink.Close(ctx) }
