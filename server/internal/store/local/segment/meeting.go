package segment

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/kymogram/kymogram/server/internal/store/local/column"
)

// meeting finds the groups that have a series, a source and a range on every axis in common
// with another one. A client that sent its points twice makes them, and not always with the
// same series in a group. Those of one row are joined anyhow. Of the others it finds those
// that meet one of the groups. It gives each the least first series of all that it meets,
// directly or through others, and says which are of the others.
func meeting(groups, others []Packed) (met map[*Group]uint32, stays map[*Group]bool) {
	m := &meetings{stays: make(map[*Group]bool, len(others)), joined: map[*Group]*Group{}}
	all := make([]*Group, 0, len(groups)+len(others))
	for i, list := range [][]Packed{groups, others} {
		for _, p := range list {
			if g, ok := p.(*Group); ok && len(g.Series) > 0 {
				all, m.stays[g] = append(all, g), i == 1
			}
		}
	}
	slices.SortStableFunc(all, func(a, b *Group) int { return cmp.Compare(a.Ext.MinTime, b.Ext.MinTime) })
	for _, list := range bySeries(all) {
		m.sweep(list)
	}
	return m.places(), m.stays
}

// meetings are sets of groups that meet: each joined to another one of its set, or to itself.
type meetings struct {
	stays  map[*Group]bool
	joined map[*Group]*Group
}

// sweep goes through groups that have a series, by rising time.
func (m *meetings) sweep(groups []*Group) {
	var open []*Group // those that may reach what comes
	for _, g := range groups {
		open = slices.DeleteFunc(open, func(o *Group) bool { return o.Ext.MaxTime < g.Ext.MinTime })
		for _, o := range open {
			if !(m.stays[o] && m.stays[g]) && maySay(&o.Ext, &g.Ext) {
				m.joined[m.find(o)] = m.find(g)
			}
		}
		open = append(open, g)
	}
}

// find is the group that stands for the set.
func (m *meetings) find(g *Group) *Group {
	up, ok := m.joined[g]
	if !ok {
		m.joined[g] = g
		return g
	}
	for up != g {
		m.joined[g] = m.joined[up]
		g, up = up, m.joined[up]
	}
	return g
}

func (m *meetings) places() map[*Group]uint32 {
	out, least := make(map[*Group]uint32, len(m.joined)), map[*Group]uint32{}
	for g := range m.joined {
		set := m.find(g)
		if old, ok := least[set]; !ok || g.Series[0] < old {
			least[set] = g.Series[0]
		}
	}
	for g := range m.joined {
		out[g] = least[m.find(g)]
	}
	return out
}

// maySay reports whether two groups may have a point in common, but for its time.
func maySay(a, b *column.Extent) bool {
	return a.Mask == b.Mask && a.Mode == b.Mode && a.Meets(b) && slices.ContainsFunc(a.Sources, func(s uint32) bool { return slices.Contains(b.Sources, s) })
}

// bySeries lists the groups of each series, in their order. Series that are always in the
// same groups count once: mostly all groups have the same ones.
func bySeries(groups []*Group) map[uint32][]*Group {
	var (
		key   []byte
		known = map[string]int{} // lists of series
		of    = make([]int, len(groups))
		lists [][]uint32
		all   = &parts{of: map[uint32]uint32{}}
	)
	for i, g := range groups {
		key = key[:0]
		for _, id := range g.Series {
			key = binary.LittleEndian.AppendUint32(key, id)
		}
		at, ok := known[string(key)]
		if !ok {
			at = len(lists)
			known[string(key)], lists = at, append(lists, g.Series)
			all.split(g.Series)
		}
		of[i] = at
	}
	for i := range lists {
		lists[i] = all.among(lists[i])
	}
	out := map[uint32][]*Group{}
	for i, g := range groups {
		for _, part := range lists[of[i]] {
			out[part] = append(out[part], g)
		}
	}
	return out
}

// parts are series by those that they were always listed with.
type parts struct {
	of   map[uint32]uint32 // numbers from 1
	made uint32
}

func (p *parts) split(list []uint32) {
	fresh := map[uint32]uint32{} // by the part before, 0 for none
	for _, id := range list {
		part, ok := fresh[p.of[id]]
		if !ok {
			p.made++
			part = p.made
			fresh[p.of[id]] = part
		}
		p.of[id] = part
	}
}

// among lists the parts that series are of, each once.
func (p *parts) among(list []uint32) (out []uint32) {
	seen := map[uint32]bool{}
	for _, id := range list {
		if part := p.of[id]; !seen[part] {
			seen[part], out = true, append(out, part)
		}
	}
	return out
}
