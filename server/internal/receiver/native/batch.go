package native

import (
	"slices"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wire"
)

// maxNameBytes bounds the names of all columns of a batch together, each as long as its series'
// definition: a column of few bytes may name a series of 70 KiB, and each is looked up.
const maxNameBytes = 64 << 20

// definition is a series of a stream.
type definition struct {
	key  model.SeriesKey
	text string // of the key, which shares its bytes; empty where names are not clean
	size int    // of the text
	kind model.Kind
	by   model.Uniqueness
}

func newDefinition(s *kymogramv1.SeriesDefinition) definition {
	key := model.NewSeriesKey(s.Metric, s.Scale, s.Labels)
	text := key.String()
	out := definition{key: key, size: len(text), kind: model.Kind(s.Kind)}
	if s.UniqueTime {
		out.by = model.UniqueTime
	}
	if same, ok := model.ParseSeriesKey(text); ok && same.Metric == key.Metric && same.Scale == key.Scale && slices.Equal(same.Labels, key.Labels) {
		out.key, out.text = same, text
	}
	return out
}

// decoder turns the batches of one stream into the model's.
type decoder struct {
	kept   *kept
	series map[uint32]definition
	named  int // bytes of names, of the batch that is decoded
	axes   []model.Axis
}

func newDecoder(of *kept) *decoder {
	return &decoder{kept: of, series: map[uint32]definition{}, axes: model.Axes()}
}

// reserve takes memory for the new ones of definitions, or says why the stream must end.
func (d *decoder) reserve(list []*kymogramv1.SeriesDefinition) error {
	more := int64(0)
	for _, s := range list {
		if _, known := d.series[s.GetId()]; !known && s != nil {
			more += int64(definitionSize(s))
		}
	}
	return d.kept.add(more)
}

func malformed(format string, args ...any) *model.Error {
	return model.Errorf(model.CodeInvalid, "the batch is malformed: "+format, args...).
		WithHint("This is a fault of the client; nothing of the batch was stored.")
}

// decode takes over the columns of the message, which must not be used again.
func (d *decoder) decode(m *kymogramv1.Batch) (*model.Batch, error) {
	if m.First == 0 || m.Last < m.First {
		return nil, malformed("its sequences are %d to %d", m.First, m.Last)
	}
	if err := d.reserve(m.Series); err != nil {
		return nil, err
	}
	for _, s := range m.Series {
		if err := d.define(s); err != nil {
			return nil, err
		}
	}
	d.named = 0
	b := &model.Batch{First: m.First, Last: m.Last, Groups: make([]model.RowGroup, len(m.Groups))}
	for i, g := range m.Groups {
		if err := d.group(m, g, &b.Groups[i]); err != nil {
			return nil, err
		}
	}
	b.Skipped = slices.Grow(b.Skipped, len(m.Skipped))
	for _, s := range m.Skipped {
		b.Skipped = append(b.Skipped, model.Skipped{First: s.GetFirst(), Last: s.GetLast(), Reason: s.GetReason(), Points: s.GetPoints()})
	}
	var err error
	if b.Updates, b.Unreadable, err = wire.ReadUpdates(m); err != nil {
		return nil, malformed("%v", err)
	}
	return b, nil
}

func (d *decoder) define(s *kymogramv1.SeriesDefinition) error {
	if s == nil {
		return malformed("a series definition is empty")
	}
	kind := model.Kind(s.Kind)
	if s.Kind > uint32(model.KindScatter) || kind < model.KindFloat {
		return malformed("the series %d has the kind %d", s.Id, s.Kind)
	}
	if old, ok := d.series[s.Id]; ok {
		if !old.is(s) {
			return malformed("the series %d is defined twice, as %q and %q", s.Id, model.Clip(old.key.Metric), model.Clip(s.Metric))
		}
		return nil
	}
	d.series[s.Id] = newDefinition(s)
	return nil
}

// is reports whether a later definition says the same.
func (d *definition) is(s *kymogramv1.SeriesDefinition) bool {
	scale := s.Scale
	if scale == "" {
		scale = model.ScaleStep
	}
	return d.key.Metric == s.Metric && d.key.Scale == scale && d.kind == model.Kind(s.Kind) && (d.by == model.UniqueTime) == s.UniqueTime && len(d.key.Labels) == len(s.Labels) &&
		!slices.ContainsFunc(d.key.Labels, func(l model.Label) bool {
			value, ok := s.Labels[l.Name]
			return !ok || value != l.Value
		})
}

func definitionSize(s *kymogramv1.SeriesDefinition) int {
	size := 224 + len(s.Metric) + len(s.Scale)
	for name, value := range s.Labels {
		size += 64 + len(name) + len(value)
	}
	return size
}

func (d *decoder) group(m *kymogramv1.Batch, g *kymogramv1.RowGroup, out *model.RowGroup) error {
	if g == nil {
		return malformed("a row group is empty")
	}
	out.TimeNs = g.TimeNs
	out.Seq = make([]uint64, len(g.Seq))
	for i, offset := range g.Seq {
		if uint64(offset) > m.Last-m.First {
			return malformed("a row has the sequence %d + %d, the batch ends at %d", m.First, offset, m.Last)
		}
		out.Seq[i] = m.First + uint64(offset)
	}
	out.Axes = make([]model.AxisColumn, len(g.Axes))
	for i, a := range g.Axes {
		if a == nil || a.Axis < 1 || int(a.Axis) > len(d.axes) {
			return malformed("the axis %d is not known", a.GetAxis())
		}
		out.Axes[i] = model.AxisColumn{Axis: d.axes[a.Axis-1], Values: a.Values, Relative: a.Relative}
	}
	out.Columns = make([]model.Column, len(g.Columns))
	for i, c := range g.Columns {
		s, ok := d.series[c.GetSeries()]
		if c == nil || !ok {
			return malformed("the series %d is not defined", c.GetSeries())
		}
		if i > 0 && s.by != out.Unique {
			return malformed("a row group has series that are unique by time and others")
		}
		out.Unique = s.by
		if d.named += s.size; d.named > maxNameBytes {
			return model.Errorf(model.CodeTooLarge, "the names of the batch's columns are above %d MiB", maxNameBytes>>20).
				WithHint("Send fewer columns at once.")
		}
		out.Columns[i] = model.Column{Series: s.key, Text: s.text, Kind: s.kind, Floats: c.Floats, Ints: c.Ints, Texts: c.Texts, Docs: c.Documents}
	}
	return nil
}

func encodeAck(a *model.Ack, protocol uint32) (*kymogramv1.Ack, error) {
	out := &kymogramv1.Ack{Mark: a.Mark, Stored: a.Stored}
	for _, r := range a.Refused {
		out.Refused = append(out.Refused, &kymogramv1.Refusal{Seq: r.Seq, Code: string(r.Code), Message: r.Message})
	}
	return out, wire.PutShared(out, a.Shared, protocol)
}
