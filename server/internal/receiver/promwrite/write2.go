package promwrite

import (
	"errors"
)

// Fields of remote write 2.0 (io.prometheus.write.v2.Request and what is in it).
const (
	f2Symbols = 4
	f2Series  = 5

	fLabels2    = 1
	fHistogram2 = 3
	fExemplars2 = 4
	fMetadata2  = 5
)

var (
	errSymbol = errors.New("a label refers to a symbol that is not there")
	errLabels = errors.New("a series has a label name without a value")
)

// write2 reads a Request: its symbols, then its series.
func (d *decoder) write2(body []byte) error {
	m := message{b: body}
	for {
		field, t, ok := m.next()
		if !ok {
			break
		}
		if field != f2Symbols || t != length {
			m.skip(t)
			continue
		}
		if err := d.spend(costSymbol); err != nil {
			return err
		}
		d.symbols = append(d.symbols, m.bytes())
	}
	if m.err != nil {
		return m.err
	}
	m = message{b: body}
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			return m.err
		case field == f2Series && t == length:
			if err := d.series2(m.bytes()); err != nil {
				return err
			}
		default:
			m.skip(t)
		}
	}
}

// series2 reads a TimeSeries: first its labels, wherever they are.
func (d *decoder) series2(b []byte) error {
	refs, err := d.references(b)
	if err != nil {
		return err
	}
	c := d.guess()
	if c == nil || c.raw == "" || c.raw != string(refs) || d.use(c) != nil {
		if c, err = d.series(refs); err != nil {
			return err
		}
		d.at = c.place + 1
	}
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
		case field == fHistogram2 && t == length:
			if err := d.histogram(c, m.bytes()); err != nil {
				return err
			}
		case field == fExemplars2 && t == length:
			m.bytes()
			d.stats.Exemplars++
		case field == fMetadata2 && t == length:
			if len(m.bytes()) > 0 {
				d.stats.Metadata++
			}
		default:
			m.skip(t)
		}
	}
}

// series finds or makes the series of some references.
func (d *decoder) series(refs []byte) (*column, error) {
	if c := d.byRaw[string(refs)]; c != nil {
		return c, d.use(c)
	}
	labels, err := d.labels2(refs)
	if errors.Is(err, errCrowded) {
		return d.crowded()
	}
	if err != nil {
		return nil, err
	}
	c, err := d.column(labels)
	if err != nil {
		return nil, err
	}
	return c, d.know(c, refs)
}

// references are the varints of labels_refs: one packed field from every sender,
// or any number of packed and single ones.
func (d *decoder) references(b []byte) ([]byte, error) {
	m := message{b: b}
	var refs []byte
	parts := 0
	for {
		field, t, ok := m.next()
		switch {
		case !ok:
			return refs, m.err
		case field == fLabels2 && t == length:
			if part := m.bytes(); parts == 0 {
				refs = part // clipped: an append copies
			} else {
				refs = append(roomy(refs, len(b)), part...)
			}
			parts++
		case field == fLabels2 && t == varint:
			from := m.b
			m.uint()
			refs = append(roomy(refs, len(b)), from[:len(from)-len(m.b)]...)
			parts++
		default:
			m.skip(t)
		}
	}
}

// roomy is a list with room for all of a series: it never grows twice.
func roomy(refs []byte, most int) []byte {
	if cap(refs) >= most {
		return refs
	}
	return append(make([]byte, 0, most), refs...)
}

func (d *decoder) labels2(refs []byte) ([]label, error) {
	m := message{b: refs}
	labels := d.scratch[:0]
	for len(m.b) > 0 && m.err == nil {
		name, err := d.symbol(&m)
		if err != nil {
			return nil, err
		}
		if len(m.b) == 0 {
			return nil, errLabels
		}
		value, err := d.symbol(&m)
		if err != nil {
			return nil, err
		}
		if len(labels) == maxLabels {
			d.scratch = labels
			return nil, errCrowded
		}
		labels = append(labels, label{name, value})
	}
	d.scratch = labels
	return labels, m.err
}

func (d *decoder) symbol(m *message) ([]byte, error) {
	at := m.uint()
	if m.err != nil {
		return nil, m.err
	}
	at &= 1<<32 - 1 // a uint32, of which protobuf drops what is too much
	if at >= uint64(len(d.symbols)) {
		return nil, errSymbol
	}
	return d.symbols[at], nil
}
