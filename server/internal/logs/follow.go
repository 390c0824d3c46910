package logs

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

const (
	lookEvery = 200 * time.Millisecond
	// window is how many of a stream's last lines may still be replaced.
	window = 128
	// rest is how long a replaced line has not changed when it is printed again.
	rest = 1500 * time.Millisecond
	// quiet is how long nothing comes before it is asked whether the run has ended.
	quiet = 2 * time.Second
)

// follower prints what comes.
type follower struct {
	src     *source
	out     *printer
	err     io.Writer
	streams map[string]*progress
}

// progress is how far one stream has been printed.
type progress struct {
	next    int64 // the first number that was not seen
	version [3]uint64
	recent  map[int64]*seen
}

// seen is a line that may still be replaced.
type seen struct {
	line    Line
	changed time.Time // zero: as it was printed
}

func newFollower(src *source, out *printer, err io.Writer) *follower {
	return &follower{src: src, out: out, err: err, streams: map[string]*progress{}}
}

func (f *follower) of(name string) *progress {
	p := f.streams[name]
	if p == nil {
		p = &progress{recent: map[int64]*seen{}}
		f.streams[name] = p
	}
	return p
}

// note takes a line that was read before following began.
func (f *follower) note(l *Line) { f.of(l.Stream + "\x00" + l.Process).take(l) }

func (p *progress) take(l *Line) {
	p.recent[l.Step] = &seen{line: *l}
	p.next = max(p.next, l.Step+1)
	delete(p.recent, p.next-1-window)
}

// skip passes over what was not to be printed.
func (f *follower) skip(list []series) {
	for i := range list {
		p := f.of(list[i].Labels["stream"] + "\x00" + list[i].Labels["process"])
		p.next = max(p.next, list[i].Last.Step+1)
	}
}

func (f *follower) run(ctx context.Context) error {
	away, news := false, time.Now()
	for ctx.Err() == nil {
		n, err := f.look(ctx)
		over := false
		if err == nil && n > 0 {
			news = time.Now()
		} else if err == nil && time.Since(news) > quiet {
			over, err = f.src.over(ctx)
			news = time.Now()
		}
		switch {
		case err != nil && ctx.Err() == nil && !passing(err):
			return err
		case err != nil && ctx.Err() == nil && !away:
			fmt.Fprintf(f.err, "%v: waiting for the server\n", err)
		case over:
			return f.settle(0)
		}
		away = err != nil
		select {
		case <-ctx.Done():
		case <-time.After(lookEvery):
		}
	}
	return nil
}

// look prints new lines, and how many there were.
func (f *follower) look(ctx context.Context) (int, error) {
	list, err := f.src.list(ctx)
	if err != nil {
		return 0, err
	}
	var fresh []Line
	for i := range list {
		s := &list[i]
		p := f.of(s.Labels["stream"] + "\x00" + s.Labels["process"])
		version := [3]uint64{s.Count, s.Superseded, uint64(s.Last.TimeNs)} //nolint:gosec // only compared
		if version == p.version {
			continue
		}
		for line, err := range f.src.lines(ctx, s, max(p.next-window, 0), 0) {
			if err != nil {
				return 0, err
			}
			if line.Step >= p.next {
				fresh = append(fresh, line)
				p.take(&line)
			} else if old := p.recent[line.Step]; old != nil && old.line.Text != line.Text {
				old.line, old.changed = line, time.Now()
			}
		}
		p.version = version
	}
	slices.SortStableFunc(fresh, byTime)
	for i := range fresh {
		if err := f.out.print(&fresh[i]); err != nil {
			return 0, err
		}
	}
	return len(fresh), f.settle(rest)
}

// settle prints replaced lines anew that have not changed for a while.
func (f *follower) settle(after time.Duration) error {
	var again []Line
	for _, p := range f.streams {
		for _, one := range p.recent {
			if !one.changed.IsZero() && time.Since(one.changed) >= after {
				one.changed = time.Time{}
				again = append(again, one.line)
			}
		}
	}
	slices.SortFunc(again, byTime)
	for i := range again {
		if err := f.out.print(&again[i]); err != nil {
			return err
		}
	}
	return nil
}
