package uplink

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
)

var (
	errStopped = errors.New("stopped")
	errGap     = errors.New("the server has another mark: cutting anew")
	errStalled = errors.New("the server does not answer")
	errHungUp  = errors.New("the server ended the stream")
	// errProtocol: the server knows an older protocol only.
	errProtocol = errors.New("the server speaks an older protocol")
)

// delivery brings one writer's records to its server.
type delivery struct {
	folder *spool.Folder
	id     model.WriterID
	dir    string
	open   spool.Open
	opts   *Options
	conns  *connections
	log    *slog.Logger
	ticks  ticks
	status *spool.Status

	wake chan struct{} // look and send now
	stop chan struct{} // end after the batches in flight
	idle atomic.Bool   // everything found is acked
	live atomic.Bool   // records may still come
	goal atomic.Uint64 // the last sequence that was there at first

	runID   atomic.Pointer[model.RunID] // once the server told it
	final   atomic.Bool                 // the server refuses the run for good
	videos  atomic.Int64                // finished videos that wait
	sending sync.Mutex                  // one round of videos at a time
	told    atomic.Pointer[string]      // what holds videos up

	uploaded atomic.Int64

	most     int    // bytes of a batch, after one that was too large; 0: the pace's
	tooLarge uint64 // the record that is too large alone

	after    func(*delivery) (*delivery, bool) // an older writer that has to open first
	answered atomic.Bool                       // the server said why it does not open the run

	mu   sync.Mutex
	page spool.Page // our counters
	// The counters as an earlier deliverer left them.
	ackedBefore, refusedBefore uint64
}

// run delivers until the writer is gone and everything is acked (nil), or until
// ctx or stop ends it.
func (d *delivery) run(ctx context.Context) error {
	backoff := paceOf(d.open.Pace)
	wait := backoff.first
	for {
		switch ok, err := d.inTurn(ctx); {
		case err != nil:
			return err
		case !ok:
			return errStopped
		}
		before := d.counters().Mark
		err := d.connect(ctx)
		if err == nil {
			return d.finish(ctx)
		}
		if ctx.Err() != nil || errors.Is(err, errStopped) {
			return errStopped
		}
		err = d.consider(ctx, err)
		if err == nil {
			return d.finish(ctx)
		}
		if d.counters().Mark > before {
			wait = backoff.first
			if codeOf(err) != model.CodeTooLarge {
				d.most = 0
			}
		}
		d.fail(err)
		if err := d.failed(); err != nil {
			return err
		}
		if !d.pause(ctx, jitter(wait)) {
			return errStopped
		}
		wait = min(2*wait, backoff.last, d.opts.maxBackoff())
	}
}

// jitter spreads clients that lost one server at the same moment.
func jitter(d time.Duration) time.Duration { return d/2 + rand.N(d/2+1) }

func (d *delivery) pause(ctx context.Context, wait time.Duration) bool {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
	case <-d.stop:
	}
	return false
}

// consider decides about a failed session: most are tried again for ever.
func (d *delivery) consider(ctx context.Context, err error) error {
	code := codeOf(err)
	switch {
	case code == model.CodeRunExists && !d.open.Open.Offline:
		// The run was ours when init opened it, so this server has forgotten it.
		// The points then go to a linked run, like those begun without a server.
		d.open.Open.Offline = true
		if werr := d.folder.ReplaceOpen(d.open); werr != nil {
			return errors.Join(err, werr)
		}
	case code == model.CodeTooLarge:
		if serr := d.shrink(err); serr != nil {
			return errors.Join(err, serr)
		}
	case code.Final():
		return d.refuseAll(ctx, code, err)
	}
	return err
}

// codeOf finds the code of a failure, whether the server sent it as a message or
// as gRPC's status.
func codeOf(err error) model.Code {
	var e *model.Error
	if errors.As(err, &e) {
		return e.Code
	}
	if isTooLarge(err) {
		return model.CodeTooLarge
	}
	switch status.Code(err) {
	case codes.Unauthenticated:
		return model.CodeUnauthenticated
	case codes.PermissionDenied:
		return model.CodePermission
	}
	return model.CodeUnavailable
}

// refuseAll keeps every record in rejected/: the server will never take this
// writer's records.
func (d *delivery) refuseAll(ctx context.Context, code model.Code, cause error) error {
	d.final.Store(true)
	d.log.Warn("the server refuses the run for good; its records are kept in rejected/", "writer", d.id, "code", code, "error", cause)
	tail, err := spool.OpenTail(d.dir, d.id, d.counters().Mark+1, false)
	if err != nil {
		return err
	}
	defer tail.Close()
	for {
		progress, err := d.refuseSome(tail, code, cause)
		if err != nil || progress == spool.End {
			return err
		}
		d.idle.Store(true)
		if !d.pause(ctx, idlePoll) {
			return errStopped
		}
	}
}

func (d *delivery) refuseSome(tail *spool.Tail, code model.Code, cause error) (spool.Progress, error) {
	var r spool.Record
	for {
		progress, err := tail.Next(&r)
		if err != nil || progress == spool.Wait || progress == spool.End {
			return progress, err
		}
		points := 0
		if progress == spool.Got {
			points = r.Points()
			if err := d.folder.Reject(d.id, []spool.Rejected{{Seq: r.Seq, Code: code, Message: cause.Error(), Record: tail.Payload}}); err != nil {
				return progress, err
			}
		}
		if err := d.settle(tail.Seq()-1, spool.Tally{}, uint64(points)); err != nil {
			return progress, err
		}
	}
}

// settle says on the status page that everything up to the mark is decided, and
// frees the segments behind it.
func (d *delivery) settle(mark uint64, sent spool.Tally, refused uint64) error {
	d.mu.Lock()
	if mark > d.page.Mark {
		d.page.Failures = 0
	}
	d.page.Mark = mark
	d.page.Acked += sent.Total()
	d.page.Sent.Add(sent)
	d.page.Refused += refused
	page := d.page
	d.mu.Unlock()
	// The mark comes last: who reads it finds the counts that go with it.
	if err := errors.Join(d.status.SetCounts(page), d.status.SetTallies(page), d.status.SetMark(mark)); err != nil {
		return err
	}
	d.opts.beforeFree(d.id)
	return spool.Prune(d.dir, d.id, mark)
}

func (d *delivery) counters() spool.Page {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.page
}

// own is what this deliverer, and no earlier one, brought to its end.
func (d *delivery) own() (acked, refused uint64) {
	page := d.counters()
	return page.Acked - d.ackedBefore, page.Refused - d.refusedBefore
}

// count changes the counters and shows them.
func (d *delivery) count(change func(*spool.Page)) {
	d.mu.Lock()
	change(&d.page)
	page := d.page
	d.mu.Unlock()
	d.note(d.status.SetCounts(page))
}

// note logs a failure to write the status page: it costs the writer's view, not
// its points.
func (d *delivery) note(err error) {
	if err != nil {
		d.log.Warn("status page", "writer", d.id, "error", err)
	}
}

func (d *delivery) fail(err error) {
	d.answered.Store(!unanswered(err))
	d.count(func(p *spool.Page) { p.Errors++ })
	state := spool.StateWaiting
	if code := codeOf(err); code == model.CodeUnauthenticated || code == model.CodePermission {
		state = spool.StateRefused
	}
	text := plainError(err)
	var e *model.Error
	if errors.As(err, &e) && e.Hint != "" {
		text += ": " + e.Hint
	}
	d.note(d.status.SetState(state, text))
	d.mu.Lock()
	same := d.page.Error == text
	d.page.Error, d.page.State = text, state
	d.mu.Unlock()
	if !same {
		d.log.Warn("delivery waits to try again", "writer", d.id, "server", d.server(), "error", text)
	}
}

func (d *delivery) setState(state spool.DeliveryState) {
	d.mu.Lock()
	d.page.State = state
	if state == spool.StateConnected {
		d.page.Error = ""
	}
	d.mu.Unlock()
	d.note(d.status.SetState(state, ""))
}

func (d *delivery) answer(doc model.OpenResult) {
	d.runID.Store(&doc.Run)
	doc.Starts, doc.Envs = nil, nil
	if short, err := json.Marshal(doc); err == nil {
		d.note(d.status.SetAnswer(short))
	}
	if doc.LinkedFrom != "" {
		d.log.Warn("the run's name was taken: its points go to a linked run", "asked", doc.LinkedFrom, "run", doc.RunName)
	}
}

// finish removes the folder of a writer that is gone and delivered.
func (d *delivery) finish(ctx context.Context) error {
	d.idle.Store(true)
	if !d.drainRenderings(ctx) {
		return errStopped
	}
	d.setState(spool.StateDelivered)
	d.opts.beforeFree(d.id)
	if err := d.folder.Remove(d.id); err != nil {
		return err
	}
	d.log.Debug("delivered", "writer", d.id, "run", d.open.Open.RunName)
	return nil
}

func (d *delivery) server() string {
	if d.opts.Server != "" {
		return d.opts.Server
	}
	return d.open.Server
}

// key finds the key for the server each time anew: a person may have repaired it.
func (d *delivery) key() (string, error) {
	if d.opts.Key != "" {
		return d.opts.Key, nil
	}
	return FindKey(d.folder, d.server(), d.opts.env())
}

// FindKey finds the key for a server: in the spool's credentials, in those of
// the user, or in KYMOGRAM_API_KEY.
func FindKey(folder *spool.Folder, server string, env func(string) string) (string, error) {
	for _, read := range []func() (spool.Keys, error){folder.Keys, func() (spool.Keys, error) { return spool.UserKeys(env) }} {
		keys, err := read()
		if err != nil {
			return "", fmt.Errorf("find the key of %s: %w", server, err)
		}
		if key := keys.For(server); key != "" {
			return key, nil
		}
	}
	return env("KYMOGRAM_API_KEY"), nil
}

// aim finds out how far a delivery that runs once has to come: a program that goes
// on may log more than once between two looks, for ever.
func (d *delivery) aim() {
	mark, backlog, err := leftOf(d.folder, d.id)
	if err != nil {
		d.log.Debug("count what is left", "writer", d.id, "error", err)
		return // it is then delivered until nothing more comes
	}
	if !backlog.Live { // a server still has to hear of its end, though it has every point
		d.live.Store(false)
	}
	d.goal.Store(mark + backlog.Records)
}

// durable syncs the writer's segments once a second while they hold what no
// server has: power loss then costs at most a second.
func (d *delivery) durable(ctx context.Context) {
	for {
		wait := time.Second
		if d.idle.Load() {
			wait = d.ticks.next(wait)
		} else if err := spool.Sync(d.dir); err != nil && ctx.Err() == nil {
			d.log.Debug("sync", "writer", d.id, "error", err)
		}
		if !sleep(ctx, wait) {
			return
		}
	}
}
