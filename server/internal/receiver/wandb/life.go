package wandb

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/receiver/wandb/row"
)

// job is the orchestration of the attempts that this receiver opens.
const job = "wandb"

// The SDK of the two kinds of writers. A process opens, ends or falls silent, and the run's
// status follows it. A lane only holds rows: at each step one.
const (
	processSDK = "wandb/"
	laneSDK    = model.ObserverSDK + "wandb-rows"
)

// againMark ends the SDK of a process that opened a run again which has rows, while no other
// ran or none of those that did had sent a new row: a restart of the server must know it. The
// writer that such a process has after the first row lacks the mark.
const againMark = " again"

// treeRewind is the newest [rewind] of a run. It is stored in one step, before its attempt: a
// rewind is done as a whole or not at all, and what an error left to do is done by the next load.
const treeRewind = "wandb/rewind"

// rewind is the attempt that somebody asked for who went back to a step.
type rewind struct {
	Count int64 `json:"count"` // of the attempt, at least 1
	From  int64 `json:"from"`  // the first step that it hides of those before
}

// maxLanes bounds the rows of one step. Those beyond it are refused, and counted.
const maxLanes = 1024

// How long a run without requests is kept at hand, how often that is looked at, and how
// many there may be.
const (
	lifeIdle  = 10 * time.Minute
	lifeSweep = time.Minute
	lifeMost  = 10_000
)

// lives are the runs that are written to.
type lives struct {
	mu    sync.Mutex
	by    map[model.RunID]*life
	now   func() time.Time
	swept time.Time
}

func (l *lives) init(now func() time.Time) {
	l.by, l.now, l.swept = map[model.RunID]*life{}, now, now()
}

// life is what is known of a run that is written to. Everything but users and used is
// guarded by mu: one request of a run at a time decides where its rows go.
//
//	UpsertBucket of a process ──▶ begin: a writer opens, the run is running
//	file_stream ──────────────▶ rows behind the greatest step: lane 0
//	                            others: the same row is there? a duplicate
//	                                    a process that began alone? a new attempt
//	                                    else the first lane that lacks the step
//	complete ─────────────────▶ end: the writer closes
//
// file_stream does not say which process it is of, and need not: rows of processes that run
// together are rows of one attempt.
type life struct {
	mu     sync.Mutex
	id     model.RunID
	at     place
	loaded bool
	// count is the restart count of the attempt that rows go to, and attempt its number among
	// all of the run, which other clients have too; 0 until it has a row or was turned to.
	count     int64
	attempt   uint32
	lanes     map[int]*ingest.Session
	laneIDs   []model.WriterID // of the first lanes of the attempt
	processes []*process       // that have not ended, oldest first
	// greatest is the greatest step of a row of any attempt, -1 without one.
	greatest int64
	// alone: a process began while no other ran, and no new row came since. It may have ended.
	alone bool
	// rewound is the rewind that made the attempt, nil once the attempt has rows: a process that
	// resumes the run goes on in it.
	rewound *rewind
	// spoiled: a process of the attempt failed or went silent, so that the attempt's status is
	// none of a process that finished.
	spoiled bool
	// shared: its processes are in shared mode.
	shared bool
	// resumed is when a process last asked where the run stands, as one does that resumes it.
	resumed time.Time
	// resumeFrom is the first step that the next attempt hides of those before.
	resumeFrom *int64
	// plain are the keys of the summary that were no series when it was last compared, so that
	// they are attributes; nil: not known.
	plain map[string]bool

	users int
	used  time.Time
}

// process is one that logs.
type process struct {
	session *ingest.Session
	sdk     string
	again   bool   // its writer has the mark
	quiet   bool   // it sent nothing yet
	number  int    // among those that ran together, from 0
	client  string // what names it in shared mode, else ""
	// next are the offsets where its files go on, -1 before it sent any of them.
	history, events, console int64
	seen                     time.Time
}

// processSilence is how long a process says nothing when it is over: the SDK sends at least
// a heartbeat every 30 s.
const processSilence = 90 * time.Second

// of finds the process that a chunk is of, by where its files go on. It need not be right:
// it decides whose end is noted, and which lines of the console replace one another.
func (v *life) of(c *chunk) *process {
	var best *process
	most := -1
	for _, p := range v.processes {
		if c.client != "" && c.client == p.client {
			return p
		}
		score := 0
		if c.history != nil && c.historyFrom == p.history || c.events != nil && c.eventsFrom == p.events {
			score = 3
		} else if c.console != nil && c.consoleFrom == p.console {
			score = 2
		} else if silent := c.history == nil && c.events == nil && c.console == nil; silent != p.quiet {
			score = 1 // what has no lines is of one that sent some before
		}
		if score >= most { // of equals the youngest
			best, most = p, score
		}
	}
	return best
}

// over tells a process that counts no more: one that was silent for long, or never said a
// word. Of the latter may be one whose UpsertBucket came twice, as the answer was lost.
func (p *process) over(now time.Time) bool { return p.quiet || now.Sub(p.seen) >= processSilence }

// took notes what a process sent.
func (p *process) took(c *chunk, now time.Time) {
	p.seen, p.quiet = now, false
	if c.history != nil {
		p.history = c.historyFrom + c.historyLines
	}
	if c.events != nil {
		p.events = c.eventsFrom + c.eventsLines
	}
	if c.console != nil {
		p.console = max(p.console, c.consoleFrom+c.consoleLines)
	}
}

// acquire is the life of a run, locked; release unlocks it and gives it back.
func (l *lives) acquire(id model.RunID, at place) (v *life, release func()) {
	now := l.now()
	l.mu.Lock()
	if now.Sub(l.swept) >= lifeSweep || len(l.by) >= lifeMost {
		l.sweep(now)
	}
	v = l.by[id]
	if v == nil {
		v = &life{id: id}
		l.by[id] = v
	}
	v.users, v.used = v.users+1, now
	l.mu.Unlock()
	v.mu.Lock()
	v.at = at
	return v, func() {
		v.mu.Unlock()
		l.mu.Lock()
		defer l.mu.Unlock()
		v.users--
	}
}

// sweep closes what nobody used for long. Where there are too many it closes an eighth, those
// first that rested longest, so that it is not called at each request. The writers stay open:
// silence ends them.
func (l *lives) sweep(now time.Time) {
	l.swept = now
	var resting []*life
	for _, v := range l.by {
		if v.users == 0 {
			resting = append(resting, v)
		}
	}
	slices.SortFunc(resting, func(a, b *life) int { return a.used.Compare(b.used) })
	most := lifeMost
	if len(l.by) >= lifeMost {
		most = lifeMost - lifeMost/8
	}
	for _, v := range resting {
		if now.Sub(v.used) < lifeIdle && len(l.by) <= most {
			return
		}
		delete(l.by, v.id)
		v.close()
	}
}

func (v *life) close() {
	for _, s := range v.lanes {
		s.Close()
	}
	for _, p := range v.processes {
		p.session.Close()
	}
	v.lanes, v.laneIDs, v.processes, v.loaded = nil, nil, nil, false
	v.rewound, v.alone, v.resumeFrom, v.plain = nil, false, nil, nil
}

// load reads what is known of a run that was written to before.
func (r *Receiver) load(ctx context.Context, v *life) error {
	if v.loaded {
		return nil
	}
	run, err := r.query.Run(ctx, v.id, nil)
	if err != nil {
		return err
	}
	if v.greatest, err = row.Greatest(ctx, r.query, v.id); err != nil {
		return err
	}
	if err = r.loadProcesses(ctx, v, run); err == nil {
		err = r.finish(ctx, v)
	}
	if err != nil {
		v.close()
	}
	v.loaded = err == nil
	return err
}

// loadProcesses reads which attempt rows go to, and who logs into the run.
func (r *Receiver) loadProcesses(ctx context.Context, v *life, run *query.RunDetail) error {
	v.count, v.attempt, v.alone = 0, 0, false
	first := make(map[model.WriterID]int64, len(run.Order)) // lanes, to the counts of their attempts
	for count := range int64(len(run.Order)) {
		first[writerOf(job, v.id, count, 0)] = count
	}
	var open []catalog.WriterInfo
	var newest catalog.WriterInfo
	failed := map[uint32]bool{}
	for w, err := range run.Writers {
		if err != nil {
			return err
		}
		if count, is := first[w.ID]; is && count >= v.count {
			v.count, v.attempt = count, w.Attempt
		}
		if !strings.HasPrefix(w.SDK, processSDK) {
			continue
		}
		if w.OpenedNs >= newest.OpenedNs {
			newest = w
		}
		if w.State == model.WriterOpen {
			open = append(open, w)
		} else if w.State != model.WriterFinished {
			failed[w.Attempt] = true
		}
	}
	v.alone = strings.HasSuffix(newest.SDK, againMark) && (v.attempt == 0 || v.attempt == newest.Attempt)
	v.spoiled = failed[v.attempt] || v.attempt == 0 && len(failed) > 0
	return r.rejoin(ctx, v, open)
}

// rejoin takes the writers of processes over that log into the run.
func (r *Receiver) rejoin(ctx context.Context, v *life, open []catalog.WriterInfo) error {
	for i := range open {
		w := &open[i]
		sdk, again := strings.CutSuffix(w.SDK, againMark)
		number := len(v.processes)
		if w.Rank != nil {
			number = int(*w.Rank)
		}
		p, err := r.join(ctx, v, w.ID, sdk, w.Host, number, again)
		if err != nil {
			return err
		}
		p.seen, p.quiet = time.Unix(0, w.SeenNs), w.SeenNs <= w.OpenedNs
		v.processes = append(v.processes, p)
	}
	return nil
}

// finish does the rest of a rewind and of a turn that an error cut off.
func (r *Receiver) finish(ctx context.Context, v *life) error {
	trees, err := r.query.Trees(ctx, v.id, treeRewind)
	if err != nil {
		return err
	}
	var newest rewind
	_ = json.Unmarshal([]byte(trees[treeRewind]), &newest) // we wrote it; without one its count is 0
	if newest.Count > 0 && newest.Count >= v.count {
		if err := r.goBack(ctx, v, newest); err != nil {
			return err
		}
	}
	return r.finishTurn(ctx, v)
}

// finishTurn moves the processes that a turn left in the attempt before. It gave some of them
// a writer of the newest one already. No other process is in an attempt before the newest.
func (r *Receiver) finishTurn(ctx context.Context, v *life) error {
	for _, p := range slices.Clone(v.processes) {
		if v.moved(p) {
			continue
		}
		i := slices.IndexFunc(v.processes, func(one *process) bool { return v.moved(one) && one.number == p.number })
		if i < 0 {
			if err := r.move(ctx, v, p); err != nil {
				return err
			}
			continue
		}
		next := v.processes[i].session
		v.processes = slices.Delete(v.processes, i, i+1)
		if err := p.replace(ctx, next, r.options.Now().UnixNano()); err != nil {
			return err
		}
	}
	return nil
}

// moved tells a process whose writer is of the attempt that rows go to.
func (v *life) moved(p *process) bool { return v.attempt == 0 || p.session.Opened.Attempt == v.attempt }

// request opens a writer of the attempt that rows go to.
func (v *life) request(w model.WriterID, sdk, host string) model.OpenRequest {
	count := v.count
	return model.OpenRequest{
		Writer: w, Workspace: v.at.entity, Project: v.at.project, RunName: v.at.run,
		OrchestrationID: job, RestartCount: &count, ResumeStrategy: model.ResumeAllow, SDK: sdk, Host: host, ResumeFromStep: v.resumeFrom,
	}
}

// writerOf is an id that follows from what a writer is, so that a restart of the server
// makes no new ones.
func writerOf(parts ...any) (id model.WriterID) {
	sum := sha256.New()
	for _, p := range parts {
		fmt.Fprintf(sum, "%v\x00", p)
	}
	copy(id[:], sum.Sum(nil))
	return id
}

// lane is the session of a lane of the attempt that rows go to.
func (r *Receiver) lane(ctx context.Context, v *life, i int) (*ingest.Session, error) {
	if s := v.lanes[i]; s != nil {
		return s, nil
	}
	s, err := r.ingest.Join(ctx, v.request(v.laneID(i), laneSDK, ""))
	if err != nil {
		return nil, err
	}
	if v.lanes == nil {
		v.lanes = map[int]*ingest.Session{}
	}
	v.lanes[i] = s
	if i == 0 {
		v.attempt = s.Opened.Attempt
	}
	return s, nil
}

// laneID is the writer of a lane of the attempt that rows go to.
func (v *life) laneID(i int) model.WriterID {
	for len(v.laneIDs) <= i {
		v.laneIDs = append(v.laneIDs, writerOf(job, v.id, v.count, len(v.laneIDs)))
	}
	return v.laneIDs[i]
}

// beginner is a process as it begins.
type beginner struct {
	sdk, host string
	client    string // names it in shared mode
	resumes   bool
	late      bool // only known by what it sends, as others ended before it
}

// begin notes that a process logs into the run, and says whether no other did. A process that
// resumes the run says that the one before is over; others are over when they were silent for
// long. What is logged after a process began alone goes into a new attempt, whoever has joined
// it until then. In shared mode none is alone, whoever has ended.
func (r *Receiver) begin(ctx context.Context, v *life, b beginner) (first bool, err error) {
	now := r.options.Now()
	first, number := !b.late, 0
	for _, p := range v.processes {
		first = first && p.over(now)
		number = max(number, p.number+1)
	}
	for _, p := range slices.Clone(v.processes) {
		if err := r.overtake(ctx, v, p, b.resumes); err != nil {
			return false, err
		}
	}
	if len(v.processes) == 0 {
		number = 0
	}
	attached := b.client != "" || v.shared || b.resumes && v.rewound != nil
	first = first && !attached
	v.alone = (first || v.alone) && !attached
	p, err := r.join(ctx, v, newWriter(), processSDK+b.sdk, b.host, number, v.alone && v.greatest >= 0)
	if err != nil {
		return false, err
	}
	p.client = b.client
	v.processes = append(v.processes, p)
	return first, nil
}

// overtake ends a process that is over when another begins.
func (r *Receiver) overtake(ctx context.Context, v *life, p *process, resumes bool) error {
	now := r.options.Now()
	switch {
	case resumes:
		if err := p.close(ctx, model.StatusFinished, now.UnixNano()); err != nil {
			return err
		}
	case now.Sub(p.seen) >= processSilence:
		if err := p.session.Gone(ctx, "", 0); err != nil {
			return err
		}
		p.session.Close()
		v.spoiled = true
	default:
		return nil
	}
	v.processes = slices.DeleteFunc(v.processes, func(one *process) bool { return one == p })
	return nil
}

// join opens the writer of a process.
func (r *Receiver) join(ctx context.Context, v *life, w model.WriterID, sdk, host string, number int, again bool) (*process, error) {
	full, rank := sdk, int64(number)
	if again {
		full += againMark
	}
	request := v.request(w, full, host)
	request.Rank = &rank
	session, err := r.ingest.Join(ctx, request)
	if err != nil {
		return nil, err
	}
	return &process{session: session, sdk: sdk, again: again, quiet: true, number: number, history: -1, events: -1, console: -1, seen: r.options.Now()}, nil
}

// close says how a process ended.
func (p *process) close(ctx context.Context, status model.RunStatus, now int64) error {
	_, err := p.session.Append(ctx, &model.Batch{Updates: []model.Update{{Op: model.OpClose, Text: string(status), TimeNs: now}}})
	p.session.Close()
	return err
}

// turn begins a new attempt: rows go there from now on. After an error the life is to be
// closed: the next load finishes it.
func (r *Receiver) turn(ctx context.Context, v *life) error {
	v.turnTo(v.count + 1)
	if _, err := r.lane(ctx, v, 0); err != nil {
		return err
	}
	// The processes that run belong to it: its status is theirs.
	for _, p := range v.processes {
		if err := r.move(ctx, v, p); err != nil {
			return err
		}
	}
	return nil
}

// turnTo makes rows go to another attempt.
func (v *life) turnTo(count int64) {
	for _, s := range v.lanes {
		s.Close()
	}
	v.lanes, v.laneIDs, v.count = nil, nil, count
	v.alone, v.rewound, v.spoiled = false, nil, false
}

// move gives a process a writer of the attempt that rows go to.
func (r *Receiver) move(ctx context.Context, v *life, p *process) error {
	next, err := r.join(ctx, v, newWriter(), p.sdk, "", p.number, false)
	if err != nil {
		return err
	}
	return p.replace(ctx, next.session, r.options.Now().UnixNano())
}

// replace ends the writer of a process that goes on with another.
func (p *process) replace(ctx context.Context, next *ingest.Session, now int64) error {
	before := *p
	p.session, p.again = next, false
	return before.close(ctx, model.StatusFinished, now)
}

// rewind begins an attempt that goes on after a step. Asked for once more before it has rows,
// it is the same. Once it is noted it is done: what fails after that is for the next load.
func (r *Receiver) rewind(ctx context.Context, v *life, last int64) error {
	if err := r.load(ctx, v); err != nil {
		return err
	}
	to := rewind{v.count + 1, last + 1}
	if v.rewound != nil && v.rewound.From == to.From {
		return nil
	}
	text, err := json.Marshal(to)
	if err != nil {
		return err
	}
	if err := r.ingest.UpdateRun(ctx, v.id, []model.Update{{Op: model.OpSetTree, Path: treeRewind, Text: string(text)}}); err != nil {
		v.close()
		return err
	}
	if err = r.goBack(ctx, v, to); err == nil {
		err = r.finishTurn(ctx, v)
	}
	if err != nil {
		r.options.Log.WarnContext(ctx, "a rewind of a W&B run is noted, and done with the next request", "run", v.id, "error", err)
		v.close()
	}
	return nil
}

// goBack opens the attempt of a rewind, unless it is open.
func (r *Receiver) goBack(ctx context.Context, v *life, to rewind) error {
	if v.count < to.Count {
		v.turnTo(to.Count)
	}
	v.resumeFrom = &to.From
	_, err := r.lane(ctx, v, 0)
	v.resumeFrom = nil
	if err != nil {
		return err
	}
	has, err := row.Any(ctx, r.query, v.id, v.attempt)
	if !has {
		v.rewound = &to
	}
	return err
}

// end notes how a process ended. When none runs any more, the lanes end too. Processes that
// are over end with it: they would keep the run running.
func (r *Receiver) end(ctx context.Context, v *life, p *process, failed bool, now int64) error {
	status := model.StatusFinished
	if failed {
		status = model.StatusFailed
	}
	if v.alone && v.spoiled && !failed { // it had no new rows, and the attempt is another's
		if err := r.turn(ctx, v); err != nil {
			return err
		}
	}
	v.spoiled = v.spoiled || failed
	ended := []*process{p}
	others := slices.DeleteFunc(slices.Clone(v.processes), func(one *process) bool { return one == p })
	if !slices.ContainsFunc(others, func(one *process) bool { return !one.over(r.options.Now()) }) {
		ended, others = v.processes, nil
	}
	for _, one := range ended {
		if err := one.close(ctx, status, now); err != nil {
			return err
		}
	}
	if v.processes = others; len(others) > 0 {
		return nil
	}
	for _, lane := range v.lanes {
		if _, err := lane.Append(ctx, &model.Batch{Updates: []model.Update{{Op: model.OpClose, Text: string(model.StatusFinished), TimeNs: now}}}); err != nil {
			return err
		}
	}
	return nil
}

// forget drops what is known of a run.
func (l *lives) forget(id model.RunID) {
	l.mu.Lock()
	v := l.by[id]
	if v == nil {
		l.mu.Unlock()
		return
	}
	delete(l.by, id)
	l.mu.Unlock()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.close()
}
