package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

// toldRun is what the test logged of a run: the oracle of the tools.
type toldRun struct {
	name, id, status string
	config           object // of bool, int64, float64, string
	tags             []string
	loss             []float64 // at the steps 0, 1, …
}

// toldPoint is a point of the long run's curve.
type toldPoint struct {
	step, epoch, ns int64
	value           float64
	attempt         int
}

// told is all that was logged.
type told struct {
	random   *rand.Rand
	projects map[string]int
	many     []*toldRun // of lab/many, in the order in which they were made
	long     *toldRun   // lab/few/long
	last     object     // of its metrics without labels
	curve    []toldPoint
	hidden   []toldPoint // that a later attempt overrides
	notes    []string
}

const (
	toldRuns, toldConfig, toldMetrics   = 24, 250, 118
	toldAttempts, toldWriters           = 22, 52
	toldCurve, toldAgain, toldDocuments = 2_500, 300, 60
	toldStart                           = 1_700_000_000
)

// logAll logs what the tools are asked for.
func (b *told) logAll(k *kitchen) {
	conn := k.dial()
	for i := range toldRuns {
		run := &toldRun{name: fmt.Sprintf("r%02d", i), config: object{"lr": b.odd(), "whole": b.random.Int64() - b.random.Int64(), "text": strings.Repeat("x", b.random.IntN(600)), "flag": b.random.IntN(2) == 0}}
		for _, name := range slices.Sorted(maps.Keys(run.config)) {
			if b.random.IntN(4) == 0 {
				delete(run.config, name)
			}
		}
		for _, tag := range []string{"base", "deep"} {
			if b.random.IntN(2) == 0 {
				run.tags = append(run.tags, tag)
			}
		}
		w := k.open(conn, b.opening("lab", "many", run))
		run.id, run.status = w.run, []string{"running", "finished", "failed"}[b.random.IntN(3)]
		for range 3 {
			run.loss = append(run.loss, b.odd())
		}
		rows := rowsFrom(1, []int64{0, 1, 2}, []int64{1, 2, 3})
		rows.Columns = []*kymogramv1.Column{{Series: 1, Floats: run.loss}}
		w.send(&kymogramv1.Batch{First: 1, Last: 3, Series: []*kymogramv1.SeriesDefinition{definition(1, "loss", 1)}, Groups: []*kymogramv1.RowGroup{rows}})
		if run.status != "running" {
			w.end(4, run.status)
		}
		b.many = append(b.many, run)
	}
	for _, project := range []string{"few", "p1", "p2"} {
		for i := range 1 + b.random.IntN(3) {
			k.open(conn, b.opening("other", project, &toldRun{name: fmt.Sprint(i)}))
		}
	}
	b.logLong(k)
}

// opening opens a run as another job.
func (b *told) opening(workspace, project string, run *toldRun) model.OpenRequest {
	b.projects[workspace+"/"+project]++
	out := model.OpenRequest{Writer: b.writer(), Workspace: workspace, Project: project, RunName: run.name, OrchestrationID: workspace + project + run.name, ResumeStrategy: "never", Host: "box", PID: 7, SDK: "test/1"}
	for name, value := range run.config {
		one := model.Update{Op: model.OpSetAttribute, Path: "config/" + name}
		switch v := value.(type) {
		case bool:
			one.Value = model.BoolValue(v)
		case int64:
			one.Value = model.IntValue(v)
		case float64:
			one.Value = model.FloatValue(v)
		case string:
			one.Value = model.StringValue(v)
		}
		out.Initial = append(out.Initial, one)
	}
	if len(run.tags) > 0 {
		out.Initial = append(out.Initial, model.Update{Op: model.OpSetTags, Tags: run.tags})
	}
	return out
}

func (b *told) writer() (id model.WriterID) {
	for i := range id {
		id[i] = byte(1 + b.random.IntN(255))
	}
	return id
}

func definition(id uint32, metric string, kind uint32) *kymogramv1.SeriesDefinition {
	return &kymogramv1.SeriesDefinition{Id: id, Metric: metric, Scale: "ML_STEP", Kind: kind}
}

// rowsFrom is a group of rows whose records are first, first + 1, … of their batch.
func rowsFrom(first int, steps, ns []int64) *kymogramv1.RowGroup {
	out := &kymogramv1.RowGroup{Axes: []*kymogramv1.AxisColumn{{Axis: 1, Values: steps}}, TimeNs: ns}
	for i := range steps {
		out.Seq = append(out.Seq, uint32(first-1+i))
	}
	return out
}

func (w *opened) end(seq uint64, status string) {
	w.t.Helper()
	text, err := json.Marshal([]model.Update{{Op: model.OpClose, Seq: seq, Text: status, TimeNs: time.Now().UnixNano()}})
	if err != nil {
		w.t.Fatal(err)
	}
	w.send(&kymogramv1.Batch{First: seq, Last: seq, Updates: text})
}

// logLong logs one run that is too long for every answer.
func (b *told) logLong(k *kitchen) {
	conn := k.dial()
	b.long, b.last = &toldRun{name: "long", config: object{}, tags: []string{"long"}, status: "running"}, object{}
	for i := range toldConfig {
		b.long.config[fmt.Sprintf("c%03d", i)] = int64(i)
	}
	open := b.opening("lab", "few", b.long)
	open.OpenedNs = toldStart * 1e9
	w := k.open(conn, open)
	b.long.id = w.run
	last := b.logCurve(w, 1, 1, toldCurve, nil)
	last = b.logOthers(w, last+1)
	w.end(last+1, "finished")
	again := map[int64]bool{}
	for len(again) < toldAgain {
		again[b.curve[b.random.IntN(toldCurve)].step] = true
	}
	open.Initial, open.ResumeStrategy = nil, "allow"
	for attempt := 2; attempt <= toldAttempts; attempt++ {
		open.Writer, open.OpenedNs, open.PID, open.OrchestrationID = b.writer(), (toldStart+int64(attempt))*1e9, int64(attempt), fmt.Sprint("job", attempt)
		w = k.open(conn, open)
		switch attempt {
		case 2:
			w.end(b.logCurve(w, 1, 2, toldAgain, slices.Sorted(maps.Keys(again)))+1, "finished")
		case toldAttempts:
			for rank := int64(1); rank < toldWriters; rank++ {
				open.Writer, open.PID, open.Rank, open.OpenedNs = b.writer(), 1000+rank, &rank, open.OpenedNs+1
				k.open(conn, open)
			}
		default:
			w.end(1, "finished")
		}
	}
	slices.SortFunc(b.curve, func(x, y toldPoint) int { return cmp.Compare(x.step, y.step) })
}

// logCurve logs points of an attempt at steps, which are made where there are none.
func (b *told) logCurve(w *opened, first uint64, attempt, rows int, steps []int64) (last uint64) {
	var fresh []toldPoint
	for i := range rows {
		one := toldPoint{value: b.odd(), attempt: attempt}
		if steps != nil {
			one.step = steps[i]
		} else if i > 0 {
			one.step = fresh[i-1].step + 1 + b.random.Int64N(9)
		}
		one.epoch, one.ns = one.step/500, (toldStart+int64(attempt)*1e6+one.step)*1e9
		fresh = append(fresh, one)
	}
	group := rowsFrom(1, columnOf(fresh, func(p toldPoint) int64 { return p.step }), columnOf(fresh, func(p toldPoint) int64 { return p.ns }))
	group.Axes = append(group.Axes, &kymogramv1.AxisColumn{Axis: 8, Values: columnOf(fresh, func(p toldPoint) int64 { return p.epoch })})
	group.Columns = []*kymogramv1.Column{{Series: 1, Floats: columnOf(fresh, func(p toldPoint) float64 { return p.value })}}
	last = first + uint64(rows) - 1
	w.send(&kymogramv1.Batch{First: first, Last: last, Series: []*kymogramv1.SeriesDefinition{definition(1, "curve", 1)}, Groups: []*kymogramv1.RowGroup{group}})
	kept := map[int64]toldPoint{}
	for _, one := range slices.Concat(b.curve, fresh) {
		if before, ok := kept[one.step]; ok {
			b.hidden = append(b.hidden, before)
		}
		kept[one.step] = one
	}
	b.curve = slices.Collect(maps.Values(kept))
	end := slices.MaxFunc(b.curve, func(x, y toldPoint) int { return cmp.Compare(x.step, y.step) })
	b.last["curve"] = inJSON(end.value)
	return last
}

func columnOf[T any](points []toldPoint, field func(toldPoint) T) []T {
	out := make([]T, len(points))
	for i, one := range points {
		out[i] = field(one)
	}
	return out
}

// logOthers logs a point of many metrics, and texts and histograms.
func (b *told) logOthers(w *opened, first uint64) (last uint64) {
	batch := &kymogramv1.Batch{First: first}
	group := rowsFrom(1, []int64{5}, []int64{toldStart * 1e9})
	for i := range toldMetrics {
		one, column := definition(uint32(10+i), fmt.Sprintf("m%03d", i), uint32(1+i%2)), &kymogramv1.Column{Series: uint32(10 + i)}
		if i%2 == 0 {
			column.Floats = []float64{b.odd()}
			b.last[one.Metric] = inJSON(column.Floats[0])
		} else {
			column.Ints = []int64{b.random.Int64()>>b.random.IntN(60) - 1}
			b.last[one.Metric] = inJSON(column.Ints[0])
		}
		batch.Series, group.Columns = append(batch.Series, one), append(group.Columns, column)
	}
	documents := rowsFrom(2, steps(toldDocuments), steps(toldDocuments))
	var histograms [][]byte
	for i := range toldDocuments {
		b.notes = append(b.notes, strings.Repeat("ü", b.random.IntN(1200)))
		histograms = append(histograms, fmt.Appendf(nil, `{"bin_edges":[%d,%d],"counts":[%d]}`, i, i+1, i))
	}
	documents.Columns = []*kymogramv1.Column{{Series: 2, Texts: b.notes}, {Series: 3, Documents: histograms}}
	batch.Series = append(batch.Series, definition(2, "note", 3), definition(3, "hist", 4))
	for id, split := range []string{4: "train", 5: "eval"} {
		if split != "" {
			one := definition(uint32(id), "loss", 1)
			one.Labels = map[string]string{"split": split}
			batch.Series, group.Columns = append(batch.Series, one), append(group.Columns, &kymogramv1.Column{Series: uint32(id), Floats: []float64{float64(id)}})
		}
	}
	batch.Groups, batch.Last = []*kymogramv1.RowGroup{group, documents}, first+toldDocuments
	w.send(batch)
	return batch.Last
}

func steps(n int) (out []int64) {
	for i := range n {
		out = append(out, int64(i))
	}
	return out
}
