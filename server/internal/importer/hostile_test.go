package importer

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/float16"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"

	"github.com/kymogram/kymogram/internal/model"
)

// writeParquet writes a file of so many rows: a step, numbers that some rows lack, and a text.
func writeParquet(t *testing.T, rows, columns int, part int64, text string, options ...parquet.WriterProperty) string {
	t.Helper()
	fields := []arrow.Field{{Name: "step", Type: arrow.PrimitiveTypes.Int64}, {Name: "note", Type: arrow.BinaryTypes.String, Nullable: true}}
	for c := range columns {
		fields = append(fields, arrow.Field{Name: fmt.Sprint("c", c), Type: arrow.PrimitiveTypes.Float64, Nullable: true})
	}
	b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
	for row := range rows {
		b.Field(0).(*array.Int64Builder).Append(int64(row))
		b.Field(1).(*array.StringBuilder).Append(text)
		for c := range columns {
			if number := b.Field(2 + c).(*array.Float64Builder); row%3 == 2 {
				number.AppendNull()
			} else {
				number.Append(float64(row*columns + c))
			}
		}
	}
	record := b.NewRecordBatch()
	table := array.NewTableFromRecords(record.Schema(), []arrow.RecordBatch{record})
	path := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pqarrow.WriteTable(table, f, part, parquet.NewWriterProperties(options...), pqarrow.DefaultWriterProps()); err != nil {
		t.Fatal(err)
	}
	return path
}

// checkNumbers wants every number that writeParquet wrote.
func checkNumbers(t *testing.T, run *Run, rows, columns int) {
	t.Helper()
	n := 0
	for _, s := range run.Series {
		c := 0
		if _, err := fmt.Sscanf(s.Key.Metric, "c%d", &c); err != nil {
			continue
		}
		for i, step := range s.Steps {
			if n++; s.Floats[i] != float64(int(step)*columns+c) {
				t.Fatalf("%s has %v at %d", s.Key.Metric, s.Floats[i], step)
			}
		}
	}
	if want := (rows - rows/3) * columns; n != want {
		t.Errorf("%d numbers, not %d", n, want)
	}
}

func onlyRun(t *testing.T, source, path string) *Run {
	t.Helper()
	for _, found := range find(t, source, path) {
		return read(t, found)
	}
	t.Fatal("no run")
	return nil
}

// Pages of either version are read, whatever compresses them.
func TestPagesOfParquet(t *testing.T) {
	t.Parallel()
	for _, version := range []parquet.DataPageVersion{parquet.DataPageV1, parquet.DataPageV2} {
		for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip, compress.Codecs.Zstd, compress.Codecs.Brotli} {
			for _, dictionary := range []bool{true, false} {
				path := writeParquet(t, 500, 3, 200, "note", parquet.WithDataPageVersion(version), parquet.WithCompression(codec), parquet.WithDictionaryDefault(dictionary))
				checkNumbers(t, onlyRun(t, "parquet", path), 500, 3)
			}
		}
	}
}

// What a part takes is given back with it: a file may have any number of them.
func TestPartsOfParquet(t *testing.T) {
	t.Parallel()
	path := writeParquet(t, 90, 10, 1, "note")
	checkNumbers(t, onlyRun(t, "parquet", path), 90, 10)
	err := Options{}.parquet(t.Context(), path, func(p *parquetFile) error {
		err := p.rows(t.Context(), func([]any) error { return nil })
		if taken := maxParquet - p.room.left.Load(); p.NumRowGroups() != 90 || taken > 2<<20 {
			t.Errorf("after %d parts %d bytes are taken", p.NumRowGroups(), taken)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// A text that the file has once and the rows a thousand times does not fill the memory.
func TestEqualTextsOfParquet(t *testing.T) {
	t.Parallel()
	const rows = 300
	path := writeParquet(t, rows, 1, 1000, strings.Repeat("y", 200_000))
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	run := onlyRun(t, "parquet", path)
	checkNumbers(t, run, rows, 1)
	kept, left := 0, run.Skipped["texts after 100 times the size of the file of note"]
	for _, s := range run.Series {
		kept += len(s.Docs)
	}
	if most := int(freeBytes+freeRatio*info.Size()) / 200_000; kept == 0 || kept > most || kept+int(left) != rows {
		t.Errorf("%d texts are read, %d left out, at most %d: %v", kept, left, most, run.Skipped)
	}
}

// A line without its end is cut: its step or value may have more digits.
func TestACutMetricLine(t *testing.T) {
	t.Parallel()
	text := "1000 0.5 0\n1001 0.25 100\n"
	for n := range len(text) + 1 {
		name := filepath.Join(t.TempDir(), "loss")
		if err := os.WriteFile(name, []byte(text[:n]), 0o600); err != nil {
			t.Fatal(err)
		}
		b := newBuilder()
		if err := b.metricFile("loss", name); err != nil {
			t.Fatal(err)
		}
		run := b.done()
		ends := strings.Count(text[:n], "\n")
		if cut := n > 0 && text[n-1] != '\n'; run.Points() != uint64(ends) || (len(run.Damage) == 1) != cut {
			t.Errorf("of %q: %d points, damage %v", text[:n], run.Points(), run.Damage)
		}
	}
}

// meta.yaml that nests deep is refused before it fills the memory.
func TestADeepMetaOfMLflow(t *testing.T) {
	t.Parallel()
	for _, nest := range []string{"[", "{a: ", "- ", "? "} {
		folder := filepath.Join(t.TempDir(), "run")
		if err := os.MkdirAll(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		text := "run_id: run\nstatus: " + strings.Repeat(nest, 200_000/len(nest))
		if err := os.WriteFile(filepath.Join(folder, "meta.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := readMeta(folder); err == nil || !strings.Contains(err.Error(), "nests too deep") {
			t.Errorf("%q: %.200v", nest, err)
		}
	}
}

// mlflowDB makes a store with one run and one point, and changes it.
func mlflowDB(t *testing.T, change string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "mlflow.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(), `CREATE TABLE experiments(experiment_id, name, lifecycle_stage); CREATE TABLE params(key, value, run_uuid); CREATE TABLE tags(key, value, run_uuid);
		CREATE TABLE runs(run_uuid, name, status, start_time, end_time, user_id, experiment_id, lifecycle_stage); CREATE TABLE metrics(key, value, timestamp, run_uuid, step, is_nan);
		INSERT INTO runs VALUES('r', 'r', 'FINISHED', 1, 2, 'u', 1, 'active'); INSERT INTO metrics VALUES('loss', 0.5, 1, 'r', 3, 0);`+change); err != nil {
		t.Fatal(err)
	}
	return path
}

// A row that is no point costs its point only.
func TestOddRowsOfMLflow(t *testing.T) {
	t.Parallel()
	run := onlyRun(t, "mlflow", mlflowDB(t, `INSERT INTO metrics VALUES('loss', 'text', 2, 'r', 4, 0), (NULL, 1, 2, 'r', 5, 0), ('loss', 1, 2, 'r', 2.5, 0), ('loss', 2, 2, 'r', 6, 0)`))
	if len(run.Series) != 1 || fmt.Sprint(run.Series[0].Steps, run.Series[0].Floats) != "[3 6] [0.5 2]" || len(run.Damage) != 3 {
		t.Errorf("%v, damage %v", run.Series, run.Damage)
	}
}

// A view in the place of a table may have rows without end.
func TestNoViewsOfMLflow(t *testing.T) {
	t.Parallel()
	path := mlflowDB(t, `DROP TABLE metrics; CREATE VIEW Metrics AS WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c)
		SELECT 'loss' AS key, 1.0 AS value, x AS timestamp, 'r' AS run_uuid, x AS step, 0 AS is_nan FROM c`)
	_, err := findMLflow(context.Background(), path, Options{})
	if model.CodeOf(err) != model.CodeInvalid || !strings.Contains(err.Error(), "Metrics is a view") {
		t.Error(err)
	}
}

// The heads of pages of version 2 are read as the format has them.
func TestPageHeads(t *testing.T) {
	t.Parallel()
	head := []byte{0x15, 6, 0x15, 40, 0x15, 30, 0x5c, 0x15, 20, 0x15, 0, 0x15, 20, 0x15, 0, 0x15, 8, 0x15, 4, 0x12, 0, 0}
	page, err := readPageHead(&compact{rest: bytes.Clone(head)})
	if want := (pageHead{expanded: 20, packed: 15, levels: 6, plain: true}); err != nil || page != want {
		t.Errorf("%+v, %v", page, err)
	}
}

// However the first pages are damaged, reading them ends.
func TestDamagedPagesOfParquet(t *testing.T) {
	t.Parallel()
	path := writeParquet(t, 20, 1, 20, "note", parquet.WithCompression(compress.Codecs.Uncompressed), parquet.WithStats(false))
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for bit := 8 * 130; bit < 8*230; bit++ { // of the pages; in one of these places reading went on for ever
		damaged := bytes.Clone(whole)
		damaged[4+bit/8] ^= 1 << (bit % 8)
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		found, err := findParquet(t.Context(), path, Options{})
		if err != nil {
			continue
		}
		if run, err := found[0].Read(t.Context()); err == nil && run.Points() > 20*2 {
			t.Errorf("bit %d: %d points", bit, run.Points())
		}
	}
}

// Numbers of every width and sign are those that were written.
func TestNumbersOfParquet(t *testing.T) {
	t.Parallel()
	schema := arrow.NewSchema([]arrow.Field{
		{Name: "i8", Type: arrow.PrimitiveTypes.Int8},
		{Name: "i64", Type: arrow.PrimitiveTypes.Int64},
		{Name: "u8", Type: arrow.PrimitiveTypes.Uint8},
		{Name: "u16", Type: arrow.PrimitiveTypes.Uint16},
		{Name: "u32", Type: arrow.PrimitiveTypes.Uint32},
		{Name: "u64", Type: arrow.PrimitiveTypes.Uint64},
		{Name: "f16", Type: arrow.FixedWidthTypes.Float16},
		{Name: "f32", Type: arrow.PrimitiveTypes.Float32},
	}, nil)
	b := array.NewRecordBuilder(memory.DefaultAllocator, schema)
	b.Field(0).(*array.Int8Builder).AppendValues([]int8{-128, 127}, nil)
	b.Field(1).(*array.Int64Builder).AppendValues([]int64{-1 << 62, 1 << 62}, nil)
	b.Field(2).(*array.Uint8Builder).AppendValues([]uint8{0, 255}, nil)
	b.Field(3).(*array.Uint16Builder).AppendValues([]uint16{0, 65535}, nil)
	b.Field(4).(*array.Uint32Builder).AppendValues([]uint32{1 << 31, 1<<32 - 1}, nil)
	b.Field(5).(*array.Uint64Builder).AppendValues([]uint64{3, 1 << 63}, nil)
	b.Field(6).(*array.Float16Builder).AppendValues([]float16.Num{float16.New(0.25), float16.New(-1024)}, nil)
	b.Field(7).(*array.Float32Builder).AppendValues([]float32{0.5, -1e30}, nil)
	want := map[string][]float64{
		"i8": {-128, 127}, "i64": {-1 << 62, 1 << 62}, "u8": {0, 255}, "u16": {0, 65535}, "u32": {1 << 31, 1<<32 - 1}, "u64": {3, 1 << 63}, "f16": {0.25, -1024}, "f32": {0.5, float64(float32(-1e30))},
	}
	record := b.NewRecordBatch()
	path := filepath.Join(t.TempDir(), "t.parquet")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := pqarrow.WriteTable(array.NewTableFromRecords(schema, []arrow.RecordBatch{record}), f, 10, parquet.NewWriterProperties(), pqarrow.DefaultWriterProps()); err != nil {
		t.Fatal(err)
	}
	got := map[string][]float64{}
	for _, s := range onlyRun(t, "parquet", path).Series {
		got[s.Key.Metric] = s.Floats
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("read %v, written %v", got, want)
	}
}

// A store without an index of runs is read once, not once for each run: it may even be gone
// after the first. In any order the runs are those of a store with the index.
func TestMLflowWithoutAnIndex(t *testing.T) {
	t.Parallel()
	const runs = 40
	r := rand.New(rand.NewPCG(1, 2))
	var rows strings.Builder
	want := map[string]map[string][]int64{} // by run and metric
	for n := range runs {
		id := fmt.Sprintf("%c%d", "aAzZ"[n%4], n)
		want[id] = map[string][]int64{}
		fmt.Fprintf(&rows, "INSERT INTO runs VALUES('%s', '%s', 'FINISHED', 1, 2, 'u', 1, 'active'); INSERT INTO params VALUES('p', '%s', '%s');", id, id, id, id)
	}
	ids := slices.Sorted(maps.Keys(want))
	for step := range int64(600) {
		id, metric := ids[r.IntN(runs-1)], fmt.Sprint("m", r.IntN(2)) // one has none
		want[id][metric] = append(want[id][metric], step)
		fmt.Fprintf(&rows, "INSERT INTO metrics VALUES('%s', 0.5, %d, '%s', %d, 0);", metric, step, id, step)
	}
	const index = "CREATE INDEX i1 ON metrics(run_uuid); CREATE INDEX i2 ON params(run_uuid); CREATE INDEX i3 ON tags(run_uuid, key);"
	all := "BEGIN; DELETE FROM runs; DELETE FROM metrics; " + rows.String() + "COMMIT;"
	for _, change := range []string{all, index + all} {
		path := mlflowDB(t, change)
		found, err := findMLflow(t.Context(), path, Options{})
		if err != nil || len(found) != runs {
			t.Fatalf("%d runs, %v", len(found), err)
		}
		check := func(one Found) {
			t.Helper()
			run := read(t, one)
			got := map[string][]int64{}
			for _, s := range run.Series {
				got[s.Key.Metric] = s.Steps
			}
			if config := run.Attributes["config/p"]; fmt.Sprint(got) != fmt.Sprint(want[one.Key]) || config == nil || config.Str != one.Key {
				t.Errorf("%s: %v, %v, want %v", one.Key, got, config, want[one.Key])
			}
		}
		for _, i := range r.Perm(runs) {
			check(found[i])
		}
		if strings.HasPrefix(change, index) {
			continue
		}
		check(found[0])
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		for _, one := range found[1:] {
			check(one)
		}
	}
}

// A column of one value takes next to no bytes, whatever rows it has: its points are bounded
// by those of the file.
func TestEqualValuesOfParquet(t *testing.T) {
	t.Parallel()
	for rows, refused := range map[int]bool{10_000: false, 40_000: true} {
		const columns = 40
		fields := make([]arrow.Field, columns)
		for i := range fields {
			fields[i] = arrow.Field{Name: fmt.Sprint("c", i), Type: arrow.PrimitiveTypes.Float64}
		}
		b := array.NewRecordBuilder(memory.DefaultAllocator, arrow.NewSchema(fields, nil))
		same := slices.Repeat([]float64{0.5}, rows)
		for i := range fields {
			b.Field(i).(*array.Float64Builder).AppendValues(same, nil)
		}
		record := b.NewRecordBatch()
		path := filepath.Join(t.TempDir(), "t.parquet")
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := pqarrow.WriteTable(array.NewTableFromRecords(record.Schema(), []arrow.RecordBatch{record}), f, int64(rows), parquet.NewWriterProperties(), pqarrow.DefaultWriterProps()); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path)
		if err != nil || info.Size() > 200_000 {
			t.Fatalf("%v, %v", info, err)
		}
		found, err := findParquet(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		run, err := found[0].Read(t.Context())
		if refused {
			if model.CodeOf(err) != model.CodeInvalid || !strings.Contains(err.Error(), "more points than 1048576 and 16 for each of its bytes") {
				t.Errorf("%d rows: %v", rows, err)
			}
		} else if err != nil || run.Points() != uint64(rows*columns) {
			t.Errorf("%d rows: %v", rows, err)
		}
	}
}

// What the library makes of a footer takes many times its bytes.
func TestLargeFootersOfParquet(t *testing.T) {
	t.Parallel()
	records := append([]byte{0x19, 0xfc, 0x81, 0x80, 0x40}, make([]byte, 1<<20+1)...) // a list of 1<<20 + 1 that are empty
	for want, footer := range map[string][]byte{
		"has 17 MiB, at most 16 are read": make([]byte, 17<<20),
		"has more than 1048576 records":   append(records, 0),
	} {
		path := filepath.Join(t.TempDir(), "t.parquet")
		text := append([]byte("PAR1"), footer...)
		text = append(binary.LittleEndian.AppendUint32(text, uint32(len(footer))), "PAR1"...)
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := findParquet(t.Context(), path, Options{}); model.CodeOf(err) != model.CodeInvalid || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
