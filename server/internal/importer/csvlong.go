package importer

import (
	"encoding/base64"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
)

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
		t.skip("axes other than the step: the points keep their step and time")
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
		if whole, err := strconv.ParseInt(text, 10, 64); err == nil {
			value = model.IntValue(whole)
		}
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

// typedValue is the value of a row of Neptune's exporter, and its kind.
func (l *layout) typedValue(row []string) (text string, kind model.Kind, ok bool) {
	name := strings.TrimSuffix(cell(row, l.kind), "_series")
	i, found := l.typed[name]
	if !found {
		return "", 0, false
	}
	switch name {
	case "float":
		kind = model.KindFloat
	case "int":
		kind = model.KindInt
	case "string":
		kind = model.KindText
	case "bool", "datetime", "string_set":
		kind = model.KindText // no series
	default:
		return "", 0, false
	}
	return rawCell(row, i), kind, true
}
