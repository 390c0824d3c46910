package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

// kitchen is a server and the environment of its user.
type kitchen struct {
	t       *testing.T
	env     map[string]string
	address string
	data    string // its folder; empty: data in HOME
}

// serveKitchen starts `kymogram serve` in this process, with keys.
func serveKitchen(t *testing.T, more ...string) *kitchen {
	t.Helper()
	home := t.TempDir()
	k := &kitchen{t: t, env: map[string]string{"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "config")}}
	ready, out := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan int, 1)
	var log bytes.Buffer
	go func() {
		args := append([]string{"serve", "--data", filepath.Join(home, "data"), "--http", "127.0.0.1:0"}, more...)
		done <- run(ctx, args, stdio{in: strings.NewReader(""), out: out, err: &log, env: k.getenv})
		out.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-done; code != 0 {
			t.Errorf("serve ended with %d\n%s", code, log.String())
		}
	})
	line, err := bufio.NewReader(ready).ReadString('\n')
	match := regexp.MustCompile(`^ready http=(\S+) grpc=`).FindStringSubmatch(line)
	if err != nil || match == nil {
		t.Fatalf("serve said %q, %v\n%s", line, err, log.String())
	}
	k.address = match[1]
	k.env["KYMOGRAM_SERVER"] = "http://" + k.address
	return k
}

func (k *kitchen) getenv(name string) string { return k.env[name] }

// run runs a command as that user would.
func (k *kitchen) run(args ...string) (code int, out, errs string) {
	var o, e bytes.Buffer
	code = run(k.t.Context(), args, stdio{in: strings.NewReader(""), out: &o, err: &e, env: k.getenv})
	return code, o.String(), e.String()
}

// ok is run for a command that has to work.
func (k *kitchen) ok(args ...string) string {
	k.t.Helper()
	code, out, errs := k.run(args...)
	if code != 0 {
		k.t.Fatalf("kymogram %v: %d\n%s%s", args, code, out, errs)
	}
	return out
}

const batchSize = 4

// logRun sends a run of three series over the real stream: float64 with every
// special value, int64 beyond 2^53 and text.
func (k *kitchen) logRun(name string) (id string) {
	k.t.Helper()
	conn := k.dial()
	defer conn.Close()
	w := k.open(conn, model.OpenRequest{
		Writer: model.WriterID{byte(len(name)), 1}, Workspace: "lab", Project: "digits", RunName: name, OrchestrationID: name, ResumeStrategy: "never", Host: "box",
		Initial: []model.Update{{Op: model.OpSetAttribute, Path: "config/lr", Value: model.FloatValue(0.25)}},
	})
	w.send(theBatch())
	return w.run
}

// dial connects to the server as the user's programs do.
func (k *kitchen) dial() *grpc.ClientConn {
	k.t.Helper()
	conn, err := grpc.NewClient(k.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		k.t.Fatal(err)
	}
	k.t.Cleanup(func() { conn.Close() })
	return conn
}

// opened is the stream of a writer.
type opened struct {
	t   *testing.T
	run string // its id
	say func(*kymogramv1.StreamRequest) *kymogramv1.StreamResponse
}

// open opens a run over the real stream.
func (k *kitchen) open(conn *grpc.ClientConn, open model.OpenRequest) *opened {
	k.t.Helper()
	ctx := metadata.AppendToOutgoingContext(k.t.Context(), "authorization", "Bearer "+k.key())
	stream, err := kymogramv1.NewIngestServiceClient(conn).Stream(ctx)
	if err != nil {
		k.t.Fatal(err)
	}
	request, err := json.Marshal(open)
	if err != nil {
		k.t.Fatal(err)
	}
	w := &opened{t: k.t, say: func(m *kymogramv1.StreamRequest) *kymogramv1.StreamResponse {
		k.t.Helper()
		if err := stream.Send(m); err != nil {
			k.t.Fatal(err)
		}
		answer, err := stream.Recv()
		if err != nil || answer.GetFailure() != nil {
			k.t.Fatal(err, answer)
		}
		return answer
	}}
	answer := w.say(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: &kymogramv1.Open{Request: request, Protocol: 1}}})
	var result model.OpenResult
	if err := json.Unmarshal(answer.GetOpened().GetResult(), &result); err != nil {
		k.t.Fatal(err)
	}
	w.run = result.Run.String()
	return w
}

// send sends a batch, of which nothing may be refused.
func (w *opened) send(batch *kymogramv1.Batch) {
	w.t.Helper()
	ack := w.say(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: batch}}).GetAck()
	if ack.GetMark() != batch.GetLast() || len(ack.GetRefused()) > 0 {
		w.t.Fatal(ack)
	}
}

// The values that logRun sends, by metric.
var (
	floats = []float64{0.1, math.NaN(), math.Inf(-1), -2}
	ints   = []int64{1, 1<<53 + 1, math.MaxInt64, math.MinInt64}
	texts  = []string{"plain", "=cmd()", "a,b\n\"c\"", "grün"}
)

func theBatch() *kymogramv1.Batch {
	return &kymogramv1.Batch{
		First: 1, Last: batchSize,
		Series: []*kymogramv1.SeriesDefinition{
			{Id: 1, Metric: "loss", Scale: "ML_STEP", Kind: 1, Labels: map[string]string{"split": "train"}},
			{Id: 2, Metric: "n", Scale: "ML_STEP", Kind: 2},
			{Id: 3, Metric: "note", Scale: "ML_STEP", Kind: 3},
		},
		Groups: []*kymogramv1.RowGroup{{
			Axes:   []*kymogramv1.AxisColumn{{Axis: 1, Values: []int64{0, 1, 2, 3}}, {Axis: 8, Values: []int64{5, 5, 6, 6}}},
			TimeNs: []int64{10, 20, 30, 40}, Seq: []uint32{0, 1, 2, 3},
			Columns: []*kymogramv1.Column{{Series: 1, Floats: floats}, {Series: 2, Ints: ints}, {Series: 3, Texts: texts}},
		}},
	}
}

func wantJSONL(id, writer string) []string {
	var out []string
	line := func(metric, labels string, i int, value string) {
		out = append(out, fmt.Sprintf(`{"run":%q,"metric":%q,"scale":"ML_STEP","labels":%s,"step":%d,"epoch":%d,"time_ns":%d,"value":%s,"attempt":1,"writer":%q}`,
			id, metric, labels, i, 5+i/2, 10*(i+1), value, writer))
	}
	for i, v := range []string{`0.1`, `"NaN"`, `"-Infinity"`, `-2`} {
		line("loss", `{"split":"train"}`, i, v)
	}
	for i, v := range ints {
		line("n", `{}`, i, strconv.FormatInt(v, 10))
	}
	for i, v := range []string{`"plain"`, `"=cmd()"`, `"a,b\u000a\"c\""`, `"grün"`} {
		line("note", `{}`, i, v)
	}
	return out
}

func TestExport(t *testing.T) {
	k := serveKitchen(t)
	id := k.logRun("run one")
	writer := model.WriterID{7, 1}.String()
	for _, ref := range []string{id, "lab/digits/run one"} {
		got := strings.Split(strings.TrimSpace(k.ok("export", ref, "--format", "jsonl")), "\n")
		if diff := cmp.Diff(wantJSONL(id, writer), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", ref, diff)
		}
	}
	if got := k.ok("export", id, "--metric", "^n$", "--json"); strings.Count(got, "\n") != 4 {
		t.Errorf("--metric gives %s", got)
	}
	t.Run("csv", func(t *testing.T) { checkCSV(t, k.ok("export", id, "--format", "csv")) })
	t.Run("parquet", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "points.parquet")
		k.ok("export", id, "--format", "parquet", "-o", path)
		checkParquet(t, path)
		left, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(left) != 1 {
			t.Errorf("the folder holds %v, %v", left, err)
		}
	})
}

func checkCSV(t *testing.T, out string) {
	records, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	head := "run metric scale labels kind step epoch time_ns value attempt writer"
	if got := strings.Join(records[0], " "); got != head || len(records) != 13 {
		t.Fatalf("%d records, columns %s", len(records), got)
	}
	value := slices.Index(records[0], "value")
	for i, want := range []string{"0.1", "NaN", "-Infinity", "-2", "1", "9007199254740993", "9223372036854775807", "-9223372036854775808", "plain", "'=cmd()", "a,b\n\"c\"", "grün"} {
		if got := records[i+1][value]; got != want {
			t.Errorf("value %d is %q, want %q", i, got, want)
		}
	}
}

func checkParquet(t *testing.T, path string) {
	r, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	reader, err := pqarrow.NewFileReader(r, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := reader.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	columns := map[string][]string{}
	batches := array.NewTableReader(table, 0)
	for batches.Next() {
		batch := batches.RecordBatch()
		for i, field := range batch.Schema().Fields() {
			columns[field.Name] = append(columns[field.Name], cells(batch.Column(i))...)
		}
	}
	want := make([]string, 12)
	check := func(name string, from int, values ...string) {
		all := slices.Clone(want)
		copy(all[from:], values)
		if diff := cmp.Diff(all, columns[name]); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	check("value", 0, "0.1", "NaN", "-Inf", "-2")
	check("value_int64", 4, "1", "9007199254740993", "9223372036854775807", "-9223372036854775808")
	check("value_text", 8, texts...)
	check("step", 0, "0", "1", "2", "3", "0", "1", "2", "3", "0", "1", "2", "3")
}

func cells(column arrow.Array) []string {
	out := make([]string, column.Len())
	for i := range out {
		if !column.IsNull(i) {
			out[i] = column.ValueStr(i)
		}
	}
	return out
}

func TestRunsAndSeries(t *testing.T) {
	k := serveKitchen(t)
	id := k.logRun("run one")
	table := k.ok("runs", "list", "lab/digits")
	if lines := strings.Split(table, "\n"); !strings.HasPrefix(lines[0], "STATUS") || strings.Index(lines[0], "NAME") != strings.Index(lines[1], "run one") || !strings.Contains(lines[1], id) || strings.Contains(table, "\x1b") {
		t.Errorf("runs list:\n%s", table)
	}
	var list struct {
		Runs []struct{ ID, Name, Status string }
		Next *string
	}
	if err := json.Unmarshal([]byte(k.ok("runs", "list", "lab/digits", "--json", "--name", "run one")), &list); err != nil || len(list.Runs) != 1 || list.Runs[0].ID != id || list.Next != nil {
		t.Errorf("%+v, %v", list, err)
	}
	if out, want := k.ok("runs", "list", "lab/digits", "--csv", "--column", "name", "--column", "id", "--column", "status"), "name,id,status\nrun one,"+id+","; !strings.HasPrefix(out, want) {
		t.Errorf("runs list --csv:\n%s, want %s…", out, want)
	}
	if out := k.ok("runs", "show", "lab/digits/run one"); !strings.Contains(out, "3 series, 12 points") || !strings.Contains(out, "0.25") {
		t.Errorf("runs show:\n%s", out)
	}
	var detail map[string]any
	if err := json.Unmarshal([]byte(k.ok("runs", "show", id, "--json")), &detail); err != nil || detail["ledger"] == nil {
		t.Errorf("%v, %v", detail, err)
	}
	if out := k.ok("series", "list", id); !strings.Contains(out, "split=train") || !strings.Contains(out, "grün") || strings.Count(out, "\n") != 4 {
		t.Errorf("series list:\n%s", out)
	}
	var series struct{ Series []map[string]any }
	if err := json.Unmarshal([]byte(k.ok("series", "list", id, "--json", "--metric", "n", "--limit", "1")), &series); err != nil || len(series.Series) != 1 || series.Series[0]["metric"] != "n" {
		t.Errorf("%+v, %v", series, err)
	}
}

func TestDeleteAndRestore(t *testing.T) {
	k := serveKitchen(t)
	id := k.logRun("run one")
	if out := k.ok("runs", "delete", "lab/digits/run one"); !strings.Contains(out, "runs restore "+id) {
		t.Error(out)
	}
	if code, _, errs := k.run("runs", "show", id); code != 1 || !strings.Contains(errs, "runs restore") {
		t.Errorf("%d %s", code, errs)
	}
	if out := k.ok("runs", "list", "lab/digits"); strings.Contains(out, id) {
		t.Error(out)
	}
	k.ok("runs", "restore", "lab/digits/run one")
	k.ok("runs", "show", id)
	if out := k.ok("runs", "delete", id, "--now", "--json"); !strings.Contains(out, `"freed":true`) {
		t.Error(out)
	}
	if code, _, _ := k.run("export", id); code != 1 {
		t.Errorf("export of a freed run ends with %d", code)
	}
}

func TestCommandsFailClearly(t *testing.T) {
	k := serveKitchen(t)
	id := k.logRun("run one")
	target := filepath.Join(t.TempDir(), "kept.csv")
	if err := os.WriteFile(target, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		code int
		says string
		args []string
	}{
		{1, "no run \"nonsense\"", []string{"export", "nonsense"}},
		{2, "jsonl, csv or parquet", []string{"export", id, "--format", "xml"}},
		{2, "--json", []string{"export", id, "--format", "csv", "--json"}},
		{2, "RUN is missing", []string{"runs", "show"}},
		{2, "names no project", []string{"runs", "list", "a/b/c"}},
		{1, "no project a", []string{"runs", "list", "a"}},
		{1, "did you mean lab/digits?", []string{"runs", "list", "digit"}},
		{2, "--sort, --cursor, --csv and --column are for the runs of one project", []string{"runs", "list", "--sort", "name"}},
		{2, "--limit", []string{"runs", "list", "lab/digits", "--limit", "-1"}},
		{2, "--csv writes all runs", []string{"runs", "list", "lab/digits", "--csv", "--limit", "1"}},
		{2, "--column is for --csv", []string{"runs", "list", "lab/digits", "--column", "name"}},
		{2, "there is one argument, RUN, not 2", []string{"runs", "show", "a", "b"}},
		{2, "name it with a flag, --data /x", []string{"data", "stats", "/x"}},
		{2, "it must be a number", []string{"runs", "list", "lab/digits", "--limit", "abc"}},
		{2, "which one", []string{"runs"}},
		{2, "unknown flag", []string{"runs", "list", "--nope"}},
		{2, "address of a server", []string{"runs", "list", "--server", "nope"}},
		{1, "no run \"lab/digits/none\"", []string{"runs", "show", "lab/digits/none"}},
		{1, "no project", []string{"runs", "list", "lab/none"}},
		{1, "--metric is not a regular expression", []string{"export", id, "--metric", "(", "-o", target}},
		{1, "kymogram serve", []string{"runs", "list", "--server", "http://127.0.0.1:1"}},
		{1, "API key", []string{"runs", "list", "lab/digits", "--key", strings.Repeat("0", 40)}},
		{1, "create", []string{"export", id, "-o", filepath.Join(target, "below", "a.csv")}},
		{1, "no attempt 9", []string{"export", id, "--attempt", "9", "-o", target}},
	} {
		code, out, errs := k.run(c.args...)
		if code != c.code || !strings.Contains(errs, c.says) || out != "" {
			t.Errorf("kymogram %v: %d, want %d saying %q\n%s%s", c.args, code, c.code, c.says, out, errs)
		}
	}
	if kept, err := os.ReadFile(target); err != nil || string(kept) != "old" {
		t.Errorf("a failed export left %q, %v", kept, err)
	}
}
