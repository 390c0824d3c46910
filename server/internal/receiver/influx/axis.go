package influx

import (
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

// span is where a head has the value of an axis.
type span struct {
	from, to int
	gives    []int // places in head.axes
}

// spansOf finds the axes of a head.
func spansOf(raw []byte, wanted, have []model.Axis) (out []span) {
	var names []model.Axis
	for i := endOf(raw, 0, ',', ','); i < len(raw); {
		start := i + 1
		equals := endOf(raw, start, '=', ',')
		i = endOf(raw, equals+1, ',', '=')
		name := model.Axis(raw[start:equals])
		if _, integer := axisValue(text(raw[equals+1 : i])); integer && slices.Contains(wanted, name) {
			out, names = append(out, span{from: equals + 1, to: i}), append(names, name)
		}
	}
	for k, axis := range have {
		at := slices.Index(names, axis)
		if at < 0 { // the step, which another one gives
			at = slices.Index(names, stepOf(wanted, names))
		}
		out[at].gives = append(out[at].gives, k)
	}
	return out
}

// again reads the head at i if it differs from h by the values of axes alone; these are
// those of h then. Where a tag counts steps, each line has another head.
func (h *head) again(b []byte, i int) (end int, ok bool) {
	same := 0 // bytes of the head that were seen
	for _, s := range h.spans {
		if !strings.HasPrefix(text(b[i:]), h.raw[same:s.from]) {
			return 0, false
		}
		i += s.from - same
		n := 0
		for i+n < len(b) && b[i+n]-'0' <= 9 {
			n++
		}
		v, ok := axisValue(text(b[i : i+n]))
		if !ok {
			return 0, false
		}
		for _, k := range s.gives {
			h.axes[k] = v
		}
		i, same = i+n, s.to
	}
	if !strings.HasPrefix(text(b[i:]), h.raw[same:]) {
		return 0, false
	}
	i += len(h.raw) - same
	return i, i < len(b) && b[i] == ' '
}

// runIsNoAxis reports whether no value of an axis is part of a run's name.
func (r *Rules) runIsNoAxis() bool {
	return !r.run.Has(func(tag string) bool { return slices.Contains(r.axes, model.Axis(tag)) })
}
