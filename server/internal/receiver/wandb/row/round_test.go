package row_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
	"github.com/kymogram/kymogram/server/internal/store/local"
)

// Rows of every oddity come back from the store as they came.
func TestOddRowsThroughTheStore(t *testing.T) {
	var wide strings.Builder
	for i := range 10_000 {
		fmt.Fprintf(&wide, `"k%d":%d.5,`, i, i)
	}
	rows := []string{
		`{"a":1,"a":"two","a":{"b":1},"a.b":3}`,
		`{"a.b":1,"a":{"b":2,"c":{"d":3}},"a.c.d":"x"}`,
		`{"n":NaN,"p":Infinity,"m":-Infinity,"z":-0.0,"e":1e999,"i":9007199254740993,"j":-123456789012345678901234567890}`,
		`{"t":"\ud800","u":"\u0000\u001f","k\u0000ey":1,"\ud800":2,"":3,"_other":{"x":1},"` + strings.Repeat("k", 3000) + `":4}`,
		`{"h":{"_type":"histogram","values":[1,2.5],"bins":[0,1,2]},"g":{"_type":"histogram","values":[1],"bins":[0]},"i":{"_type":"image-file","path":"x"}}`,
		`{"l":[1,[2,{"x":null}]],"b":true,"c":null,"d":{},"e":[]}`,
		`{"a":{"h":{"_type":"histogram","values":[1],"bins":[0,1]}},"x":{"y":{"z":{"q":{"r":{"s":{"t":{"u":{"v":1}}}}}}}}}`,
		`{` + strings.TrimSuffix(wide.String(), ",") + `}`,
		`{"1.5":1,".":2,"..":3,"a.":4,".a":5,"a":{"":6}}`,
		`{"_runtime":"soon","_timestamp":"late","_wandb":{"runtime":3}}`,
		`{"_runtime":-1e300}`,
	}
	rig := newRig(t, local.Config{})
	rig.attempt(t, 1, nil)
	var e row.Encoder
	var l row.Line
	steps := make([]int64, len(rows))
	for i := range rows {
		steps[i] = int64(i) * (1 << 58) // up to beyond 2^61
		rows[i] = strings.TrimSuffix(rows[i], "}") + fmt.Sprintf(`,"_step":%d}`, steps[i])
		if err := l.Parse([]byte(rows[i])); err != nil {
			t.Fatal(err)
		}
		e.Add(&l, 1_700_000_000_000_000_000)
	}
	rig.append(t, 1, 1, e.Groups()...)
	for range 2 {
		found, err := row.Find(t.Context(), rig.src, rig.run, steps)
		if err != nil {
			t.Fatal(err)
		}
		for i, step := range steps {
			if got := found[step]; len(got) != 1 || !row.Same([]byte(rows[i]), got[0].Line) {
				t.Errorf("%.200s reads back as %d rows", rows[i], len(got))
				for _, one := range got {
					t.Errorf("%.300s", one.Line)
				}
			}
		}
		if err := rig.engine.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
