package importer

import (
	"context"
	"encoding/base64"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// CSVOptions name columns; empty ones are looked for by their usual names.
type CSVOptions struct {
	Step, Time string
}

// The usual names, in the order of preference.
var (
	csvSteps = []string{"step", "_step", "global_step", "iteration", "iter", "update", "batch", "epoch"}
	csvTimes = []string{"time_ns", "timestamp_ns", "timestamp_ms", "timestamp", "_timestamp", "wall_time", "time", "datetime", "date"}
)

// findCSV takes a file as one run, named as the file.
func findCSV(_ context.Context, path string, opts Options) ([]Found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look for a CSV file: %w", err)
	}
	if info.IsDir() {
		return nil, model.Errorf(model.CodeInvalid, "%s is a folder", path).WithHint("give CSV files, for example %s", filepath.Join(path, "*.csv"))
	}
	base := filepath.Base(path)
	name := strings.TrimSuffix(base, filepath.Ext(base))
	return []Found{{Key: base, Name: CleanRunName(name), Read: func(ctx context.Context) (*Run, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		run, err := readCSV(ctx, f, base, info.ModTime(), opts.CSV)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return run, nil
	}}}, nil
}

// table is a CSV file while it is read: one point a cell (wide), or one a row
// with the columns metric and value (long, as `kymogram export` writes it).
type table struct {
	*builder
	file          string
	header        []string
	step, time    int // columns, -1 without
	metric, value int
	scale, labels int
	kind          int
	rows, line    int64
	written       int64
	axes          []int // columns of axes beside the step
}

// readCSV reads a table; written is the time of points where no column has one.
func readCSV(ctx context.Context, r io.Reader, file string, written time.Time, opts CSVOptions) (*Run, error) {
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.ReuseRecord, in.LazyQuotes = -1, true, true
	first, err := in.Read()
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "it has no line of column names").WithHint("the first line names the columns: step,loss,accuracy")
	}
	t, err := newTable(file, slices.Clone(first), written, opts)
	if err != nil {
		return nil, err
	}
	for {
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			t.damage(file, in.InputOffset(), "line %d: %v", bad.Line, bad.Err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if t.rows++; t.rows%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		line, _ := in.FieldPos(0)
		t.line = int64(line)
		t.row(row)
	}
	run := t.done()
	run.spanPoints()
	return run, nil
}

func newTable(file string, header []string, written time.Time, opts CSVOptions) (*table, error) {
	for i, name := range header {
		header[i] = strings.TrimSpace(strings.TrimPrefix(name, "\ufeff"))
	}
	t := &table{builder: newBuilder(), file: file, header: header, written: written.UnixNano()}
	var errStep, errTime error
	t.step, errStep = column(header, opts.Step, csvSteps)
	t.time, errTime = column(header, opts.Time, csvTimes)
	if err := errors.Join(errStep, errTime); err != nil {
		return nil, err
	}
	t.metric, t.value = slices.Index(header, "metric"), slices.Index(header, "value")
	for _, axis := range model.Axes()[1:] {
		if i := slices.Index(header, string(axis)); i >= 0 && i != t.step && t.long() {
			t.axes = append(t.axes, i)
		}
	}
	t.scale, t.labels, t.kind = slices.Index(header, "scale"), slices.Index(header, "labels"), slices.Index(header, "kind")
	return t, nil
}

// column is the place of a named column, or of the first usual one.
func column(header []string, named string, usual []string) (int, error) {
	if named != "" {
		if i := slices.Index(header, named); i >= 0 {
			return i, nil
		}
		return -1, model.Errorf(model.CodeInvalid, "there is no column %q", named).WithHint("the columns are %s", strings.Join(header, ", "))
	}
	for _, name := range usual {
		if i := slices.IndexFunc(header, func(h string) bool { return strings.EqualFold(h, name) }); i >= 0 {
			return i, nil
		}
	}
	return -1, nil
}

func (t *table) long() bool { return t.metric >= 0 && t.value >= 0 }

func (t *table) row(row []string) {
	step, ok := t.stepOf(row)
	if !ok {
		t.damage(t.file, -1, "line %d: the step is no whole number", t.line)
		return
	}
	when, ok := t.timeOf(row)
	if !ok {
		t.damage(t.file, -1, "line %d: the time is none", t.line)
		return
	}
	if t.long() {
		t.longRow(row, step, when)
		return
	}
	for i, cell := range row {
		if i != t.step && i != t.time && i < len(t.header) && t.header[i] != "" {
			t.wide(t.header[i], step, when, strings.TrimSpace(cell))
		}
	}
	if len(row) > len(t.header) {
		t.skip("cells beyond the last column")
	}
}

// wide logs a cell: a number, else a text; an empty one is no point.
func (t *table) wide(name string, step, timeNs int64, cell string) {
	if cell == "" {
		return
	}
	if value, ok := number(cell); ok {
		t.float(name, step, timeNs, value)
	} else {
		t.text(name, step, timeNs, cell)
	}
}

// number reads what trackers and spreadsheets write for numbers.
func number(cell string) (float64, bool) {
	if strings.ContainsAny(cell, "_xX") {
		return 0, false
	}
	value, err := strconv.ParseFloat(cell, 64)
	if errors.Is(err, strconv.ErrRange) {
		err = nil // 0 or an infinity
	}
	if err == nil {
		return value, true
	}
	switch strings.ToLower(cell) {
	case "true":
		return 1, true
	case "false":
		return 0, true
	}
	return 0, false
}

// longRow logs one row of `kymogram export --format csv`.
func (t *table) longRow(row []string, step, timeNs int64) {
	cell := func(i int) string {
		if i < 0 || i >= len(row) {
			return ""
		}
		return row[i]
	}
	metric, value := unquoteFormula(cell(t.metric)), cell(t.value)
	if metric == "" {
		t.damage(t.file, -1, "line %d: no metric", t.line)
		return
	}
	if slices.ContainsFunc(t.axes, func(i int) bool { return cell(i) != "" }) {
		t.skip("axes beside the step: the points keep their step and time")
	}
	labels := map[string]string{}
	if text := cell(t.labels); text != "" {
		if err := json.Unmarshal([]byte(text), &labels); err != nil {
			t.damage(t.file, -1, "line %d: the labels are no JSON object of texts", t.line)
			return
		}
	}
	kind := map[string]model.Kind{"int64": model.KindInt, "text": model.KindText, "histogram": model.KindHistogram, "scatter": model.KindScatter}[cell(t.kind)]
	if kind == 0 {
		kind = model.KindFloat
	}
	if !t.typed(kind, model.NewSeriesKey(clean(metric, maxMetric), cell(t.scale), labels), step, timeNs, value) {
		t.damage(t.file, -1, "line %d: the value is no %s", t.line, kind)
	}
}

// typed logs a value of a kind; false when it is none.
func (t *table) typed(kind model.Kind, key model.SeriesKey, step, timeNs int64, cell string) bool {
	var float float64
	var whole int64
	var doc []byte
	ok := true
	switch kind {
	case model.KindFloat:
		float, ok = number(cell)
	case model.KindInt:
		var err error
		whole, err = strconv.ParseInt(cell, 10, 64)
		ok = err == nil
	case model.KindText:
		doc = []byte(unquoteFormula(cell))
	default:
		doc = document(cell)
		ok = model.CheckDocument(kind, doc) == nil
	}
	if !ok || len(doc) > maxDocument {
		return false
	}
	s := t.at(key, kind, step, timeNs)
	if s == nil {
		return true // counted there
	}
	switch kind {
	case model.KindFloat:
		s.Floats = append(s.Floats, float)
	case model.KindInt:
		s.Ints = append(s.Ints, whole)
	default:
		s.Docs = append(s.Docs, doc)
	}
	return true
}

// document is a histogram or scatter: its JSON, or that in base64, as export
// writes it.
func document(cell string) []byte {
	if doc, err := base64.StdEncoding.DecodeString(cell); err == nil && json.Valid(doc) {
		return doc
	}
	return []byte(cell)
}

// unquoteFormula takes away the apostrophe that export puts before a text which
// a spreadsheet would take for a formula.
func unquoteFormula(cell string) string {
	if len(cell) > 1 && cell[0] == '\'' && strings.ContainsRune("=+-@\t\r'", rune(cell[1])) {
		return cell[1:]
	}
	return cell
}

// stepOf is the row's step; without a column its number.
func (t *table) stepOf(row []string) (int64, bool) {
	if t.step < 0 || t.step >= len(row) || strings.TrimSpace(row[t.step]) == "" {
		return t.rows - 1, t.step < 0
	}
	text := strings.TrimSpace(row[t.step])
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64) // 7.0, as pandas writes it
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
}

// timeOf is the row's time: Unix seconds, ms, µs or ns by its size, or a date.
func (t *table) timeOf(row []string) (int64, bool) {
	if t.time < 0 {
		return t.written, true
	}
	if t.time >= len(row) {
		return 0, false
	}
	text, name := strings.TrimSpace(row[t.time]), strings.ToLower(t.header[t.time])
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case strings.HasSuffix(name, "_ns"):
			return n, true
		case strings.HasSuffix(name, "_ms") && n > -maxStep/1_000_000 && n < maxStep/1_000_000:
			return n * 1_000_000, true
		}
		return unixTime(n), true
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e11 {
		return seconds(f), true
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02 15:04:05.999999999", "2006-01-02T15:04:05.999999999", time.DateOnly} {
		if when, err := time.Parse(layout, text); err == nil {
			return when.UnixNano(), true
		}
	}
	return 0, false
}

// unixTime tells the unit of a time by its size: as seconds none is above the
// year 5138.
func unixTime(n int64) int64 {
	for _, unit := range []int64{1e9, 1e6, 1e3} {
		if n > -maxStep/unit && n < maxStep/unit && n < 1e11*(1e9/unit) {
			return n * unit
		}
	}
	return n
}
