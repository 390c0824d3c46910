package curve

import (
	"fmt"

	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/store"
)

// pageTable lays the rows of an answer out by column.
type pageTable struct {
	rows  *store.Rows
	limit int
	fork  bool
	// what one row is read into
	at      store.Position
	writer  string
	has     uint16
	attempt uint32
	float   float64
	int     int64
	text    string
	axes    []int64
	into    []any
	bits    []axes // of each axis
}

func newTable(of *line, limit int) *pageTable {
	names := of.survey.some.names()
	t := &pageTable{limit: limit, fork: of.fork, axes: make([]int64, len(names))}
	t.rows = &store.Rows{
		Values: model.Column{Series: of.series.Key, Kind: of.series.Kind},
		TimeNs: []int64{}, Attempt: []uint32{}, Writer: []model.WriterID{}, Seq: []uint64{},
		Has: make([][]bool, len(names)),
	}
	if of.fork {
		t.rows.Depth = []uint32{}
	}
	t.into = []any{&t.at.Axis, &t.at.Step, &t.at.TimeNs, &t.writer, &t.at.Seq, &t.at.Row, &t.at.Depth, &t.has, &t.attempt, t.value()}
	for i, name := range names {
		at, _ := axisOf(name)
		t.bits = append(t.bits, 1<<at)
		t.rows.Axes = append(t.rows.Axes, model.AxisColumn{Axis: name, Values: []int64{}})
		t.into = append(t.into, &t.axes[i])
	}
	return t
}

func (t *pageTable) value() any {
	switch t.rows.Values.Kind {
	case model.KindFloat:
		return &t.float
	case model.KindInt:
		return &t.int
	}
	return &t.text
}

// take adds a row. The one past the limit says that there are more.
func (t *pageTable) take(rows driver.Rows) error {
	out := t.rows
	if len(out.TimeNs) == t.limit {
		at := t.at
		out.Next = &at
		return nil
	}
	if err := rows.Scan(t.into...); err != nil {
		return fmt.Errorf("read a point: %w", err)
	}
	copy(t.at.Writer[:], t.writer)
	n := len(out.TimeNs)
	out.TimeNs = append(out.TimeNs, t.at.TimeNs)
	out.Attempt = append(out.Attempt, t.attempt)
	out.Writer = append(out.Writer, t.at.Writer)
	out.Seq = append(out.Seq, t.at.Seq)
	if t.fork {
		out.Depth = append(out.Depth, t.at.Depth)
	}
	for i := range out.Axes {
		out.Axes[i].Values = append(out.Axes[i].Values, t.axes[i])
		t.mark(i, n, axes(t.has)&t.bits[i] != 0)
	}
	t.addValue()
	return nil
}

// mark notes whether row n has an axis; nothing is kept for an axis that all rows have.
func (t *pageTable) mark(axis, n int, has bool) {
	list := &t.rows.Has[axis]
	if *list == nil {
		if has {
			return
		}
		*list = make([]bool, n)
		for i := range *list {
			(*list)[i] = true
		}
	}
	*list = append(*list, has)
}

func (t *pageTable) addValue() {
	switch v := &t.rows.Values; v.Kind {
	case model.KindFloat:
		v.Floats = append(v.Floats, t.float)
	case model.KindInt:
		v.Ints = append(v.Ints, t.int)
	case model.KindText:
		v.Texts = append(v.Texts, t.text)
	default:
		v.Docs = append(v.Docs, []byte(t.text))
	}
}
