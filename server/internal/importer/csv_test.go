package importer

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram/internal/model"
)

func table1(t *testing.T, text string, opts CSVOptions) (*Run, error) {
	t.Helper()
	s, err := readCSV(t.Context(), strings.NewReader(text), "f.csv", time.Unix(5, 0), opts, false)
	if err != nil {
		return nil, err
	}
	return s.only(), nil
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

// lines are the series and the attributes of a run.
func lines(run *Run) (out []string) {
	for _, s := range run.Series {
		out = append(out, line(s))
	}
	for _, path := range slices.Sorted(maps.Keys(run.Attributes)) {
		v := run.Attributes[path]
		text := map[model.ValueType]any{model.TypeString: v.Str, model.TypeInt: v.Int, model.TypeFloat: v.Float, model.TypeBool: v.Bool}[v.Type]
		out = append(out, fmt.Sprintf("%s = %s %v", path, v.Type, text))
	}
	return out
}

func TestCSV(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text   string
		opts   CSVOptions
		want   []string
		damage int
	}{
		"semicolons and decimal commas": {
			"step;loss;acc;note\n0;1,5;0,1;a, b\n1;2,5e-3;1.234,5;1,2,3\n2;-1,25;0.5;\n",
			CSVOptions{},
			[]string{"acc|ML_STEP float64 [0 1 2] [5000000000 5000000000 5000000000] [0.1 1234.5 0.5]", "loss|ML_STEP float64 [0 1 2] [5000000000 5000000000 5000000000] [1.5 0.0025 -1.25]", `note|ML_STEP text [0 1] [5000000000 5000000000] ["a, b" "1,2,3"]`},
			0,
		},
		"tabs, and commas in a text": {
			"step\t\"a,b,c\"\n7\t2\n", CSVOptions{}, []string{"a,b,c|ML_STEP float64 [7] [5000000000] [2]"}, 0,
		},
		"cells without a value": {
			"step,a,b\n0,NA,null\n1,None,nan\n2,3,N/A\n",
			CSVOptions{},
			[]string{"a|ML_STEP float64 [2] [5000000000] [3]", "b|ML_STEP float64 [1] [5000000000] [NaN]"},
			0,
		},
		"times that are not there": {
			"step,loss,time\n0,1,\n1,2,2024-05-01T12:00:00Z\n2,3,\n3,4,2024-05-01T12:00:01Z\n",
			CSVOptions{},
			[]string{"loss|ML_STEP float64 [1 2 3] [1714564800000000000 1714564800000000000 1714564801000000000] [2 3 4]"},
			1, // before the first time
		},
		"columns of one name": {
			"step,a,a\n0,1,2\n", CSVOptions{}, []string{"a|ML_STEP float64 [0] [5000000000] [1]", "a.1|ML_STEP float64 [0] [5000000000] [2]"}, 0,
		},
		"line breaks in quotes": {
			"step,a,b\n0,\"x\ny, \"\"z\"\"\",1\n",
			CSVOptions{},
			[]string{`a|ML_STEP text [0] [5000000000] ["x\ny, \"z\""]`, "b|ML_STEP float64 [0] [5000000000] [1]"},
			0,
		},
		"dates of other forms": {
			"step,date,a\n0,2026/01/02 03:04:05,1\n1,2026-01-02 03:04,2\n2,\"Jan 2, 2026 3:04 AM\",3\n3,20260102T030405Z,4\n4,02/01/2026,5\n",
			CSVOptions{},
			[]string{"a|ML_STEP float64 [0 1 2 3] [1767323045000000000 1767323040000000000 1767323040000000000 1767323045000000000] [1 2 3 4]"},
			1,
		},
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
		"relative times end when the file was written": {
			"elapsed,a\n0,1\n1.5,2\n0:00:04,3\n1700000000,4\n",
			CSVOptions{},
			[]string{"a|ML_STEP float64 [0 1 2] [1000000000 2500000000 5000000000] [1 2 3]"},
			1,
		},
		"relative times from a start": {
			"step,time,a\n7,0.25,1\n8,1 days 00:00:01,2\n",
			CSVOptions{Start: time.Unix(1_700_000_000, 0)},
			[]string{"a|ML_STEP float64 [7 8] [1700000000250000000 1700086401000000000] [1 2]"},
			0,
		},
		"the index of pandas": {",a\n10,1\n11,2\n", CSVOptions{}, []string{"a|ML_STEP float64 [10 11] [5000000000 5000000000] [1 2]"}, 0},
		"numbers among texts, texts among numbers": {
			"step,a,b\n0,x,1\n1,2,y\n2,z,3\n",
			CSVOptions{},
			[]string{
				`a|ML_STEP text [0 1 2] [5000000000 5000000000 5000000000] ["x" "2" "z"]`, "b|ML_STEP float64 [0 2] [5000000000 5000000000] [1 3]",
				`b/text|ML_STEP text [1] [5000000000] ["y"]`,
			},
			1,
		},
		"the configuration": {
			"step,lr,params.layers,a\n0,0.1,3,1\n1,,3,2\n",
			CSVOptions{Config: []string{"lr"}},
			[]string{"a|ML_STEP float64 [0 1] [5000000000 5000000000] [1 2]", "config/layers = int64 3", "config/lr = float64 0.1"},
			0,
		},
		"damaged lines": {"step,a\n1,2\nx,3\n\"4,5\n", CSVOptions{}, []string{"a|ML_STEP float64 [1] [5000000000] [2]"}, 2},
	} {
		run, err := table1(t, c.text, c.opts)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got := lines(run)
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") || len(run.Damage) != c.damage {
			t.Errorf("%s:\n%s\nwant\n%s\ndamage %v", name, strings.Join(got, "\n"), strings.Join(c.want, "\n"), run.Damage)
		}
	}
	for _, opts := range []CSVOptions{{Step: "b"}, {Time: "b"}, {Run: "b"}, {Config: []string{"b"}}} {
		if _, err := table1(t, "a\n1\n", opts); model.CodeOf(err) != model.CodeInvalid {
			t.Errorf("a column that is not there: %v", err)
		}
	}
}

// The exports of W&B's page, MLflow and Neptune: what each column becomes.
func TestCSVThatCannotBeRead(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{"": "empty", "\xff\xfes\x00": "no rows", "s\x00,\x00": "NUL", "1,2\n3,4\n": "no names", "{\"a\": 1}\n": "JSON", "step,a\r0,1\r1,2\r": "carriage return"} {
		if _, err := table1(t, text, CSVOptions{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestCSVOfSeveralRuns(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		text string
		opts CSVOptions
		want string
	}{
		"a chart of W&B": {
			"Step,a-1 - _step,a-1 - _step__MIN,a-1 - _step__MAX,a-1 - val/loss,a-1 - val/loss__MIN,a-1 - val/loss__MAX,b - x - val/loss,b - x - val/loss__MIN,b - x - val/loss__MAX\n" +
				"0,0,0,0,0.5,0.5,0.5,,,\n1,10,10,10,0.25,0.125,0.25,7,7,7\n",
			CSVOptions{},
			`a-1 ""
val/loss|ML_STEP float64 [0 10] [5000000000 5000000000] [0.5 0.25]
val/loss__MIN|ML_STEP float64 [10] [5000000000] [0.125]
b - x ""
val/loss|ML_STEP float64 [1] [5000000000] [7]`,
		},
		"a chart of W&B over time": {
			"Relative Time (Process),r - loss,r - loss__MIN,r - loss__MAX\n0,1,1,1\n2.5,3,3,3\n",
			CSVOptions{Start: time.Unix(100, 0)},
			`r "" 100000000000 102500000000
loss|ML_STEP float64 [0 1] [100000000000 102500000000] [1 3]`,
		},
		"a table of W&B": {
			"Name,State,Notes,User,Tags,Created,Runtime,Sweep,lr,optimizer,config.depth,loss\n" +
				"\"calm-sea\",\"finished\",\"-\",\"ada\",\"base, v2\",\"2024-05-01T12:00:00.000Z\",\"90\",\"\",\"0.1\",\"adam\",\"3\",\"0.5\"\n" +
				"\"calm-sea\",\"crashed\",\"\",\"ada\",\"\",\"2024-05-01T13:00:00.000Z\",\"1.5\",\"\",\"0.2\",\"sgd\",\"4\",\"\"\n",
			CSVOptions{Config: []string{"lr"}},
			`calm-sea "calm-sea" 1714564800000000000 1714564890000000000 [base v2] "-"
loss|ML_STEP float64 [0] [1714564890000000000] [0.5]
User = string ada
config/depth = int64 3
config/lr = float64 0.1
config/optimizer = string adam
import/status = string finished
calm-sea 2024-05-01T13:00:00.000Z "calm-sea" 1714568400000000000 1714568401500000000 failed
User = string ada
config/depth = int64 4
config/lr = float64 0.2
config/optimizer = string sgd
import/status = string crashed`,
		},
		"a table of W&B with one run": {
			"Name,State,Created,Runtime,loss\ncalm-sea,finished,2024-05-01T12:00:00.000Z,90,0.5\n",
			CSVOptions{},
			`calm-sea "calm-sea" 1714564800000000000 1714564890000000000
loss|ML_STEP float64 [0] [1714564890000000000] [0.5]
import/status = string finished`,
		},
		"the runs of MLflow": {
			"run_id,experiment_id,status,artifact_uri,start_time,end_time,metrics.loss,params.lr,tags.team,tags.mlflow.runName\n" +
				"f00,1,FINISHED,mlflow-artifacts:/1/f00,2023-11-14 22:13:20.123000+00:00,2023-11-14 22:13:40+00:00,0.5,0.1,vision,first\n" +
				"f01,1,FAILED,,2023-11-14 22:13:21+00:00,,,0.2,,\n",
			CSVOptions{},
			`f00 "first" 1700000000123000000 1700000020000000000
loss|ML_STEP float64 [0] [1700000020000000000] [0.5]
artifact_uri = string mlflow-artifacts:/1/f00
config/lr = float64 0.1
experiment_id = string 1
import/status = string FINISHED
tags.team = string vision
f01 "" 1700000001000000000 1700000001000000000 failed
config/lr = float64 0.2
experiment_id = string 1
import/status = string FAILED`,
		},
		"Neptune's exporter": {
			"project_id,run_id,attribute_path,attribute_type,step,timestamp,int_value,float_value,string_value,bool_value,datetime_value,string_set_value,file_value\n" +
				"w/p,RUN-1,train/loss,float_series,0.000000,2023-11-14T22:13:20Z,,0.5,,,,,\n" +
				"w/p,RUN-1,train/loss,float_series,1.000000,2023-11-14T22:13:22Z,,0.25,,,,,\n" +
				"w/p,RUN-1,said,string_series,1.000000,2023-11-14T22:13:21Z,,,hello,,,,\n" +
				"w/p,RUN-1,parameters/lr,float,,,,0.1,,,,,\n" +
				"w/p,RUN-1,sys/name,string,,,,,first,,,,\n" +
				"w/p,RUN-1,sys/failed,bool,,,,,,true,,,\n" +
				"w/p,RUN-1,sys/tags,string_set,,,,,,,,\"a,b\",\n" +
				"w/p,RUN-1,sys/creation_time,datetime,,,,,,,2023-11-14T22:13:19Z,,\n" +
				"w/p,RUN-1,model,file,,,,,,,,,model.bin\n" +
				"w/p,RUN-2,score,int,,,7,,,,,,\n",
			CSVOptions{},
			`RUN-1 "first" 1699999999000000000 1700000002000000000 [a b] failed
said|ML_STEP text [1] [1700000001000000000] ["hello"]
train/loss|ML_STEP float64 [0 1] [1700000000000000000 1700000002000000000] [0.5 0.25]
config/lr = float64 0.1
sys/creation_time = string 2023-11-14T22:13:19Z
sys/failed = bool true
sys/name = string first
skipped 1
RUN-2 ""
score = int64 7`,
		},
		"a column of runs": {
			"which,step,loss\nx,0,1\ny,0,2\nx,1,3\n",
			CSVOptions{Run: "which"},
			`x ""
loss|ML_STEP float64 [0 1] [5000000000 5000000000] [1 3]
y ""
loss|ML_STEP float64 [0] [5000000000] [2]`,
		},
	} {
		s, err := readCSV(t.Context(), strings.NewReader(c.text), "f.csv", time.Unix(5, 0), c.opts, false)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var got []string
		for _, one := range s.order {
			run := s.run(one)
			head := fmt.Sprintf("%s %q", one, run.DisplayName)
			if run.StartedNs != 5e9 && run.StartedNs != 0 {
				head += fmt.Sprintf(" %d %d", run.StartedNs, run.EndedNs)
			}
			if len(run.Tags) > 0 {
				head += fmt.Sprint(" ", run.Tags)
			}
			if run.Description != "" {
				head += fmt.Sprintf(" %q", run.Description)
			}
			if run.Failed {
				head += " failed"
			}
			got = append(append(got, head), lines(run)...)
			if len(run.Skipped) > 0 {
				got = append(got, fmt.Sprintf("skipped %d", len(run.Skipped)))
			}
			if len(run.Damage) > 0 {
				t.Errorf("%s: damage %v", name, run.Damage)
			}
		}
		if diff := cmp.Diff(c.want, strings.Join(got, "\n")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
