package segment

import (
	"slices"

	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// What is looked at of a run in two segments to say how much one repeats of the other.
// Points that were sent twice lie close together, so little tells.
const (
	lookedGroups = 4
	lookedIndex  = 16 << 20 // bytes; a larger index takes seconds
)

// Repeats estimates which part of s the other segment says again, and the reverse, both of
// the bytes that s has of some runs. It reads the indexes of these.
func (s *File) Repeats(o *File, runs [][2]*Entry) (parts [2]float64, err error) {
	all := 0.0
	for _, run := range runs {
		part, err := s.repeats(o, run[0], run[1])
		if err != nil {
			return parts, err
		}
		for i := range parts {
			parts[i] += part[i] * float64(run[0].Bytes)
		}
		all += float64(run[0].Bytes)
	}
	for i := range parts {
		parts[i] /= max(1, all)
	}
	return parts, nil
}

// Overlaps reports whether a fortieth of the time of one is that of the other, too.
func (e *Entry) Overlaps(o *Entry) bool {
	if e.Points == 0 || o.Points == 0 || e.Index.Len > lookedIndex || o.Index.Len > lookedIndex {
		return false
	}
	common := float64(min(e.MaxTime, o.MaxTime)) - float64(max(e.MinTime, o.MinTime))
	least := min(float64(e.MaxTime)-float64(e.MinTime), float64(o.MaxTime)-float64(o.MinTime))
	return common >= 0 && common >= least/40
}

// spread takes some of a list, from all of it.
func spread[T any](list []T, n int) []T {
	if len(list) <= n {
		return list
	}
	out := make([]T, n)
	for i := range out {
		out[i] = list[len(list)*i/n]
	}
	return out
}

// repeats is the part of a run's points that the other segment says again, and the part that
// says again what the other one has.
func (s *File) repeats(o *File, a, b *Entry) (part [2]float64, err error) {
	mine, err := s.Section(*a, true)
	if err != nil {
		return part, err
	}
	others, err := o.Section(*b, true)
	if err != nil {
		return part, err
	}
	apart := func(e *Entry) func(Packed) bool {
		return func(p Packed) bool {
			x := p.Extent()
			return x.LastSeq != 0 || x.MaxTime < e.MinTime || x.MinTime > e.MaxTime // numbered rows are sent once
		}
	}
	mine.Groups, others.Groups = slices.DeleteFunc(mine.Groups, apart(b)), slices.DeleteFunc(others.Groups, apart(a))
	near := 0.0 // the part of the points that is at the time of the other's
	for _, p := range mine.Groups {
		near += float64(p.Whole().Points()) / float64(a.Points)
	}
	looked := spread(mine.Groups, lookedGroups)
	for _, p := range looked {
		again, err := p.Whole().repeats(others.Groups)
		if err != nil {
			return part, err
		}
		for i := range part {
			part[i] += near * again[i] / float64(len(looked))
		}
	}
	return part, nil
}

// repeats is the part of the group's rows that the others say again, and the reverse, by one
// series that both have.
func (g *Group) repeats(others []Packed) (part [2]float64, err error) {
	left := lookedGroups
	for _, p := range others {
		o := p.Whole()
		if left == 0 || !g.Ext.Overlaps(&o.Ext, -1) || !maySay(&g.Ext, &o.Ext) {
			continue
		}
		series := slices.IndexFunc(g.Series, func(id uint32) bool { _, has := slices.BinarySearch(o.Series, id); return has }) // they rise
		if series < 0 {
			continue
		}
		left--
		again, err := g.common(o, g.Series[series])
		if err != nil {
			return part, err
		}
		for i := range part {
			part[i] = min(1, part[i]+float64(again[i])/float64(g.Ext.Rows))
		}
	}
	return part, nil
}

// common counts the rows of which the other group says a series again, and the reverse.
func (g *Group) common(o *Group, series uint32) (again [2]int, err error) {
	bu := bundle{series: []uint32{series}}
	joined := &column.Rows{Mask: g.Ext.Mask, Mode: g.Ext.Mode}
	for _, x := range []*Group{g, o} {
		r, err := x.Rows()
		if err != nil {
			return again, err
		}
		v, err := x.Values(slices.Index(x.Series, series))
		if err != nil {
			return again, err
		}
		bu.classes = append(bu.classes, &class{rows: r, at: map[uint32]column.Values{series: v}})
		joined.Add(r, nil)
	}
	order := sortedRows(joined)
	for i := 1; i < joined.Len(); i++ {
		a, b := at(order, i-1), at(order, i)
		if joined.Repeats(a, b) && bu.equalValues(a, b) {
			if a < g.Ext.Rows {
				again[0]++
			} else {
				again[1]++
			}
		}
	}
	return again, nil
}
