package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	"github.com/google/go-cmp/cmp"

	"github.com/kymogram/kymogram"
	"github.com/kymogram/kymogram/read"
)

// TestForks: the Go client forks, the Go read API and an export read what is
// inherited; the oracle is what was logged.
func TestForks(t *testing.T) {
	k := serveKitchen(t)
	k.env["KYMOGRAM_SPOOL_DIR"] = k.spool()
	k.logMany("parent", 10)
	k.ok("sync", "--server", "http://"+k.address)
	five := int64(5)
	ctx := context.Background()
	r, err := kymogram.Init(ctx, kymogram.Options{
		RunName: "fork", ForkFromRun: "parent", ForkAtStep: &five, SpoolDir: k.spool(), NoUplink: true, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	for step := int64(6); step < 8; step++ {
		if err := r.Log("loss", -float64(step), kymogram.Step(step)); err != nil {
			t.Fatal(err)
		}
	}
	var left *kymogram.UndeliveredError
	if err := r.Close(ctx); !errors.As(err, &left) {
		t.Fatal(err)
	}
	k.ok("sync", "--server", "http://"+k.address)

	client, err := read.Dial(k.env["KYMOGRAM_SERVER"], k.key())
	if err != nil {
		t.Fatal(err)
	}
	run := func(name string) *read.Run {
		t.Helper()
		run, err := client.Run(t.Context(), "default/default/"+name)
		if err != nil {
			t.Fatal(err)
		}
		return run
	}
	parent, fork := run("parent"), run("fork")
	type row struct {
		run, step string
		value     float64
	}
	want := []row{
		{parent.ID, "0", 0},
		{parent.ID, "1", 1},
		{parent.ID, "2", 2},
		{parent.ID, "3", 3},
		{parent.ID, "4", 4},
		{parent.ID, "5", 5},
		{fork.ID, "6", -6},
		{fork.ID, "7", -7},
	}
	var got []row
	for series, err := range fork.Series(t.Context(), "", read.IncludeInherited()) {
		if err != nil || series.Count != 8 || series.Inherited != 6 {
			t.Fatalf("%+v, %v", series, err)
		}
		for p, err := range series.Points(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			step, _ := p.Step()
			got = append(got, row{p.Run, strconv.FormatInt(step, 10), p.Float})
		}
		if buckets, err := series.Buckets(t.Context(), 1); err != nil || len(buckets) != 1 || buckets[0].Count != 8 || buckets[0].Inherited != 6 {
			t.Errorf("buckets %+v, %v", buckets, err)
		}
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Error(diff)
	}
	for p, err := range fork.Points(t.Context(), "loss", read.Between(0, 6)) {
		if step, _ := p.Step(); err != nil || step != 6 || p.Run != "" {
			t.Errorf("without IncludeInherited: %+v, %v", p, err)
		}
	}
	line, err := fork.Lineage(t.Context())
	if err != nil || len(line.Ancestors) != 1 || line.Ancestors[0].ID != parent.ID || *line.Ancestors[0].UpTo != 5 || line.Broken != nil {
		t.Errorf("lineage %+v, %v", line, err)
	}
	if fork.ParentRun != "parent" || fork.ForkStep == nil || *fork.ForkStep != 5 {
		t.Errorf("the fork is %+v", fork)
	}
	if out := k.ok("runs", "show", parent.ID); !strings.Contains(out, "fork at step 5") {
		t.Errorf("the parent names no fork:\n%s", out)
	}

	path := filepath.Join(t.TempDir(), "fork.parquet")
	k.ok("export", fork.ID, "--include-inherited", "--format", "parquet", "-o", path)
	got = nil
	f, err := file.OpenParquetFile(path, false)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	reader, err := pqarrow.NewFileReader(f, pqarrow.ArrowReadProperties{}, memory.DefaultAllocator)
	if err != nil {
		t.Fatal(err)
	}
	table, err := reader.ReadTable(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer table.Release()
	columns := map[string][]string{}
	for i := range int(table.NumCols()) {
		for _, chunk := range table.Column(i).Data().Chunks() {
			columns[table.Column(i).Name()] = append(columns[table.Column(i).Name()], cells(chunk)...)
		}
	}
	for i, id := range columns["run"] {
		value, err := strconv.ParseFloat(columns["value"][i], 64)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row{id, columns["step"][i], value})
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("parquet: %s", diff)
	}
	if code, _, errs := k.run("export", fork.ID, "--include-inherited", "--attempt", "1"); code != 2 || !strings.Contains(errs, "inherits nothing") {
		t.Errorf("%d %s", code, errs)
	}
}
