package native

import (
	"context"
	"math"
	"slices"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

type queryService struct {
	kymogramv1.UnimplementedQueryServiceServer
	*Receiver
}

// missing stands for an axis that a row lacks where other rows have it: no valid
// axis is that small.
const missing = math.MinInt64

func selector(m *kymogramv1.SeriesSelector) (query.Selector, error) {
	run, err := parseRun(m.GetRun())
	return query.Selector{Run: run, Metric: m.GetMetric(), Scale: m.GetScale(), Labels: m.GetLabels()}, err
}

// ListSeries lists the series of a run.
func (s *queryService) ListSeries(ctx context.Context, m *kymogramv1.ListSeriesRequest) (*kymogramv1.ListSeriesResponse, error) {
	run, err := parseRun(m.Run)
	if err != nil {
		return nil, err
	}
	request := query.SeriesRequest{Page: query.Page{Limit: int(m.Limit), Cursor: m.Cursor}, Run: run, Query: []string{m.Q}}
	release, _, err := s.options.Reserve(ctx, request.Bytes())
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, release) // when the answer has left
	page, err := s.query.Series(ctx, request)
	if err != nil {
		return nil, err
	}
	out := &kymogramv1.ListSeriesResponse{Next: page.Next}
	for i := range page.Series {
		info := &page.Series[i]
		out.Series = append(out.Series, &kymogramv1.ListSeriesResponse_Series{
			Metric: info.Key.Metric, Scale: info.Key.Scale, Labels: info.Key.LabelMap(), Kind: uint32(info.Kind), Count: info.Count,
		})
	}
	return out, nil
}

// Points reads a page of one series, by column.
func (s *queryService) Points(ctx context.Context, m *kymogramv1.PointsRequest) (*kymogramv1.PointsResponse, error) {
	sel, err := selector(m.Series)
	if err != nil {
		return nil, err
	}
	attempts, err := query.ParseAttempts(m.Attempt)
	if err != nil {
		return nil, err
	}
	request := query.PointsRequest{
		Page: query.Page{Limit: int(m.Limit), Cursor: m.Cursor}, Selector: sel,
		Axis: model.Axis(m.Axis), From: m.From, To: m.To, Attempts: attempts,
	}
	release, texts, err := s.options.Reserve(ctx, request.Bytes())
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, release) // when the answer has left
	request.Texts = texts
	page, err := s.query.Points(ctx, request)
	if err != nil {
		return nil, err
	}
	return encodePoints(page), nil
}

func encodePoints(page *query.PointsPage) *kymogramv1.PointsResponse {
	rows, order := page.Rows, model.Axes()
	group := &kymogramv1.RowGroup{TimeNs: rows.TimeNs}
	for i, a := range rows.Axes {
		values := a.Values
		if has := rows.Has[i]; has != nil {
			values = slices.Clone(values)
			for row := range values {
				if !has[row] {
					values[row] = missing
				}
			}
		}
		group.Axes = append(group.Axes, &kymogramv1.AxisColumn{Axis: uint32(slices.Index(order, a.Axis) + 1), Values: values})
	}
	v := &rows.Values
	group.Columns = []*kymogramv1.Column{{Floats: v.Floats, Ints: v.Ints, Texts: v.Texts, Documents: v.Docs}}
	out := &kymogramv1.PointsResponse{Rows: group, Attempts: rows.Attempt, Next: page.Next}
	for i := range rows.Writer {
		out.Writers = append(out.Writers, rows.Writer[i][:])
	}
	return out
}

// Buckets down-samples one series.
func (s *queryService) Buckets(ctx context.Context, m *kymogramv1.BucketsRequest) (*kymogramv1.BucketsResponse, error) {
	sel, err := selector(m.Series)
	if err != nil {
		return nil, err
	}
	attempts, err := query.ParseAttempts(m.Attempt)
	if err != nil {
		return nil, err
	}
	request := query.BucketsRequest{
		Selector: sel, X: model.Axis(m.Axis), From: m.From, To: m.To, N: int(m.N), Attempts: attempts,
	}
	release, _, err := s.options.Reserve(ctx, query.BucketsBytes(request))
	if err != nil {
		return nil, err
	}
	context.AfterFunc(ctx, release) // when the answer has left
	result, err := s.query.Buckets(ctx, request)
	if err != nil {
		return nil, err
	}
	out := &kymogramv1.BucketsResponse{}
	for _, b := range result.Buckets {
		appendBucket(out, b)
	}
	return out, nil
}

// appendBucket writes NaN where a bucket has no finite value.
func appendBucket(out *kymogramv1.BucketsResponse, b query.Bucket) {
	low, high, mean := math.NaN(), math.NaN(), math.NaN()
	if b.Count > 0 {
		low, high = b.Min, b.Max
		mean, _ = query.Mean(b)
	}
	out.Lo, out.Hi = append(out.Lo, b.Lo), append(out.Hi, b.Hi)
	out.Min, out.Max, out.Mean = append(out.Min, low), append(out.Max, high), append(out.Mean, mean)
	out.Count, out.Nan = append(out.Count, b.Count), append(out.Nan, b.NaN)
	out.PosInf, out.NegInf = append(out.PosInf, b.PosInf), append(out.NegInf, b.NegInf)
}
