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

// What is kept of a series for another request, in bytes: its names are there four times.
const (
	learntSeries = 400 // with its places in maps
	learntLabel  = 64
	timesNames   = 4
)

// maxLearnt is what all decoders may know of series for another request, and fewLearnt what one
// keeps, whether it is of use or not.
const (
	maxLearnt = 32 << 20
	fewLearnt = 2 << 20
	mostVain  = 16 // requests that know nothing of what was learnt
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

// decoder turns a request into columns. A sender names the same series again and again, and
// of a small request the names are nearly all: what a decoder has learnt of them, it knows in
// the next request of version 1, too.
type decoder struct {
	// What it knows; the points in it are those of one request, up to end.
	byRaw  map[string]*column // by the bytes of its labels as requests have them
	byKey  map[string]*column // by run, metric and labels
	known  []*column
	learnt int // bytes of all
	made   int // series that were new in this request
	vain   int // requests in a row that what it knows was of no use to
	at     int // place of the series that comes next if this scrape is like the last

	columns []*column // of this request
	runs    map[string]struct{}
	scratch []label
	symbols [][]byte
	key     []byte
	stats   Stats
	fault   error // why points were refused
	left    int   // of the budget
	floats  ingest.Slab[float64]
	ints    ingest.Slab[int64]
	room    []model.Column // of the row groups
	lists   [][]model.Column
}

// column is the points of one series.
type column struct {
	raw   string
	place int // among the known
	cost  int
	run   string
	key   model.SeriesKey
	text  string // of the key
	found uint32 // model.Column.Place
	fault error  // of the run's name
	named bool   // the run came from its own label

	used   bool // in this request; so is all below
	group  int
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
	d := &decoder{runs: map[string]struct{}{}, left: budget}
	d.forget()
	return d
}

// forget makes the decoder one that knows nothing.
func (d *decoder) forget() {
	d.byRaw, d.byKey, d.known, d.learnt, d.at, d.vain = map[string]*column{}, map[string]*column{}, nil, 0, 0, 0
	d.columns, d.symbols, d.room, d.lists = nil, nil, nil, nil
}

// end takes the points out, for another request.
func (d *decoder) end() {
	if d.vain++; len(d.columns) > d.made {
		d.vain = 0
	}
	for _, c := range d.columns {
		c.used, c.times, c.values, c.docs = false, nil, nil, nil
	}
	clear(d.columns)
	clear(d.scratch)
	clear(d.symbols)
	clear(d.runs)
	clear(d.room)
	clear(d.lists)
	d.floats.Reset()
	d.ints.Reset()
	d.columns, d.symbols, d.stats, d.fault = d.columns[:0], d.symbols[:0], Stats{}, nil
	d.made = 0
	if d.learnt > maxLearnt || d.vain > mostVain && d.learnt > fewLearnt {
		d.forget()
	}
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
	cost := costRaw + len(raw)
	if err := d.spend(cost); err != nil {
		return err
	}
	c.raw = string(raw)
	d.byRaw[c.raw] = c
	d.learnt += len(raw)
	return nil
}

// crowded is a series that takes the points of one with too many labels, to be refused. So
// are those of its histograms: their series get its run, which can be none.
func (d *decoder) crowded() (*column, error) {
	c := &column{fault: errCrowded, place: d.at, run: "\x00", named: true}
	d.columns = append(d.columns, c)
	return c, d.spend(costSeries)
}

// guess is the series that followed the one before last time.
func (d *decoder) guess() *column {
	if d.at >= len(d.known) {
		d.at = 0
	}
	if len(d.known) == 0 {
		return nil
	}
	c := d.known[d.at]
	d.at++
	return c
}

// use takes a known series into the request, at the cost of a new one.
func (d *decoder) use(c *column) error {
	if c.used {
		return nil
	}
	if err := d.spend(c.cost); err != nil {
		return err
	}
	return d.take(c)
}

func (d *decoder) take(c *column) error {
	if len(d.columns) == 0 || d.columns[len(d.columns)-1].run != c.run { // else it is counted
		if d.runs[c.run] = struct{}{}; len(d.runs) > maxRuns {
			return errRuns
		}
	}
	c.used = true
	d.columns = append(d.columns, c)
	return nil
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
	c.times = d.ints.Append(c.times, ms*1_000_000)
	c.values = d.floats.Append(c.values, value)
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
		return c, d.use(c)
	}
	cost := costSeries + 2*len(k) + costLabel*len(labels)
	if err := d.spend(cost); err != nil {
		return nil, err
	}
	c := newColumn(labels)
	c.place, c.cost = len(d.known), cost
	d.known = append(d.known, c)
	d.byKey[string(k)] = c
	d.made++
	d.learnt += learntSeries + timesNames*len(k) + learntLabel*len(labels)
	return c, d.take(c)
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
	c.fault, c.text = model.CheckRunName(c.run), c.key.String()
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

// rowGroup is a row group that is about to be.
type rowGroup struct {
	part    int
	times   []int64
	columns int
}

// parts are the batches, one for each run: series with the same times share a row
// group.
func (d *decoder) parts() []ingest.Part {
	var out []ingest.Part
	at := map[string]int{}
	groups := grouping{seed: maphash.MakeSeed(), at: map[groupKey][]int{}}
	for _, c := range d.columns {
		if c.fault != nil {
			d.refuse(c)
			continue
		}
		if len(c.times) == 0 && len(c.docs) == 0 {
			continue
		}
		k := len(out) - 1
		if k < 0 || out[k].Run != c.run {
			var ok bool
			if k, ok = at[c.run]; !ok {
				k = len(out)
				at[c.run] = k
				out = append(out, ingest.Part{Run: c.run})
			}
		}
		if len(c.times) > 0 {
			c.group = groups.join(k, c.times)
		}
		if len(c.docs) > 0 {
			out[k].Batch.Groups = append(out[k].Batch.Groups, c.documents())
		}
	}
	d.fill(out, groups.list)
	return out
}

// fill makes the row groups.
func (d *decoder) fill(out []ingest.Part, groups []rowGroup) {
	d.lists = slices.Grow(d.lists[:0], len(groups))[:len(groups)]
	d.room = slices.Grow(d.room[:0], len(d.columns))
	room := d.room[:cap(d.room)]
	for i := range groups {
		n := groups[i].columns
		d.lists[i], room = room[:0:n], room[n:]
	}
	d.room = d.room[:cap(d.room)-len(room)]
	for _, c := range d.columns {
		if c.fault == nil && len(c.times) > 0 {
			d.lists[c.group] = append(d.lists[c.group], model.Column{Series: c.key, Text: c.text, Place: c.found, Kind: model.KindFloat, Floats: c.values})
		}
	}
	for i := range groups {
		b := &out[groups[i].part].Batch
		b.Groups = append(b.Groups, model.RowGroup{Unique: model.UniqueTime, TimeNs: groups[i].times, Columns: d.lists[i]})
	}
}

// find keeps where the store found the series, for the next request.
func (d *decoder) find() {
	for _, c := range d.columns {
		if c.fault == nil && len(c.times) > 0 {
			list := &d.lists[c.group]
			c.found, *list = (*list)[0].Place, (*list)[1:]
		}
	}
}

// grouping finds series with the same times.
type grouping struct {
	seed maphash.Seed
	list []rowGroup
	at   map[groupKey][]int
}

// join is the place of the group of a part with some times.
func (g *grouping) join(part int, times []int64) int {
	if last := len(g.list) - 1; last >= 0 && g.takes(last, part, times) {
		return last
	}
	key := groupKey{part, hashTimes(g.seed, times)}
	for _, i := range g.at[key] {
		if g.takes(i, part, times) {
			return i
		}
	}
	g.at[key] = append(g.at[key], len(g.list))
	g.list = append(g.list, rowGroup{part, times, 1})
	return len(g.list) - 1
}

func (g *grouping) takes(i, part int, times []int64) bool {
	if g.list[i].part != part || !slices.Equal(g.list[i].times, times) {
		return false
	}
	g.list[i].columns++
	return true
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

func (c *column) documents() model.RowGroup {
	g := model.RowGroup{Unique: model.UniqueTime}
	docs := make([][]byte, len(c.docs))
	for i, doc := range c.docs {
		g.TimeNs = append(g.TimeNs, doc.timeNs)
		docs[i] = doc.json
	}
	g.Columns = []model.Column{{Series: c.key, Text: c.text, Kind: model.KindHistogram, Docs: docs}}
	return g
}
