package wandb

import (
	"bytes"
	"context"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
)

// placing finds the places of what a chunk has.
type placing struct {
	r       *Receiver
	life    *life
	process *process // that the chunk is of
	before  int64    // the greatest step before this window
	now     int64

	lanes   []row.Encoder
	groups  []model.RowGroup // outside of rows: events and lines of the console
	updates []model.Update
	unread  uint64 // lines that cannot be taken
	why     string

	// careful: some steps of the window do not rise. Then there has what is at each of them.
	careful bool
	there   map[int64][]row.Row
	sent    map[string]bool  // rows of the window's times, without their steps; nil: not read yet
	given   map[int64][]byte // rows of the window that got their steps here
}

// all places and stores a chunk.
func (p *placing) all(ctx context.Context, c *chunk) error {
	if err := p.history(ctx, c); err != nil {
		return err
	}
	if err := p.others(ctx, c); err != nil {
		return err
	}
	return p.flush(ctx)
}

// history places rows. What a window has is stored before the next one is read, so that
// its rows are found like those of requests before.
func (p *placing) history(ctx context.Context, c *chunk) error {
	for all := range c.history.Windows(windowLines, windowBytes) {
		if c.historyLines > 0 {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		c.historyLines += int64(all.Len())
		if err := p.window(ctx, all); err != nil {
			return err
		}
	}
	return nil
}

// window places the rows of a window.
func (p *placing) window(ctx context.Context, all *row.Window) error {
	if len(p.lanes) == 0 {
		p.lanes = make([]row.Encoder, 1)
	}
	p.lanes[0].Expect(all.Len())
	p.before, p.careful, p.there, p.sent, p.given = p.life.greatest, false, nil, nil, nil
	var line row.Line
	for i := range all.Len() {
		if err := p.parse(&line, all, i); err != nil {
			p.refuse(err)
			continue
		}
		if !line.HasStep {
			if there, err := p.numbered(ctx, &line, all, i); there || err != nil {
				if err != nil {
					return err
				}
				continue
			}
		}
		if !p.careful && line.Step <= p.life.greatest {
			if err := p.look(ctx, all, i); err != nil {
				return err
			}
		}
		if err := p.place(ctx, &line); err != nil {
			return err
		}
	}
	return nil
}

func (p *placing) refuse(err error) {
	p.unread++
	p.why = model.CutBytes(err.Error(), 200)
}

// parse reads a row. One without a step comes behind all others.
func (p *placing) parse(line *row.Line, all *row.Window, i int) error {
	if err := all.Parse(i, line); err != nil {
		return err
	}
	if !line.HasStep {
		line.Step = p.life.greatest + 1
		return nil
	}
	if line.Step < 0 {
		return model.Errorf(model.CodeBadRecord, "the step of a row is %d; it must not be negative", line.Step)
	}
	return nil
}

// numbered gives a row without a step the next one, unless the row is there: processes of
// 0.19 in shared mode leave the steps to the server. A row that was sent before has another
// step, so it is found by its time, among those of the chunk's times.
func (p *placing) numbered(ctx context.Context, line *row.Line, all *row.Window, i int) (there bool, err error) {
	if p.sent == nil {
		if err := p.recall(ctx, all, i); err != nil {
			return false, err
		}
	}
	key := row.Unnumbered(line.Text())
	if p.sent[key] {
		return true, nil
	}
	p.sent[key] = true
	if p.given == nil {
		p.given = map[int64][]byte{}
	}
	p.given[line.Step] = line.Text()
	return false, nil
}

// recall reads the rows of the times that rows without a step have.
func (p *placing) recall(ctx context.Context, all *row.Window, i int) error {
	p.sent = map[string]bool{}
	var line row.Line
	from, to := int64(math.MaxInt64), int64(math.MinInt64)
	for ; i < all.Len(); i++ {
		if err := all.Parse(i, &line); err == nil && !line.HasStep && line.TimeNs != 0 {
			from, to = min(from, line.TimeNs), max(to, line.TimeNs)
		}
	}
	if from > to || p.before < 0 {
		return nil
	}
	steps, err := row.StepsAt(ctx, p.r.query, p.life.id, from, to)
	if err != nil {
		return err
	}
	found, err := row.Find(ctx, p.r.query, p.life.id, steps)
	for _, rows := range found {
		for i := range rows {
			p.sent[row.Unnumbered(rows[i].Line)] = true
		}
	}
	return err
}

// look reads what is at the steps of the rows from i on. The rows before are in the first
// lane, at steps that rise.
func (p *placing) look(ctx context.Context, all *row.Window, i int) error {
	p.careful = true
	first := p.life.laneID(0)
	placed := map[int64][]row.Row{}
	var steps []int64
	var line row.Line
	for j := range all.Len() {
		switch err := all.Parse(j, &line); {
		case err != nil || !line.HasStep || line.Step < 0:
		case j < i:
			placed[line.Step] = append(placed[line.Step], row.Row{Writer: first, TimeNs: line.TimeNs, Line: line.Text()})
		case line.Step <= p.before:
			steps = append(steps, line.Step)
		}
	}
	slices.Sort(steps)
	var err error
	if p.there, err = row.Find(ctx, p.r.query, p.life.id, slices.Compact(steps)); err != nil {
		return err
	}
	for step, raw := range p.given {
		placed[step] = append(placed[step], row.Row{Writer: first, Line: raw})
	}
	for step, rows := range placed {
		p.there[step] = append(p.there[step], rows...)
	}
	return nil
}

// place puts a row into the first lane that lacks its step, unless it is there.
func (p *placing) place(ctx context.Context, line *row.Line) error {
	v := p.life
	there := p.there[line.Step]
	for i := range there {
		if other := &there[i]; line.TimeNs != 0 && other.TimeNs != 0 && line.TimeNs != other.TimeNs {
			continue // as rows of several processes
		} else if row.Same(line.Text(), other.Line) {
			return nil
		}
	}
	if err := p.advance(ctx); err != nil {
		return err
	}
	lane := v.free(there)
	if lane == maxLanes {
		p.refuse(model.Errorf(model.CodeLimit, "step %d has %d rows already", line.Step, maxLanes))
		return nil
	}
	if p.careful {
		p.there[line.Step] = append(there, row.Row{Writer: v.laneID(lane), TimeNs: line.TimeNs, Line: line.Text()})
	}
	v.greatest, v.rewound = max(v.greatest, line.Step), nil
	for len(p.lanes) <= lane {
		p.lanes = append(p.lanes, row.Encoder{})
	}
	p.lanes[lane].Add(line, p.now)
	return nil
}

// free is the first lane that has none of the rows, which are of one step.
func (v *life) free(rows []row.Row) (lane int) {
	if len(rows) == 0 {
		return 0
	}
	taken := make(map[model.WriterID]bool, len(rows))
	for i := range rows {
		taken[rows[i].Writer] = true
	}
	for lane < maxLanes && taken[v.laneID(lane)] {
		lane++
	}
	return lane
}

// advance turns to a new attempt at the first new row of a process that began alone, in a
// run that has rows.
func (p *placing) advance(ctx context.Context) error {
	v := p.life
	if !v.alone {
		return nil
	}
	if v.alone = false; v.greatest < 0 {
		return nil
	}
	return p.r.turn(ctx, v)
}

// others places what a chunk has beside rows.
func (p *placing) others(ctx context.Context, c *chunk) error {
	if err := p.events(ctx, c); err != nil {
		return err
	}
	if err := p.console(ctx, c); err != nil {
		return err
	}
	if err := p.summary(ctx, c); err != nil {
		return err
	}
	for _, lost := range []struct {
		count uint64
		why   string
	}{{c.dropped, "the W&B SDK dropped lines"}, {p.unread, p.why}} {
		if lost.count > 0 {
			p.updates = append(p.updates, model.Update{Op: model.OpDropped, Count: lost.count, Text: lost.why, TimeNs: p.now})
		}
	}
	return nil
}

// events are what the SDK measures of the machine: series of the time, without steps.
func (p *placing) events(ctx context.Context, c *chunk) error {
	for all := range windows(c.events) {
		if c.eventsLines > 0 {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		c.eventsLines += int64(len(all))
		for _, raw := range all {
			group, err := row.Event(raw, p.now)
			if err != nil {
				p.refuse(err)
				continue
			}
			if group != nil {
				p.groups = append(p.groups, *group)
			}
		}
	}
	return nil
}

// console are lines by their number: a later text of a line replaces it, as a progress bar
// does.
func (p *placing) console(ctx context.Context, c *chunk) error {
	for all := range windows(c.console) {
		if c.consoleLines > 0 {
			if err := p.flush(ctx); err != nil {
				return err
			}
		}
		p.groups = append(p.groups, p.printed(all, c.consoleFrom+c.consoleLines))
		c.consoleLines += int64(len(all))
	}
	return nil
}

// printed are lines of the console from a number on.
func (p *placing) printed(all [][]byte, from int64) model.RowGroup {
	g := model.RowGroup{Unique: model.UniqueStep, TimeNs: make([]int64, len(all))}
	step := make([]int64, len(all))
	texts := make([]string, len(all))
	for i, raw := range all {
		step[i] = from + int64(i)
		if g.TimeNs[i], texts[i] = stamped(raw); g.TimeNs[i] == 0 {
			g.TimeNs[i] = p.now
		}
	}
	g.Axes = []model.AxisColumn{{Axis: model.AxisStep, Values: step}}
	key := model.SeriesKey{Metric: row.ConsoleMetric, Scale: model.ScaleStep}
	if n := p.process.number; n > 0 { // it has lines of the same numbers as another's
		key.Labels = []model.Label{{Name: row.LabelProcess, Value: itoa(int64(n))}}
	}
	g.Columns = []model.Column{{Series: key, Kind: model.KindText, Texts: texts}}
	return g
}

// stamped cuts the time off that newer clients put before a line of the console, in UTC; 0
// where there is none. ERROR says that the line went to stderr, and stays.
func stamped(raw []byte) (ns int64, text string) {
	text = strings.TrimSuffix(string(bytes.ToValidUTF8(raw, []byte("\uFFFD"))), "\n") // older clients send it
	rest, mark := text, ""
	if after, is := strings.CutPrefix(text, "ERROR "); is {
		rest, mark = after, "ERROR "
	}
	const form = "2006-01-02T15:04:05.000000"
	if len(rest) <= len(form) || rest[len(form)] != ' ' {
		return 0, text
	}
	at, err := time.Parse(form, rest[:len(form)])
	if err != nil {
		return 0, text
	}
	return at.UnixNano(), mark + rest[len(form)+1:]
}

// summary is the last line of its file: each is the whole.
func (p *placing) summary(ctx context.Context, c *chunk) error {
	var last []byte
	for all := range windows(c.summary) {
		last = all[len(all)-1]
	}
	if last == nil {
		return nil
	}
	coming := map[string]bool{}
	for i := range p.lanes {
		for key := range p.lanes[i].Keys() {
			coming[key] = true
		}
	}
	updates, err := p.r.setSummary(ctx, p.life, len(p.life.processes) > 1 || p.life.shared || c.shared, string(last), coming)
	if model.CodeOf(err) == model.CodeInvalid {
		p.refuse(err)
		return nil
	}
	p.updates = append(p.updates, updates...)
	return err
}

// flush stores what was placed, each lane as a batch. What comes twice when the client sends
// it again, as counts do, is in the last one.
func (p *placing) flush(ctx context.Context) error {
	for len(p.updates) > updatesAtOnce { // of a summary with as many keys
		if err := p.send(ctx, 0, &model.Batch{Updates: slices.Clone(p.updates[:updatesAtOnce])}); err != nil {
			return err
		}
		p.updates = p.updates[updatesAtOnce:]
	}
	for i := max(1, len(p.lanes)) - 1; i >= 0; i-- {
		var b model.Batch
		if i < len(p.lanes) {
			b.Groups = p.lanes[i].Groups()
		}
		if i == 0 {
			b.Groups, b.Updates = append(b.Groups, p.groups...), p.updates
		}
		if len(b.Groups) == 0 && len(b.Updates) == 0 {
			continue
		}
		if err := p.send(ctx, i, &b); err != nil {
			return err
		}
	}
	p.groups, p.updates = nil, nil
	return nil
}

// updatesAtOnce is how many updates a batch has; ingest refuses one with twice as many.
const updatesAtOnce = 5_000

// send stores a batch of a lane.
func (p *placing) send(ctx context.Context, lane int, b *model.Batch) error {
	s, err := p.r.lane(ctx, p.life, lane)
	if err != nil {
		return err
	}
	ack, err := s.Append(ctx, b)
	if err != nil || len(ack.Refused) == 0 {
		return err
	}
	if ack.Refused[0].Code == model.CodeRunDeleted { // since the run was found
		return model.Errorf(model.CodeRunDeleted, "the run %q was deleted", p.life.at.run)
	}
	p.r.options.Log.WarnContext(ctx, "records of a W&B run were refused for good", "run", p.life.id, "records", len(ack.Refused), "first", ack.Refused[0].Message)
	return nil
}

func itoa(n int64) string { return strconv.FormatInt(n, 10) }
