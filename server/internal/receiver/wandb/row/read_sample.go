package row

import (
	"cmp"
	"context"
	"iter"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/query"
)

// Spec asks for a sample of the rows that hold all of some keys.
type Spec struct {
	Keys             []string // empty: whole rows, whatever they hold
	Samples          int      // at most so many rows
	MinStep, MaxStep *int64   // both inclusive; nil is open
}

// Sampled reads a sample: lines as [Lines] gives them, with the keys of the spec alone, in
// the order of the rows. They are real rows, spread evenly by their number. The first and
// the last are among them, then those of the minimum and the maximum of each key, as far as
// there is room. W&B's own members may be keys too. Where Samples has room for each step
// from MinStep to MaxStep, as where a client reads all of a run part by part, all rows come.
func Sampled(ctx context.Context, src Source, run model.RunID, spec Spec) iter.Seq2[[]byte, error] {
	r := All()
	if spec.MinStep != nil {
		r.From = *spec.MinStep
	}
	if spec.MaxStep != nil {
		r.To = *spec.MaxStep
	}
	whole := spec.isWhole()
	if len(spec.Keys) == 0 && whole {
		return AllLines(ctx, src, run, r)
	}
	if len(spec.Keys) == 0 {
		return SampledLines(ctx, src, run, r, spec.Samples)
	}
	sel := &selection{run: run, Range: r, keys: slices.Compact(slices.Sorted(slices.Values(spec.Keys)))}
	return func(yield func([]byte, error) bool) {
		if spec.Samples < 1 || spec.Samples > MaxRows {
			yield(nil, model.Errorf(model.CodeInvalid, "a sample of %d rows", spec.Samples).WithHint("ask for 1 to %d", MaxRows))
			return
		}
		if len(sel.keys) > MaxKeys {
			yield(nil, model.Errorf(model.CodeInvalid, "a sample of %d keys", len(sel.keys)).WithHint("ask for at most %d", MaxKeys))
			return
		}
		n := spec.Samples
		if whole {
			n = math.MaxInt / 2
		}
		chosen, err := sel.choose(ctx, src, n)
		if err != nil {
			yield(nil, err)
			return
		}
		for line, err := range sel.linesOf(ctx, src, chosen) {
			if !yield(line, err) || err != nil {
				return
			}
		}
	}
}

// isWhole: no step of the range is left out. The wire's last step is inclusive for some
// clients and exclusive for others, so that there may be one more than samples.
func (s *Spec) isWhole() bool {
	return s.MinStep != nil && s.MaxStep != nil && *s.MinStep <= *s.MaxStep && uint64(*s.MaxStep)-uint64(*s.MinStep) <= uint64(max(0, s.Samples))
}

// linesOf reads the lines of some rows.
func (s *selection) linesOf(ctx context.Context, src Source, entries []entry) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		for len(entries) > 0 {
			sel := *s
			sel.at = make([]int64, len(entries))
			for i := range entries {
				sel.at[i] = entries[i].step
			}
			sel.at = slices.Compact(sel.at)
			drafts, err := fill(ctx, src, &sel, entries)
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range drafts {
				if !yield(s.line(&drafts[i], &entries[i]), nil) {
					return
				}
			}
			entries = entries[len(drafts):]
		}
	}
}

// Bounds of what is looked at together.
const (
	windowRows    = 50_000
	windowNumbers = 2_000_000 // of all keys
	// MaxKeys is the most keys of a sample.
	MaxKeys = 10_000
)

// choose finds the rows of a sample. Of a long run it looks at some steps alone, where that
// is enough.
func (s *selection) choose(ctx context.Context, src Source, n int) ([]entry, error) {
	at, expected, err := s.someSteps(ctx, src, n)
	if err != nil {
		return nil, err
	}
	if at != nil {
		few := *s
		few.at = at
		c, err := few.look(ctx, src, n)
		if err != nil {
			return nil, err
		}
		if chosen := c.chosen(); len(chosen) == n && c.found(expected) {
			return chosen, nil
		}
	}
	c, err := s.look(ctx, src, n)
	if err != nil {
		return nil, err
	}
	return c.chosen(), nil
}

// look goes through the rows window by window: all of a run may be too much.
func (s *selection) look(ctx context.Context, src Source, n int) (*chooser, error) {
	c := &chooser{selection: s, stride: 1, n: n, ends: make([]ends, len(s.keys))}
	for at, more := *s, true; more; {
		entries, next, err := index(ctx, src, &at, min(windowRows, windowNumbers/len(s.keys)))
		if err != nil {
			return nil, err
		}
		if err := c.lookAt(ctx, src, entries); err != nil {
			return nil, err
		}
		if more = next != nil; more {
			at.From = *next
		}
	}
	return c, nil
}

// found reports whether the ends of keys are those that are known of their series: a point
// may be of a row that a later attempt hides.
func (c *chooser) found(expected []ends) bool {
	return !slices.ContainsFunc(expected, func(want ends) bool {
		return want.known && !slices.ContainsFunc(c.ends, func(e ends) bool { return e.known && e.least == want.least && e.most == want.most })
	})
}

// chooser goes through the rows and keeps a few.
type chooser struct {
	*selection
	n      int
	seen   uint64 // rows that hold all keys
	stride uint64 // every so many of them is kept
	kept   []candidate
	last   candidate
	ends   []ends // of each key
}

type candidate struct {
	entry
	number uint64 // among those that hold all keys
}

// ends are the rows with the least and the greatest finite number of a key.
type ends struct {
	known        bool
	least, most  float64
	lowest, high candidate
}

// window is what some rows hold of the keys.
type window struct {
	entries []entry
	held    [][]bool    // of each key, by row
	numbers [][]float64 // of each key, NaN where it is none; nil where there are none
}

// lookAt goes through some rows.
func (c *chooser) lookAt(ctx context.Context, src Source, entries []entry) error {
	if len(entries) == 0 {
		return nil
	}
	w := &window{entries: entries, held: make([][]bool, len(c.keys)), numbers: make([][]float64, len(c.keys))}
	for i := range w.held {
		w.held[i] = make([]bool, len(entries))
	}
	for _, metrics := range c.passes() {
		if err := c.readWindow(ctx, src, w, metrics); err != nil {
			return err
		}
	}
	c.own(w)
	for k := range entries {
		if !slices.ContainsFunc(w.held, func(held []bool) bool { return !held[k] }) {
			c.add(w, k)
		}
	}
	return nil
}

// hold notes that a row has a key; false where it was known.
func (w *window) hold(key, k int, number float64) {
	if w.held[key][k] {
		return
	}
	w.held[key][k] = true
	if math.IsNaN(number) {
		return
	}
	if w.numbers[key] == nil {
		w.numbers[key] = slices.Repeat([]float64{math.NaN()}, len(w.entries))
	}
	w.numbers[key][k] = number
}

// own fills in W&B's own members.
func (c *chooser) own(w *window) {
	for i, key := range c.keys {
		for k := range w.entries {
			switch e := &w.entries[k]; {
			case key == StepKey:
				w.hold(i, k, float64(e.step))
			case key == TimestampKey:
				w.hold(i, k, Seconds(e.time))
			case key == RuntimeKey && !math.IsNaN(e.runtime):
				w.hold(i, k, e.runtime)
			}
		}
	}
}

// readWindow reads which rows of a window have which keys.
func (c *chooser) readWindow(ctx context.Context, src Source, w *window, metrics []string) error {
	r := c.request()
	r.From, r.To = w.entries[0].step, w.entries[len(w.entries)-1].step
	r.Metrics, r.Match = metrics, isCell
	at, text := 0, ""
	for rows, err := range src.Across(ctx, r) {
		if err != nil {
			return err
		}
		if now := rows.Values.Series.String(); now != text {
			at, text = 0, now
		}
		if err := c.note(w, rows, &at); err != nil {
			return err
		}
	}
	return nil
}

func (c *chooser) note(w *window, rows *query.Rows, at *int) error {
	values := newCells(&rows.Values, false)
	if values == nil {
		return nil
	}
	if values.key == OtherMetric && values.as == TypeJSON {
		return c.join(rows, w.entries, at, func(i, k int) error {
			for m, err := range loose.Members([]byte(values.Texts[i])) {
				if err != nil {
					return err
				}
				if key, asked := slices.BinarySearch(c.keys, string(m.Key)); asked {
					w.hold(key, k, numberOf(m.Value))
				}
			}
			return nil
		})
	}
	key, asked := slices.BinarySearch(c.keys, values.key)
	if !asked {
		return nil
	}
	return c.join(rows, w.entries, at, func(i, k int) error {
		if values.as == "" {
			w.hold(key, k, values.Floats[i])
		} else {
			w.hold(key, k, math.NaN())
		}
		return nil
	})
}

// numberOf is NaN for what is no number.
func numberOf(value []byte) float64 {
	if f, exact := loose.Float(value); exact {
		return f
	}
	return math.NaN()
}

// add takes in a row that holds all keys.
func (c *chooser) add(w *window, k int) {
	row := candidate{w.entries[k], c.seen}
	c.seen++
	c.last = row
	if row.number%c.stride == 0 {
		c.kept = append(c.kept, row)
	}
	if len(c.kept)/2 > c.n {
		c.stride *= 2
		c.kept = slices.DeleteFunc(c.kept, func(o candidate) bool { return o.number%c.stride != 0 })
	}
	for i := range c.keys {
		if w.numbers[i] == nil {
			continue
		}
		v, e := w.numbers[i][k], &c.ends[i]
		if math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		if !e.known || v < e.least {
			e.least, e.lowest = v, row
		}
		if !e.known || v > e.most {
			e.most, e.high = v, row
		}
		e.known = true
	}
}

// chosen are the rows of the sample, in their order.
func (c *chooser) chosen() []entry {
	if c.seen == 0 {
		return nil
	}
	picked := map[uint64]candidate{c.kept[0].number: c.kept[0]}
	pick := func(row candidate) {
		if len(picked) < c.n {
			picked[row.number] = row
		}
	}
	pick(c.last)
	for i := range c.ends {
		if e := &c.ends[i]; e.known {
			pick(e.lowest)
			pick(e.high)
		}
	}
	rest := slices.DeleteFunc(c.kept, func(row candidate) bool { _, there := picked[row.number]; return there })
	for room, i := min(c.n-len(picked), len(rest)), 0; i < room; i++ {
		pick(rest[(2*i+1)*len(rest)/(2*room)])
	}
	out := make([]candidate, 0, len(picked))
	for _, row := range picked {
		out = append(out, row)
	}
	slices.SortFunc(out, func(a, b candidate) int { return cmp.Compare(a.number, b.number) })
	entries := make([]entry, len(out))
	for i := range out {
		entries[i] = out[i].entry
	}
	return entries
}
