package tables

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/catalog/filter"
)

// Summaries implements [catalog.Summaries].
func (d *DB) Summaries(ctx context.Context, run model.RunID) ([]catalog.Summary, error) {
	all, err := Collect(ctx, often{d.reader}, d.scanSummary, summariesOfRun, run[:])
	return all, d.failure("read summaries", err)
}

const (
	summariesOf    = `SELECT metric, points, last, least, most FROM summaries WHERE run = `
	summariesOfRun = summariesOf + `(SELECT r.pk FROM ids JOIN runs r ON r.id = ids.run WHERE ids.id = ?)`
)

func (d *DB) scanSummary(rows *sql.Rows) (s catalog.Summary, err error) {
	var last, least, most any
	err = rows.Scan(&s.Metric, &s.Points, &last, &least, &most)
	s.Last, s.Min, s.Max = summaryValue(d.number(last)), summaryValue(d.number(least)), summaryValue(d.number(most))
	if last == nil {
		s.Last = *model.FloatValue(math.NaN())
	}
	return s, err
}

// summaryValue is the zero value for NULL.
func summaryValue(number any) model.Value {
	switch v := number.(type) {
	case int64:
		return *model.IntValue(v)
	case float64:
		return *model.FloatValue(v)
	}
	return model.Value{}
}

func summaryNumber(v *model.Value) Number {
	if v.Type == "" {
		return Number{}
	}
	return Number{sortsBy(v)}
}

// summaryRow is the columns of a summary: points, last, least and most.
func summaryRow(s *catalog.Summary) [4]any {
	return [4]any{int64(s.Points), summaryNumber(&s.Last), summaryNumber(&s.Min), summaryNumber(&s.Max)}
}

// PutSummaries implements [catalog.Summaries]. What is as it was is not written.
func (d *DB) PutSummaries(ctx context.Context, run model.RunID, all []catalog.Summary, at time.Time) error {
	return d.write(ctx, "store summaries", func(tx Tx) error {
		var pk int64
		err := tx.QueryRowContext(ctx, `SELECT r.pk FROM ids JOIN runs r ON r.id = ids.run WHERE ids.id = ?`, run[:]).Scan(&pk)
		if errors.Is(err, sql.ErrNoRows) {
			return nil // purged
		}
		if err != nil {
			return err
		}
		known, err := Collect(ctx, tx, d.scanSummary, summariesOf+`?`, pk)
		if err != nil {
			return err
		}
		if err := replaceSummaries(ctx, tx, pk, known, all); err != nil {
			return err
		}
		return Exec(ctx, tx, `INSERT INTO summarised (run, at_ns) VALUES (?, ?) ON CONFLICT (run) DO UPDATE SET at_ns = excluded.at_ns`, pk, at.UnixNano())
	})
}

func replaceSummaries(ctx context.Context, tx Tx, pk int64, known, all []catalog.Summary) error {
	left := make(map[string][4]any, len(known))
	for i := range known {
		left[known[i].Metric] = summaryRow(&known[i])
	}
	for i := range all {
		row := summaryRow(&all[i])
		was, ok := left[all[i].Metric]
		delete(left, all[i].Metric)
		if ok && was == row {
			continue
		}
		err := Exec(ctx, tx, `INSERT INTO summaries (run, metric, points, last, least, most) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (run, metric) DO UPDATE SET points = excluded.points, last = excluded.last, least = excluded.least, most = excluded.most`,
			append([]any{pk, all[i].Metric}, row[:]...)...)
		if err != nil {
			return err
		}
	}
	for metric := range left {
		if err := Exec(ctx, tx, `DELETE FROM summaries WHERE run = ? AND metric = ?`, pk, metric); err != nil {
			return err
		}
	}
	return nil
}

// Unsummarised implements [catalog.Summaries].
func (d *DB) Unsummarised(ctx context.Context, limit int) ([]model.RunID, error) {
	ids, err := Collect(ctx, d.reader, scanRunID, `SELECT r.id FROM runs r LEFT JOIN summarised s ON s.run = r.pk
		WHERE s.run IS NULL OR s.at_ns <= r.seen_ns ORDER BY r.pk DESC LIMIT ?`, limit)
	return ids, d.failure("look for runs without summaries", err)
}

// summaryColumn is where a value lies.
func summaryColumn(of filter.Aggregate) string {
	switch of {
	case filter.Min:
		return "least"
	case filter.Max:
		return "most"
	}
	return "last"
}

// addSummary compares the last value of the metric that is named, or another aggregate. A
// NaN equals nan only.
func (w *where) addSummary(t filter.Term, steps catalog.Steps) {
	number, ok := parseNumber(t)
	isNaN := !t.Quoted && t.Op == "=" && strings.EqualFold(t.Value, "nan")
	if !ok && !isNaN {
		return
	}
	if isNaN {
		number = nil
	}
	w.addSummaryOf(t, filter.Metric{Name: t.Path, Of: filter.Last}, number)
	if t.Metric == nil {
		return
	}
	m, _ := t.Metric.Resolved() // Parse refuses what is not
	if m.Of == filter.AtStep {
		w.addStep(t.Op, steps[m], number)
		return
	}
	w.addSummaryOf(t, m, number)
}

// addStep compares what the store has at a step.
func (w *where) addStep(op string, values map[model.RunID]float64, number any) {
	limit := math.NaN()
	switch n := number.(type) {
	case int64:
		limit = float64(n)
	case float64:
		limit = n
	}
	var ids []model.RunID
	for id, v := range values {
		if compares(v, op, limit) {
			ids = append(ids, id)
		}
	}
	w.add(`r.id IN (SELECT unhex(value) FROM json_each(?))`, hexList(ids))
}

// hexList is JSON of runs, for json_each and unhex.
func hexList(runs []model.RunID) string {
	ids := make([]string, len(runs))
	for i, id := range runs {
		ids[i] = hex.EncodeToString(id[:])
	}
	list, _ := json.Marshal(ids) // strings always marshal
	return string(list)
}

func compares(v float64, op string, limit float64) bool {
	switch op {
	case "<":
		return v < limit
	case "<=":
		return v <= limit
	case ">":
		return v > limit
	case ">=":
		return v >= limit
	}
	return v == limit || v != v && limit != limit
}

func (w *where) addSummaryOf(t filter.Term, m filter.Metric, number any) {
	column := summaryColumn(m.Of)
	from := chosenIn + `SELECT s.run FROM summaries s INDEXED BY summaries_metric WHERE s.metric = ? AND s.` + column
	if number == nil {
		w.add(from+` IS NULL)`, m.Name)
		return
	}
	w.add(from+` `+sqlOperator(t.Op)+` ?)`, m.Name, Number{number})
}

// bySummary lists runs in the order of a metric's value: first those that have it, then,
// only when the page is not full, those that have not, by age.
type bySummary struct {
	byAttribute
	metric filter.Metric
	steps  map[model.RunID]float64
}

// stepList is JSON of finite values by run, for json_each: each the run in hexadecimal, then
// the value.
func stepList(values map[model.RunID]float64) (string, error) {
	finite := make([]string, 0, len(values))
	for id, v := range values {
		if v-v == 0 {
			finite = append(finite, hex.EncodeToString(id[:])+strconv.FormatFloat(v, 'g', -1, 64))
		}
	}
	list, err := json.Marshal(finite)
	return string(list), err
}

// stepRun and stepValue are the parts of an entry.
const (
	stepRun   = `unhex(substr(v.value, 1, 32))`
	stepValue = `CAST(substr(v.value, 33) AS DOUBLE PRECISION)`
)

// RunsWith implements [catalog.Runs].
func (d *DB) RunsWith(ctx context.Context, workspace, project, metric string) ([]model.RunID, error) {
	ids, err := Collect(ctx, d.reader, scanRunID, `SELECT r.id FROM summaries s INDEXED BY summaries_metric CROSS JOIN runs r ON r.pk = s.run
		WHERE s.metric = ? AND r.project = (SELECT id FROM projects WHERE workspace = ? AND name = ?) AND r.deleted_ns = 0`, metric, workspace, project)
	return ids, d.failure("list the runs with a metric", err)
}

func (b *bySummary) page(ctx context.Context, limit int) (page []listed, err error) {
	if b.after == nil || b.after.Type != "n" {
		s, err := b.stream()
		if err != nil {
			return nil, err
		}
		if page, err = Collect(ctx, b.db.reader, b.room.keyed(b.read()), s.query, append(s.args, limit)...); err != nil || len(page) == limit {
			return page, err
		}
	}
	w := &where{}
	if b.metric.Of == filter.AtStep {
		list, err := stepList(b.steps)
		if err != nil {
			return nil, err
		}
		w.add(`r.id NOT IN (SELECT `+stepRun+` FROM json_each(?) v)`, list)
	} else {
		w.add(`NOT EXISTS (SELECT 1 FROM summaries s WHERE s.run = r.pk AND s.metric = ? AND s.`+summaryColumn(b.metric.Of)+` IS NOT NULL)`, b.metric.Name)
	}
	rest, err := b.without(ctx, w, limit-len(page))
	return append(page, rest...), err
}

// read makes a number of what [bySummary.stream] reads.
func (b *bySummary) read() func(any) any {
	if b.metric.Of == filter.AtStep {
		return asIs
	}
	return b.db.number
}

// stream chooses the page along the metric's part of the index, and reads only its runs.
func (b *bySummary) stream() (statement, error) {
	key := "s." + summaryColumn(b.metric.Of)
	from, w := `summaries s INDEXED BY summaries_metric`, &where{}
	if b.metric.Of == filter.AtStep {
		from, key = `json_each(?) v CROSS JOIN summaries s ON TRUE`, stepValue
		list, err := stepList(b.steps)
		if err != nil {
			return statement{}, err
		}
		w.args = append(w.args, list)
		w.add(`s.run = (SELECT pk FROM runs WHERE id = ` + stepRun + `)`)
	}
	w.add(`s.metric = ?`, b.metric.Name)
	w.add(key + ` IS NOT NULL`)
	if b.after != nil {
		after, err := b.after.key()
		if _, isNumber := float(after); err != nil || !isNumber {
			return statement{}, errCursor()
		}
		if b.metric.Of != filter.AtStep {
			after = Number{after}
		}
		w.add(`(`+key+`, s.run)`+b.order.beyond()+`(?, ?)`, after, b.after.PK)
	}
	w.add(b.runs.orTrue(), b.runs.args...)
	return statement{`SELECT ` + runColumns + `, t.key FROM (SELECT s.run, ` + key + ` AS key FROM ` + from + ` CROSS JOIN runs r ON r.pk = s.run
		WHERE ` + w.String() + ` ORDER BY ` + key + b.order.direction() + `, s.run` + b.order.direction() + ` LIMIT ?) t
		CROSS JOIN runs r ON r.pk = t.run JOIN projects p ON p.id = r.project ORDER BY ` + b.order.listed(), w.args}, nil
}
