package otlp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.opentelemetry.io/proto/otlp/common/v1"
	metrics "go.opentelemetry.io/proto/otlp/metrics/v1"
	resource "go.opentelemetry.io/proto/otlp/resource/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/runrule"
)

// Fields of the messages above the data points, from OTLP's definition of metrics, version 1.
const (
	fResourceMetrics = 1 // of a request

	fResource     = 1 // of ResourceMetrics
	fScopeMetrics = 2

	fScope   = 1 // of ScopeMetrics
	fMetrics = 2

	fName        = 1 // of Metric
	fGauge       = 5
	fSum         = 7
	fHistogram   = 9
	fExponential = 10
	fSummary     = 11

	fDataPoints  = 1 // of all five
	fTemporality = 2
)

// maxMessage is the largest data point, resource or scope that is read: what is made of it
// is hundreds of times its bytes. One of an SDK has some hundreds of bytes.
const maxMessage = 64 << 10

// Each data point is read with the name of its metric and the labels of its scope: these are
// bounded before. Package ingest takes no more of them.
const (
	maxMetric = 1 << 10
	maxLabels = 64
)

// Labels that the protocol's own words become, as in the compatibility rules of Prometheus
// and OpenTelemetry.
const (
	labelScope       = "otel_scope_name"
	prefixScope      = "otel_scope_"
	labelTemporality = "otel_temporality"
	labelQuantile    = "quantile"
)

var errWire = errors.New("the message is not valid protobuf")

// decoder turns a request into columns. It reads the messages above the data points in place
// and the data points one by one, so that a request takes little more than its columns.
type decoder struct {
	columns
	rule  runrule.Rule
	now   int64 // of points without a time
	stats Stats

	points   int    // data points
	rejected int    // of them
	fault    string // why the first was
	labels   []model.Label

	// Data points are read into these, one after the other.
	one struct {
		number      metrics.NumberDataPoint
		histogram   metrics.HistogramDataPoint
		exponential metrics.ExponentialHistogramDataPoint
		summary     metrics.SummaryDataPoint
	}
}

// Stats counts what was understood and has no place in the model.
type Stats struct {
	Exemplars  uint64
	Histograms uint64 // whose buckets the model cannot hold; their count and sum are kept
	Empty      uint64 // points that say that there is no value
}

func newDecoder(rule runrule.Rule, now int64, budget int) *decoder {
	return &decoder{columns: columns{left: budget, byWhom: map[string]*part{}}, rule: rule, now: now}
}

// each calls do with the bytes of every value of a field.
func each(b []byte, number protowire.Number, do func(value []byte) error) error {
	for len(b) > 0 {
		field, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return errWire
		}
		b = b[n:]
		if n = protowire.ConsumeFieldValue(field, wire, b); n < 0 {
			return errWire
		}
		if field == number && wire == protowire.BytesType {
			value, _ := protowire.ConsumeBytes(b)
			if err := do(value); err != nil {
				return err
			}
		}
		b = b[n:]
	}
	return nil
}

// number is the last value of a field that is a number, 0 when there is none.
func number(b []byte, field protowire.Number) (out uint64) {
	for len(b) > 0 {
		at, wire, n := protowire.ConsumeTag(b)
		if n < 0 {
			return out
		}
		if at == field && wire == protowire.VarintType {
			out, _ = protowire.ConsumeVarint(b[n:])
		}
		value := protowire.ConsumeFieldValue(at, wire, b[n:])
		if value < 0 {
			return out
		}
		b = b[n+value:]
	}
	return out
}

// whole reads the field of a message, which may come in pieces.
func whole(b []byte, field protowire.Number, into proto.Message) error {
	size := 0
	return each(b, field, func(value []byte) error {
		if size += len(value); size > maxMessage {
			return errLarge
		}
		return unmarshal.Unmarshal(value, into)
	})
}

var (
	errLarge  = model.Errorf(model.CodeTooLarge, "a resource or a scope has more than %d bytes", maxMessage)
	unmarshal = proto.UnmarshalOptions{Merge: true, DiscardUnknown: true}
)

// request reads an ExportMetricsServiceRequest.
func (d *decoder) request(b []byte) error {
	return each(b, fResourceMetrics, func(of []byte) error {
		var r resource.Resource
		if err := whole(of, fResource, &r); err != nil {
			return err
		}
		p, err := d.resource(&r)
		if err != nil {
			return err
		}
		return each(of, fScopeMetrics, func(of []byte) error { return d.scope(p, of) })
	})
}

// resource finds the run and the attempt of a resource.
func (d *decoder) resource(r *resource.Resource) (*part, error) {
	if err := d.spend(len(r.GetAttributes()) * (costAttribute + costLabel)); err != nil {
		return nil, err
	}
	attributes := make([]model.Label, 0, len(r.GetAttributes()))
	for _, a := range r.GetAttributes() {
		attributes = append(attributes, model.Label{Name: a.GetKey(), Value: text(a.GetValue())})
	}
	slices.SortStableFunc(attributes, byName)
	name, _, _ := d.rule.Name(func(name string) (string, bool) {
		at, ok := slices.BinarySearchFunc(attributes, name, func(a model.Label, name string) int { return strings.Compare(a.Name, name) })
		if !ok {
			return "", false
		}
		return attributes[at].Value, true
	})
	return d.part(name, attributes)
}

func byName(a, b model.Label) int { return strings.Compare(a.Name, b.Name) }

// scope reads a ScopeMetrics.
func (d *decoder) scope(p *part, b []byte) error {
	var s v1.InstrumentationScope
	if err := whole(b, fScope, &s); err != nil {
		return err
	}
	if err := d.spend(len(s.GetAttributes()) * (costAttribute + costLabel)); err != nil {
		return err
	}
	var labels []model.Label
	if s.GetName() != "" {
		labels = append(labels, model.Label{Name: labelScope, Value: s.GetName()})
	}
	for _, a := range s.GetAttributes() {
		labels = append(labels, model.Label{Name: prefixScope + a.GetKey(), Value: text(a.GetValue())})
	}
	return each(b, fMetrics, func(b []byte) error {
		m := metric{decoder: d, part: p, scope: labels}
		if err := each(b, fName, func(name []byte) error { m.name = string(name); return nil }); err != nil {
			return err
		}
		return m.read(b)
	})
}

// metric is where the data points of a Metric go.
type metric struct {
	*decoder
	part  *part
	scope []model.Label
	name  string
	delta bool // values count from the point before
}

// read reads a Metric's data points.
func (m *metric) read(b []byte) error {
	for _, kind := range []struct {
		field protowire.Number
		read  func([]byte) error
	}{{fGauge, m.number}, {fSum, m.number}, {fHistogram, m.histogram}, {fExponential, m.exponential}, {fSummary, m.summary}} {
		err := each(b, kind.field, func(of []byte) error {
			m.delta = number(of, fTemporality) == uint64(metrics.AggregationTemporality_AGGREGATION_TEMPORALITY_DELTA)
			return each(of, fDataPoints, func(b []byte) error { return m.point(b, kind.read) })
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// point reads a data point.
func (m *metric) point(b []byte, read func([]byte) error) error {
	m.points++
	if err := m.spend(costPoint); err != nil {
		return err
	}
	switch {
	case m.part.fault != nil:
		return m.reject("%s", m.part.fault.Error())
	case len(m.name) > maxMetric:
		return m.reject("the metric's name %q… has %d bytes, at most %d", model.Clip(m.name), len(m.name), maxMetric)
	case len(m.scope) > maxLabels:
		return m.reject("the scope of %q has %d attributes, at most %d", model.Clip(m.name), len(m.scope), maxLabels)
	case len(b) > maxMessage:
		return m.reject("a data point of %q has more than %d bytes", model.Clip(m.name), maxMessage)
	}
	m.spoiled = nil
	if err := read(b); err != nil || m.spoiled == nil {
		return err
	}
	return m.reject("%s", m.spoiled.Error())
}

// reject counts a data point that is not taken, and keeps why the first was not.
func (d *decoder) reject(format string, args ...any) error {
	if d.rejected++; d.fault == "" {
		d.fault = fmt.Sprintf(format, args...)
	}
	return nil
}
