package row

import (
	"context"
	"slices"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/query"
)

// previousBytes is how long the previous value of a key is at most: longer ones are left
// out.
const previousBytes = 1 << 10

// Keys describes the keys of the rows as W&B's historyKeys, in strict JSON; nil where there
// is no row. A key counts the values of each type. The values that are kept as JSON count
// as of the type that the last of them has. Only W&B's own members are said to be monotonic:
// of others that is not known. What is in OtherMetric is not listed.
func Keys(ctx context.Context, src Source, run model.RunID) ([]byte, error) {
	index, err := src.Describe(ctx, run, indexKey())
	if err != nil || index == nil || index.Last == nil || index.Last.Step == nil {
		return nil, err
	}
	k := &keyList{text: []byte(`{"sets":[],"keys":{`)}
	k.own(index)
	r := query.SeriesRequest{Run: run, Ends: true}
	for r.Limit = query.MaxSeries; ; {
		page, err := src.Series(ctx, r)
		if err != nil {
			return nil, err
		}
		for i := range page.Series {
			k.add(page.Series[i].Series)
		}
		if r.Cursor = page.Next; page.Next == "" {
			break
		}
	}
	k.flush()
	k.text[len(k.text)-1] = '}' // the comma behind the last key
	return append(strconv.AppendInt(append(k.text, `,"lastStep":`...), *index.Last.Step, 10), '}'), nil
}

// keyList writes keys, whose series come one behind the other.
type keyList struct {
	text   []byte
	key    string
	counts []typeCount
	last   *query.Point
	value  []byte // of last
}

type typeCount struct {
	name  string
	count uint64
}

// own are W&B's members, which every row has.
func (k *keyList) own(index *query.SeriesEnd) {
	all := []typeCount{{"number", index.Count}}
	step := strconv.AppendInt(nil, *index.Last.Step, 10)
	k.write(StepKey, all, true, step)
	k.write(RuntimeKey, all, true, loose.AppendNumber(nil, index.Last.Value.Float))
	k.write(TimestampKey, all, true, loose.AppendNumber(nil, Seconds(index.Last.TimeNs)))
}

func (k *keyList) add(s *query.SeriesEnd) {
	if !isCell(s.Key) || s.Count == 0 || s.Last == nil || s.Last.Step == nil {
		return
	}
	switch s.Key.Metric {
	case OtherMetric, StepKey, RuntimeKey, TimestampKey:
		return
	}
	c := newCells(&model.Column{Series: s.Key, Kind: s.Kind}, false)
	if c == nil {
		return
	}
	if s.Key.Metric != k.key || k.counts == nil {
		k.flush()
		k.key, k.last = s.Key.Metric, nil
	}
	value, name := endOf(c, s.Last)
	at := slices.IndexFunc(k.counts, func(t typeCount) bool { return t.name == name })
	if at < 0 {
		at, k.counts = len(k.counts), append(k.counts, typeCount{name: name})
	}
	k.counts[at].count += s.Count
	if k.last == nil || *k.last.Step <= *s.Last.Step {
		k.last, k.value = s.Last, value
	}
}

// endOf is the last value of a series with its type.
func endOf(c *cells, last *query.Point) (value []byte, name string) {
	switch doc := last.Value.Doc; c.as {
	case "":
		return loose.AppendNumber(nil, last.Value.Float), "number"
	case TypeText:
		return loose.AppendText(nil, string(doc)), "string"
	case TypeHistogram:
		value, err := AppendHistogram(nil, doc)
		if err != nil {
			value = nil
		}
		return value, "histogram"
	default:
		return doc, typeOf(doc)
	}
}

func typeOf(value []byte) string {
	switch loose.KindOf(value) {
	case loose.Object:
		if typed, ok := loose.Get(value, typeMember); ok {
			if name, ok := loose.Text(typed); ok {
				return name
			}
		}
		return "map"
	case loose.Array:
		return "list"
	case loose.Bool:
		return "boolean"
	case loose.Number:
		return "number"
	case loose.String:
		return "string"
	default:
		return "nil"
	}
}

func (k *keyList) flush() {
	if k.counts != nil {
		k.write(k.key, k.counts, false, k.value)
		k.counts = nil
	}
}

func (k *keyList) write(key string, counts []typeCount, monotonic bool, previous []byte) {
	k.text = append(loose.AppendText(k.text, key), `:{"typeCounts":[`...)
	for i, t := range counts {
		if i > 0 {
			k.text = append(k.text, ',')
		}
		k.text = append(loose.AppendText(append(k.text, `{"type":`...), t.name), `,"count":`...)
		k.text = append(strconv.AppendUint(k.text, t.count, 10), '}')
	}
	k.text = strconv.AppendBool(append(k.text, `],"monotonic":`...), monotonic)
	if len(previous) > 0 && len(previous) <= previousBytes {
		k.text = loose.Strict(append(k.text, `,"previousValue":`...), previous)
	}
	k.text = append(k.text, "},"...)
}
