package wandb

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/loose"
	"github.com/kymogram/kymogram/server/internal/query"
)

// naive is what a run is by the rules alone: it has every row, in the order of arrival.
type naive struct {
	rows []naiveRow
	// epochs hide rows of those before: from a step on, or where they have a row themselves.
	epochs []*int64
	alone  bool
	// bare: a process went back to a step, and no row came since.
	bare bool
}

type naiveRow struct {
	value, epoch int
	step         int64
}

func (n *naive) has(value int) bool {
	return slices.ContainsFunc(n.rows, func(r naiveRow) bool { return r.value == value })
}

// take is a row that arrives, perhaps once more.
func (n *naive) take(value int, step int64) {
	if n.has(value) {
		return
	}
	if n.alone && len(n.rows) > 0 {
		n.epochs = append(n.epochs, nil)
	}
	n.alone, n.bare = false, false
	n.rows = append(n.rows, naiveRow{value, len(n.epochs), step})
}

func (n *naive) rewind(step int64) {
	from := step + 1
	if n.bare && *n.epochs[len(n.epochs)-1] == from { // it is asked for once more
		return
	}
	n.epochs, n.alone, n.bare = append(n.epochs, &from), false, true
}

// curve are the values that show, by step.
func (n *naive) curve() map[int64][]int {
	out := map[int64][]int{}
	for _, r := range n.rows {
		hidden := false
		for _, later := range n.rows {
			hidden = hidden || later.epoch > r.epoch && n.epochs[later.epoch-1] == nil && later.step == r.step
		}
		for i, from := range n.epochs {
			hidden = hidden || i+1 > r.epoch && from != nil && r.step >= *from
		}
		if !hidden {
			out[r.step] = append(out[r.step], r.value)
		}
	}
	for _, values := range out {
		slices.Sort(values)
	}
	return out
}

// client is a process with the SDK: what it logged, and what of it was acknowledged.
type client struct {
	rows   []naiveRow
	acked  int
	offset int // of its first row
	next   int64
	sent   bool
	// reborn: the server restarted before it sent anything.
	reborn bool
}

// drill is a run with its clients.
type drill struct {
	*lab
	r       *rand.Rand
	name    string
	oracle  naive
	running []*client
	values  int
	trace   []string
	native  *native
	others  map[int64]float64 // what native clients logged
	natives int               // how many there were
	killed  bool              // all processes were, at least once
	// spare counts the processes that began alone after that and ended well without a new row:
	// where the attempt has a process that did not, such a process has one of its own.
	spare int
}

func (d *drill) note(format string, args ...any) {
	d.trace = append(d.trace, fmt.Sprintf(format, args...))
}

// anyAlive tells whether a process runs that sent something.
func (d *drill) anyAlive() bool {
	return slices.ContainsFunc(d.running, func(c *client) bool { return c.sent })
}

// begin starts a process. One that began and did not say a word yet counts for nothing: its
// UpsertBucket may have come twice.
func (d *drill) begin(resume bool) {
	c := &client{}
	if resume {
		d.want(`query RunResumeStatus { model(name: "p", entityName: "w") { bucket(name: "`+d.name+`", missingOk: true) { id historyTail historyLineCount } } }`, nil)
		for _, r := range d.oracle.rows {
			if d.visible(r) {
				c.next = max(c.next, r.step+1)
			}
		}
	}
	d.note("begin resume=%v next=%d", resume, c.next)
	alone := !d.anyAlive()
	d.oracle.alone = (d.oracle.alone || alone) && !(resume && d.oracle.bare)
	id := map[string]any{"host": "box", "program": "x", "config": `{"_wandb":{"value":{"cli_version":"0.31.0","t":{"3":[1]}}}}`}
	if resume {
		id["id"] = node("Run", d.id(d.name).String())
	}
	bucket := d.upsert(d.name, id)
	c.offset = int(bucket["historyLineCount"].(float64)) //nolint:forcetypeassert // a test may
	d.running = append(d.running, c)
}

func (d *drill) visible(r naiveRow) bool { return slices.Contains(d.oracle.curve()[r.step], r.value) }

// log makes rows of a client.
func (d *drill) log(c *client) {
	for range 1 + d.r.IntN(6) {
		d.values++
		c.rows = append(c.rows, naiveRow{value: d.values, step: c.next})
		c.next += 1 + int64(d.r.IntN(2))
	}
}

// cut is a context that is cancelled when it was looked at so many times.
type cut struct {
	context.Context //nolint:containedctx // it is one
	left            atomic.Int64
	done            chan struct{}
}

func (c *cut) Err() error {
	left := c.left.Add(-1)
	if left == 0 {
		close(c.done)
	}
	if left <= 0 {
		return context.Canceled
	}
	return nil
}

func (c *cut) Done() <-chan struct{} { return c.done }

// send sends a part of what a client has, from the first row that was not acknowledged or
// one before.
func (d *drill) send(c *client, end bool) {
	from := c.acked - d.r.IntN(min(c.acked, 2)+1)
	to := len(c.rows)
	if !end {
		to = from + d.r.IntN(len(c.rows)-from+1)
	}
	part := c.rows[from:to]
	var all []string
	for _, r := range part {
		all = append(all, plainRow(r.value, r.step))
	}
	chunk := map[string]any{"files": map[string]any{fileHistory: linesAt(c.offset+from, all...)}}
	if end {
		chunk["complete"], chunk["exitcode"] = true, 0
	}
	ctx, fault := d.t.Context(), "none"
	switch d.r.IntN(8) {
	case 0:
		short := &cut{Context: ctx, done: make(chan struct{})}
		short.left.Store(1 + d.r.Int64N(40))
		ctx, fault = short, "cut"
	case 1:
		fault = "full"
		limit := int64(d.r.IntN(3000))
		d.fs.Limit(d.fs.Used() + limit + 1)
	}
	w := d.stream(ctx, d.name, chunk)
	d.fs.Limit(0)
	d.note("send %v fault=%s end=%v: %d %s", part, fault, end, w.Code, strings.TrimSpace(w.Body.String()))
	if w.Code != http.StatusOK && fault == "none" {
		d.t.Fatalf("%s\n%d %s", strings.Join(d.trace, "\n"), w.Code, w.Body)
	}
	if w.Code != http.StatusOK && d.r.IntN(2) == 0 { // it is sent again
		d.maybeRestart()
	}
	if w.Code != http.StatusOK {
		if w = d.stream(d.t.Context(), d.name, chunk); w.Code != http.StatusOK {
			d.t.Fatalf("%s\nafter a fault: %d %s", strings.Join(d.trace, "\n"), w.Code, w.Body)
		}
	}
	for _, r := range part {
		d.oracle.take(r.value, r.step)
	}
	if c.sent = true; d.r.IntN(4) > 0 || end { // else the answer is lost
		c.acked = max(c.acked, to)
	}
	if end {
		if d.oracle.alone && d.killed {
			d.spare++
		}
		d.running = slices.DeleteFunc(d.running, func(o *client) bool { return o == c })
	}
}

func (d *drill) maybeRestart() {
	n := d.r.IntN(6)
	for _, c := range d.running {
		c.reborn = c.reborn || n < 2 && !c.sent
	}
	switch n {
	case 0:
		d.note("another receiver")
		d.renew()
	case 1:
		d.note("restart")
		if d.native != nil && d.native.session != nil {
			d.native.session.Close()
			d.native.session = nil
		}
		d.restart()
	}
}

// native is a native client of the same run.
type native struct {
	model.OpenRequest
	session *ingest.Session // nil after the server ended
}

// joins lets the native client open its writer, the first one or once more.
func (d *drill) joins() {
	if d.native == nil {
		d.natives++
		d.native = &native{OpenRequest: model.OpenRequest{
			Writer: newWriter(), Workspace: "w", Project: "p", RunName: d.name, OrchestrationID: fmt.Sprintf("job-%d", d.natives), ResumeStrategy: model.ResumeAllow,
		}}
	}
	if d.native.session == nil {
		var err error
		if d.native.session, err = d.ingest.Join(d.t.Context(), d.native.OpenRequest); err != nil {
			d.t.Fatal(err)
		}
	}
}

// logs is a point of the native client.
func (d *drill) logs() {
	d.joins()
	step, value := int64(len(d.others)), d.r.Float64()
	d.others[step] = value
	d.note("native client %d: %v at %d", d.natives, value, step)
	d.native.append(d.t, &model.Batch{Groups: []model.RowGroup{{
		Axes: []model.AxisColumn{{Axis: model.AxisStep, Values: []int64{step}}}, TimeNs: []int64{d.now().UnixNano()},
		Columns: []model.Column{{Series: model.SeriesKey{Metric: "native", Scale: model.ScaleStep}, Kind: model.KindFloat, Floats: []float64{value}}},
	}}})
}

// leaves is the end of the native client.
func (d *drill) leaves() {
	if d.native == nil {
		return
	}
	d.joins()
	d.note("native client %d ends", d.natives)
	d.native.append(d.t, &model.Batch{Updates: []model.Update{{Op: model.OpClose, Text: string(model.StatusFinished), TimeNs: d.now().UnixNano()}}})
	d.native.session.Close()
	d.native = nil
}

func (n *native) append(t testing.TB, b *model.Batch) {
	t.Helper()
	if ack, err := n.session.Append(t.Context(), b); err != nil || len(ack.Refused) > 0 {
		t.Fatalf("%v %v", ack, err)
	}
}

// check compares the run with the oracle.
func (d *drill) check() {
	d.t.Helper()
	run, err := d.query.Run(d.t.Context(), d.id(d.name), nil)
	if err != nil {
		d.t.Fatal(err)
	}
	if want := 1 + len(d.oracle.epochs) + d.natives; len(run.Order) < want || len(run.Order) > want+d.spare {
		d.t.Errorf("%s\nthe run has %d attempts, want %d and at most %d more", strings.Join(d.trace, "\n"), len(run.Order), want, d.spare)
	}
	d.checkRows()
	d.checkOthers()
}

// checkOthers compares the points of native clients with what they logged.
func (d *drill) checkOthers() {
	d.t.Helper()
	got := map[int64]float64{}
	all := query.AcrossRequest{Run: d.id(d.name), Metrics: []string{"native"}, Axis: model.AxisStep, From: 0, To: math.MaxInt64, Attempts: query.Attempts{All: true}}
	for rows, err := range d.query.Across(d.t.Context(), all) {
		if err != nil {
			d.t.Fatal(err)
		}
		for i, step := range rows.Axes[0].Values {
			got[step] = rows.Values.Floats[i]
		}
	}
	if !maps.Equal(got, d.others) {
		d.t.Errorf("%s\nthe native points are %v, want %v", strings.Join(d.trace, "\n"), got, d.others)
	}
}

// checkRows compares the rows with the oracle's.
func (d *drill) checkRows() {
	d.t.Helper()
	var steps []int64
	want := map[string]int{}
	for _, r := range d.oracle.rows {
		steps = append(steps, r.step)
		want[fmt.Sprintf("%d@%d", r.value, r.step)]++
	}
	slices.Sort(steps)
	steps = slices.Compact(steps)
	got := map[string]int{}
	for _, line := range d.stored(d.name, steps) {
		got[rowName(line)]++
	}
	for name, n := range want {
		if got[name] != n {
			d.t.Fatalf("%s\nthe row %s is stored %d times", strings.Join(d.trace, "\n"), name, got[name])
		}
	}
	if len(got) != len(want) {
		d.t.Fatalf("%s\n%v is stored, want %v", strings.Join(d.trace, "\n"), got, want)
	}
	run := d.run(d.name)
	shown := map[int64][]int{}
	count := 0
	for _, line := range run["history"].([]any) { //nolint:forcetypeassert // a test may
		var value int
		var step int64
		if _, err := fmt.Sscanf(rowName(line.(string)), "%d@%d", &value, &step); err != nil { //nolint:forcetypeassert // a test may
			d.t.Fatal(err)
		}
		shown[step] = append(shown[step], value)
		count++
	}
	for _, values := range shown {
		slices.Sort(values)
	}
	if curve := d.oracle.curve(); fmt.Sprint(shown) != fmt.Sprint(curve) {
		d.t.Fatalf("%s\nthe curve is\n%v, want\n%v", strings.Join(d.trace, "\n"), shown, curve)
	}
	if n := run["historyLineCount"].(float64); int(n) != count { //nolint:forcetypeassert // a test may
		d.t.Fatalf("%s\nhistoryLineCount is %v of %d", strings.Join(d.trace, "\n"), n, count)
	}
}

// rowName is what the test calls a row.
func rowName(line string) string {
	v, _ := loose.Get([]byte(line), "v")
	step, _ := loose.Get([]byte(line), "_step")
	return string(v) + "@" + string(step)
}

// Whatever processes log into a run, in any order, with lost answers, faults and restarts:
// no row is lost, none is there twice, and the curve is what the rules say.
func TestLives(t *testing.T) {
	seeds := 12
	if testing.Short() {
		seeds = 4
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { drillOnce(t, uint64(seed)) })
	}
}

func drillOnce(t *testing.T, seed uint64) {
	t.Helper()
	d := &drill{lab: newLab(t), r: rand.New(rand.NewPCG(seed, 1)), name: "run", others: map[int64]float64{}}
	d.begin(false)
	var ended []*client
	for range 60 {
		d.pass(100 * time.Millisecond)
		d.maybeRestart()
		switch n := d.r.IntN(16); {
		case n < 1 && len(d.running) < 4 && !slices.ContainsFunc(d.running, func(c *client) bool { return c.reborn && !c.sent }), len(d.running) == 0:
			d.begin(len(d.running) == 0 && d.r.IntN(3) == 0)
		case n < 8:
			c := d.running[d.r.IntN(len(d.running))]
			d.log(c)
			d.send(c, false)
			ended = append(ended, c)
		case n < 10: // somebody's rows come again, in another order
			if quiet := slices.ContainsFunc(d.running, func(c *client) bool { return !c.sent }); len(ended) > 0 && !quiet {
				c := ended[d.r.IntN(len(ended))]
				part := slices.Clone(c.rows[:c.acked])
				d.r.Shuffle(len(part), func(i, j int) { part[i], part[j] = part[j], part[i] })
				var all []string
				for _, r := range part {
					all = append(all, plainRow(r.value, r.step))
				}
				d.note("again %v", part)
				d.sends(d.name, historyAt(0, all...))
				for _, r := range part {
					d.oracle.take(r.value, r.step)
				}
			}
		case n < 12:
			d.send(d.running[d.r.IntN(len(d.running))], true)
		case n < 13: // killed
			d.note("killed all")
			d.leaves()
			d.killed = true
			d.settle()
			d.pass(11 * time.Minute)
			if err := expire(d.lab); err != nil {
				t.Fatal(err)
			}
			d.running = nil
			d.begin(d.r.IntN(2) == 0)
		case n < 14 && len(d.oracle.rows) > 0:
			d.rewinds()
		case n < 15:
			d.logs()
		case n < 16 && d.r.IntN(3) == 0:
			d.leaves()
		default:
			d.pass(time.Second)
		}
	}
	for len(d.running) > 0 {
		d.send(d.running[0], true)
	}
	d.leaves()
	d.check()
	if state := d.run(d.name)["state"]; state != "finished" {
		t.Errorf("%s\nthe run is %v", strings.Join(d.trace, "\n"), state)
	}
}

// rewinds goes back to a step that the run has, with a new process.
func (d *drill) rewinds() {
	step := d.oracle.rows[d.r.IntN(len(d.oracle.rows))].step
	d.note("rewind %d", step)
	d.want(`mutation RewindRun { rewindRun(input: {runName: "`+d.name+`", entityName: "w", projectName: "p", metricName: "_step", metricValue: `+fmt.Sprint(step)+`}) { rewoundRun { id historyLineCount } } }`, nil)
	d.oracle.rewind(step)
	c := &client{next: step + 1}
	d.running = []*client{c}
	d.upsert(d.name, map[string]any{"id": node("Run", d.id(d.name).String()), "host": "box", "program": "x", "config": `{"_wandb":{"value":{"cli_version":"0.31.0","t":{"3":[1]}}}}`})
	d.oracle.alone = false // it goes on in the attempt that it asked for
}

// expire ends writers that were silent for long, as the server's background does.
func expire(l *lab) error {
	_, err := l.catalog.Expire(l.t.Context(), l.now().Add(-10*time.Minute))
	return err
}
