package ingest

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
)

// Foreign writes for clients whose protocol knows neither runs nor writers: a
// request is a batch for each run that it names. It keeps the sessions of the
// runs that are written to, and opens a run at its first point. It is safe for
// concurrent use.
//
//	request ─▶ receiver ─▶ Part "a" ─▶ session of Place a ─┐
//	                       Part "b" ─▶ session of Place b ─┴▶ side by side: one fsync
//
// A Place becomes an attempt of a run as if an SDK had opened it. Its writer's id is a
// hash of the receiver's name and the place, so the writer is the same after a restart.
// Where points say nothing of their process all are of one attempt, so that no point
// hides another by step: points meet only by the uniqueness that the receiver gives the
// batch. What they say of it makes an attempt ([Part]), and becomes its attributes with
// the first points of a session. There are no sequences and no mark. A client without an
// answer sends its request again, and equal points replace one another.
type Foreign struct {
	service *Service
	name    string

	mu       sync.Mutex
	sessions map[Place]*foreignSession
	swept    time.Time
}

// Place names an attempt of a run.
type Place struct{ Workspace, Project, Run, Process string }

// foreignSession is opened once by the first who needs it.
type foreignSession struct {
	open      sync.Once
	described atomic.Bool // the attributes are stored

	// Guarded by Foreign.mu, the first two also by open.
	session *Session
	err     error
	users   int
	used    time.Time
}

// How long an unused session lives, how often that is looked at, and how many
// there may be: past it the others are still written to, at the price of an open
// for each request.
const (
	foreignIdle  = 10 * time.Minute
	foreignSweep = time.Minute
	foreignMost  = 10_000
)

// foreignAtOnce is how many runs of one request are stored side by side: their
// syncs are one.
const foreignAtOnce = 64

// Foreign makes the sessions of a receiver; name tells receivers apart.
func (s *Service) Foreign(name string) *Foreign {
	return &Foreign{service: s, name: name, sessions: map[Place]*foreignSession{}, swept: s.deps.Now()}
}

// How many runs and attempts one request may open, at 1 to 2 ms of a processor each, and
// how many attributes it may give them, at 20 to 100 µs.
const (
	foreignOpens      = 500
	foreignAttributes = 20_000
)

// Part is what a request has for one attempt of a run.
type Part struct {
	Run string
	// Process tells processes apart that log into one run: each is an attempt of its own,
	// whose attributes are these by their paths. "" is for points that say nothing of it.
	Process    string
	Attributes []model.Label
	Batch      model.Batch
}

// ProcessOf tells processes apart by what their points say of them, in this order: two that
// say something else are two, so that neither hides what the other said.
func ProcessOf(attributes []model.Label) string {
	if len(attributes) == 0 {
		return ""
	}
	sum := sha256.New()
	for _, a := range attributes {
		fmt.Fprintf(sum, "%d %s %d %s ", len(a.Name), a.Name, len(a.Value), a.Value)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func (p *Part) at(workspace, project string) Place {
	return Place{workspace, project, p.Run, p.Process}
}

// Allow reports whether the caller may write to a project, so that a receiver need
// not read the body of one who may not.
func (f *Foreign) Allow(ctx context.Context, workspace, project string) error {
	if err := model.CheckPlace(workspace, project); err != nil {
		return err
	}
	return f.service.deps.Auth.Allow(ctx, catalog.ScopeIngest, workspace, project)
}

// Append stores the parts and adds up their acks: points stored and records
// refused. It checks that the caller may write to the project. After an error
// some parts may be stored: the client sends all of them again, and points of
// the same uniqueness replace themselves.
func (f *Foreign) Append(ctx context.Context, workspace, project string, parts []Part) (model.Ack, error) {
	if err := f.Allow(ctx, workspace, project); err != nil {
		return model.Ack{}, err
	}
	parts, later := f.turn(workspace, project, parts)
	acks := make([]model.Ack, len(parts))
	store := func(ctx context.Context, places []int) (err error) {
		for _, i := range places {
			if acks[i], err = f.append(ctx, parts[i].at(workspace, project), &parts[i]); err != nil {
				return err
			}
		}
		return nil
	}
	var err error
	if runs := byRun(parts); len(runs) == 1 {
		err = store(ctx, runs[0])
	} else {
		group, each := errgroup.WithContext(ctx)
		group.SetLimit(foreignAtOnce)
		for _, places := range runs {
			group.Go(func() error { return store(each, places) })
		}
		err = group.Wait()
	}
	if err == nil && later > 0 {
		err = model.Errorf(model.CodeUnavailable, "the request opens more than %d runs and attempts, or gives them more than %d attributes; %d are left", foreignOpens, foreignAttributes, later).
			WithHint("Send it again: it goes on from there.")
	}
	var sum model.Ack
	for i := range acks {
		sum.Stored += acks[i].Stored
		sum.Refused = append(sum.Refused, acks[i].Refused...)
	}
	return sum, err
}

// byRun are the places of the parts of each run: its attempts open in their order.
func byRun(parts []Part) (out [][]int) {
	at := make(map[string]int, len(parts))
	for i := range parts {
		k, ok := at[parts[i].Run]
		if !ok {
			k = len(out)
			at[parts[i].Run] = k
			out = append(out, nil)
		}
		out[k] = append(out[k], i)
	}
	return out
}

// turn is what a request may write now: all open runs and some others. A client that sends
// the request again finds these open, and gets further.
func (f *Foreign) turn(workspace, project string, parts []Part) (now []Part, later int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	opens, attributes := 0, 0
	now = parts
	for i := range parts {
		if f.sessions[parts[i].at(workspace, project)] == nil {
			opens, attributes = opens+1, attributes+len(parts[i].Attributes)
			if opens > foreignOpens || opens > 1 && attributes > foreignAttributes {
				if later == 0 {
					now = slices.Clone(parts[:i])
				}
				later++
				continue
			}
		}
		if later > 0 {
			now = append(now, parts[i])
		}
	}
	return now, later
}

// append stores a batch. A session whose run was deleted, or that another took
// over, is opened anew once: behind a purge there is a new run.
func (f *Foreign) append(ctx context.Context, at Place, p *Part) (model.Ack, error) {
	if ack, err := f.refused(ctx, at, p); ack != nil || err != nil {
		return *cmp.Or(ack, &model.Ack{}), err
	}
	s, err := f.acquire(ctx, at)
	if err == nil && s.session.over() {
		f.release(at, s, true)
		s, err = f.acquire(ctx, at)
	}
	defer func() { f.release(at, s, s.session == nil) }()
	if err != nil {
		return model.Ack{}, err
	}
	if !s.described.Load() {
		if p.Batch.Updates, err = f.describe(ctx, s.session, p.Attributes); err != nil {
			return model.Ack{}, err
		}
	}
	ack, err := s.session.Append(ctx, &p.Batch)
	if err == nil {
		s.described.Store(true)
	}
	return ack, err
}

// refused is the answer to points of a run that is not there, none of which can be stored: they
// make no run. It is nil for all others.
func (f *Foreign) refused(ctx context.Context, at Place, p *Part) (*model.Ack, error) {
	if !hopeless(&p.Batch) || f.service.deps.Names == nil || checkStructure(&p.Batch) != nil {
		return nil, nil
	}
	_, err := f.service.deps.Names.FindRun(ctx, at.Workspace, at.Project, at.Run)
	if model.CodeOf(err) != model.CodeNotFound {
		return nil, err
	}
	verdict := judge(&p.Batch, false)
	f.service.counters.refused.Add(uint64(p.Batch.Points()))
	return &model.Ack{Refused: short(verdict.refusals())}, nil
}

// describe says what an attempt is: all of it in one attribute of the attempt's own, which
// nothing replaces, and path by path in those of the run, where the latest attempt counts.
func (f *Foreign) describe(ctx context.Context, s *Session, attributes []model.Label) ([]model.Update, error) {
	if len(attributes) == 0 {
		return nil, nil
	}
	run, err := f.service.deps.Catalog.Lookup(ctx, s.run.id)
	if err != nil {
		return nil, err
	}
	all := make([]string, len(attributes))
	var updates []model.Update
	for i, a := range attributes {
		all[i] = a.Name + "=" + a.Value
		if run.Attempt == s.attempt {
			updates = append(updates, model.Update{Op: model.OpSetAttribute, Path: a.Name, Value: model.StringValue(a.Value)})
		}
	}
	return append(updates, model.Update{Op: model.OpSetAttribute, Path: model.ThisAttempt, Value: model.SetValue(all)}), nil
}

// over reports whether points would be refused for a reason that a new open may
// remove.
func (s *Session) over() bool {
	select {
	case <-s.ended:
		return true
	default:
		return s.run.deleted.Load()
	}
}

// acquire is the open session of a place, until release.
func (f *Foreign) acquire(ctx context.Context, at Place) (*foreignSession, error) {
	s := f.reserve(at)
	s.open.Do(func() {
		// Others wait for it: not to be cut with the first caller.
		session, err := f.join(context.WithoutCancel(ctx), at)
		f.mu.Lock()
		defer f.mu.Unlock()
		s.session, s.err = session, err
	})
	return s, s.err
}

func (f *Foreign) reserve(at Place) *foreignSession {
	now := f.service.deps.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	if now.Sub(f.swept) >= foreignSweep || len(f.sessions) >= foreignMost {
		f.sweep(now)
	}
	s := f.sessions[at]
	if s == nil {
		s = &foreignSession{}
		f.sessions[at] = s
	}
	s.users, s.used = s.users+1, now
	return s
}

// sweep closes what nobody used for long, and more where there are too many.
func (f *Foreign) sweep(now time.Time) {
	f.swept = now
	for at, s := range f.sessions {
		if s.users == 0 && (now.Sub(s.used) >= foreignIdle || len(f.sessions) >= foreignMost) {
			delete(f.sessions, at)
			s.session.Close()
		}
	}
}

// release gives a session back; forget makes the next user open another.
func (f *Foreign) release(at Place, s *foreignSession, forget bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.users--
	if forget && f.sessions[at] == s {
		delete(f.sessions, at)
	}
	if s.users == 0 && f.sessions[at] != s && s.session != nil {
		s.session.Close()
	}
}

// join opens a run's writer. Its id follows from the place, so that a restart
// makes no new writer; when that writer's run was purged, a random one takes its
// place. Each process is a job with one attempt: nothing else tells of restarts.
func (f *Foreign) join(ctx context.Context, at Place) (*Session, error) {
	attempt, job := int64(0), f.name
	if at.Process != "" {
		job += "/" + at.Process
	}
	request := model.OpenRequest{
		Writer: f.writer(at), Workspace: at.Workspace, Project: at.Project, RunName: at.Run,
		OrchestrationID: job, RestartCount: &attempt, ResumeStrategy: model.ResumeAllow, SDK: model.ReceiverSDK + f.name,
	}
	s, err := f.service.Join(ctx, request)
	if model.CodeOf(err) == model.CodeRunDeleted {
		_, _ = rand.Read(request.Writer[:]) // never fails, see crypto/rand
		return f.service.Join(ctx, request)
	}
	return s, err
}

func (f *Foreign) writer(at Place) (id model.WriterID) {
	name := f.name + "\x00" + at.Workspace + "\x00" + at.Project + "\x00" + at.Run
	if at.Process != "" {
		name += "\x00" + at.Process
	}
	sum := sha256.Sum256([]byte(name))
	copy(id[:], sum[:])
	return id
}
