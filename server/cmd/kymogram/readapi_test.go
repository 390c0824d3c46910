package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
)

// The Go read API against the real server; the oracle is the table that was
// imported.
func TestReadAPI(t *testing.T) {
	t.Parallel()
	k := serveKitchen(t)
	const rows = 250_000 // three pages
	var b strings.Builder
	b.WriteString("metric,scale,labels,kind,step,time_ns,value\n")
	for i := range rows {
		fmt.Fprintf(&b, "x,,,,%d,%d,%s\n", 2*i, 1_000_000+i, strconv.FormatFloat(math.Sin(float64(i)), 'g', -1, 64))
	}
	b.WriteString("n,,,int64,1,5,9007199254740993\nn,,,int64,2,6,-9223372036854775808\nnote,,,text,3,7,\"a\nb\"\n")
	b.WriteString("odd,,,,1,5,NaN\nodd,,,,2,5,-Inf\nodd,,,,3,5,-0\nreturn,EPISODE,\"{\"\"env_id\"\":\"\"e\"\"}\",,4,8,1.5\n")
	b.WriteString("h,,,histogram,0,5,\"{\"\"bin_edges\"\":[0,1],\"\"counts\"\":[2]}\"\n")
	for name, text := range map[string]string{"table": b.String(), "other": "step,y\n1,2\n"} {
		path := filepath.Join(t.TempDir(), name+".csv")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		k.ok("import", "csv", path, "--workspace", "lab", "--project", "p")
	}
	client, err := read.Dial(k.env["KYMOGRAM_SERVER"], k.key())
	if err != nil {
		t.Fatal(err)
	}
	run, err := client.Run(t.Context(), "lab/p/table")
	if err != nil || run.Name != "table" || run.Status != read.Finished {
		t.Fatalf("%+v, %v", run, err)
	}
	readPoints(t, run, rows)
	readKinds(t, run)
	readLists(t, client, run)
	buckets, err := run.Buckets(t.Context(), "x", 50, read.Axis(read.StepAxis), read.Between(0, 1999))
	points := uint64(0)
	for _, one := range buckets {
		points += one.Count
		if !(one.Min <= one.Mean && one.Mean <= one.Max) || one.Lo > one.Hi {
			t.Errorf("bucket %+v", one)
		}
	}
	if err != nil || points != 1000 || len(buckets) > 50 {
		t.Errorf("%d points in %d buckets, %v", points, len(buckets), err)
	}
	if _, err := client.Run(t.Context(), "lab/p/none"); model.CodeOf(err) != model.CodeNotFound {
		t.Errorf("a run that is not there: %v", err)
	}
	wrong, err := read.Dial(k.env["KYMOGRAM_SERVER"], strings.Repeat("0", 40))
	if err != nil {
		t.Fatal(err)
	}
	var refused *read.Error
	if _, err := wrong.Run(t.Context(), "lab/p/table"); !errors.As(err, &refused) || refused.Code != model.CodeUnauthenticated {
		t.Errorf("a wrong key: %v", err)
	}
}

func readPoints(t *testing.T, run *read.Run, rows int) {
	t.Helper()
	i := 0
	for p, err := range run.Points(t.Context(), "x") {
		if err != nil {
			t.Fatal(err)
		}
		step, ok := p.Step()
		if !ok || step != int64(2*i) || p.TimeNs != int64(1_000_000+i) || p.Float != math.Sin(float64(i)) || p.Attempt != 1 || len(p.Writer) != 32 {
			t.Fatalf("point %d is %+v", i, p)
		}
		i++
	}
	if i != rows {
		t.Errorf("%d points, want %d", i, rows)
	}
	for p := range run.Points(t.Context(), "x", read.Between(10, 13)) {
		i -= int(p.Axes[read.StepAxis])
	}
	if i != rows-22 {
		t.Errorf("steps 10 to 13 are not 10 and 12")
	}
	for range run.Points(t.Context(), "x") { // ends without reading on
		break
	}
}

func readKinds(t *testing.T, run *read.Run) {
	t.Helper()
	got := map[string][]string{}
	for series, err := range run.Series(t.Context(), "^(n|note|odd|return|h)$") {
		if err != nil {
			t.Fatal(err)
		}
		for p, err := range series.Points(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			value := map[string]string{"int64": fmt.Sprint(p.Int), "float64": fmt.Sprint(p.Float), "text": p.Text, "histogram": string(p.Doc)}[series.Kind]
			got[series.Metric] = append(got[series.Metric], value)
		}
	}
	want := map[string][]string{
		"n": {"9007199254740993", "-9223372036854775808"}, "note": {"a\nb"}, "odd": {"NaN", "-Inf", "-0"}, "return": {"1.5"},
		"h": {`{"bin_edges":[0,1],"counts":[2]}`},
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("%s, want %s", a, b)
	}
}

func readLists(t *testing.T, client *read.Client, run *read.Run) {
	t.Helper()
	var names []string
	for one, err := range client.Runs(t.Context(), "lab", "p", read.RunFilter{Sort: "name", Status: read.Finished}) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, one.Name)
	}
	for one, err := range client.Projects(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, fmt.Sprint(one.Workspace, "/", one.Project, one.Runs))
	}
	if fmt.Sprint(names) != "[other table lab/p2]" {
		t.Errorf("runs and projects: %v", names)
	}
	attributes, err := run.Attributes(t.Context())
	if err != nil || attributes["import/source"].Str != "csv" || attributes["import/started"].Int != 5 {
		t.Errorf("attributes %v, %v", attributes, err)
	}
}
