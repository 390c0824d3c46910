package importer

import (
	"bufio"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// CSVOptions name columns; empty ones are looked for by their usual names.
type CSVOptions struct {
	Step, Time, Run string
	Config          []string  // columns of the configuration
	Start           time.Time // where relative times begin; zero: they end when the file was written
}

// findCSV takes a file as one run, named as the file, or as the runs that a
// column or its column names tell of.
func findCSV(ctx context.Context, path string, opts Options) ([]Found, error) {
	info, err := regular(path)
	if err != nil {
		return nil, fmt.Errorf("look for a CSV file: %w", err)
	}
	if info.IsDir() {
		return nil, model.Errorf(model.CodeInvalid, "%s is a folder", path).WithHint("give CSV files, for example %s", filepath.Join(path, "*.csv"))
	}
	base := filepath.Base(path)
	return findTable(ctx, path, info.Size(), opts, func(ctx context.Context, headerOnly bool) (*sheet, error) {
		in, file, err := opts.unpacked(ctx, path)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		return readCSV(ctx, in, base, info.ModTime(), opts.CSV, headerOnly)
	})
}

// findTable finds the runs of a table; parse reads it, or the names of its columns.
func findTable(ctx context.Context, path string, size int64, opts Options, parse func(context.Context, bool) (*sheet, error)) ([]Found, error) {
	named := func(ctx context.Context, headerOnly bool) (*sheet, error) {
		s, err := parse(ctx, headerOnly)
		return s, of(path, err)
	}
	s, err := named(ctx, true)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(path)
	name := CleanRunName(stem(base))
	if !s.severalRuns() {
		return []Found{{Key: base, Name: name, Bytes: size, Read: func(ctx context.Context) (*Run, error) {
			s, err := named(ctx, false)
			if err != nil {
				return nil, err
			}
			return s.only(), nil
		}}}, nil
	}
	if s, err = named(ctx, false); err != nil {
		return nil, err
	}
	found := make([]Found, 0, len(s.order))
	for _, run := range s.order {
		found = append(found, Found{Key: base + "#" + run, Name: CleanRunName(run), Also: name, Read: func(context.Context) (*Run, error) { return s.run(run), nil }})
	}
	if len(found) == 1 && !s.names && !s.each && opts.CSV.Run == "" { // it may hold more when it has grown
		found[0].Name, found[0].Also = name, found[0].Name
	}
	return found, nil
}

// of names the file of an error, once.
func of(path string, err error) error {
	var e *model.Error
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		named := *e
		named.Message = path + ": " + e.Message
		return &named
	case errors.As(err, new(*fs.PathError)):
		return fmt.Errorf("read a table: %w", err) // it names the file
	}
	return fmt.Errorf("read %s: %w", path, err)
}

// stem is a file's name without what says how it is written.
func stem(base string) string {
	for _, end := range []string{".gz", ".zst", ".bz2", ".xz", ".zip"} {
		base = strings.TrimSuffix(base, end)
	}
	if short := strings.TrimSuffix(base, filepath.Ext(base)); short != "" {
		return short
	}
	return base
}

// sheet is a CSV file while it is read. A row holds a point a cell (wide), one
// point with the columns metric and value (long, as `kymogram export` writes it),
// or a whole run (a table of runs, as trackers export it).
type sheet struct {
	layout
	file    string
	written int64
	start   time.Time
	tables  map[string]*table
	order   []string   // the runs, as they come
	texts   *allowance // of all runs
	points  *allowance // of all runs

	rows     int64
	numbers  bool // a cell is a number
	line     int64
	timed    bool  // a time was read, so it is known whether times are
	relative bool  // seconds since some start
	before   int64 // the time of the row before
	latest   int64
}

// table is what a sheet tells of one run.
type table struct {
	*builder
	sheet   *sheet
	rows    int64
	runtime int64
	config  map[string]string // cells
}

// readCSV reads a sheet; written is the time of points where no column has one.
func readCSV(ctx context.Context, r io.Reader, file string, written time.Time, opts CSVOptions, headerOnly bool) (*sheet, error) {
	guard := &rowGuard{Reader: utf8Text(r)}
	buffered := bufio.NewReaderSize(guard, headBytes)
	separator, err := separatorOf(buffered)
	if err != nil {
		return nil, err
	}
	in := csv.NewReader(buffered)
	in.Comma, in.FieldsPerRecord, in.ReuseRecord, in.LazyQuotes = separator, -1, true, true
	first, err := in.Read()
	if err != nil {
		return nil, noHeader(err)
	}
	s, err := newSheet(slices.Clone(first), file, written, opts)
	if err != nil || headerOnly {
		return s, err
	}
	for rows := 0; ; rows++ {
		guard.bytes = 0
		row, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if rows%1000 == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		var bad *csv.ParseError
		if errors.As(err, &bad) {
			s.table("").damage(file, in.InputOffset(), "line %d: %v", bad.Line, bad.Err)
			continue
		}
		if errors.Is(err, errLongRow) {
			return nil, model.Errorf(model.CodeInvalid, "a row after line %d has more than %d MiB", s.line, maxRow>>20).WithHint("is a quote not closed?")
		}
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		s.line = int64(line)
		if separator != ',' {
			s.decimals(row, separator)
		}
		s.row(row)
	}
	return s, s.finish()
}

func newSheet(header []string, file string, written time.Time, opts CSVOptions) (*sheet, error) {
	s := &sheet{file: file, line: 1, written: written.UnixNano(), start: opts.Start, tables: map[string]*table{}}
	err := checkHeader(header)
	if err == nil {
		s.layout, err = newLayout(header, opts)
	}
	return s, err
}

// table is that of a run; what belongs to no run is kept by the first.
func (s *sheet) table(run string) *table {
	if run == "" && s.severalRuns() && len(s.order) > 0 {
		run = s.order[0]
	}
	t := s.tables[run]
	if t == nil {
		t = &table{builder: newBuilder(), sheet: s, config: map[string]string{}}
		t.texts, t.points = s.texts, s.points
		s.tables[run] = t
		s.order = append(s.order, run)
	}
	return t
}

// finish turns relative times into times and moves what came before the first
// run's name to that run. What holds nothing that could be logged is no table.
func (s *sheet) finish() error {
	if lost := s.tables[""]; lost != nil && len(s.order) > 1 {
		s.order = slices.DeleteFunc(s.order, func(run string) bool { return run == "" })
		first := s.tables[s.order[0]]
		first.run.Damage = append(lost.run.Damage, first.run.Damage...)
	}
	base := int64(0)
	if s.relative {
		if base = s.written - s.latest; !s.start.IsZero() {
			base = s.start.UnixNano()
		}
	}
	for _, t := range s.tables {
		t.end(base)
	}
	return s.isTable()
}

// isTable refuses a text that only looks like a table: one without rows, one of words
// alone, and one of which no row could be read.
func (s *sheet) isTable() error {
	var damage []Damage
	for _, t := range s.tables {
		if len(t.run.Series) > 0 || len(t.run.Attributes) > 0 {
			if s.numbers || s.step >= 0 || s.time >= 0 || s.long() || s.severalRuns() {
				return nil
			}
			return model.Errorf(model.CodeInvalid, "it is no table: none of its %d rows holds a number", s.rows).
				WithHint("name the column of the step with --step-column if it is one of texts")
		}
		damage = append(damage, t.run.Damage...)
	}
	switch {
	case len(damage) > 0:
		return model.Errorf(model.CodeInvalid, "no row can be read: %s", damage[0].Text).WithHint("see kymogram import csv --help for what a row is")
	case s.rows == 0:
		return model.Errorf(model.CodeInvalid, "it has names of columns, and no rows")
	}
	return model.Errorf(model.CodeInvalid, "its %d rows hold no value", s.rows)
}

func (t *table) end(base int64) {
	for _, s := range t.series {
		for i := range s.TimeNs {
			s.TimeNs[i] += base
		}
	}
	t.done().spanPoints()
}

func (s *sheet) run(name string) *Run { return s.tables[name].run }

// only is the run of a file that holds one.
func (s *sheet) only() *Run {
	if len(s.order) == 0 {
		s.table("").end(0)
	}
	return s.run(s.order[0])
}

func (s *sheet) row(row []string) {
	s.rows++
	switch {
	case s.names:
		s.chartRow(row)
		return
	case s.runs >= 0 && cell(row, s.runs) == "":
		s.table("").damage(s.file, -1, "line %d: no name of a run", s.line)
		return
	}
	name := cell(row, s.runs)
	if s.each && s.tables[name] != nil { // names of runs may be the same
		name = s.another(name, row)
	}
	t := s.table(name)
	step, when, ok := t.place(row)
	if !ok {
		return
	}
	if s.long() {
		t.longRow(row, step, when)
		return
	}
	t.wideRow(row, step, when)
}

// another names a further run of a name by when it began, which stays as the table grows,
// else by its place.
func (s *sheet) another(name string, row []string) string {
	for i := range s.columns {
		if began := cell(row, i); s.columns[i].role == roleStarted && began != "" && s.tables[name+" "+began] == nil {
			return name + " " + began
		}
	}
	n := 2
	for s.tables[name+"-"+strconv.Itoa(n)] != nil {
		n++
	}
	return name + "-" + strconv.Itoa(n)
}

// place is a row's step and time.
func (t *table) place(row []string) (step, when int64, ok bool) {
	if step, ok = t.stepOf(row); !ok {
		t.damage(t.sheet.file, -1, "line %d: the step %q is no whole number", t.sheet.line, model.CutBytes(cell(row, t.sheet.step), maxShown))
		return 0, 0, false
	}
	if t.sheet.timed && cell(row, t.sheet.time) == "" && !t.sheet.long() {
		t.skip("times: the points have that of the row before")
		when = t.sheet.before
	} else if when, ok = t.sheet.timeOf(row); !ok {
		t.damage(t.sheet.file, -1, "line %d: %q is no time that is known", t.sheet.line, model.CutBytes(cell(row, t.sheet.time), maxShown))
	}
	t.rows++
	return step, when, ok
}

// stepOf is the row's step; without a column its number.
func (t *table) stepOf(row []string) (int64, bool) {
	text := cell(row, t.sheet.step)
	if text == "" {
		return t.rows, t.sheet.step < 0 || t.sheet.value < 0 && t.sheet.long()
	}
	return wholeNumber(text)
}

// timeOf is the row's time; the first one tells whether the column's are relative.
func (s *sheet) timeOf(row []string) (int64, bool) {
	if s.time < 0 {
		return s.written, true
	}
	text := cell(row, s.time)
	if text == "" && s.value < 0 && s.long() {
		return s.written, true // a value that is no point
	}
	when, relative, ok := timestamps(s.columns[s.time].name, text)
	if !ok || s.timed && relative != s.relative {
		return 0, false
	}
	s.timed, s.relative, s.before, s.latest = true, relative, when, max(s.latest, when)
	return when, true
}
