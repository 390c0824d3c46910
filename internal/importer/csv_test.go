package importer

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

func table1(t *testing.T, text string, opts CSVOptions) (*Run, error) {
	t.Helper()
	return readCSV(t.Context(), strings.NewReader(text), "f.csv", time.Unix(5, 0), opts)
}

func line(s *Series) string {
	values := any(s.Floats)
	switch s.Kind {
	case model.KindInt:
		values = s.Ints
	case model.KindText, model.KindHistogram, model.KindScatter:
		values = fmt.Sprintf("%q", s.Docs)
	}
	return fmt.Sprintf("%s %s %v %v %v", strings.ReplaceAll(s.Key.String(), "\x00", "|"), s.Kind, s.Steps, s.TimeNs, values)
}

func TestCSV(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		opts   CSVOptions
		want   []string
		damage int
	}{
		"wide": {
			"\ufeffstep,loss,note,acc\n0,0.5,hi,\n10,NaN,,0.25\n20.0,1e999,x,true\n",
			CSVOptions{},
			[]string{"acc|ML_STEP float64 [10 20] [5000000000 5000000000] [0.25 1]", "loss|ML_STEP float64 [0 10 20] [5000000000 5000000000 5000000000] [0.5 NaN +Inf]", `note|ML_STEP text [0 20] [5000000000 5000000000] ["hi" "x"]`},
			0,
		},
		"without a step": {"loss\n3\n4\n", CSVOptions{}, []string{"loss|ML_STEP float64 [0 1] [5000000000 5000000000] [3 4]"}, 0},
		"times": {
			"time,a\n1700000000,1\n1700000000123,2\n1700000000123456,3\n1700000000123456789,4\n2023-11-14T22:13:20Z,5\n1700000000.5,6\nsoon,7\n",
			CSVOptions{},
			[]string{"a|ML_STEP float64 [0 1 2 3 4 5] [1700000000000000000 1700000000123000000 1700000000123456000 1700000000123456789 1700000000000000000 1700000000500000000] [1 2 3 4 5 6]"},
			1,
		},
		"a unit in the name": {"time_ns,a\n7,1\n", CSVOptions{}, []string{"a|ML_STEP float64 [0] [7] [1]"}, 0},
		"named columns": {
			"n,step,when,a\n7,1,2023-11-14 22:13:20,2\n",
			CSVOptions{Step: "n", Time: "when"},
			[]string{"a|ML_STEP float64 [7] [1700000000000000000] [2]", "step|ML_STEP float64 [7] [1700000000000000000] [1]"},
			0,
		},
		"long, as exported": {
			"run,metric,scale,labels,kind,step,time_ns,value\nX,'=sum,EPISODE,\"{\"\"env_id\"\":\"\"a\"\"}\",float64,3,9,-0.5\nX,n,ML_STEP,{},int64,4,9,9007199254740993\n" +
				"X,t,ML_STEP,{},text,4,9,'=x\nX,h,ML_STEP,{},histogram,4,9,\"{\"\"bin_edges\"\":[0,1],\"\"counts\"\":[2]}\"\nX,n,ML_STEP,{},int64,4,9,1.5\nX,n,ML_STEP,[],int64,4,9,1\n",
			CSVOptions{},
			[]string{"=sum|EPISODE|env_id\x01a float64 [3] [9] [-0.5]", `h|ML_STEP histogram [4] [9] ["{\"bin_edges\":[0,1],\"counts\":[2]}"]`, "n|ML_STEP int64 [4] [9] [9007199254740993]", `t|ML_STEP text [4] [9] ["=x"]`},
			2,
		},
		"damaged lines": {"step,a\n1,2\nx,3\n\"4,5\n", CSVOptions{}, []string{"a|ML_STEP float64 [1] [5000000000] [2]"}, 2},
	} {
		run, err := table1(t, c.text, c.opts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, s := range run.Series {
			got = append(got, line(s))
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") || len(run.Damage) != c.damage {
			t.Errorf("%s:\n%s\nwant\n%s\ndamage %v", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"), run.Damage)
		}
	}
	if _, err := table1(t, "a\n1\n", CSVOptions{Step: "b"}); model.CodeOf(err) != model.CodeInvalid {
		t.Errorf("a column that is not there: %v", err)
	}
}
