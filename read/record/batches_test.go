package record_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"

	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/read/record"
)

func Example() {
	ctx := context.Background()
	client, err := read.Dial("http://127.0.0.1:7070", "")
	if err != nil {
		fmt.Println(err)
		return
	}
	run, err := client.Run(ctx, "vision/digits/lr0.3")
	if err != nil {
		fmt.Println(err)
		return
	}
	for batch, err := range record.Batches(run.Arrow(ctx, "loss", 100_000)) {
		if err != nil {
			fmt.Println(err)
			return
		}
		value := batch.Schema().FieldIndices("value")[0]
		fmt.Println(batch.NumRows(), batch.Column(value).(*array.Float64).Float64Values()[0])
	}
}

// page is an answer of the server: rows of one series by step, which some lack.
func page(t *testing.T, gaps bool, steps ...int64) []byte {
	t.Helper()
	meta := arrow.NewMetadata([]string{"metric", "next"}, []string{"loss", fmt.Sprint("cursor", steps)})
	schema := arrow.NewSchema([]arrow.Field{{Name: "step", Type: arrow.PrimitiveTypes.Int64, Nullable: gaps}, {Name: "value", Type: arrow.PrimitiveTypes.Float64}}, &meta)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	defer b.Release()
	var out bytes.Buffer
	w := ipc.NewWriter(&out, ipc.WithSchema(schema))
	for _, step := range steps {
		if gaps {
			b.Field(0).AppendNull()
		} else {
			b.Field(0).(*array.Int64Builder).Append(step)
		}
		b.Field(1).(*array.Float64Builder).Append(float64(step) / 2)
		batch := b.NewRecordBatch()
		if err := w.Write(batch); err != nil {
			t.Fatal(err)
		}
		batch.Release()
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// serve answers page after page; last is what follows them.
func serve(t *testing.T, last http.HandlerFunc, pages ...[]byte) *read.Run {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at := 0
		if cursor := r.URL.Query().Get("cursor"); cursor != "" {
			_, _ = fmt.Sscan(cursor, &at)
		}
		if at == len(pages) {
			last(w, r)
			return
		}
		if at+1 < len(pages) || last != nil {
			w.Header().Set("Kymogram-Next", fmt.Sprint(at+1))
		}
		_, _ = w.Write(pages[at])
	}))
	t.Cleanup(s.Close)
	client, err := read.Dial(s.URL, "k")
	if err != nil {
		t.Fatal(err)
	}
	return client.ByID("01ARZ3NDEKTSV4RRFFQ69G5FAV")
}

// collect is the values that come, and the error that ends them.
func collect(t *testing.T, run *read.Run) (values []float64, err error) {
	t.Helper()
	var schema *arrow.Schema
	for batch, err := range record.Batches(run.Arrow(t.Context(), "loss", 2)) {
		if err != nil {
			return values, err
		}
		if schema == nil {
			schema = batch.Schema()
		} else if !schema.Equal(batch.Schema()) || schema.Metadata().String() != batch.Schema().Metadata().String() {
			t.Errorf("schemas differ: %v, %v", schema, batch.Schema())
		}
		values = append(values, batch.Column(1).(*array.Float64).Float64Values()...)
	}
	return values, nil
}

func TestBatchesOfAllPages(t *testing.T) {
	got, err := collect(t, serve(t, nil, page(t, true, 1, 2), page(t, false, 3, 4), page(t, false), page(t, true, 5)))
	if err != nil || fmt.Sprint(got) != "[0.5 1 1.5 2 2.5]" {
		t.Errorf("%v, %v", got, err)
	}
}

// A series without points still has columns.
func TestNothingHasASchema(t *testing.T) {
	batches := 0
	for batch, err := range record.Batches(serve(t, nil, page(t, false)).Arrow(t.Context(), "loss", 2)) {
		if err != nil || batch.NumRows() != 0 || len(batch.Schema().Fields()) != 2 {
			t.Errorf("%v, %v", batch, err)
		}
		batches++
	}
	if batches != 1 {
		t.Errorf("%d batches", batches)
	}
}

// Who stops asks for no further page.
func TestStopping(t *testing.T) {
	run := serve(t, func(http.ResponseWriter, *http.Request) { t.Error("asked for more") }, page(t, false, 1, 2))
	for _, err := range record.Batches(run.Arrow(t.Context(), "loss", 2)) {
		if err != nil {
			t.Error(err)
		}
		break
	}
}

// Whatever ends the pages too early is an error, also between two messages of a stream.
func TestNothingIsCutInSilence(t *testing.T) {
	whole := page(t, false, 3, 4)
	for name, c := range map[string]struct {
		last http.HandlerFunc
		want string
	}{
		"a refusal": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte(`{"error":{"code":"run_deleted","message":"the run was deleted"}}`))
		}, "the run was deleted"},
		"another program": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) }, "read points"},
		"a stream that breaks off": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write(whole[:len(whole)-8]) // without the mark of its end
			w.(http.Flusher).Flush()
			panic(http.ErrAbortHandler)
		}, "unexpected EOF"},
		"a wrong size": {nil, "chunks of 0 points"},
	} {
		run := serve(t, c.last, page(t, false, 1, 2))
		var err error
		values := []float64{0.5, 1}
		if c.last == nil {
			for _, refusal := range record.Batches(run.Arrow(t.Context(), "loss", 0)) {
				err = refusal
			}
		} else {
			values, err = collect(t, run)
		}
		if err == nil || !strings.Contains(err.Error(), c.want) || len(values) < 2 {
			t.Errorf("%s: %v, %v", name, values, err)
		}
	}
}
