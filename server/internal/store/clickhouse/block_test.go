package clickhouse

import (
	"bytes"
	"math"
	"reflect"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
)

// filled has another value in each cell of each column.
func filled(n int) *rows {
	r := &rows{}
	at := 0
	for _, column := range append(r.pointers(), &r.lsn) {
		list := reflect.ValueOf(column).Elem()
		for range n {
			at++
			cell := reflect.New(list.Type().Elem()).Elem()
			switch cell.Kind() {
			case reflect.String:
				cell.SetString(string(bytes.Repeat([]byte{byte(at)}, 16)))
			case reflect.Int64:
				cell.SetInt(int64(at) * -1_000_003)
			case reflect.Float64:
				cell.SetFloat(math.Sqrt(float64(at)))
			default:
				cell.SetUint(uint64(at) & 0xff)
			}
			list.Set(reflect.Append(list, cell))
		}
	}
	return r
}

func (r *rows) pointers() (out []any) {
	for _, p := range r.byName() {
		out = append(out, p)
	}
	return out
}

// A block has every column that is inserted, but for the position.
func TestPacked(t *testing.T) {
	t.Parallel()
	r := filled(7)
	names, _ := r.columns()
	if len(names) != len(r.byName())+1 {
		t.Errorf("%d columns are inserted, %d are packed", len(names), len(r.byName()))
	}
	parts, fit, err := packed(r, 700)
	if err != nil || !fit || len(parts) < 2 {
		t.Fatalf("%d blocks, %v, %v", len(parts), fit, err)
	}
	got, counts := &rows{}, map[model.RunID]uint64{}
	for _, p := range parts {
		one, err := unpack(p.data)
		if err != nil {
			t.Fatal(err)
		}
		got.join(one, one.runs(), counts)
	}
	got.lsn = r.lsn
	if !reflect.DeepEqual(got, r) || len(counts) != 7 {
		t.Errorf("%+v\nwant %+v; runs: %v", got, r, counts)
	}
	if _, fit, err := packed(r, 10); fit || err != nil {
		t.Errorf("a row fits into 10 bytes: %v, %v", fit, err)
	}
	for n := range len(parts[0].data) { // what is damaged is an error, never a panic
		if _, err := unpack(parts[0].data[:n]); err == nil {
			t.Errorf("%d of %d bytes are a block", n, len(parts[0].data))
		}
	}
}
