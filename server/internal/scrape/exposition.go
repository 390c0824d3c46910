package scrape

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	promodel "github.com/prometheus/common/model"

	"github.com/prometheus/common/expfmt"
)

// What a target may cost: its operator is a stranger.
const (
	timeout    = 10 * time.Second
	maxBytes   = 8 << 20
	maxSamples = 20_000
	atOnce     = 8
)

func (s *Scraper) read(ctx context.Context, address string) (map[string]*dto.MetricFamily, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", http.NoBody)
	if err != nil {
		return nil, err
	}
	request.Header.Set("Accept", "text/plain;version=0.0.4")
	response, err := s.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("it answers %s", response.Status)
	}
	limited := &io.LimitedReader{R: response.Body, N: maxBytes + 1}
	families, err := parseFamilies(limited)
	if limited.N <= 0 {
		return nil, fmt.Errorf("its answer is larger than %d MiB", maxBytes>>20)
	}
	if err != nil {
		return nil, fmt.Errorf("its answer is not of Prometheus' text format: %w", err)
	}
	count := 0
	for _, f := range families {
		eachSample(f, func(string, float64, map[string]string) { count++ })
	}
	if count > maxSamples {
		return nil, fmt.Errorf("it exposes %d values, %d are taken at most", count, maxSamples)
	}
	return families, nil
}

// parseFamilies reads Prometheus' text format. The parser panics on some bytes that
// are none of it, such as "{}" (prometheus/common 0.67.5).
func parseFamilies(r io.Reader) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			families, err = nil, fmt.Errorf("the parser failed: %v", cause)
		}
	}()
	parser := expfmt.NewTextParser(promodel.UTF8Validation)
	return parser.TextToMetricFamilies(r)
}

// eachSample takes a family apart as Prometheus stores it.
func eachSample(f *dto.MetricFamily, put func(name string, value float64, labels map[string]string)) {
	name := f.GetName()
	for _, m := range f.GetMetric() {
		labels := map[string]string{}
		for _, l := range m.GetLabel() {
			labels[l.GetName()] = l.GetValue()
		}
		with := func(label string, value float64) map[string]string {
			out := maps.Clone(labels)
			out[label] = strconv.FormatFloat(value, 'g', -1, 64)
			return out
		}
		switch {
		case m.Counter != nil:
			put(name, m.Counter.GetValue(), labels)
		case m.Gauge != nil:
			put(name, m.Gauge.GetValue(), labels)
		case m.Untyped != nil:
			put(name, m.Untyped.GetValue(), labels)
		case m.Histogram != nil:
			for _, b := range m.Histogram.GetBucket() {
				put(name+"_bucket", float64(b.GetCumulativeCount()), with("le", b.GetUpperBound()))
			}
			put(name+"_sum", m.Histogram.GetSampleSum(), labels)
			put(name+"_count", float64(m.Histogram.GetSampleCount()), labels)
		case m.Summary != nil:
			for _, q := range m.Summary.GetQuantile() {
				put(name, q.GetValue(), with("quantile", q.GetQuantile()))
			}
			put(name+"_sum", m.Summary.GetSampleSum(), labels)
			put(name+"_count", float64(m.Summary.GetSampleCount()), labels)
		}
	}
}
