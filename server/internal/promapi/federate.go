package promapi

import (
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/timestamp"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
)

// textFormat is that of Prometheus, version 0.0.4.
const textFormat = "text/plain; version=0.0.4; charset=utf-8"

// federate writes the last sample of each series that is selected, with its time, unless it
// is older than the lookback.
func federate(q *request) error {
	selectors, err := matches(q.Request, true)
	if err != nil {
		return err
	}
	now := timestamp.FromTime(q.handler.options.Now())
	hints := &storage.SelectHints{Start: now - q.lookback.Milliseconds() + 1, End: now}
	var all []*series
	for _, s := range selectors {
		found, err := q.selectAll(q.Context(), s, hints)
		if err != nil {
			return failed(err)
		}
		all = append(all, found...)
	}
	slices.SortFunc(all, func(a, b *series) int {
		if c := strings.Compare(a.labels.Get(labelName), b.labels.Get(labelName)); c != 0 {
			return c
		}
		return labels.Compare(a.labels, b.labels)
	})
	all = slices.CompactFunc(all, func(a, b *series) bool { return labels.Equal(a.labels, b.labels) })
	w := q.write(textFormat)
	last := ""
	for _, s := range all {
		all := &samples{series: s}
		end := all.Get(all.Len() - 1)
		at, v := end.T(), end.F()
		if value.IsStaleNaN(v) { // the format has none
			continue
		}
		name := s.labels.Get(labelName)
		if name != last {
			w.raw("# TYPE " + name + " untyped\n")
			last = name
		}
		w.raw(name)
		w.exposed(s.labels)
		w.raw(" " + number(v) + " " + strconv.FormatInt(at, 10) + "\n")
	}
	return nil
}

// exposed writes labels as the text format has them. As in Prometheus a series without an
// instance has an empty one, so that who scrapes does not add its own.
func (w writer) exposed(of labels.Labels) {
	separator := "{"
	one := func(name, text string) {
		w.raw(separator + name + `="` + escaper.Replace(text) + `"`)
		separator = ","
	}
	of.Range(func(l labels.Label) {
		if l.Name != labelName {
			one(l.Name, strings.ToValidUTF8(l.Value, "\ufffd"))
		}
	})
	if of.Get("instance") == "" {
		one("instance", "")
	}
	w.raw("}")
}

var escaper = strings.NewReplacer(`\`, `\\`, "\n", `\n`, `"`, `\"`)

// number is a value in the text format: NaN, +Inf and -Inf are words.
func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }
