package otlp

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// What a request takes in memory while it is read and stored, in bytes: each is paid from
// the request's budget before it is made.
const (
	costResource  = 2_000 // with its attempt
	costSeries    = 1_300 // with its places in maps and in a row group
	costLabel     = 100
	costValue     = 160 // with a row group of its own
	costDocument  = 512
	costBucket    = 128
	costAttribute = 200 // as the official types have it
	costExemplar  = 240
	costQuantile  = 100

	// These take time and no memory. They are paid for too, so that a request is not long at work.
	costPoint  = 16 // a data point, also one that is not taken
	costShared = 16 // a label of the scope, for each data point
	perKey     = 16 // so many bytes of a series' key cost one
)

// maxRuns bounds the resources of a request that are runs or attempts of their own.
const maxRuns = 10_000

var (
	errTooMany = errors.New("the request has too many series or points")
	errRuns    = fmt.Errorf("the request has points of more than %d resources", maxRuns)
)

// columns collects the points of a request: an ingest.Part for each resource.
type columns struct {
	left    int // of the budget
	parts   []*part
	byWhom  map[string]*part // by run and process
	key     []byte
	spoiled error // why a series of the data point at hand is not taken
}

// part is what a resource says.
type part struct {
	run, process string
	attributes   []model.Label
	fault        error // of the run's name
	series       map[string]*column
	order        []*column
}

// column is the points of one series.
type column struct {
	key    model.SeriesKey
	kind   model.Kind
	fault  error // of its names
	times  []int64
	floats []float64
	ints   []int64
	docs   [][]byte
}

// spend pays for what is about to be made.
func (c *columns) spend(cost int) error {
	if c.left -= cost; c.left < 0 {
		return errTooMany
	}
	return nil
}

// part finds or makes that of a resource with these attributes, sorted by name.
func (c *columns) part(run string, attributes []model.Label) (*part, error) {
	process := ingest.ProcessOf(attributes)
	key := run + "\x00" + process
	if p := c.byWhom[key]; p != nil {
		return p, nil
	}
	if len(c.parts) == maxRuns {
		return nil, errRuns
	}
	if err := c.spend(costResource); err != nil {
		return nil, err
	}
	p := &part{run: run, process: process, attributes: attributes, fault: model.CheckRunName(run), series: map[string]*column{}}
	c.byWhom[key] = p
	c.parts = append(c.parts, p)
	return p, nil
}

// column finds or makes that of a series. labels are sorted; they are copied.
func (c *columns) column(p *part, metric string, kind model.Kind, labels []model.Label) (*column, error) {
	k := binary.AppendUvarint(append(c.key[:0], byte(kind)), uint64(len(metric)))
	k = append(k, metric...)
	for _, l := range labels {
		k = append(binary.AppendUvarint(k, uint64(len(l.Name))), l.Name...)
		k = append(binary.AppendUvarint(k, uint64(len(l.Value))), l.Value...)
	}
	c.key = k
	if err := c.spend(len(k) / perKey); err != nil {
		return nil, err
	}
	if found := p.series[string(k)]; found != nil {
		return found, nil
	}
	if err := c.spend(costSeries + 2*len(k) + costLabel*len(labels)); err != nil {
		return nil, err
	}
	made := &column{kind: kind, key: model.SeriesKey{Metric: strings.Clone(metric), Scale: model.ScaleStep, Labels: slices.Clone(labels)}}
	p.series[string(k)] = made
	if made.fault = ingest.CheckSeries(&made.key); made.fault == nil {
		p.order = append(p.order, made)
	}
	return made, nil
}

// spoils reports whether the series cannot be taken, and with it its data point.
func (c *columns) spoils(s *column) bool {
	if s.fault != nil {
		c.spoiled = s.fault
	}
	return s.fault != nil
}

// exact is the largest number below which every integer is a float64.
const exact = 1 << 53

// add adds a number. An integer becomes a float64 where that is exact, so that a counter
// may go from 1 to 1.5; a larger one stays an integer.
func (c *columns) add(p *part, metric string, labels []model.Label, timeNs int64, float float64, integer int64, whole bool) error {
	kind := model.KindFloat
	if whole {
		if float = float64(integer); integer > exact || integer < -exact {
			kind = model.KindInt
		}
	}
	to, err := c.column(p, metric, kind, labels)
	if err == nil {
		err = c.spend(costValue)
	}
	if err != nil || c.spoils(to) {
		return err
	}
	to.times = append(to.times, timeNs)
	if kind == model.KindInt {
		to.ints = append(to.ints, integer)
	} else {
		to.floats = append(to.floats, float)
	}
	return nil
}

// document adds a histogram.
func (c *columns) document(p *part, metric string, labels []model.Label, timeNs int64, doc []byte) error {
	to, err := c.column(p, metric, model.KindHistogram, labels)
	if err != nil || c.spoils(to) {
		return err
	}
	to.times = append(to.times, timeNs)
	to.docs = append(to.docs, doc)
	return nil
}

// batches are the parts for ingest: series with the same times share a row group. One of
// integers is not beside one of floats, which may be the same series. A document has its
// own: ingest refuses a whole row for it.
func (c *columns) batches() (out []ingest.Part) {
	for _, p := range c.parts {
		if len(p.order) == 0 {
			continue
		}
		to := ingest.Part{Run: p.run, Process: p.process, Attributes: p.attributes}
		places := map[string]int{} // by times
		for _, s := range p.order {
			c.key = append(c.key[:0], byte(s.kind))
			for _, t := range s.times {
				c.key = binary.LittleEndian.AppendUint64(c.key, uint64(t))
			}
			at, ok := places[string(c.key)]
			if !ok || s.kind == model.KindHistogram {
				at = len(to.Batch.Groups)
				to.Batch.Groups = append(to.Batch.Groups, model.RowGroup{Unique: model.UniqueTime, TimeNs: s.times})
			}
			if !ok && s.kind != model.KindHistogram {
				places[string(c.key)] = at
			}
			g := &to.Batch.Groups[at]
			g.Columns = append(g.Columns, model.Column{Series: s.key, Kind: s.kind, Floats: s.floats, Ints: s.ints, Docs: s.docs})
		}
		out = append(out, to)
	}
	return out
}
