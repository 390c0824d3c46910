package influx

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"hash/maphash"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
)

// Limits of one request. A body could name a series with every 8 bytes and a point with
// every 4, so that neither is bounded by the limit of bodies.
const (
	maxSeries = 32_000
	maxRuns   = 1_000 // Telegraf's batch has so many lines
	maxPoints = 1_000_000
	perSeries = 64 // bytes that the limit of bodies has for each: a small limit means fewer
)

// What a decoder makes of a line, in bytes of memory.
const (
	costHead  = 900 // a measurement with tags that are new
	costTag   = 150
	costShape = 400 // fields that are new
	costField = 800
	costRow   = 64 // a time and the axes
	costValue = 48
	costText  = 4 // for each of its bytes: the text, the record, the store
)

// learntField is what is kept of a field for another request besides its names, in bytes.
const learntField = 256

// maxLearnt is what all decoders may know of lines for another request, and maxRoom for how
// many fields and shapes one keeps room.
const (
	maxLearnt = 32 << 20
	fewLearnt = 2 << 20 // are kept, whether they are of use or not
	mostVain  = 16      // requests that know nothing of what was learnt
	maxRoom   = 1 << 10
)

// Limits of one line. InfluxDB has the first one too.
const (
	maxKey    = 65_535 // bytes of measurement and tags
	maxTags   = 1_024
	maxFields = 16_384
)

// decoder turns a body into columns. Lines of the same measurement, tags and fields follow
// each other in practice, so each line is first compared with the shapes that are likely.
// What it has learnt of lines it knows in the next request, too: a client sends the same
// names again and again, and of a small request they are nearly all.
type decoder struct {
	*reading
	// What it knows; the rows in it are those of one part of a request, up to reset.
	heads  map[string]*head  // by their bytes, without axes
	groups map[string]*group // by run, axes, measurement and tags
	learnt int               // bytes of both
	used   int               // shapes of this request, and
	made   int               // those that were new
	vain   int               // requests in a row that what it knows was of no use to
	last   *head
	seed   maphash.Seed

	order  []*group // that have lines in this part
	floats ingest.Slab[float64]
	ints   ingest.Slab[int64]
	turns  ingest.Slab[uint32]
	places map[string]int // of the runs and processes of this part: where they are in
	lines  []uint32       // how many each has had a turn
	varied bool           // lines of one series may lie in several shapes, so they have turns
	key    []byte
	fields []field
	room   []model.RowGroup // of the first part
	left   int              // of the budget of memory
	lost   int              // points of the part that no run can have, and
	why    error            // for the first
	count  count            // of the whole request
}

// count is what a request has had so far, over all its parts.
type count struct {
	line   int // the number of the next
	points int
	runs   map[string]struct{}

	most   int                 // series
	named  int                 // at least as many as there are
	fresh  [][]uint64          // hashes of names that are not in series yet
	series map[uint64]struct{} // hashes
}

// begin makes the count ready for a request.
func (c *count) begin(most int) {
	clear(c.fresh)
	*c = count{line: 1, most: most, fresh: c.fresh[:0]}
}

// name counts series. Which of them are the same is found out when they could be too many.
func (c *count) name(hashes []uint64) {
	c.named += len(hashes)
	c.fresh = append(c.fresh, hashes)
	if c.named <= c.most {
		return
	}
	if c.series == nil {
		c.series = map[uint64]struct{}{}
	}
	for _, list := range c.fresh {
		for _, sum := range list {
			c.series[sum] = struct{}{}
		}
	}
	c.named, c.fresh = len(c.series), c.fresh[:0]
}

// errLong is the answer to a line that is longer than what is read at once.
var errLong = model.Errorf(model.CodeTooLarge, "a line of the compressed body is longer than a sixteenth of the limit of bodies").
	WithHint("Send fewer fields on a line.")

// errMany is the answer to more points, series or runs than a request may have.
func errMany(what string, most int) error {
	return model.Errorf(model.CodeTooLarge, "the request has more than %d %s", most, what).WithHint("Send fewer points at once.")
}

// head is the measurement and the tags of points.
type head struct {
	raw   string
	group *group
	axes  []int64 // as group.axes
	spans []span  // where raw has them; none where the run is named after one
}

// group is points of one run, measurement and tags; their axes may differ in
// values.
type group struct {
	hash uint64 // of run, process, axes, measurement and tags
	run  string
	// What the tags say of the process, and what tells such processes apart.
	attributes []model.Label
	process    string
	place      string // run and process
	prefix     string // of the metrics' names
	labels     []model.Label
	axes       []model.Axis
	shapes     map[string]*shape
	last       *shape
	used       bool // in this part; so is all below
	order      []*shape
	at         int // in lines
}

// shape is points of a group with the same fields in the same order.
type shape struct {
	fields []string // NAME= as it was written
	slots  []int    // column of each field; -1: a later one has its name
	plain  bool     // slots are 0, 1, 2, …
	hashes []uint64 // of the series
	cost   int
	next   *shape // that of the line behind, when there was one before

	used    bool // in this part; so is all below
	columns []model.Column
	times   []int64
	turns   []uint32 // of the lines, among those of the run and process; see vary
	axes    [][]int64
	texts   int // bytes of them, not yet paid for
}

// field is one of a line that fits no shape yet.
type field struct {
	name  []byte // with its =
	value value
}

func newDecoder() *decoder {
	d := &decoder{seed: maphash.MakeSeed(), places: map[string]int{}}
	d.forget()
	return d
}

// forget makes the decoder one that knows nothing.
func (d *decoder) forget() {
	d.heads, d.groups, d.last, d.learnt, d.vain = map[string]*head{}, map[string]*group{}, nil, 0, 0
}

// begin makes the decoder ready for a request.
func (d *decoder) begin(r *reading, maxSeries int) {
	d.reading, d.left, d.used, d.made = r, r.budget, 0, 0
	d.count.begin(maxSeries)
}

// end is reset behind the last part.
func (d *decoder) end() {
	d.reset()
	d.reading = nil
	if d.vain++; d.used > d.made {
		d.vain = 0
	}
	if d.vain > mostVain && d.learnt > fewLearnt { // names that nobody sends again
		d.forget()
	}
	if cap(d.count.fresh) > maxRoom {
		d.count.fresh = nil
	}
}

// reset takes the rows out, for another part.
func (d *decoder) reset() {
	for _, g := range d.order {
		for _, s := range g.order {
			s.clear()
		}
		clear(g.order)
		g.used, g.order = false, g.order[:0]
	}
	clear(d.order)
	clear(d.fields)
	clear(d.room)
	clear(d.places)
	d.floats.Reset()
	d.ints.Reset()
	d.turns.Reset()
	d.order, d.lines, d.varied, d.left = d.order[:0], d.lines[:0], false, d.budget
	if d.learnt > min(maxLearnt, d.budget) {
		d.forget()
	}
	if cap(d.fields) > maxRoom {
		d.fields = nil
	}
	if cap(d.room) > maxRoom {
		d.room = nil
	}
}

func (s *shape) clear() {
	for k := range s.columns {
		c := &s.columns[k]
		c.Floats, c.Ints, c.Texts = nil, nil, nil
	}
	clear(s.axes)
	s.used, s.times, s.turns, s.texts = false, nil, nil, 0
}

// use takes a group into the part.
func (d *decoder) use(g *group) {
	last := len(d.order) - 1
	g.used = true
	d.order = append(d.order, g)
	if !slices.Equal(g.axes, d.order[0].axes) {
		d.vary()
	}
	if last >= 0 && d.order[last].place == g.place {
		g.at = d.order[last].at
		return
	}
	at, known := d.places[g.place]
	if !known {
		if d.count.runs == nil {
			d.count.runs = map[string]struct{}{}
		}
		at = len(d.lines)
		d.places[g.place], d.lines = at, append(d.lines, 0)
		d.count.runs[g.place] = struct{}{}
	}
	g.at = at
}

// useShape takes a shape into the part.
func (d *decoder) useShape(g *group, s *shape) {
	s.used = true
	if g.order = append(g.order, s); len(g.order) > 1 {
		d.vary()
	}
	d.left -= s.cost
	d.count.name(s.hashes)
	d.used++
}

// vary begins to give lines their turns. Those that are here are of as many series as they
// have columns, so any turns will do for them.
func (d *decoder) vary() {
	if d.varied {
		return
	}
	d.varied = true
	for _, g := range d.order {
		for _, s := range g.order {
			for range s.times {
				d.turn(g, s)
			}
		}
	}
}

// turn gives the next line of a shape its turn.
func (d *decoder) turn(g *group, s *shape) {
	s.turns = d.turns.Append(s.turns, d.lines[g.at])
	d.lines[g.at]++
}

// decode reads lines until the budget is spent; n is the place of the next. Lines that
// begin behind the place last are left: they may be cut.
func (d *decoder) decode(body []byte, last int) (n int, err error) {
	for at := 0; ; d.count.line++ {
		for at < len(body) && (body[at] == ' ' || body[at] == '\t' || body[at] == '\r') {
			at++
		}
		switch {
		case at >= min(len(body), last), d.left < 0:
			return min(at, len(body)), nil
		case body[at] == '\n':
			at++
			continue
		case body[at] == '#':
			if at += lineLength(body[at:]); at == len(body) && last < len(body) {
				return at, errLong
			}
			continue
		}
		end, reason := d.line(body, at)
		if end >= len(body) && last < len(body) { // cut, so what was read of it says nothing
			return at, errLong
		}
		if reason != "" {
			return at, badLine(body[at:], d.count.line, reason)
		}
		if err := d.count.full(); err != nil {
			return at, err
		}
		d.count.line += bytes.Count(body[at:min(end, len(body)-1)], []byte{'\n'}) // in strings
		at = end + 1
	}
}

func (c *count) full() error {
	if c.points > maxPoints {
		return errMany("points", maxPoints)
	}
	if c.named > c.most {
		return errMany("series", c.most)
	}
	if len(c.runs) > maxRuns {
		return errMany("runs", maxRuns)
	}
	return nil
}

// lineLength is the length of a line with its end.
func lineLength(b []byte) int {
	if n := bytes.IndexByte(b, '\n'); n >= 0 {
		return n + 1
	}
	return len(b)
}

func badLine(rest []byte, line int, reason string) error {
	text := strings.ToValidUTF8(strings.TrimRight(string(rest[:lineLength(rest)]), "\r\n"), "�")
	return model.Errorf(model.CodeInvalid, "unable to parse '%s': line %d: %s", model.CutBytes(text, 256), line, reason)
}

// line reads the line at i; end is the place of its line feed.
func (d *decoder) line(b []byte, i int) (end int, reason string) {
	h, i, reason := d.head(b, i)
	if reason != "" {
		return i, reason
	}
	for i < len(b) && b[i] == ' ' {
		i++
	}
	if i >= len(b) || b[i] == '\n' || b[i] == '\r' && (i+1 == len(b) || b[i+1] == '\n') {
		return i, reasonFields
	}
	if !h.group.used {
		d.use(h.group)
	}
	s, stop := d.guess(h.group, b, i)
	if s == nil {
		if s, stop, reason = d.slow(h.group, b, i); reason != "" {
			return stop, reason
		}
	}
	end = stop + lineLength(b[stop:]) - 1
	if end < len(b) && b[end] != '\n' {
		end++
	}
	ns, given, reason := parseTime(b[stop:end], d.unit)
	if reason != "" {
		return end, reason
	}
	if !given {
		ns = d.now
	}
	d.count.points += len(s.fields)
	d.left -= costRow + costValue*len(s.fields) + costText*s.texts
	s.texts = 0
	s.times = d.ints.Append(s.times, ns)
	if d.varied {
		d.turn(h.group, s)
	}
	for k, v := range h.axes {
		s.axes[k] = d.ints.Append(s.axes[k], v)
	}
	return end, ""
}

// head finds the measurement and tags at i.
func (d *decoder) head(b []byte, i int) (h *head, end int, reason string) {
	if h = d.last; h != nil && h.spans != nil {
		if end, ok := h.again(b, i); ok {
			return h, end, ""
		}
	} else if h != nil {
		if end = i + len(h.raw); end < len(b) && b[end] == ' ' && text(b[i:end]) == h.raw {
			return h, end, ""
		}
	}
	end = endOf(b, i, ' ', ' ')
	raw := b[i:end]
	if len(raw) > maxKey {
		return nil, end, reasonKey
	}
	if h = d.heads[string(raw)]; h == nil {
		if h, reason = d.newHead(raw); reason != "" {
			return nil, end, reason
		}
	}
	d.last = h
	return h, end, ""
}

func (d *decoder) newHead(raw []byte) (*head, string) {
	text := string(raw)
	measurement, tags, reason := parseHead(raw, text)
	if reason != "" {
		return nil, reason
	}
	// Most clients sort them: then this costs little.
	byName := func(a, b tag) int { return strings.Compare(a.name, b.name) }
	if !slices.IsSortedFunc(tags, byName) {
		slices.SortFunc(tags, byName)
	}
	if twice(tags) {
		return nil, reasonTwice
	}
	cost := costHead + 4*len(raw) + costTag*len(tags)
	d.left -= cost
	h := &head{raw: text}
	run, whole, inRun := d.rules.name(tags)
	g := &group{run: run, prefix: metricPrefix(measurement)}
	h.axes, g.axes = axesOf(tags, d.rules.axes)
	described := d.rules.ruled || slices.ContainsFunc(tags, func(t tag) bool { return t.name == runtimeTag })
	g.labels = make([]model.Label, 0, len(tags))
	for _, t := range tags {
		_, integer := axisValue(t.value)
		switch {
		case integer && slices.Contains(d.rules.axes, model.Axis(t.name)), t.name == whole:
		case described && d.rules.describes(t.name, inRun):
			g.attributes = append(g.attributes, model.Label{Name: attributePath(t.name), Value: t.value})
		default:
			g.labels = append(g.labels, model.Label{Name: t.name, Value: t.value})
		}
	}
	g.process = ingest.ProcessOf(g.attributes)
	h.group = d.intern(g)
	if len(g.axes) == 0 {
		d.heads[text] = h
		d.learnt += cost
	} else if d.rules.runIsNoAxis() {
		h.spans = spansOf(raw, d.rules.axes, g.axes)
	}
	return h, ""
}

// twice reports whether two tags have one name.
func twice(sorted []tag) bool {
	for i := 1; i < len(sorted); i++ {
		if sorted[i].name == sorted[i-1].name {
			return true
		}
	}
	return false
}

// intern finds the group that is equal to g, or takes it in.
func (d *decoder) intern(g *group) *group {
	// Any of them may hold any byte, so each is behind its length.
	k := appendText(appendText(d.key[:0], g.run), g.process)
	place := len(k)
	k = binary.AppendUvarint(k, uint64(len(g.axes)))
	for _, a := range g.axes {
		k = appendText(k, string(a))
	}
	k = appendText(k, g.prefix)
	for _, l := range g.labels {
		k = appendText(appendText(k, l.Name), l.Value)
	}
	d.key = k
	if old := d.groups[string(k)]; old != nil {
		return old
	}
	id := string(k)
	g.shapes, g.hash, g.place = map[string]*shape{}, maphash.String(d.seed, id), id[:place]
	d.groups[id] = g
	d.learnt += costHead + 4*len(id)
	return g
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

// metricPrefix is what the names of a measurement's series start with. A slash of
// its own is escaped, so that the first one in a name always ends the measurement.
func metricPrefix(measurement string) string {
	if !strings.ContainsAny(measurement, "%/") {
		return measurement + "/"
	}
	return strings.NewReplacer("%", "%25", "/", "%2F").Replace(measurement) + "/"
}

// axisValue reads an axis; text that is no integer as we would write it stays a
// label.
func axisValue(text string) (v int64, ok bool) {
	const most = 18 // digits: every such number fits, and leaves room to add
	if text == "" || len(text) > most || len(text) > 1 && text[0] == '0' {
		return 0, false
	}
	for i := range len(text) {
		if text[i]-'0' > 9 {
			return 0, false
		}
		v = v*10 + int64(text[i]-'0')
	}
	return v, true
}

// axesOf are the axes of a point in the model's order, with the step that they give.
func axesOf(tags []tag, wanted []model.Axis) (values []int64, axes []model.Axis) {
	for _, axis := range wanted {
		if _, ok := axisOf(tags, axis); ok {
			axes = append(axes, axis)
		}
	}
	from := stepOf(wanted, axes)
	if from != "" && !slices.Contains(axes, model.AxisStep) {
		axes = append(axes, model.AxisStep)
	}
	order := model.Axes()
	slices.SortFunc(axes, func(a, b model.Axis) int { return slices.Index(order, a) - slices.Index(order, b) })
	for _, axis := range axes {
		if axis == model.AxisStep {
			axis = from
		}
		v, _ := axisOf(tags, axis)
		values = append(values, v)
	}
	return values, axes
}

// stepOf is the tag that gives the step: that of this name, else the first of the wanted.
// A batch counts anew in each epoch: with both, neither of them tells steps apart.
func stepOf(wanted, have []model.Axis) model.Axis {
	if slices.Contains(have, model.AxisStep) {
		return model.AxisStep
	}
	both := slices.Contains(have, model.AxisBatch) && slices.Contains(have, model.AxisEpoch)
	for _, axis := range wanted {
		if slices.Contains(have, axis) && !(both && (axis == model.AxisBatch || axis == model.AxisEpoch)) {
			return axis
		}
	}
	return ""
}

// axisOf is the value of the tag that is an axis.
func axisOf(tags []tag, axis model.Axis) (int64, bool) {
	for i := range tags {
		if tags[i].name == string(axis) {
			return axisValue(tags[i].value)
		}
	}
	return 0, false
}

// guess reads the fields at i if they are those of the shape that followed the last one
// before, or of that one again; else s is nil.
func (d *decoder) guess(g *group, b []byte, i int) (s *shape, end int) {
	last := g.last
	if last == nil {
		return nil, 0
	}
	if end, ok := d.push(g, last.next, b, i); ok {
		g.last = last.next
		return g.last, end
	}
	if end, ok := d.push(g, last, b, i); ok {
		last.next = last
		return last, end
	}
	return nil, 0
}

// push reads the fields at i into the columns if they are those of the shape;
// else the shape is as it was.
func (d *decoder) push(g *group, s *shape, b []byte, i int) (end int, ok bool) {
	if s == nil || !s.plain || !strings.HasPrefix(text(b[i:]), s.fields[0]) {
		return 0, false
	}
	if !s.used {
		d.useShape(g, s)
	}
	for k, name := range s.fields {
		if !strings.HasPrefix(text(b[i:]), name) {
			return s.undo(k)
		}
		c := &s.columns[k]
		if f, stop, usual := scanFloat(b, i+len(name)); usual && c.Kind == model.KindFloat {
			c.Floats, i = d.floats.Append(c.Floats, f), stop
		} else {
			v, stop, reason := parseValue(b, i+len(name))
			if reason != "" || v.kind != c.Kind {
				return s.undo(k)
			}
			d.append(c, &v)
			s.texts += len(v.text)
			i = stop
		}
		if k == len(s.fields)-1 {
			break
		}
		if i >= len(b) || b[i] != ',' {
			return s.undo(k + 1)
		}
		i++
	}
	if i < len(b) && (b[i] == ',' || !ends(b[i])) {
		return s.undo(len(s.fields))
	}
	return i, true
}

// undo takes back the values of the first n columns.
func (s *shape) undo(n int) (int, bool) {
	rows := len(s.times)
	for k := range n {
		c := &s.columns[k]
		switch c.Kind {
		case model.KindFloat:
			c.Floats = c.Floats[:rows]
		case model.KindInt:
			c.Ints = c.Ints[:rows]
		default:
			c.Texts = c.Texts[:rows]
		}
	}
	return 0, false
}

// slow reads the fields at i without a guess.
func (d *decoder) slow(g *group, b []byte, i int) (s *shape, end int, reason string) {
	d.fields, d.key = d.fields[:0], d.key[:0]
	for {
		equals, reason := fieldName(b, i)
		if reason != "" {
			return nil, equals, reason
		}
		f := field{name: b[i : equals+1]}
		if f.value, i, reason = parseValue(b, equals+1); reason != "" {
			return nil, i, reason
		}
		if i < len(b) && !ends(b[i]) {
			return nil, i, reasonNumber
		}
		if len(d.fields) == maxFields {
			return nil, i, reasonMany
		}
		if len(f.name) > maxKey {
			return nil, i, reasonName
		}
		d.fields = append(d.fields, f)
		d.key = append(append(d.key, f.name...), byte(f.value.kind))
		if i >= len(b) || b[i] != ',' {
			break
		}
		i++
	}
	s = g.shapes[string(d.key)]
	if s == nil {
		s = d.newShape(g)
	}
	if !s.used {
		d.useShape(g, s)
	}
	if g.last != nil {
		g.last.next = s
	}
	g.last = s
	for k := range d.fields {
		if at := s.slots[k]; at >= 0 {
			d.append(&s.columns[at], &d.fields[k].value)
			s.texts += len(d.fields[k].value.text)
		}
	}
	return s, i, ""
}

// newShape makes the shape of d.fields. Of two fields with one name the later
// counts.
func (d *decoder) newShape(g *group) *shape {
	key := string(d.key)
	s := &shape{axes: make([][]int64, len(g.axes)), slots: make([]int, len(d.fields)), fields: make([]string, len(d.fields))}
	s.cost = costShape + 4*len(key) + costField*len(d.fields)
	names, from := make([]string, len(d.fields)), 0
	latest := make(map[string]int, len(d.fields))
	for k, f := range d.fields {
		s.fields[k] = key[from : from+len(f.name)]
		names[k] = unescape(s.fields[k][:len(f.name)-1])
		latest[names[k]] = k
		from += len(f.name) + 1 // its kind
	}
	s.columns, s.hashes = make([]model.Column, 0, len(latest)), make([]uint64, 0, len(latest))
	for k, name := range names {
		s.slots[k] = -1
		if latest[name] == k {
			s.slots[k] = len(s.columns)
			of := model.SeriesKey{Metric: g.prefix + name, Scale: model.ScaleStep, Labels: g.labels}
			s.columns = append(s.columns, model.Column{Series: of, Text: of.String(), Kind: d.fields[k].value.kind})
			d.learnt += learntField + len(of.Metric) + len(s.columns[len(s.columns)-1].Text)
			s.hashes = append(s.hashes, maphash.String(d.seed, name)+31*g.hash)
		}
	}
	s.plain = len(s.columns) == len(d.fields)
	g.shapes[key] = s
	d.made++
	d.learnt += costShape + 4*len(key)
	return s
}

// parts are the batches, one for each process of a run. Points of runs that cannot be are lost.
func (d *decoder) parts() []ingest.Part {
	out := make([]ingest.Part, len(d.lines))
	for _, g := range d.order {
		p := &out[g.at]
		p.Run, p.Process, p.Attributes = g.run, g.process, g.attributes
		if g.at == 0 && p.Batch.Groups == nil {
			p.Batch.Groups = d.room[:0]
		}
		p.Batch.Groups = slices.Grow(p.Batch.Groups, len(g.order))
		for _, s := range g.order {
			if len(s.times) > 0 {
				p.Batch.Groups = append(p.Batch.Groups, s.group(g))
			}
		}
	}
	if len(out) > 0 {
		d.room = out[0].Batch.Groups
	}
	d.lost, d.why = 0, nil
	return slices.DeleteFunc(out, func(p ingest.Part) bool {
		err := model.CheckRunName(p.Run)
		if err != nil {
			d.lost += p.Batch.Points()
			d.why = cmp.Or(d.why, err)
		}
		return err != nil
	})
}

func (s *shape) group(g *group) model.RowGroup {
	out := model.RowGroup{Unique: model.UniqueTime, TimeNs: s.times, Turn: s.turns, Columns: s.columns}
	for i, axis := range g.axes {
		out.Axes = append(out.Axes, model.AxisColumn{Axis: axis, Values: s.axes[i]})
	}
	return out
}

// append adds a value of the column's kind.
func (d *decoder) append(c *model.Column, v *value) {
	switch v.kind {
	case model.KindFloat:
		c.Floats = d.floats.Append(c.Floats, v.float)
	case model.KindInt:
		c.Ints = d.ints.Append(c.Ints, v.int)
	default:
		c.Texts = append(c.Texts, v.text)
	}
}
