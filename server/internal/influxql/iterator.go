package influxql

import (
	"slices"

	"github.com/influxdata/influxdb/query"
	"github.com/influxdata/influxql"
)

// input is an iterator of points that share their dimensions.
type input struct {
	tags query.Tags
	query.Iterator
}

// iterators makes the engine's iterators of a source: one, or one for each of the tags that
// its rows have, in memory.
func (s *source) iterators(as influxql.DataType) ([]input, error) {
	var one query.Iterator
	switch {
	case s.driver < 0 || as == influxql.Float:
		one = floats{s}
	case as == influxql.Integer:
		one = integers{s}
	case as == influxql.String:
		one = texts{s}
	default:
		return nil, nil
	}
	if len(s.varying) == 0 {
		return []input{{s.tags, one}}, nil
	}
	switch one := one.(type) {
	case floats:
		return apart(s, one.Next, func(p []query.FloatPoint) query.Iterator { return &keptFloats{kept[query.FloatPoint]{p}} })
	case integers:
		return apart(s, one.Next, func(p []query.IntegerPoint) query.Iterator { return &keptIntegers{kept[query.IntegerPoint]{p}} })
	default:
		return apart(s, one.(texts).Next, func(p []query.StringPoint) query.Iterator { return &keptTexts{kept[query.StringPoint]{p}} })
	}
}

type floats struct{ *source }

// Next implements the engine's FloatIterator.
func (f floats) Next() (*query.FloatPoint, error) {
	ok, err := f.next()
	if !ok || err != nil {
		return nil, err
	}
	p := &query.FloatPoint{Name: f.name, Tags: f.pointTags(), Time: f.now, Aux: f.shownValues()}
	if f.driver >= 0 {
		p.Value, _ = cast(f.rows[f.driver].value(), influxql.Float).(float64)
	}
	return p, nil
}

type integers struct{ *source }

// Next implements the engine's IntegerIterator.
func (i integers) Next() (*query.IntegerPoint, error) {
	ok, err := i.next()
	if !ok || err != nil {
		return nil, err
	}
	v, _ := cast(i.rows[i.driver].value(), influxql.Integer).(int64)
	return &query.IntegerPoint{Name: i.name, Tags: i.pointTags(), Time: i.now, Value: v, Aux: i.shownValues()}, nil
}

type texts struct{ *source }

// Next implements the engine's StringIterator.
func (t texts) Next() (*query.StringPoint, error) {
	ok, err := t.next()
	if !ok || err != nil {
		return nil, err
	}
	v, _ := t.rows[t.driver].value().(string)
	return &query.StringPoint{Name: t.name, Tags: t.pointTags(), Time: t.now, Value: v, Aux: t.shownValues()}, nil
}

func (s *source) pointTags() query.Tags {
	if len(s.varying) == 0 {
		return s.tags
	}
	return s.rowTags()
}

// point is what the engine's points have in common.
type point interface {
	query.FloatPoint | query.IntegerPoint | query.StringPoint
}

// apart keeps the rows of a source, by their tags.
func apart[P point](s *source, next func() (*P, error), iterator func([]P) query.Iterator) (out []input, err error) {
	var order []query.Tags
	by := map[string][]P{}
	for {
		p, err := next()
		if err != nil {
			return nil, err
		}
		if p == nil {
			break
		}
		if err := s.session.hold(s.weight() + int64(len(s.aux))/4); err != nil {
			return nil, err
		}
		tags := settle(p)
		if by[tags.ID()] == nil {
			order = append(order, tags)
		}
		by[tags.ID()] = append(by[tags.ID()], *p)
	}
	for _, tags := range order {
		out = append(out, input{tags, iterator(by[tags.ID()])})
	}
	return out, nil
}

// settle gives a point columns of its own, and tells its tags.
func settle(p any) query.Tags {
	switch p := p.(type) {
	case *query.FloatPoint:
		p.Aux = slices.Clone(p.Aux)
		return p.Tags
	case *query.IntegerPoint:
		p.Aux = slices.Clone(p.Aux)
		return p.Tags
	case *query.StringPoint:
		p.Aux = slices.Clone(p.Aux)
		return p.Tags
	}
	return query.Tags{}
}

// kept are points in memory.
type kept[P point] struct{ points []P }

// Next gives them one by one.
func (k *kept[P]) Next() (*P, error) {
	if len(k.points) == 0 {
		return nil, nil //nolint:nilnil // the engine's end
	}
	p := &k.points[0]
	k.points = k.points[1:]
	return p, nil
}

// Stats and Close are of the engine's Iterator.
func (k *kept[P]) Stats() query.IteratorStats { return query.IteratorStats{} }

// Close lets go of the points.
func (k *kept[P]) Close() error {
	k.points = nil
	return nil
}

type (
	keptFloats   struct{ kept[query.FloatPoint] }
	keptIntegers struct{ kept[query.IntegerPoint] }
	keptTexts    struct{ kept[query.StringPoint] }
)
