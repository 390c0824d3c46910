package curve

import (
	"cmp"
	"context"
	"iter"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// Stretch is what a read across series is about.
type Stretch struct {
	store.AcrossRequest
	axis int
}

// Across answers [store.Selector.Across]. touching gives views of the series that it is
// about, in their order. Series that were logged together share row groups, and so does
// what is read of these: each is read once.
func Across(ctx context.Context, touching func(context.Context, *Stretch) iter.Seq2[*View, error], q store.AcrossRequest) iter.Seq2[*store.Rows, error] {
	return func(yield func(*store.Rows, error) bool) {
		axis, err := readAxis(q.Axis)
		if err != nil {
			yield(nil, err)
			return
		}
		if q.Limit < 1 || q.Limit > store.SelectRows {
			q.Limit = store.SelectRows
		}
		read, st := &shared{rows: map[column.Group]*column.Rows{}}, &Stretch{q, axis}
		for v, err := range touching(ctx, st) {
			if err != nil {
				yield(nil, err)
				return
			}
			v.Ended = ctx.Err
			v.narrow(st, read)
			for rows, err := range v.pages(ctx, st) {
				if !yield(rows, err) || err != nil {
					return
				}
			}
		}
	}
}

// pages are the points of a view that a request asks for.
func (v *View) pages(ctx context.Context, q *Stretch) iter.Seq2[*store.Rows, error] {
	return func(yield func(*store.Rows, error) bool) {
		var after *column.Place
		for {
			rows, last, err := v.page(ctx, q, after)
			if err != nil {
				yield(nil, err)
				return
			}
			if len(rows.TimeNs) > 0 && !yield(rows, nil) || rows.Next == nil {
				return
			}
			after = last
		}
	}
}

func (v *View) page(ctx context.Context, q *Stretch, after *column.Place) (rows *store.Rows, last *column.Place, err error) {
	done, err := v.readTexts(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	s := &scan{View: v, axis: q.axis, from: q.From, to: q.To, at: q.At, after: after, limit: q.Limit}
	if after != nil {
		s.from = max(s.from, after.X)
	}
	list, more, err := s.collect(ctx, q.Attempts)
	if err != nil {
		return nil, nil, err
	}
	if more {
		place := list[len(list)-1].place()
		last = &place
	}
	return v.table(list, more), last, nil
}

// Has reports whether a series with such axes can have a point on the axis.
func (q *Stretch) Has(axes column.AxisSet) bool { return q.axis < 0 || axes.Has(q.axis) }

// Reaches reports whether a group may have a point that is asked for.
func (q *Stretch) Reaches(e *column.Extent) bool {
	if !q.Has(e.Mask) {
		return false
	}
	lo, hi := e.Span(q.axis)
	if hi < q.From || lo > q.To {
		return false
	}
	if q.At == nil {
		return true
	}
	at, _ := slices.BinarySearch(q.At, lo)
	return at < len(q.At) && q.At[at] <= hi
}

// narrow leaves out the groups that have no point which is asked for. Points that tell
// something of others are at the same step as these, or where their time tells them
// apart, at the same time.
func (v *View) narrow(q *Stretch, read *shared) {
	far := slices.ContainsFunc(v.Chunks, func(c column.Chunk) bool {
		e := c.Group.Extent()
		if byTime := e.Mode == model.UniqueTime; q.axis == column.Step {
			return byTime
		} else if q.axis < 0 {
			return !byTime || e.Mask.Has(column.Step)
		}
		return true
	})
	if far {
		return
	}
	chunks, flushed := make([]column.Chunk, 0, min(len(v.Chunks), 8)), 0
	for i, c := range v.Chunks {
		if !q.Reaches(c.Group.Extent()) {
			continue
		}
		if i < v.InSegments {
			c.Group = &sharing{c.Group, read}
			flushed++
		}
		chunks = append(chunks, c)
	}
	v.Chunks, v.InSegments = chunks, flushed
}

// shared is what was read of groups for one series and is there for the next.
type shared struct {
	rows map[column.Group]*column.Rows
	held int
}

// sharedRows is how many rows are held at most, in about 50 bytes each.
const sharedRows = 1 << 18

// sharing is a group of which the rows are read once.
type sharing struct {
	column.Group
	in *shared
}

// Rows are those of the group.
func (g *sharing) Rows() (*column.Rows, error) {
	if r, ok := g.in.rows[g.Group]; ok {
		return r, nil
	}
	r, err := g.Group.Rows()
	if err == nil && g.in.held+r.Len() <= sharedRows {
		g.in.rows[g.Group] = r
		g.in.held += r.Len()
	}
	return r, err
}

// picksAt picks the rows at the x that are asked for.
func (s *scan) picksAt(picked []int32, xs []int64, inOrder bool) (out []int32) {
	if !inOrder || len(picked) < len(s.at) {
		for _, i := range picked {
			if _, ok := slices.BinarySearch(s.at, xs[i]); ok {
				out = append(out, i)
			}
		}
		return out
	}
	if len(picked) == 0 {
		return nil
	}
	first, _ := slices.BinarySearch(s.at, xs[picked[0]])
	for _, x := range s.at[first:] {
		n, _ := slices.BinarySearchFunc(picked, x, func(i int32, x int64) int { return cmp.Compare(xs[i], x) })
		for picked = picked[n:]; len(picked) > 0 && xs[picked[0]] == x; picked = picked[1:] {
			out = append(out, picked[0])
		}
		if len(picked) == 0 {
			break
		}
	}
	return out
}
