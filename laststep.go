package kymogram

import (
	"context"
	"fmt"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/series"
	"github.com/kymogram/kymogram/internal/uplink"
)

const (
	// askAgain is how long FindLastStep waits between two looks.
	askAgain = 100 * time.Millisecond
	askLimit = 10 * time.Second
)

// LastStep is the step of the last point of a series, as far as this process knows.
// It knows its own points, and what the server reported when the run was opened.
//
// The result is not ok where there is no point, and where only the server knows:
// [Run.FindLastStep] tells these apart.
func (r *Run) LastStep(name string, opts ...LogOption) (step int64, ok bool) {
	c, err := r.parse(opts)
	if err != nil {
		return 0, false
	}
	step, ok, _, _ = r.knownStep(model.NewSeriesKey(name, c.scale, c.allLabels()))
	return step, ok
}

// FindLastStep is the step of the last point of a series; it is not ok where there is
// none. Where only the server knows it waits for that, and for the delivery of what
// earlier processes of this machine logged to the run, until ctx ends. Of a new job's run
// this process knows all.
func (r *Run) FindLastStep(ctx context.Context, name string, opts ...LogOption) (step int64, ok bool, err error) {
	c, err := r.parse(opts)
	if err != nil {
		return 0, false, err
	}
	key := model.NewSeriesKey(name, c.scale, c.allLabels())
	step, ok, known, own := r.knownStep(key)
	if known {
		return step, ok, nil
	}
	last := uint64(0)
	if own {
		last = r.w.Last()
	}
	for {
		why := r.undeliveredBefore(last)
		if why == nil {
			if step, ok, why = r.askStep(ctx, key); why == nil {
				return step, ok, nil
			}
		}
		select {
		case <-ctx.Done():
			return 0, false, fmt.Errorf("the last step of %s is not known (%w): %w", name, why, ctx.Err())
		case <-time.After(askAgain):
		}
	}
}

// knownStep is what this process knows; own says whether it logged to the series.
func (r *Run) knownStep(key model.SeriesKey) (step int64, ok, known, own bool) {
	s := r.all.Find(key.String())
	if s != nil && s.logged.Load() > 0 {
		step, ok = s.steps.Last()
		known = s.steps.Next() >= 0 || r.opts.newJob
		return step, ok && known, known, true
	}
	if r.opts.newJob {
		return 0, false, true, false
	}
	if len(r.request.Ended) > 0 {
		return 0, false, false, false // what earlier processes logged may wait
	}
	next, known := r.starts.Of(key.String())
	return next - 1, known && next > 0, known, false
}

// undeliveredBefore says which points of this machine the server may lack.
func (r *Run) undeliveredBefore(last uint64) error {
	if page, err := r.w.Status().Read(); last > 0 && (err != nil || page.Mark < last) {
		return fmt.Errorf("points of this process wait in %s", r.folder.Path)
	}
	for _, other := range r.folder.Ended(&r.request) {
		if !r.folder.IsDelivered(other) {
			return fmt.Errorf("points of an earlier process wait in %s", r.folder.WriterPath(other))
		}
	}
	return nil
}

// askStep opens the writer again, which changes nothing, for the answer.
func (r *Run) askStep(ctx context.Context, key model.SeriesKey) (step int64, ok bool, err error) {
	secret, err := uplink.FindKey(r.folder, r.opts.Server, r.opts.env)
	if err != nil {
		return 0, false, err
	}
	server, err := uplink.NewServer(r.opts.Server, secret)
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, askLimit)
	defer cancel()
	request := r.request
	request.WithStarts = true
	request.StartsOf = []model.SeriesName{{Metric: key.Metric, Scale: key.Scale, Labels: key.LabelMap()}}
	result, err := server.Open(ctx, request)
	if err != nil {
		return 0, false, err
	}
	next, known := series.NewStarts(&result).Of(key.String())
	if !known {
		return 0, false, fmt.Errorf("the run has more series than %s lists: its version is older than this client's", r.opts.Server)
	}
	return next - 1, next > 0, nil
}
