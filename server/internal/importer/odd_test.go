package importer

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"github.com/kymogram/kymogram/internal/platform"
)

const smallTable = "step,loss\n1,0.5\n2,0.25\n"

func gzipped(text []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(text)
	_ = w.Close()
	return out.Bytes()
}

// oddFiles are files that no tracker wrote.
func oddFiles(t *testing.T) map[string][]byte {
	t.Helper()
	random := make([]byte, 100_000)
	_, _ = rand.Read(random)
	program, err := os.ReadFile(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile(firstOf(t, "testdata/neptune/data/*/RUN-1*_part_0.parquet"))
	if err != nil {
		t.Fatal(err)
	}
	encrypted := append([]byte("PARE"), make([]byte, 40)...)
	encrypted = append(encrypted, "PARE"...)
	zipped := func(names ...string) []byte {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		for _, name := range names {
			f, _ := w.Create(name)
			_, _ = f.Write([]byte("no table"))
		}
		_ = w.Close()
		return out.Bytes()
	}
	whole := gzipped(random)
	zeros := make([]byte, 300<<20)
	odd := map[string][]byte{
		"empty": {}, "byte": {'x'}, "newline": []byte("\n"), "nul": {0}, "random": random, "program": program[:1<<20],
		"png": append([]byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"), random[:999]...), "jpg": append([]byte("\xff\xd8\xff\xe0\x00\x10JFIF"), random[:999]...),
		"pdf": append([]byte("%PDF-1.7\n%\xe2\xe3\xcf\xd3\n1 0 obj\n"), random[:999]...), "ps": []byte("%!PS-Adobe-3.0\n1 2 add\n"),
		"gif": append([]byte("GIF89a"), random[:99]...), "json": []byte(`{"step": 1, "loss": 2}` + "\n"), "list": []byte("[\n 1,\n 2\n]\n"), "lines": []byte("{\"a\":1}\n{\"a\":2}\n"),
		"html": []byte("<!DOCTYPE html>\n<html><body>1,2</body></html>\n"), "xml": []byte("<?xml version=\"1.0\"?>\n<a>1</a>\n"),
		"prose": []byte("It was a dark night, and rain fell.\nNobody, not one, came.\n"), "script": []byte("import os\nprint(os.name)\n"), "yaml": []byte("lr: 0.1\nepochs: 3\n"),
		"numbers": []byte("1,2\n3,4\n"), "header": []byte("step,loss\n"), "steps": []byte("step,loss\nx,1\ny,2\n"), "quote": []byte("step,loss\n\"" + strings.Repeat("1,2\n", 5<<20)),
		"line": bytes.Repeat([]byte("a"), 20<<20), "commas": bytes.Repeat([]byte(","), 1<<18), "cells": []byte("a,b\n,\n,\n"), "utf16": []byte("s\x00t\x00e\x00p\x00\n\x001\x00\n\x00"),
		"latin1": []byte("gr\xf6\xdfe,b\n1,2\n"), "escapes": []byte("\x1b[31mstep\x1b[0m,loss\n1,2\n"), "nuls": []byte("step,loss\n1,\x002\n"),
		"gz.random": whole, "gz.cut": whole[:len(whole)/2], "gz.head": {0x1f, 0x8b}, "gz.bomb": gzipped(zeros), "gz.gz": gzipped(gzipped([]byte(smallTable))), "gz.rows": gzipped(bytes.Repeat([]byte("1,1\n"), 50<<20)),
		"bz.head": []byte("BZh91AY&SY"), "zst.head": []byte("\x28\xb5\x2f\xfd\xff\xff\xff\xff"), "xz.head": []byte("\xfd7zXZ\x00\x00\x04"), "zip.none": zipped(), "zip.two": zipped("a.csv", "b.csv"), "zip.cut": zipped("a.csv")[:30],
		"parquet.head": []byte("PAR1"), "parquet.cut": table[:len(table)-9], "parquet.encrypted": encrypted, "parquet.footer": append(bytes.Clone(table[:len(table)-8]), "\xff\xff\xff\x7fPAR1"...),
		"parquet.zeros": append(append([]byte("PAR1"), make([]byte, 100)...), "\x40\x00\x00\x00PAR1"...), "parquet.lists": append([]byte("PAR1\x19\xfc\xff\xff\xff\x0f"), "\x06\x00\x00\x00PAR1"...),
		"sqlite": append([]byte("SQLite format 3\x00"), random[:4080]...), "wandb": append([]byte(":W&B\xe1\xbe\x00"), random...), "tfrecord": append(make([]byte, 12), random[:99]...),
	}
	odd["gz.rows"] = gzipped(append([]byte("step,loss\n"), bytes.Repeat([]byte("1,1\n"), 50<<20)...))
	return odd
}

func firstOf(t *testing.T, pattern string) string {
	t.Helper()
	names, err := filepath.Glob(pattern)
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %v", pattern, err)
	}
	return names[0]
}

// Files that are none give no run and one error that names them, in each importer, and take
// no memory to speak of.
func TestOddFilesGiveNoRun(t *testing.T) {
	names := map[string]string{"tensorboard": "events.out.tfevents.1", "wandb-offline": "run-a.wandb", "mlflow": "mlflow.db", "csv": "odd.csv", "parquet": "odd.parquet", "neptune": "a_part_0.parquet"}
	for odd, content := range oddFiles(t) {
		for source, name := range names {
			path := filepath.Join(t.TempDir(), name)
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, odd, source, path)
		}
	}
	if !platform.RenamesOpenFolders {
		return
	}
	socket := filepath.Join(t.TempDir(), "odd.csv")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, source := range []string{"csv", "parquet", "mlflow"} {
		refused(t, "a socket", source, socket)
	}
}

func refused(t *testing.T, odd, name, path string) {
	t.Helper()
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found, err := source(t, name).Find(t.Context(), path, Options{})
	runs := 0
	for _, one := range found {
		run, problem := one.Read(t.Context())
		if err = problem; problem == nil {
			runs++
			t.Errorf("%s as %s gives a run of %d points, damage %v", odd, name, run.Points(), run.Damage)
		}
	}
	runtime.ReadMemStats(&after)
	if len(found) > 0 && err != nil && !strings.Contains(err.Error(), filepath.Base(path)) {
		t.Errorf("%s as %s: the error does not name the file: %v", odd, name, err)
	}
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 2<<30 {
		t.Errorf("%s as %s allocates %d MiB", odd, name, grown>>20)
	}
}

// A compressed table is the table, whatever its name is.
func TestCompressedTables(t *testing.T) {
	t.Parallel()
	var z, x bytes.Buffer
	zw, _ := zstd.NewWriter(&z)
	xw, _ := xz.NewWriter(&x)
	_, _ = zw.Write([]byte(smallTable))
	_, _ = xw.Write([]byte(smallTable))
	_, _ = zw.Close(), xw.Close()
	utf16 := []byte{0xff, 0xfe}
	for _, c := range []byte(smallTable) {
		utf16 = append(utf16, c, 0)
	}
	for what, content := range map[string][]byte{"gz": gzipped([]byte(smallTable)), "zst": z.Bytes(), "xz": x.Bytes(), "utf16": utf16, "plain": []byte(smallTable), "bom": []byte("\xef\xbb\xbf" + smallTable)} {
		path := filepath.Join(t.TempDir(), "table")
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		if run := read(t, find(t, "csv", path)["table"]); run.Points() != 2 || run.Series[0].Floats[1] != 0.25 {
			t.Errorf("%s: %d points", what, run.Points())
		}
	}
}

// FuzzParquet: what a damaged file says of its size takes no memory.
func FuzzParquet(f *testing.F) {
	names, err := filepath.Glob("testdata/neptune/data/*/*.parquet")
	if err != nil || len(names) == 0 {
		f.Fatal(names, err)
	}
	for _, name := range names {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		path := filepath.Join(t.TempDir(), "a_part_0.parquet")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, name := range []string{"parquet", "neptune"} {
			found, err := source(t, name).Find(t.Context(), path, Options{})
			if err != nil {
				continue
			}
			for _, one := range found {
				if run, err := one.Read(t.Context()); err == nil {
					sound(t, run)
				}
			}
		}
		runtime.ReadMemStats(&after)
		if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<30 {
			t.Fatalf("%d bytes allocate %d MiB", len(data), grown>>20)
		}
	})
}
