package telemetry

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/internal/model"
)

// runSink writes points into a run.
type runSink struct {
	run      *kymogram.Run
	standard map[string]string
	labels   map[string]string // of the process, where they do not name the run
	tell     func(once, text string)
}

func openRun(ctx context.Context, o Options, tell func(once, text string)) (*runSink, error) {
	opts := o.Run
	opts.Workspace, opts.Project, opts.RunName = o.Org, o.Database, o.runName()
	opts.ResumeStrategy = kymogram.ResumeAllow
	opts.NoSystemMetrics = true
	if o.Token != "" {
		opts.APIKey = o.Token
	}
	run, err := kymogram.Init(ctx, opts)
	if err != nil {
		return nil, err
	}
	s := &runSink{run: run, standard: o.Standard(), labels: map[string]string{}, tell: tell}
	return s, s.describe(o)
}

// describe says what this life of the process is: in the run's attributes, where that of the
// latest life counts, and in those of its attempt, which nothing replaces.
func (s *runSink) describe(o Options) error {
	described, config := map[string]any{}, map[string]any{}
	var own []string
	for name, text := range s.standard {
		if (name == "uid" || name == "role") && o.runName() == "default" {
			s.labels[name] = text
			continue
		}
		described[name] = text
		own = append(own, name+"="+text)
	}
	for name, text := range o.PlainConfig() {
		config[name] = text
		own = append(own, "config/"+name+"="+text)
	}
	if len(own) > 0 {
		described[model.ThisAttempt] = model.SetValue(own)
	}
	return errors.Join(s.run.LogAttributes("", described), s.run.LogConfig(config))
}

// Write logs a point. The caller's tag goes before one of the process.
func (s *runSink) Write(c *Call) error {
	axes, labels := split(c.Tags)
	for name, text := range s.standard {
		if _, both := labels[name]; both {
			s.tell("collide "+name, fmt.Sprintf("the tag %q is also one of the logger's: the caller's is the label of the series, "+
				"the logger's (%q) the run's attribute", name, text))
		}
	}
	for name, text := range s.labels {
		if _, both := labels[name]; !both {
			labels[name] = text
		}
	}
	p := kymogram.Point{Labels: labels, Axes: axes, Time: c.Time}
	start := strings.NewReplacer("%", "%25", "/", "%2F").Replace(c.Measurement) + "/"
	for name, value := range c.Fields {
		p.Fields = append(p.Fields, kymogram.Field{Metric: start + name, Value: value})
	}
	return s.run.LogPoint(p)
}

func (s *runSink) Flush(ctx context.Context) error { return s.run.Flush(ctx, false) }
func (s *runSink) Close(ctx context.Context) error { return s.run.Close(ctx) }
