package query

import (
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Points reads a page of one series. It may end before the limit that was asked for.
func (s *Service) Points(ctx context.Context, r PointsRequest) (*PointsPage, error) {
	limit, err := pageSize(r.Limit, DefaultPoints, MaxPoints)
	if err != nil {
		return nil, err
	}
	from, to, err := rangeOf(r.From, r.To)
	if err != nil {
		return nil, err
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	c, err := s.openSeries(ctx, s.open, r.Selector, r.Attempts, r.IncludeInherited)
	if err != nil {
		return nil, s.finish(ctx, err)
	}
	axis, gaps, err := orderOf(c.series, r.Axis)
	if err != nil {
		return nil, err
	}
	scan := store.ScanRequest{
		Run: c.Run, Series: c.Series, Ancestors: c.Ancestors,
		Axis: axis, Gaps: gaps, From: from, To: to, Attempts: r.Attempts, Limit: min(limit, s.limits.Points),
	}
	if err := r.Texts.wait(ctx, c.series.Kind); err != nil {
		return nil, s.finish(ctx, err)
	}
	page, err := s.scan(ctx, scan, c, r.Cursor)
	if err == nil && r.IncludeInherited {
		page.Runs = c.depths()
	}
	return page, s.finish(ctx, err)
}

func (s *Service) scan(ctx context.Context, scan store.ScanRequest, c *curve, cursor string) (*PointsPage, error) {
	hash := requestHash(append([]string{"points", c.run.ID.String(), c.series.Key.String(), string(scan.Axis), strconv.FormatBool(scan.Gaps), attemptsText(scan.Attempts)}, c.cuts()...)...)
	if cursor != "" {
		raw, err := openCursor(hash, cursor)
		if err != nil {
			return nil, err
		}
		if scan.After, err = readPosition(raw); err != nil {
			return nil, err
		}
	}
	rows, err := s.store.Scan(ctx, scan)
	if err != nil {
		return nil, fmt.Errorf("read series %s of run %s: %w", seriesText(c.series.Key), c.run.ID, err)
	}
	page := &PointsPage{Run: c.run.ID, Series: c.series, Axis: scan.Axis, Rows: rows}
	if rows.Next != nil {
		page.Next = sealCursor(hash, appendPosition(nil, rows.Next))
	}
	return page, nil
}

// orderOf is axisOf for rows. The steps of an RL environment begin anew in each episode,
// so its rows go episode by episode; those without one come first.
func orderOf(series store.Series, asked model.Axis) (axis model.Axis, gaps bool, err error) {
	if asked == "" && series.Key.Scale == model.ScaleEnvironment && slices.Contains(series.Axes, model.AxisEpisode) {
		return model.AxisEpisode, true, nil
	}
	axis, err = axisOf(series, asked)
	return axis, false, err
}

// AllPoints reads a series page by page, from the request's cursor to the end.
func (s *Service) AllPoints(ctx context.Context, r PointsRequest) iter.Seq2[*PointsPage, error] {
	return func(yield func(*PointsPage, error) bool) {
		for {
			page, err := s.Points(ctx, r)
			if !yield(page, err) || err != nil || page.Next == "" {
				return
			}
			r.Cursor = page.Next
		}
	}
}

// opener finds a run that the caller may read.
type opener func(ctx context.Context, id model.RunID) (*catalog.Run, error)

// openSeries finds the run and the series and checks the attempt asked for.
func (s *Service) openSeries(ctx context.Context, open opener, sel Selector, attempts Attempts, inherited bool) (*curve, error) {
	if err := checkInherited(inherited, attempts); err != nil {
		return nil, err
	}
	run, err := open(ctx, sel.Run)
	if err != nil {
		return nil, err
	}
	if err := s.checkAttempt(ctx, run.ID, attempts); err != nil {
		return nil, err
	}
	if inherited {
		return s.findInherited(ctx, open, run, sel)
	}
	series, err := s.find(ctx, run.ID, sel)
	return &curve{run: run, series: series, CurveRequest: store.CurveRequest{Run: run.ID, Series: series.ID}}, err
}

func (s *Service) checkAttempt(ctx context.Context, id model.RunID, attempts Attempts) error {
	if attempts.All || attempts.Number == 0 {
		return nil
	}
	run, err := s.runs.GetRun(ctx, id)
	if err != nil {
		return fmt.Errorf("read attempts of run %s: %w", id, err)
	}
	for _, a := range run.Attempts {
		if a.Number == attempts.Number {
			return nil
		}
	}
	return model.Errorf(model.CodeNotFound, "run %s has no attempt %d", run.ID, attempts.Number).
		WithHint("it has %d, numbered from 1 in the order of arrival", len(run.Attempts))
}

// ParseAttempts reads the attempt parameter: empty for the curve, "all", or a number.
func ParseAttempts(text string) (Attempts, error) {
	switch text {
	case "":
		return Attempts{}, nil
	case "all":
		return Attempts{All: true}, nil
	}
	n, err := strconv.ParseUint(text, 10, 32)
	if err != nil || n == 0 {
		return Attempts{}, model.Errorf(model.CodeInvalid, "attempt is %q", text).
			WithHint("attempt is the number of an attempt, from 1, or all; leave it out for the curve")
	}
	return Attempts{Number: uint32(n)}, nil
}

func attemptsText(a Attempts) string {
	if a.All {
		return "all"
	}
	return strconv.FormatUint(uint64(a.Number), 10)
}

func rangeOf(from, to *int64) (lo, hi int64, err error) {
	lo, hi = math.MinInt64, math.MaxInt64
	if from != nil {
		lo = *from
	}
	if to != nil {
		hi = *to
	}
	if lo > hi {
		return 0, 0, model.Errorf(model.CodeInvalid, "from %d is behind to %d", lo, hi).WithHint("both ends are inclusive, from ≤ to")
	}
	return lo, hi, nil
}
