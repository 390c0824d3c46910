package transfer

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/delivery"
	"github.com/kymogram/kymogram/server/internal/importer"
)

const runID = "01ARZ3NDEKTSV4RRFFQ69G5FAV"

// rows are two points of a series as GET …/points gives them.
func rows(values ...float64) arrow.RecordBatch {
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "step", Type: arrow.PrimitiveTypes.Int64, Nullable: true},
		{Name: "time_ns", Type: arrow.PrimitiveTypes.Int64},
		{Name: "value", Type: arrow.PrimitiveTypes.Float64},
		{Name: "attempt", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "writer", Type: &arrow.FixedSizeBinaryType{ByteWidth: 2}},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	for i, v := range values {
		if i == 0 {
			b.Field(0).AppendNull()
		} else {
			b.Field(0).(*array.Int64Builder).Append(int64(i))
		}
		b.Field(1).(*array.Int64Builder).Append(math.MaxInt64 - int64(i))
		b.Field(2).(*array.Float64Builder).Append(v)
		b.Field(3).(*array.Uint32Builder).Append(1)
		b.Field(4).(*array.FixedSizeBinaryBuilder).Append([]byte{0xab, 1})
	}
	return b.NewRecordBatch()
}

// server lists one series and gives its points in two pages.
func server(t *testing.T) *remote.Client {
	mux := http.NewServeMux()
	mux.HandleFunc("/api/v1/runs/"+runID+"/series", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"series":[{"metric":"=loss","scale":"ML_STEP","labels":{"a":"b"},"kind":"float64","axes":["step"],"count":3}],"next":null}`)
	})
	mux.HandleFunc("/api/v1/runs/"+runID+"/points", func(w http.ResponseWriter, r *http.Request) {
		if q := r.URL.Query(); q.Get("metric") != "=loss" || q.Get("label.a") != "b" || q.Get("format") != "arrow" || q.Get("attempt") != "2" {
			t.Errorf("asked for %v", q)
		}
		batch := rows(0.5, math.NaN())
		if r.URL.Query().Get("cursor") == "" {
			w.Header().Set("Kymogram-Next", "more")
		} else {
			batch = rows(math.Inf(-1))
		}
		out := ipc.NewWriter(w, ipc.WithSchema(batch.Schema()))
		if err := errors.Join(out.Write(batch), out.Close()); err != nil {
			t.Error(err)
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return &remote.Client{Base: s.URL}
}

func export(t *testing.T, format string) string {
	t.Helper()
	e := &Export{Server: server(t), Run: runID, Format: format, Attempt: "2"}
	series, err := e.Series(t.Context())
	if err != nil || len(series) != 1 {
		t.Fatalf("%v, %v", series, err)
	}
	var out bytes.Buffer
	points := int64(0)
	if err := e.Write(t.Context(), &out, series, func(n int64) { points += n }); err != nil || points != 3 {
		t.Fatalf("%d points, %v", points, err)
	}
	return out.String()
}

func TestExportFormats(t *testing.T) {
	head := `{"run":"` + runID + `","metric":"=loss","scale":"ML_STEP","labels":{"a":"b"},`
	want := head + `"time_ns":9223372036854775807,"value":0.5,"attempt":1,"writer":"ab01"}` + "\n" +
		head + `"step":1,"time_ns":9223372036854775806,"value":"NaN","attempt":1,"writer":"ab01"}` + "\n" +
		head + `"time_ns":9223372036854775807,"value":"-Infinity","attempt":1,"writer":"ab01"}` + "\n"
	if got := export(t, JSONL); got != want {
		t.Errorf("JSON lines\n%s", got)
	}
	want = "run,metric,scale,labels,kind,step,time_ns,value,attempt,writer\n" +
		runID + `,'=loss,ML_STEP,"{""a"":""b""}",float64,,9223372036854775807,0.5,1,ab01` + "\n" +
		runID + `,'=loss,ML_STEP,"{""a"":""b""}",float64,1,9223372036854775806,NaN,1,ab01` + "\n" +
		runID + `,'=loss,ML_STEP,"{""a"":""b""}",float64,,9223372036854775807,-Infinity,1,ab01` + "\n"
	if got := export(t, CSV); got != want {
		t.Errorf("CSV\n%s", got)
	}
	reader, err := file.NewParquetReader(strings.NewReader(export(t, Parquet)))
	if err != nil || reader.NumRows() != 3 {
		t.Errorf("Parquet: %v", err)
	}
}

// A series that gains an axis while it is exported has no column for it.
func TestAnAxisThatIsNewEndsTheExport(t *testing.T) {
	sink, err := newCSVSink(bufio.NewWriter(io.Discard), runID, []*read.Series{{Metric: "loss"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := sink.batch(&read.Series{Metric: "loss"}, rows(1)); err == nil || !strings.Contains(err.Error(), "gained the axis step") {
		t.Errorf("%v", err)
	}
}

func TestAFileIsThereWholeOrNotAtAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "points")
	broken := errors.New("broken")
	err := WriteFile(path, func(w io.Writer) error { _, _ = io.WriteString(w, "half"); return broken })
	if left, rerr := os.ReadDir(filepath.Dir(path)); !errors.Is(err, broken) || rerr != nil || len(left) != 0 {
		t.Errorf("%v, left %v, %v", err, left, rerr)
	}
	if err := WriteFile(path, func(w io.Writer) error { _, err := io.WriteString(w, "whole"); return err }); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); string(text) != "whole" || err != nil {
		t.Errorf("%q, %v", text, err)
	}
}

func TestFindGivesEachRunAName(t *testing.T) {
	source := func(runs ...importer.Found) importer.Source {
		return importer.Source{Name: "csv", Find: func(context.Context, string, importer.Options) ([]importer.Found, error) { return runs, nil }}
	}
	var wrong NameError
	for name, tt := range map[string]struct {
		runs   []importer.Found
		name   string
		failed func(error) bool
	}{
		"none":         {nil, "", func(err error) bool { return model.CodeOf(err) == model.CodeNotFound }},
		"one":          {[]importer.Found{{Key: "k", Name: "n"}}, "mine", func(err error) bool { return err == nil }},
		"bad name":     {[]importer.Found{{Key: "k", Name: "n"}}, "a\nb", func(err error) bool { return errors.As(err, &wrong) }},
		"name for two": {[]importer.Found{{Key: "k", Name: "n"}, {Key: "l", Name: "m"}}, "mine", func(err error) bool { return errors.As(err, &wrong) }},
		"left out":     {[]importer.Found{{Key: "k", Name: "n"}, {Key: "l", Name: "n", Left: "deleted"}}, "", func(err error) bool { return err == nil }},
		"same name":    {[]importer.Found{{Key: "k", Name: "n"}, {Key: "l", Name: "n"}}, "", func(err error) bool { return model.CodeOf(err) == model.CodeConflict }},
	} {
		found, err := Find(t.Context(), source(tt.runs...), []string{"path"}, tt.name, importer.Options{})
		if !tt.failed(err) || err == nil && tt.name != "" && found.Runs[0].Name != tt.name {
			t.Errorf("%s: %v, %v", name, found, err)
		}
	}
}

func TestReportTellsOfLoss(t *testing.T) {
	r := Report{DryRun: true, Refused: 2, Runs: []Run{
		{Run: "w/p/a", State: Imported, Series: 1, Points: 3, Skipped: map[string]uint64{"images": 4}, Damage: []importer.Damage{{File: "f", Offset: 9, Text: "cut"}}},
		{Run: "w/p/b", State: LeftOut, Error: "deleted"},
	}}
	var out, errs strings.Builder
	r.Print(&out, &errs)
	if out.String() != "w/p/a: would be imported, 1 series, 3 points\n" {
		t.Errorf("%q", out.String())
	}
	if errs.String() != "  not imported: 4 images\n  damaged: f at byte 9: cut\nw/p/b: left out, deleted\nthe server refused 2 points\n" {
		t.Errorf("%q", errs.String())
	}
	if !errors.Is(r.Err(), ErrNotAll) || (&Report{Runs: []Run{{State: Unchanged}}}).Err() != nil {
		t.Error("the verdict")
	}
}

func TestDownloadKeepsWhatIsThere(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.URL.Path) }))
	defer s.Close()
	sum := func(text string) string { h := sha256.Sum256([]byte(text)); return hex.EncodeToString(h[:]) }
	video := func(env, path, sha string) json.RawMessage {
		doc, _ := json.Marshal(map[string]any{"env_id": env, "episode": 1, "sha256": sha, "stored": true, "url": path})
		return doc
	}
	list := []json.RawMessage{video("a/b", "/1", sum("/1")), video("a/b", "/2", sum("/2")), []byte(`{"sha256":""}`), []byte(`{"sha256":"x"}`)}
	folder := t.TempDir()
	c := &remote.Client{Base: s.URL}
	for i, want := range []Videos{{Written: 2, OnTheirWay: 1, Lost: 1}, {There: 2, OnTheirWay: 1, Lost: 1}} {
		got, err := Download(t.Context(), c, list, folder)
		if err != nil || len(got.Files) != 2 || filepath.Base(got.Files[1]) != "a_b_1-2.mp4" {
			t.Fatalf("%d: %+v, %v", i, got, err)
		}
		if got.Files = nil; got.Written != want.Written || got.There != want.There || got.OnTheirWay != want.OnTheirWay || got.Lost != want.Lost {
			t.Errorf("%d: %+v", i, got)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "a_b_1.mp4"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Download(t.Context(), c, list, folder); model.CodeOf(err) != model.CodeConflict {
		t.Errorf("other bytes are there: %v", err)
	}
	if _, err := Download(t.Context(), c, []json.RawMessage{video("c", "/3", sum("other"))}, folder); model.CodeOf(err) != model.CodeUnavailable {
		t.Errorf("changed on the way: %v", err)
	}
}

func TestCheck(t *testing.T) {
	for ok, list := range map[bool][]Export{
		true:  {{Format: JSONL}, {Format: CSV, Attempt: "1"}, {Format: Parquet, Inherited: true}},
		false: {{}, {Format: "xml"}, {Format: CSV, Attempt: "1", Inherited: true}},
	} {
		for _, e := range list {
			if err := e.Check(); (err == nil) != ok {
				t.Errorf("%+v: %v", e, err)
			}
		}
	}
}

// A file and the standard output get the same bytes.
func TestSave(t *testing.T) {
	e := Export{Server: server(t), Run: runID, Format: JSONL, Attempt: "2"}
	path := filepath.Join(t.TempDir(), "points.jsonl")
	var out bytes.Buffer
	if err := errors.Join(e.Save(t.Context(), "", &out, io.Discard), e.Save(t.Context(), path, nil, io.Discard)); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(path); err != nil || !bytes.Equal(text, out.Bytes()) || bytes.Count(text, []byte("\n")) != 3 {
		t.Errorf("%v\n%s\n%s", err, text, out.Bytes())
	}
}

// A dry run reads everything, asks for what is there, and leaves no spool.
func TestAllOfADryRun(t *testing.T) {
	none := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"code":"not_found","message":"no such run"}}`)
	}))
	t.Cleanup(none.Close)
	read := 0
	one := func(context.Context) (*importer.Run, error) {
		read++
		return &importer.Run{Series: []*importer.Series{{Steps: []int64{1, 2}}}}, nil
	}
	w := Import{Server: &remote.Client{Base: none.URL}, Process: delivery.Process{Err: io.Discard}, Source: "csv", Workspace: "w", Project: "p", DryRun: true}
	found := &Found{Runs: []importer.Found{{Key: "a", Name: "a", Read: one}, {Key: "b", Name: "b", Left: "deleted"}}}
	if err := w.All(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if r := w.Report; read != 1 || r.Points != 2 || len(r.Runs) != 2 || r.Runs[0].State != Imported || r.Runs[1].State != LeftOut || w.folder != nil {
		t.Errorf("%+v", r)
	}
}
