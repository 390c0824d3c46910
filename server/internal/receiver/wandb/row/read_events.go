package row

import (
	"bytes"
	"cmp"
	"context"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// Events reads at most n system events, spread evenly over the run, the first and the last
// among them, in the order of time. Their keys are as on the wire.
func Events(ctx context.Context, src Source, run model.RunID, n int) ([][]byte, error) {
	if n < 1 || n > MaxRows {
		return nil, model.Errorf(model.CodeInvalid, "a sample of %d events", n).WithHint("ask for 1 to %d", MaxRows)
	}
	longest, _, err := eventSeries(ctx, src, run)
	if err != nil || longest == nil {
		return nil, err
	}
	sel := &selection{run: run, Range: All(), events: true}
	if longest.Kind == model.KindFloat { // else there are no numbers at all
		if err := sel.spread(ctx, src, longest, n); err != nil {
			return nil, err
		}
		sel.single = false
	}
	entries, err := sel.listEvents(ctx, src, longest)
	if err != nil {
		return nil, err
	}
	return sel.collect(ctx, src, evenly(entries, n))
}

// EventTail reads the last system event, and counts the events: the points of the series
// that has the most. It is nil where there is none.
func EventTail(ctx context.Context, src Source, run model.RunID) (line []byte, count uint64, err error) {
	longest, last, err := eventSeries(ctx, src, run)
	if err != nil || longest == nil {
		return nil, 0, err
	}
	sel := &selection{run: run, Range: Range{last, last}, events: true}
	entries, err := sel.listEvents(ctx, src, longest)
	if err != nil || len(entries) == 0 {
		return nil, 0, err
	}
	lines, err := sel.collect(ctx, src, entries[len(entries)-1:])
	if err != nil || len(lines) == 0 {
		return nil, 0, err
	}
	return lines[0], longest.Count, nil
}

func (s *selection) collect(ctx context.Context, src Source, entries []entry) (lines [][]byte, err error) {
	for line, err := range s.linesOf(ctx, src, entries) {
		if err != nil {
			return nil, err
		}
		lines = append(lines, line)
	}
	return lines, nil
}

// eventSeries is the series of system events that has the most points, of numbers if
// there are any, and the time of the last event.
func eventSeries(ctx context.Context, src Source, run model.RunID) (longest *query.SeriesEnd, last int64, err error) {
	r := query.SeriesRequest{Run: run, Query: []string{"^" + SystemPrefix}}
	for r.Limit = query.MaxSeries; ; {
		page, err := src.Series(ctx, r)
		if err != nil {
			return nil, 0, err
		}
		for i := range page.Series {
			s := page.Series[i].Series
			if !isEvent(s.Key) || s.Count == 0 || slices.Contains(s.Axes, model.AxisStep) {
				continue
			}
			if longest == nil || isMore(s, longest) {
				longest = s
			}
			last = max(last, s.MaxTimeNs)
		}
		if r.Cursor = page.Next; page.Next == "" {
			return longest, last, nil
		}
	}
}

// isMore prefers numbers, which have summaries, then more points.
func isMore(s, than *query.SeriesEnd) bool {
	if number := s.Kind == model.KindFloat; number != (than.Kind == model.KindFloat) {
		return number
	}
	return s.Count > than.Count
}

// mostEvents bounds the events that are listed.
const mostEvents = 20 * MaxRows

// listEvents lists the events of a selection: where any of their keys has a point. Where
// these are too many, as where each key comes at times of its own, it lists those of one.
func (s *selection) listEvents(ctx context.Context, src Source, longest *query.SeriesEnd) ([]entry, error) {
	all, err := s.eventsOf(ctx, src, isEvent)
	if err == nil && len(all) > mostEvents {
		text := longest.Key.String()
		return s.eventsOf(ctx, src, func(key model.SeriesKey) bool { return key.String() == text })
	}
	return all, err
}

func (s *selection) eventsOf(ctx context.Context, src Source, match func(model.SeriesKey) bool) ([]entry, error) {
	type place struct {
		time    int64
		writer  model.WriterID
		attempt uint32
	}
	found := map[place]struct{}{}
	r := s.request()
	r.Match = match
	for rows, err := range src.Across(ctx, r) {
		if err != nil {
			return nil, err
		}
		for i := range rows.TimeNs {
			if !hasStep(rows, i) {
				found[place{rows.TimeNs[i], rows.Writer[i], rows.Attempt[i]}] = struct{}{}
			}
		}
		if len(found) > mostEvents {
			break
		}
	}
	out := make([]entry, 0, len(found))
	for p := range found {
		out = append(out, entry{step: p.time, time: p.time, writer: p.writer, attempt: p.attempt})
	}
	slices.SortFunc(out, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.time, b.time), bytes.Compare(a.writer[:], b.writer[:]), cmp.Compare(a.attempt, b.attempt))
	})
	return out, nil
}

// hasStep tells the points of rows from those of events.
func hasStep(rows *query.Rows, i int) bool {
	at := slices.IndexFunc(rows.Axes, func(a model.AxisColumn) bool { return a.Axis == model.AxisStep })
	return at >= 0 && (rows.Has[at] == nil || rows.Has[at][i])
}

// evenly leaves n of a list, the first and the last among them.
func evenly(list []entry, n int) []entry {
	if len(list) <= n {
		return list
	}
	out := make([]entry, n)
	for i := range out {
		out[i] = list[rank(uint64(i), uint64(n), uint64(len(list)))]
	}
	return out
}
