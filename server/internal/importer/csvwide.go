package importer

import (
	"cmp"

	"github.com/kymogram/kymogram/internal/model"
)

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

// wide logs a cell: a number, else a text; an empty one is no point. A column
// keeps its kind: among texts a number is one, texts among numbers go beside.
func (t *table) wide(name string, step, timeNs int64, text string) {
	if text == "" {
		return
	}
	if isMissing(text) {
		t.skipOf("cells without a value ("+text+")", name)
		return
	}
	value, isNumber := number(text)
	t.sheet.numbers = t.sheet.numbers || isNumber
	known := t.series[plain(name).String()]
	switch {
	case isNumber && (known == nil || known.Kind == model.KindFloat):
		t.number(name, step, timeNs, text, value)
	case t.sheet.each:
		// It is in the configuration.
	case known != nil && known.Kind == model.KindFloat:
		if t.series[plain(name+"/text").String()] == nil { // the first of the column
			t.damage(t.sheet.file, -1, "line %d: %q in the column %s is no number; such cells are kept as the text %s/text", t.sheet.line, model.Clip(text), clean(name, maxShown), clean(name, maxShown))
		}
		t.text(name+"/text", step, timeNs, text)
	default:
		t.text(name, step, timeNs, text)
	}
}
