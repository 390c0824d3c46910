package importer

import (
	"cmp"
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
	Step, Time, Run string
	Config          []string  // columns of the configuration
	Start           time.Time // where relative times begin; zero: they end when the file was written
}

// findCSV takes a file as one run, named as the file, or as the runs that a
// column or its column names tell of.
func findCSV(ctx context.Context, path string, opts Options) ([]Found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("look for a CSV file: %w", err)
	}
	if info.IsDir() {
		return nil, model.Errorf(model.CodeInvalid, "%s is a folder", path).WithHint("give CSV files, for example %s", filepath.Join(path, "*.csv"))
	}
	base := filepath.Base(path)
	parse := func(ctx context.Context, headerOnly bool) (*sheet, error) {
		f, err := os.Open(path)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		s, err := readCSV(ctx, f, base, info.ModTime(), opts.CSV, headerOnly)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
		return s, nil
	}
	s, err := parse(ctx, true)
	if err != nil {
		return nil, err
	}
	name := CleanRunName(strings.TrimSuffix(base, filepath.Ext(base)))
	if !s.severalRuns() {
		return []Found{{Key: base, Name: name, Read: func(ctx context.Context) (*Run, error) {
			s, err := parse(ctx, false)
			if err != nil {
				return nil, err
			}
			return s.only(), nil
		}}}, nil
	}
	if s, err = parse(ctx, false); err != nil {
		return nil, err
	}
	if len(s.order) <= 1 && !s.names && opts.CSV.Run == "" {
		return []Found{{Key: base, Name: name, Read: func(context.Context) (*Run, error) { return s.only(), nil }}}, nil
	}
	found := make([]Found, 0, len(s.order))
	for _, run := range s.order {
		found = append(found, Found{Key: base + "#" + run, Name: CleanRunName(run), Read: func(context.Context) (*Run, error) { return s.run(run), nil }})
	}
	return found, nil
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
	order   []string // the runs, as they come

	line     int64
	timed    bool // a time was read, so it is known whether times are
	relative bool // seconds since some start
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
	in := csv.NewReader(r)
	in.FieldsPerRecord, in.ReuseRecord, in.LazyQuotes = -1, true, true
	first, err := in.Read()
	if err != nil {
		return nil, model.Errorf(model.CodeInvalid, "it has no line of column names").WithHint("the first line names the columns: step,loss,accuracy")
	}
	s := &sheet{file: file, written: written.UnixNano(), start: opts.Start, tables: map[string]*table{}}
	if s.layout, err = newLayout(slices.Clone(first), opts); err != nil || headerOnly {
		return s, err
	}
	for rows := 0; ; rows++ {
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
		if err != nil {
			return nil, err
		}
		line, _ := in.FieldPos(0)
		s.line = int64(line)
		s.row(row)
	}
	s.finish()
	return s, nil
}

// table is that of a run; what belongs to no run is kept by the first.
func (s *sheet) table(run string) *table {
	if run == "" && s.severalRuns() && len(s.order) > 0 {
		run = s.order[0]
	}
	t := s.tables[run]
	if t == nil {
		t = &table{builder: newBuilder(), sheet: s, config: map[string]string{}}
		s.tables[run] = t
		s.order = append(s.order, run)
	}
	return t
}

// finish turns relative times into times and moves what came before the first
// run's name to that run.
func (s *sheet) finish() {
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
		for n := 2; s.tables[name] != nil; n++ {
			name = cell(row, s.runs) + "-" + strconv.Itoa(n)
		}
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

// place is a row's step and time.
func (t *table) place(row []string) (step, when int64, ok bool) {
	if step, ok = t.stepOf(row); !ok {
		t.damage(t.sheet.file, -1, "line %d: the step is no whole number", t.sheet.line)
		return 0, 0, false
	}
	if when, ok = t.sheet.timeOf(row); !ok {
		t.damage(t.sheet.file, -1, "line %d: the time is none", t.sheet.line)
	}
	t.rows++
	return step, when, ok
}

func (t *table) wideRow(row []string, step, when int64) {
	if t.sheet.each { // its facts first: they tell the time of its numbers
		for i := range t.sheet.columns {
			t.fact(&t.sheet.columns[i], cell(row, i))
		}
		if t.run.EndedNs == 0 && t.run.StartedNs != 0 {
			t.run.EndedNs = t.run.StartedNs + t.runtime
		}
		if t.sheet.time < 0 {
			when = cmp.Or(t.run.EndedNs, t.run.StartedNs, when)
		}
	}
	for i := range t.sheet.columns {
		switch c := &t.sheet.columns[i]; c.role {
		case roleConfig:
			t.setting(c.name, cell(row, i))
		case roleMetric:
			t.wide(c.name, step, when, cell(row, i))
		case roleUnnamed:
			if cell(row, i) != "" {
				t.skip("cells of columns without a name")
			}
		}
	}
	if len(row) > len(t.sheet.columns) {
		t.skip("cells beyond the last column")
	}
}

// chartRow reads a row of W&B's export of a chart: a column a run and metric.
func (s *sheet) chartRow(row []string) {
	placed := map[string][2]int64{}
	for i := range s.columns {
		c := &s.columns[i]
		text := cell(row, i)
		if c.role != roleMetric || text == "" {
			continue
		}
		t := s.table(c.run)
		at, known := placed[c.run]
		if !known {
			step, when, ok := t.place(row)
			if own, found := s.steps[c.run]; found {
				if n, whole := wholeNumber(cell(row, own)); whole {
					step = n
				}
			}
			if !ok {
				return
			}
			at = [2]int64{step, when}
			placed[c.run] = at
		}
		if c.of >= 0 && text == cell(row, c.of) {
			continue // the least and the most of one point
		}
		t.wide(c.name, at[0], at[1], text)
	}
}

// fact takes what a table of runs says of a run beside numbers.
func (t *table) fact(c *csvColumn, text string) {
	if text == "" {
		return
	}
	switch c.role {
	case roleName:
		t.run.DisplayName = CleanRunName(text)
	case roleNotes:
		t.run.Description = model.CutBytes(strings.ToValidUTF8(text, "\ufffd"), maxText)
	case roleTags:
		for tag := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
			t.tag(strings.Trim(tag, " '\""))
		}
	case roleStatus:
		t.run.Failed = t.run.Failed || slices.Contains(csvFailed, strings.ToLower(text))
		t.attribute("import/status", model.StringValue(text))
	case roleStarted, roleEnded:
		when, relative, ok := timestamps(c.name, text)
		switch {
		case !ok || relative:
			t.attribute("import/"+c.name, model.StringValue(text))
		case c.role == roleStarted:
			t.run.StartedNs = when
		default:
			t.run.EndedNs = when
		}
	case roleRuntime:
		if when, relative, ok := timestamps(c.name, text); ok && relative {
			t.runtime = when
		}
	case roleAttribute:
		t.attribute(c.name, model.StringValue(text))
	case roleMetric:
		if _, ok := number(text); !ok {
			t.setting(c.name, text)
		}
	}
}

// setting is a value of the configuration, which a run has one of.
func (t *table) setting(name, text string) {
	if text == "" {
		return
	}
	if before, known := t.config[name]; known {
		if before != text {
			t.skip(fmt.Sprintf("later values of the configuration %q: the first is kept", name))
		}
		return
	}
	t.config[name] = text
	value := model.StringValue(text)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		value = model.IntValue(n)
	} else if f, ok := number(text); ok {
		value = model.FloatValue(f)
		if b, err := strconv.ParseBool(strings.ToLower(text)); err == nil {
			value = model.BoolValue(b)
		}
	}
	t.attribute("config/"+strings.Trim(name, "/"), value)
}

// wide logs a cell: a number, else a text; an empty one is no point. A column
// keeps its kind: among texts a number is one, texts among numbers go beside.
func (t *table) wide(name string, step, timeNs int64, text string) {
	if text == "" {
		return
	}
	value, isNumber := number(text)
	known := t.series[plain(name).String()]
	switch {
	case isNumber && (known == nil || known.Kind == model.KindFloat):
		t.float(name, step, timeNs, value)
	case t.sheet.each:
		// It is in the configuration.
	case known != nil && known.Kind == model.KindFloat:
		t.text(name+"/text", step, timeNs, text)
	default:
		t.text(name, step, timeNs, text)
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

// longRow logs one row of `kymogram export --format csv`, or of a table with a
// metric and a value in each row.
func (t *table) longRow(row []string, step, timeNs int64) {
	s := t.sheet
	metric, value := unquoteFormula(cell(row, s.metric)), rawCell(row, s.value)
	kind, known := csvKinds[cell(row, s.kind)]
	if s.value < 0 { // a column a type
		value, kind, known = s.typedValue(row)
		if !known {
			t.skip("values of the type " + strconv.Quote(cell(row, s.kind)))
			return
		}
		if !strings.HasSuffix(cell(row, s.kind), "_series") {
			t.single(metric, cell(row, s.kind), value)
			return
		}
	}
	if metric == "" {
		t.damage(s.file, -1, "line %d: no metric", s.line)
		return
	}
	if !known {
		kind = model.KindFloat
	}
	if slices.ContainsFunc(s.axes, func(i int) bool { return cell(row, i) != "" }) {
		t.skip("axes beside the step: the points keep their step and time")
	}
	labels := map[string]string{}
	if text := cell(row, s.labels); text != "" {
		if err := json.Unmarshal([]byte(text), &labels); err != nil {
			t.damage(s.file, -1, "line %d: the labels are no JSON object of texts", s.line)
			return
		}
	}
	if !t.typed(kind, model.NewSeriesKey(clean(metric, maxMetric), cell(row, s.scale), labels), step, timeNs, value) {
		t.damage(s.file, -1, "line %d: the value is no %s", s.line, kind)
	}
}

// single is a value that a run has one of, as Neptune's exporter writes it.
func (t *table) single(path, kind, text string) {
	switch path {
	case "sys/name":
		t.run.DisplayName = CleanRunName(text)
	case "sys/description":
		t.run.Description = model.CutBytes(strings.ToValidUTF8(text, "\ufffd"), maxText)
	case "sys/failed":
		t.run.Failed = strings.EqualFold(text, "true")
	case "sys/creation_time":
		t.run.StartedNs, _, _ = timestamps(path, text)
	case "sys/tags":
		for tag := range strings.SplitSeq(strings.Trim(text, "[]"), ",") {
			t.tag(strings.Trim(tag, " '\""))
		}
		return
	}
	for _, prefix := range csvConfig {
		if name, ok := strings.CutPrefix(path, prefix); ok {
			t.setting(name, text)
			return
		}
	}
	value := model.StringValue(text)
	switch n, ok := number(text); {
	case !ok || kind == "string" || kind == "string_set":
	case kind == "bool":
		value = model.BoolValue(n == 1)
	case kind == "int":
		value = model.IntValue(int64(n))
	case kind == "float":
		value = model.FloatValue(n)
	}
	t.attribute(path, value)
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
	text := cell(row, t.sheet.step)
	if text == "" {
		return t.rows, t.sheet.step < 0 || t.sheet.value < 0 && t.sheet.long()
	}
	return wholeNumber(text)
}

// wholeNumber reads 7, and 7.0 as pandas writes it.
func wholeNumber(text string) (int64, bool) {
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		return n, true
	}
	f, err := strconv.ParseFloat(text, 64)
	return int64(f), err == nil && f == math.Trunc(f) && math.Abs(f) < 1<<53
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
	s.timed, s.relative, s.latest = true, relative, max(s.latest, when)
	return when, true
}

// timestamps reads Unix seconds, ms, µs or ns by their size, a date, or a
// relative time: seconds below 3 years, or 1:02:03.5.
func timestamps(column, text string) (ns int64, relative, ok bool) {
	name := strings.ToLower(column)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		switch {
		case strings.HasSuffix(name, "_ns"):
			return n, false, true
		case strings.HasSuffix(name, "_ms") && n > -maxStep/1_000_000 && n < maxStep/1_000_000:
			return n * 1_000_000, false, true
		case n < relativeBelow && n > -relativeBelow:
			return n * 1e9, true, true
		}
		return unixTime(n), false, true
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e18 {
		switch {
		case math.Abs(f) < relativeBelow:
			return seconds(f), true, true
		case math.Abs(f) < 1e11:
			return seconds(f), false, true
		}
		return unixTime(int64(f)), false, true
	}
	for _, layout := range csvDates {
		if when, err := time.Parse(layout, text); err == nil {
			return when.UnixNano(), false, true
		}
	}
	var days, hours, minutes int64
	var rest float64
	before, clock, found := strings.Cut(text, " days ") // as pandas writes it
	if !found {
		before, clock = "0", text
	}
	days, err := strconv.ParseInt(before, 10, 32)
	n, _ := fmt.Sscanf(clock, "%d:%d:%g", &hours, &minutes, &rest)
	if err != nil || n < 3 || days < 0 || days > 10_000 || hours < 0 || hours > 10_000 || minutes < 0 || minutes > 59 || !(rest >= 0 && rest < 60) {
		return 0, false, false
	}
	return ((days*24+hours)*60+minutes)*60e9 + seconds(rest), true, true
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
