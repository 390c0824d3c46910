package promwrite

import (
	"encoding/binary"
	"errors"
	"math"
)

// Fields of remote write 1.0 (prometheus.WriteRequest and what is in it).
const (
	f1Series   = 1
	f1Metadata = 3

	fLabels1    = 1
	fSamples    = 2
	fExemplars1 = 3
	fHistogram1 = 4

	fLabelName  = 1
	fLabelValue = 2
)

// Tags that a TimeSeries of a sender consists of.
const (
	tagLabel  = fLabels1<<3 | byte(length)
	tagSample = fSamples<<3 | byte(length)
)

// write1 reads a WriteRequest.
func (d *decoder) write1(body []byte) error {
	m := message{b: body}
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			return m.err
		case field == f1Series && t == length:
			if err := d.series1(m.bytes()); err != nil {
				return err
			}
		case field == f1Metadata && t == length:
			m.bytes()
			d.stats.Metadata++
		default:
			m.skip(t)
		}
	}
}

// series1 reads a TimeSeries. Senders put the labels first and one sample behind
// them, and the next series of a scrape is the one that followed last time: then
// the labels need no reading.
func (d *decoder) series1(b []byte) error {
	if c := d.guess(); c != nil && c.raw != "" && len(b) > len(c.raw) && string(b[:len(c.raw)]) == c.raw {
		if value, ms, ok := onlySample(b[len(c.raw):]); ok {
			if err := d.use(c); err != nil {
				return err
			}
			return d.add(c, value, ms)
		}
	}
	n, err := labelsLength(b)
	if err != nil {
		return err
	}
	value, ms, simple := onlySample(b[n:])
	c := d.byRaw[string(b[:n])]
	seen := c != nil
	if !seen || !simple {
		labels, err := d.labels1(b)
		if err == nil {
			c, err = d.column(labels)
		}
		if errors.Is(err, errCrowded) {
			return d.refuse1(b[n:])
		}
		if err != nil {
			return err
		}
	}
	d.at = c.place + 1
	if !simple {
		return d.points1(c, b[n:])
	}
	if seen {
		err = d.use(c)
	} else {
		err = d.know(c, b[:n])
	}
	if err != nil {
		return err
	}
	return d.add(c, value, ms)
}

// refuse1 counts the points of a series with too many labels.
func (d *decoder) refuse1(b []byte) error {
	c, err := d.crowded()
	if err != nil {
		return err
	}
	return d.points1(c, b)
}

// labelsLength is how many bytes at the front are labels.
func labelsLength(b []byte) (int, error) {
	m := message{b: b}
	for len(m.b) > 0 && m.b[0] == tagLabel {
		m.b = m.b[1:]
		if m.bytes(); m.err != nil {
			return 0, m.err
		}
	}
	return len(b) - len(m.b), nil
}

// labels1 reads the labels of a series, wherever they are.
func (d *decoder) labels1(b []byte) ([]label, error) {
	m := message{b: b}
	labels := d.scratch[:0]
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			d.scratch = labels
			return labels, m.err
		case field == fLabels1 && t == length:
			l, err := readLabel(m.bytes())
			if err != nil {
				return nil, err
			}
			if len(labels) == maxLabels {
				d.scratch = labels
				return nil, errCrowded
			}
			labels = append(labels, l)
		default:
			m.skip(t)
		}
	}
}

func readLabel(b []byte) (l label, err error) {
	m := message{b: b}
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			return l, m.err
		case field == fLabelName && t == length:
			l.name = m.bytes()
		case field == fLabelValue && t == length:
			l.value = m.bytes()
		default:
			m.skip(t)
		}
	}
}

// points1 reads the fields of a series but its labels.
func (d *decoder) points1(c *column, b []byte) error {
	m := message{b: b}
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			return m.err
		case field == fSamples && t == length:
			value, ms, err := sample(m.bytes())
			if err == nil {
				err = d.add(c, value, ms)
			}
			if err != nil {
				return err
			}
		case field == fExemplars1 && t == length:
			m.bytes()
			d.stats.Exemplars++
		case field == fHistogram1 && t == length:
			if err := d.histogram(c, m.bytes()); err != nil {
				return err
			}
		default:
			m.skip(t)
		}
	}
}

// onlySample reads the usual case, one sample of a value and a time, without the
// generality that the protocol allows.
func onlySample(b []byte) (value float64, ms int64, ok bool) {
	const head, body = 2, 10 // tag and length; value, its tag and the time's
	if len(b) < head+body+1 || b[0] != tagSample || int(b[1]) != len(b)-head || b[2] != 1<<3|byte(fixed64) || b[11] != 2<<3|byte(varint) {
		return 0, 0, false
	}
	t, n := binary.Uvarint(b[head+body:])
	return math.Float64frombits(binary.LittleEndian.Uint64(b[3:])), int64(t), n == len(b)-head-body
}
