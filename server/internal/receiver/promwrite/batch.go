package promwrite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"math"
	"slices"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// What a request takes in memory while it is read and stored, in bytes. A body could name
// a series or a sample with every few bytes, so each is paid from the request's budget.
const (
	costSeries   = 1_000 // with its places in maps and in a row group
	costLabel    = 100
	costSample   = 96
	costSymbol   = 144
	costRaw      = 96 // labels that were seen in these bytes
	costDocument = 512
	costBucket   = 128 // of a histogram
)

// maxLabels bounds the labels of a series before empty ones are dropped. Past it the
// samples of the series are refused; ingest takes 64.
const maxLabels = 1_024

// maxRuns bounds the runs of a request: five times the samples that Prometheus sends by default.
const maxRuns = 10_000

var (
	errRuns    = fmt.Errorf("the request has samples of more than %d runs", maxRuns)
	errTooMany = errors.New("the request has too many series or samples")
	errCrowded = fmt.Errorf("a series has more than %d labels", maxLabels)
	errTime    = errors.New("a sample's time is out of the range of nanoseconds")
)

const (
	labelName     = "__name__"
	labelRun      = "run"
	labelJob      = "job"
	labelInstance = "instance"
)

// label is a label in the request's bytes.
type label struct{ name, value []byte }

// Stats counts what a request held besides samples.
type Stats struct {
	Samples, Histograms, Exemplars, Metadata int
	Dropped                                  int // histograms that the model cannot hold
	Refused                                  int // points whose run's name is not valid
}

// decoder turns a request into columns.
type decoder struct {
	byRaw   map[string]*column // by the bytes of its labels as this request has them
	byKey   map[string]*column // by run, metric and labels
	runs    map[string]struct{}
	columns []*column
	at      int // place of the series that comes next if this scrape is like the last
	scratch []label
	symbols [][]byte
	key     []byte
	stats   Stats
	fault   error // why points were refused
	left    int   // of the budget
}

// column is the points of one series.
type column struct {
	raw    []byte
	place  int
	run    string
	key    model.SeriesKey
	fault  error // of the run's name
	named  bool  // the run came from its own label
	times  []int64
	values []float64
	docs   []document
}

// document is a native histogram.
type document struct {
	timeNs int64
	json   []byte
}

// newDecoder makes a decoder that may take so many bytes of memory.
func newDecoder(budget int) *decoder {
	return &decoder{byRaw: map[string]*column{}, byKey: map[string]*column{}, runs: map[string]struct{}{}, left: budget}
}

// spend pays for what is about to be made.
func (d *decoder) spend(cost int) error {
	if d.left -= cost; d.left < 0 {
		return errTooMany
	}
	return nil
}

// know remembers the bytes of a series' labels.
func (d *decoder) know(c *column, raw []byte) error {
	c.raw = raw
	if err := d.spend(costRaw + len(raw)); err != nil {
		return err
	}
	d.byRaw[string(raw)] = c
	return nil
}

// crowded is a series that takes the points of one with too many labels, to be refused. So
// are those of its histograms: their series get its run, which can be none.
func (d *decoder) crowded() (*column, error) {
	c := &column{fault: errCrowded, place: len(d.columns), run: "\x00", named: true}
	d.columns = append(d.columns, c)
	return c, d.spend(costSeries)
}

// guess is the series that followed the one before last time.
func (d *decoder) guess() *column {
	if d.at >= len(d.columns) {
		d.at = 0
	}
	if len(d.columns) == 0 {
		return nil
	}
	c := d.columns[d.at]
	d.at++
	return c
}

// add takes a sample.
func (d *decoder) add(c *column, value float64, ms int64) error {
	const most = math.MaxInt64 / 1_000_000
	if ms > most || ms < -most {
		return errTime
	}
	if err := d.spend(costSample); err != nil {
		return err
	}
	c.times = append(c.times, ms*1_000_000)
	c.values = append(c.values, value)
	d.stats.Samples++
	return nil
}

// column finds or makes the series of some labels. Empty values are as good as
// absent labels (Prometheus' data model), and of two with one name the last
// counts.
func (d *decoder) column(labels []label) (*column, error) {
	slices.SortStableFunc(labels, func(a, b label) int { return bytes.Compare(a.name, b.name) })
	labels = distinct(labels)
	k := d.key[:0]
	for _, l := range labels {
		k = binary.AppendUvarint(k, uint64(len(l.name)))
		k = append(k, l.name...)
		k = binary.AppendUvarint(k, uint64(len(l.value)))
		k = append(k, l.value...)
	}
	d.key = k
	if c := d.byKey[string(k)]; c != nil {
		return c, nil
	}
	if err := d.spend(costSeries + 2*len(k) + costLabel*len(labels)); err != nil {
		return nil, err
	}
	c := newColumn(labels)
	if d.runs[c.run] = struct{}{}; len(d.runs) > maxRuns {
		return nil, errRuns
	}
	c.place = len(d.columns)
	d.columns = append(d.columns, c)
	d.byKey[string(k)] = c
	return c, nil
}

// distinct drops empty labels and all but the last of each name.
func distinct(sorted []label) []label {
	out := sorted[:0]
	for i, l := range sorted {
		if i+1 < len(sorted) && bytes.Equal(l.name, sorted[i+1].name) {
			continue
		}
		if len(l.value) > 0 {
			out = append(out, l)
		}
	}
	return out
}

func newColumn(labels []label) *column {
	c := &column{key: model.SeriesKey{Scale: model.ScaleStep, Labels: make([]model.Label, 0, len(labels))}}
	var job, instance string
	for _, l := range labels {
		name, value := string(l.name), string(l.value)
		switch name {
		case labelName:
			c.key.Metric = value
			continue
		case labelRun:
			c.run = value
			continue
		case labelJob:
			job = value
		case labelInstance:
			instance = value
		}
		c.key.Labels = append(c.key.Labels, model.Label{Name: name, Value: value})
	}
	if c.named = c.run != ""; !c.named {
		c.run = runOf(job, instance)
	}
	c.fault = model.CheckRunName(c.run)
	return c
}

func runOf(job, instance string) string {
	switch {
	case job == "" && instance == "":
		return "default"
	case job == "" || instance == "":
		return job + instance
	}
	return job + "/" + instance
}

// parts are the batches, one for each run: series with the same times share a row
// group.
func (d *decoder) parts() []ingest.Part {
	var out []ingest.Part
	at := map[string]int{}
	seed := maphash.MakeSeed()
	groups := map[groupKey][]int{} // places in the part's groups
	for _, c := range d.columns {
		if c.fault != nil {
			d.refuse(c)
			continue
		}
		if len(c.times) == 0 && len(c.docs) == 0 {
			continue
		}
		k, ok := at[c.run]
		if !ok {
			k = len(out)
			at[c.run] = k
			out = append(out, ingest.Part{Run: c.run})
		}
		if len(c.times) > 0 {
			key := groupKey{k, hashTimes(seed, c.times)}
			groups[key] = c.join(&out[k].Batch, groups[key])
		}
		if len(c.docs) > 0 {
			out[k].Batch.Groups = append(out[k].Batch.Groups, c.documents())
		}
	}
	return out
}

// refuse counts the points of a series whose run cannot be.
func (d *decoder) refuse(c *column) {
	if n := len(c.times) + len(c.docs); n > 0 {
		d.stats.Refused += n
		d.fault = c.fault
	}
}

type groupKey struct {
	part int
	sum  uint64
}

func hashTimes(seed maphash.Seed, times []int64) uint64 {
	if len(times) == 1 {
		return uint64(times[0])
	}
	var h maphash.Hash
	h.SetSeed(seed)
	var b [8]byte
	for _, t := range times {
		binary.LittleEndian.PutUint64(b[:], uint64(t))
		_, _ = h.Write(b[:])
	}
	return h.Sum64()
}

// join puts the series into the group with its times.
func (c *column) join(b *model.Batch, candidates []int) []int {
	values := model.Column{Series: c.key, Kind: model.KindFloat, Floats: c.values}
	for _, i := range candidates {
		if g := &b.Groups[i]; slices.Equal(g.TimeNs, c.times) {
			g.Columns = append(g.Columns, values)
			return candidates
		}
	}
	b.Groups = append(b.Groups, model.RowGroup{Unique: model.UniqueTime, TimeNs: c.times, Columns: []model.Column{values}})
	return append(candidates, len(b.Groups)-1)
}

func (c *column) documents() model.RowGroup {
	g := model.RowGroup{Unique: model.UniqueTime}
	docs := make([][]byte, len(c.docs))
	for i, doc := range c.docs {
		g.TimeNs = append(g.TimeNs, doc.timeNs)
		docs[i] = doc.json
	}
	g.Columns = []model.Column{{Series: c.key, Kind: model.KindHistogram, Docs: docs}}
	return g
}
