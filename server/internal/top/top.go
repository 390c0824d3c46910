package top

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/read"
)

const (
	// beat is the time between two refreshes that events ask for: 4 Hz.
	beat = 250 * time.Millisecond
	// listShare of the time may go into reading the list of all series, one part of so many.
	listShare = 10
	listPause = time.Second
	// slow is how long the server may take before the head says so.
	slow = 2 * time.Second
)

// Options say what to show.
type Options struct {
	Server *remote.Client
	Run    string // its id
	Metric string // regular expression on names, "" for all
	Sort   string // one of Sorts
	Axis   string // of the curves, "" for the usual one of each
	Colour bool
}

// result is what one refresh brought.
type result struct {
	about  about
	all    []*read.Series // nil: not asked for
	ends   []*read.Series // of the visible rows
	curves map[string]*curve
	took   time.Duration // for the list
	err    error
}

// program is one run of [Show].
type program struct {
	Options
	source  source
	screen  *screen
	state   state
	index   map[string]*read.Series
	rows    []*read.Series
	results chan result
	busy    time.Time // since when a refresh is under way; zero: none
	want    bool      // a refresh
	wantAll bool      // with the list of series
	listed  time.Time // when the list was read last
	took    time.Duration
	series  uint64 // of the last event
}

// Show shows a run in a terminal until a person quits or ctx ends.
func Show(ctx context.Context, in, out *os.File, options Options) error {
	// A terminal that is closed asks for the end as Ctrl-C does.
	ctx, cancel := signal.NotifyContext(ctx, syscall.SIGHUP)
	defer cancel()
	p := &program{Options: options, source: source{options.Server, options.Run}, results: make(chan result, 1)}
	p.state.meters, p.state.view.axis, p.state.view.sort = map[string]*meter{}, options.Axis, sortIndex(options.Sort)
	// The first answer comes before the terminal is taken over: an error is a plain line.
	first := p.source.refresh(ctx, request{all: true, pattern: options.Metric})
	if first.err != nil {
		return first.err
	}
	screen, err := openScreen(in, out)
	if err != nil {
		return err
	}
	defer screen.restore()
	p.screen = screen
	screen.resized()
	p.take(first, time.Now())
	p.want = true
	return p.loop(ctx)
}

func (p *program) loop(ctx context.Context) error {
	events, keys := make(chan news), make(chan press)
	go follow(ctx, p.Server, p.Run, events)
	go readKeys(p.screen.in, keys, ctx.Done())
	tick := time.NewTicker(beat)
	defer tick.Stop()
	started := time.Time{}
	for {
		if p.screen.resized() {
			p.want = true
			p.state.view.bound(len(p.rows), body(p.screen.height))
		}
		if now := time.Now(); p.want && p.busy.IsZero() && now.Sub(started) >= beat {
			started = now
			p.start(ctx, now)
		}
		if err := p.draw(time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			p.count(time.Now())
		case n := <-events:
			if n.err != nil && !passing(n.err) {
				return n.err
			}
			p.hear(n)
		case k := <-keys:
			if !p.state.view.does(k, p.state.all, len(p.rows), body(p.screen.height)) {
				return nil
			}
			p.arrange()
			p.want, started = true, time.Time{}
		case r := <-p.results:
			p.busy = time.Time{}
			if r.err != nil && !passing(r.err) {
				return r.err
			}
			p.take(r, time.Now())
		}
	}
}

// passing reports whether an error may be over at the next try.
func passing(err error) bool {
	switch model.CodeOf(err) {
	case model.CodeNotFound, model.CodeRunDeleted, model.CodePermission, model.CodeUnauthenticated, model.CodeInvalid:
		return false
	}
	return true
}

// hear takes in an event.
func (p *program) hear(n news) {
	if n.err != nil {
		p.trouble("the server does not answer")
		return
	}
	p.want = true
	if n.all {
		p.wantAll = true
		return
	}
	p.state.about.Points, p.state.about.Status = n.Points, n.Status
	p.wantAll = p.wantAll || n.Series != p.series
	p.series = n.Series
}

func (p *program) trouble(text string) {
	if p.state.trouble == "" {
		p.state.since = time.Now()
	}
	p.state.trouble = text
}

// start begins a refresh of what is on the screen.
func (p *program) start(ctx context.Context, now time.Time) {
	s := &p.state
	shown := s.visible(p.rows, p.screen.height)
	r := request{
		rows: shown, axis: s.view.axis, cells: max(s.measure(shown, p.screen.width).spark, 2),
		part: s.view.part, pattern: p.Metric,
	}
	// An order by values needs all of them; an order by name does not.
	if p.wantAll || s.view.sort != 0 {
		r.all = now.Sub(p.listed) >= max(listPause, listShare*p.took)
	}
	p.want = p.wantAll && !r.all // the list is due later
	if r.all {
		p.wantAll, p.listed = false, now
	}
	p.busy = now
	go func() {
		ctx, cancel := context.WithTimeout(ctx, patience)
		defer cancel()
		p.results <- p.source.refresh(ctx, r)
	}()
}

// take takes in what a refresh brought.
func (p *program) take(r result, now time.Time) {
	s := &p.state
	if r.err != nil {
		p.trouble("the server does not answer")
		p.want = true
		return
	}
	s.trouble, s.about, s.readAt, s.curves = "", r.about, now, r.curves
	if r.all != nil {
		s.all, p.took = r.all, r.took
		p.index = make(map[string]*read.Series, len(r.all))
		for _, one := range r.all {
			p.index[key(one)] = one
		}
	}
	for _, end := range r.ends {
		if one := p.index[key(end)]; one != nil {
			*one = *end
		}
	}
	p.arrange()
	p.count(now)
}

// count notes how many points there are, also where none came. It keeps a meter for each visible
// row, and no other.
func (p *program) count(now time.Time) {
	p.state.total.add(p.state.about.Points, now)
	meters, keep := p.state.meters, map[string]bool{}
	for _, row := range p.state.visible(p.rows, p.screen.height) {
		id := key(row)
		if keep[id] = true; meters[id] == nil {
			meters[id] = &meter{}
		}
		meters[id].add(row.Count, now)
	}
	for id := range meters {
		if !keep[id] {
			delete(meters, id)
		}
	}
}

// arrange selects and sorts the rows anew.
func (p *program) arrange() {
	p.rows = p.state.view.rows(p.state.all)
	p.state.view.bound(len(p.rows), body(p.screen.height))
}

func (p *program) draw(now time.Time) error {
	s := &p.state
	if !p.busy.IsZero() && now.Sub(p.busy) > slow {
		p.trouble("the server does not answer")
	}
	return p.screen.draw(s.frame(p.rows, p.screen.width, p.screen.height, now, p.Colour))
}

// request is what one refresh asks for.
type request struct {
	rows    []*read.Series
	all     bool
	pattern string
	axis    string
	cells   int
	part    int // of parts
}

// refresh reads the run, the rows, and perhaps the list of all series.
func (s *source) refresh(ctx context.Context, r request) (out result) {
	if out.about, out.err = s.about(ctx); out.err != nil {
		return out
	}
	if r.all {
		begun := time.Now()
		if out.all, out.err = s.list(ctx, r.pattern); out.err != nil {
			return out
		}
		if out.took = time.Since(begun); out.all == nil {
			out.all = []*read.Series{}
		}
	} else if out.ends, out.err = s.ends(ctx, r.rows); out.err != nil {
		return out
	}
	whole := map[string]*curve{}
	if r.part > 0 {
		if whole, out.err = s.curves(ctx, r.rows, r.axis, 2, wholeAxis); out.err != nil {
			return out
		}
	}
	out.curves, out.err = s.curves(ctx, r.rows, r.axis, r.cells, func(row *read.Series) span { return endOf(whole[key(row)], parts[r.part].share) })
	return out
}

// wholeAxis is the span of a curve of all points.
func wholeAxis(*read.Series) span { return span{} }

func sortIndex(name string) int { return max(0, slices.Index(Sorts, name)) }

// Check says what is wrong with the options.
func (o *Options) Check() error {
	if o.Sort != "" && !slices.Contains(Sorts, o.Sort) {
		return errors.New("--sort is name, newest, value or points")
	}
	if axis := model.Axis(o.Axis); o.Axis != "" && axis != model.AxisTime && !slices.Contains(model.Axes(), axis) {
		return fmt.Errorf("there is no axis %q: --axis is one of %v, %s", o.Axis, model.Axes(), model.AxisTime)
	}
	return nil
}
