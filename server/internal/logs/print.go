package logs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
)

// Streams are what [Options].Stream may be.
var Streams = []string{"stdout", "stderr", "log"} //nolint:gochecknoglobals // a table

// Options say which lines are printed, and how.
type Options struct {
	Server *remote.Client
	Run    string // its id
	Stream string // one of Streams; "" for all
	Tail   int    // the last so many lines; below 0 all
	Since  time.Duration
	Follow bool
	JSON   bool
	Times  bool
	Out    io.Writer
	Err    io.Writer // for what is no line
}

// Print prints the lines of a run's console. With Follow it goes on until the run ends or ctx
// does, also while the server restarts.
func Print(ctx context.Context, o *Options) error {
	src := &source{server: o.Server, run: o.Run, stream: o.Stream}
	list, err := src.list(ctx)
	if err != nil {
		return err
	}
	out := &printer{o.Out, o.JSON, o.Times}
	f := newFollower(src, out, o.Err)
	var last []Line
	found := 0
	for line, err := range o.all(ctx, src, list) {
		if err != nil {
			return err
		}
		f.note(&line)
		found++
		if o.Tail < 0 {
			err = out.print(&line)
		} else if last = append(last, line); len(last) > 2*o.Tail {
			last = slices.Delete(last, 0, len(last)-o.Tail)
		}
		if err != nil {
			return err
		}
	}
	for _, line := range last[max(0, len(last)-max(o.Tail, 0)):] {
		if err := out.print(&line); err != nil {
			return err
		}
	}
	if !o.Follow {
		switch {
		case len(list) == 0 && o.Stream != "", len(list) > 0 && found == 0 && o.Since > 0:
			fmt.Fprintln(o.Err, "No line of the run is of this stream and time.")
		case len(list) == 0:
			fmt.Fprintln(o.Err, "The run has no lines. A Python program keeps them with kymogram.init(capture_console=True).")
		}
		return nil
	}
	f.skip(list)
	return f.run(ctx)
}

// all ranges over the lines of all streams in the order of time.
func (o *Options) all(ctx context.Context, src *source, list []series) iter.Seq2[Line, error] {
	var streams []iter.Seq2[Line, error]
	for i := range list {
		of := &list[i]
		switch {
		case o.Since > 0:
			streams = append(streams, src.lines(ctx, of, 0, time.Now().Add(-o.Since).UnixNano()))
		case o.Tail < 0:
			streams = append(streams, src.lines(ctx, of, 0, 0))
		default:
			streams = append(streams, src.tail(ctx, of, o.Tail))
		}
	}
	return merge(streams)
}

// tail ranges over at least the last n lines of a stream, if it has so many. Numbers may be
// missing: then it looks further back.
func (s *source) tail(ctx context.Context, of *series, n int) iter.Seq2[Line, error] {
	return func(yield func(Line, error) bool) {
		var found []Line
		for back := int64(n); n > 0; back *= 4 {
			found = found[:0]
			from := max(of.Last.Step-back+1, 0)
			for line, err := range s.lines(ctx, of, from, 0) {
				if err != nil {
					yield(Line{}, err)
					return
				}
				found = append(found, line)
			}
			if len(found) >= n || from == 0 {
				break
			}
		}
		for i := range found {
			if !yield(found[i], nil) {
				return
			}
		}
	}
}

// merge ranges over the lines of several streams by time, each in its own order.
func merge(streams []iter.Seq2[Line, error]) iter.Seq2[Line, error] {
	type head struct {
		line Line
		next func() (Line, error, bool)
	}
	return func(yield func(Line, error) bool) {
		var heads []head
		for _, stream := range streams {
			next, stop := iter.Pull2(stream)
			defer stop()
			heads = append(heads, head{next: next})
		}
		advance := func(i int) bool {
			line, err, more := heads[i].next()
			switch {
			case err != nil:
				yield(Line{}, err)
				return false
			case more:
				heads[i].line = line
			default:
				heads[i].next = nil
			}
			return true
		}
		for i := range heads {
			if !advance(i) {
				return
			}
		}
		for {
			first := -1
			for i := range heads {
				if heads[i].next != nil && (first < 0 || byTime(heads[i].line, heads[first].line) < 0) {
					first = i
				}
			}
			if first < 0 || !yield(heads[first].line, nil) || !advance(first) {
				return
			}
		}
	}
}

// passing says whether an error may pass: the server restarts.
func passing(err error) bool {
	known := (*model.Error)(nil)
	return !errors.As(err, &known) || known.Code == model.CodeUnavailable || known.Code == model.CodeInternal
}
