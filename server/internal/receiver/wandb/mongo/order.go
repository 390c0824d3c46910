package mongo

import (
	"cmp"
	"strings"

	"github.com/kymogram/kymogram/server/internal/loose"
)

const (
	maxKeys = 16      // of an order
	maxText = 1 << 10 // bytes of a text, object or array that a Key holds
)

// Order is a list of paths by which runs are sorted. The zero Order has all runs equal.
type Order struct{ keys []sortKey }

type sortKey struct {
	path path
	down bool
}

// ParseOrder reads an order, as in "-created_at" or "+config.lr.value,-name": + is
// up, - is down, and up is the default. An empty text is the zero Order.
func ParseOrder(s string) (Order, error) {
	var o Order
	if strings.TrimSpace(s) == "" {
		return o, nil
	}
	if len(s) > maxPath {
		return o, refuse("the order has %d bytes", len(s)).WithHint("An order has at most %d bytes.", maxPath)
	}
	for part := range strings.SplitSeq(s, ",") {
		name := strings.TrimSpace(part)
		down := strings.HasPrefix(name, "-")
		if down || strings.HasPrefix(name, "+") {
			name = name[1:]
		}
		p, err := parsePath(name)
		if err != nil {
			return Order{}, err
		}
		if o.keys = append(o.keys, sortKey{p, down}); len(o.keys) > maxKeys {
			return Order{}, refuse("the order has more than %d keys", maxKeys)
		}
	}
	return o, nil
}

// rank says where values of a type lie.
type rank uint8

const (
	numbers rank = iota
	times
	texts
	objects
	arrays
	bools
	nan // from here on a value has no rank of its own: it comes last, up and down
	null
	missing
)

// Key is what an order needs to know of a run. It holds no bytes of the Record.
type Key []part

type part struct {
	rank   rank
	number float64
	text   string // of texts; of an integer that no float64 holds; of objects and arrays
	nanos  int64  // of times, with number their seconds
}

// Key reads the values of a run. Of several values that a path leads to it takes the first.
func (o Order) Key(r Record) Key {
	key := make(Key, len(o.keys))
	for i := range o.keys {
		var few [4][]byte
		at := &o.keys[i].path
		key[i].rank = missing
		if values := at.values(r, few[:0]); len(values) > 0 && values[0] != nil {
			key[i] = partOf(values[0], at.shape == moment)
		}
	}
	return key
}

func partOf(v []byte, asTime bool) part {
	switch loose.KindOf(v) {
	case loose.Number:
		f, exact := loose.Float(v)
		if f != f {
			return part{rank: nan}
		}
		if !exact {
			return part{rank: numbers, number: f, text: string(v)}
		}
		return part{rank: numbers, number: f}
	case loose.String:
		text, _ := loose.Text(v)
		if t, ok := parseTime(text); ok && asTime {
			return part{rank: times, number: float64(t.Unix()), nanos: int64(t.Nanosecond())}
		}
		return part{rank: texts, text: beginning(text)}
	case loose.Object:
		return part{rank: objects, text: beginning(loose.Compact(nil, v))}
	case loose.Array:
		return part{rank: arrays, text: beginning(loose.Compact(nil, v))}
	case loose.Bool:
		return part{rank: bools, number: float64(v[0])} // f is before t
	}
	return part{rank: null}
}

// beginning copies what a Key holds of a text.
func beginning[T string | []byte](text T) string {
	return strings.Clone(string(text[:min(len(text), maxText)]))
}

// Compare orders two keys of this order. It is 0 for runs whose order the caller decides.
func (o Order) Compare(a, b Key) int {
	for i, k := range o.keys {
		c := compareParts(&a[i], &b[i])
		if k.down && a[i].rank < nan && b[i].rank < nan {
			c = -c
		}
		if c != 0 {
			return c
		}
	}
	return 0
}

func compareParts(a, b *part) int {
	if a.rank == numbers && b.rank == numbers && (a.text != "" || b.text != "") {
		return loose.CompareNumbers(a.digits(), b.digits())
	}
	return cmp.Or(cmp.Compare(a.rank, b.rank), cmp.Compare(a.number, b.number), cmp.Compare(a.nanos, b.nanos), strings.Compare(a.text, b.text))
}

func (p *part) digits() []byte {
	if p.text != "" {
		return []byte(p.text)
	}
	return loose.AppendNumber(nil, p.number)
}
