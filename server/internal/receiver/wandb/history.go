package wandb

import (
	"context"
	"encoding/json"
	"iter"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/graph"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
)

// historyFields add the fields of a run that are read of its history.
func (r *Receiver) historyFields(o graph.Object, id model.RunID) {
	with := func(do func(ctx context.Context, id model.RunID, args graph.Args) (graph.Field, error)) graph.Resolver {
		return func(ctx context.Context, args graph.Args) (graph.Field, error) { return do(ctx, id, args) }
	}
	o["history"] = with(r.history)
	o["events"] = with(r.events)
	o["sampledHistory"] = with(r.sampledHistory)
	o["historyKeys"] = with(r.historyKeys)
	o["historyLineCount"] = with(r.historyLineCount)
	o["eventsLineCount"] = with(r.eventsLineCount)
	o["logLineCount"] = with(r.logLineCount)
	o["historyTail"] = with(r.historyTail)
	o["eventsTail"] = with(r.eventsTail)
	o["systemMetrics"] = with(r.systemMetrics)
	o["parquetHistory"] = with(r.parquetHistory)
}

// history is rows as JSON texts: those of steps from minStep to before maxStep, or a sample
// of all.
func (r *Receiver) history(ctx context.Context, id model.RunID, args graph.Args) (graph.Field, error) {
	samples, err := args.Int("samples", 500)
	if err != nil {
		return nil, err
	}
	samples = min(max(samples, 0), row.MaxRows)
	if !args.Has("minStep") && !args.Has("maxStep") {
		lines, err := r.sampledLines(ctx, id, int(max(samples, 1)))
		return texts(lines), err
	}
	from, err := args.Int("minStep", math.MinInt64)
	if err != nil {
		return nil, err
	}
	to, err := args.Int("maxStep", math.MaxInt64)
	if err != nil || to == math.MinInt64 {
		return texts(nil), err
	}
	if to != math.MaxInt64 {
		to--
	}
	family, err := r.family(ctx, id, row.Range{From: from, To: to})
	if err != nil {
		return nil, err
	}
	var all [][]byte
	for _, part := range family {
		lines, err := r.page(ctx, part.run, part.Range, int(samples))
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return texts(all), nil
}

// stretch is the rows of a run in a range.
type stretch struct {
	run model.RunID
	row.Range
}

// family is where the rows of a range are, in their order: a fork has those of the run that
// it goes on from up to its step, and its own behind it.
func (r *Receiver) family(ctx context.Context, id model.RunID, in row.Range) ([]stretch, error) {
	ancestors, err := r.query.Ancestry(ctx, id)
	if err != nil {
		return nil, err
	}
	var out []stretch
	from := int64(math.MinInt64)
	for _, a := range slices.Backward(ancestors) {
		if a.UpTo < from || a.UpTo == math.MaxInt64 {
			continue // a nearer one goes on from an earlier step
		}
		out = append(out, stretch{a.ID, row.Range{From: from, To: a.UpTo}})
		from = a.UpTo + 1
	}
	out = append(out, stretch{id, row.Range{From: from, To: math.MaxInt64}})
	kept := out[:0]
	for _, one := range out {
		one.From, one.To = max(one.From, in.From), min(one.To, in.To)
		if one.From <= one.To {
			kept = append(kept, one)
		}
	}
	return kept, nil
}

// sampledLines is a sample of whole rows. Of a fork, each run that it has rows of gives its
// part.
func (r *Receiver) sampledLines(ctx context.Context, id model.RunID, n int) (all [][]byte, err error) {
	family, err := r.family(ctx, id, row.All())
	for _, part := range family {
		lines, err := collect(row.SampledLines(ctx, r.query, part.run, part.Range, max(n/len(family), 1)))
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, err
}

// sampled is [row.Sampled] of a run, or of a fork.
func (r *Receiver) sampled(ctx context.Context, id model.RunID, spec row.Spec) (all [][]byte, err error) {
	in := row.All()
	if spec.MinStep != nil {
		in.From = *spec.MinStep
	}
	if spec.MaxStep != nil {
		in.To = *spec.MaxStep
	}
	family, err := r.family(ctx, id, in)
	samples := spec.Samples
	for _, part := range family {
		spec.MinStep, spec.MaxStep, spec.Samples = &part.From, &part.To, max(samples/len(family), 1)
		lines, err := collect(row.Sampled(ctx, r.query, part.run, spec))
		if err != nil {
			return nil, err
		}
		all = append(all, lines...)
	}
	return all, err
}

// page reads the rows of a range. The API says how far it goes on by steps and not by
// rows, so all rows of the range are in it.
func (r *Receiver) page(ctx context.Context, id model.RunID, in row.Range, limit int) (all [][]byte, err error) {
	size := 0
	for {
		lines, next, err := row.Lines(ctx, r.query, id, in, max(limit, 1))
		if err != nil {
			return nil, err
		}
		for _, line := range lines {
			size += len(line)
		}
		if all = append(all, lines...); next == nil {
			return all, nil
		}
		if in.From = *next; size > maxHistory {
			return nil, model.Errorf(model.CodeTooLarge, "the rows from step %d on are longer than %d MiB together", in.From, maxHistory>>20).
				WithHint("Ask for fewer steps at once: page_size.")
		}
	}
}

// maxHistory bounds the rows of an answer.
const maxHistory = 64 << 20

// texts are lines as the strings that the API has them in.
func texts(lines [][]byte) graph.Raw {
	out := []byte{'['}
	for i, line := range lines {
		if i > 0 {
			out = append(out, ',')
		}
		out = model.AppendJSONText(out, string(line))
	}
	return append(out, ']')
}

// sampledHistory is, for each spec, rows that have all of its keys. They are objects, so a
// NaN is the text "NaN" in them.
func (r *Receiver) sampledHistory(ctx context.Context, id model.RunID, args graph.Args) (graph.Field, error) {
	specs := args.List("specs")
	if len(specs) > maxSpecs {
		return nil, model.Errorf(model.CodeInvalid, "%d specs at once, at most %d", len(specs), maxSpecs)
	}
	out := []byte{'['}
	for i, text := range specs {
		spec, err := readSpec(text)
		if err != nil {
			return nil, err
		}
		lines, err := r.sampled(ctx, id, spec)
		if err != nil {
			return nil, err
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, '[')
		for k, line := range lines {
			if k > 0 {
				out = append(out, ',')
			}
			out = loose.Strict(out, line)
		}
		out = append(out, ']')
	}
	return graph.Raw(append(out, ']')), nil
}

const maxSpecs = 100

// readSpec reads {"keys": […], "samples": n, "minStep": n, "maxStep": n}, both steps inclusive.
func readSpec(text any) (row.Spec, error) {
	raw, _ := text.(string)
	var doc struct {
		Keys    []string `json:"keys"`
		Samples *int     `json:"samples"`
		MinStep *float64 `json:"minStep"`
		MaxStep *float64 `json:"maxStep"`
	}
	if err := json.Unmarshal([]byte(raw), &doc); err != nil {
		return row.Spec{}, model.Errorf(model.CodeInvalid, "a spec of sampledHistory is no JSON: %s", model.Clip(err.Error()))
	}
	spec := row.Spec{Keys: doc.Keys, Samples: 500, MinStep: step(doc.MinStep), MaxStep: step(doc.MaxStep)}
	if doc.Samples != nil {
		spec.Samples = min(max(*doc.Samples, 1), row.MaxRows)
	}
	if spec.MaxStep != nil && !inclusive(&spec) {
		before := *spec.MaxStep - 1
		spec.MaxStep = &before
	}
	return spec, nil
}

// inclusive tells pages of newer clients, whose maxStep is the last step: they ask for as
// many samples as there are steps, and for the step behind their keys. To clients up to 0.19
// maxStep is behind the last step.
func inclusive(s *row.Spec) bool {
	return s.MinStep != nil && len(s.Keys) > 0 && s.Keys[len(s.Keys)-1] == row.StepKey && int64(s.Samples) == *s.MaxStep-*s.MinStep+1
}

func step(f *float64) *int64 {
	if f == nil {
		return nil
	}
	n := int64(math.Max(math.Min(*f, 1<<62), -1<<62))
	return &n
}

func (r *Receiver) historyKeys(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	keys, err := row.Keys(ctx, r.query, id)
	if err != nil {
		return nil, err
	}
	ancestors, err := r.query.Ancestry(ctx, id)
	for _, a := range ancestors {
		theirs, err := row.Keys(ctx, r.query, a.ID)
		if err != nil {
			return nil, err
		}
		keys = inherited(keys, theirs, a.UpTo)
	}
	return graph.Raw(keys), err
}

// inherited are the keys of a fork with those of a run that it goes on from.
func inherited(own, theirs []byte, upTo int64) []byte {
	if theirs == nil {
		return own
	}
	keys, _ := loose.Get(theirs, "keys")
	if own == nil {
		last, _ := loose.Get(theirs, "lastStep")
		step, _ := loose.Float(last)
		return set(theirs, "lastStep", []byte(itoa(min(int64(step), upTo))))
	}
	mine, _ := loose.Get(own, "keys")
	return set(own, "keys", union(keys, mine))
}

func (r *Receiver) historyLineCount(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	n, err := row.Count(ctx, r.query, id)
	return n, err
}

func (r *Receiver) eventsLineCount(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	_, n, err := row.EventTail(ctx, r.query, id)
	return n, err
}

func (r *Receiver) logLineCount(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	series, err := r.query.Describe(ctx, id, model.SeriesKey{Metric: row.ConsoleMetric, Scale: model.ScaleStep})
	if err != nil || series == nil || series.Last == nil || series.Last.Step == nil {
		return 0, err
	}
	return *series.Last.Step + 1, nil
}

// historyTail is the last row, in a list, as a text.
func (r *Receiver) historyTail(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	line, err := row.Tail(ctx, r.query, id)
	if err != nil || line == nil {
		return "[]", err
	}
	return string(texts([][]byte{line})), nil
}

func (r *Receiver) eventsTail(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	line, _, err := row.EventTail(ctx, r.query, id)
	if err != nil || line == nil {
		return "[]", err
	}
	return string(texts([][]byte{line})), nil
}

func (r *Receiver) systemMetrics(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	line, _, err := row.EventTail(ctx, r.query, id)
	if err != nil || line == nil {
		return "{}", err
	}
	return string(line), nil
}

func (r *Receiver) events(ctx context.Context, id model.RunID, args graph.Args) (graph.Field, error) {
	samples, err := args.Int("samples", 500)
	if err != nil {
		return nil, err
	}
	lines, err := row.Events(ctx, r.query, id, int(min(max(samples, 1), row.MaxRows)))
	return texts(lines), err
}

// parquetHistory says that all rows are to be read as they are, from the first step on.
func (r *Receiver) parquetHistory(ctx context.Context, id model.RunID, _ graph.Args) (graph.Field, error) {
	family, err := r.family(ctx, id, row.All())
	if err != nil {
		return nil, err
	}
	lines, _, err := row.Lines(ctx, r.query, family[0].run, family[0].Range, 1)
	if err != nil {
		return nil, err
	}
	live := []byte{'['}
	if len(lines) > 0 {
		first, _ := loose.Get(lines[0], row.StepKey)
		live = append(append(append(live, `{"_step":`...), first...), '}')
	}
	return graph.Object{"parquetUrls": []string{}, "liveData": graph.Raw(append(live, ']'))}, nil
}

func collect(seq iter.Seq2[[]byte, error]) (lines [][]byte, err error) {
	for line, err := range seq {
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}
