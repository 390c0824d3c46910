package uplink

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/spool"
	"github.com/kymogram/kymogram/internal/wire"
)

const (
	// batchBytes, linger and inFlight are for a writer that does not set its pace.
	// batchBytes and linger make batches large enough to be cheap on the server
	// and young enough for a page that shows points within a second.
	batchBytes = 1 << 20
	// batchUpdates is below what a server takes in a batch, by the updates of one call.
	batchUpdates = 8_000
	linger       = 200 * time.Millisecond
	busyPoll     = 20 * time.Millisecond
	idlePoll     = 250 * time.Millisecond
	// busyFor is how long after its last record a writer counts as busy.
	busyFor   = time.Second
	inFlight  = 8
	heartbeat = 10 * time.Second
	openLimit = 10 * time.Second
	// stallLimit is longer than a server needs for a slow fsync.
	stallLimit = 30 * time.Second
	endLimit   = 5 * time.Second
)

type streamClient = grpc.BidiStreamingClient[kymogramv1.StreamRequest, kymogramv1.StreamResponse]

// session is one stream of one writer.
type session struct {
	*delivery
	protocol uint32
	stream   streamClient
	tail     *spool.Tail
	batches  *builder
	since    time.Time // when the batch in making began
	lastGot  time.Time
	sent     time.Time // last message after the open
	backlog  backlog
	pace     pace

	room     chan struct{} // a slot a batch in flight
	acked    chan struct{} // an ack came
	received chan struct{} // the receiving side ended, for this reason:
	reason   error
	ending   atomic.Bool

	qmu   sync.Mutex
	queue []sentBatch
}

// sentBatch waits for its ack.
type sentBatch struct {
	last        uint64
	tally       spool.Tally
	definitions bool
}

// connect delivers over a stream in the newest protocol that the server speaks.
// The server is asked anew each time: it may be another one by now.
func (d *delivery) connect(ctx context.Context) error {
	d.setState(spool.StateConnecting)
	d.count(func(p *spool.Page) { p.Connections++ })
	err := d.session(ctx, wire.Typed)
	if errors.Is(err, errProtocol) {
		err = d.session(ctx, wire.JSON)
	}
	return err
}

// session opens a stream and delivers over it. It returns nil when the writer is
// gone and everything it left is acked.
func (d *delivery) session(ctx context.Context, protocol uint32) error {
	// Ends the stream, and with it the receiving side, in every case.
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	s := &session{
		delivery: d, protocol: protocol, batches: newBuilder(protocol), pace: paceOf(d.open.Pace),
		room: make(chan struct{}, paceOf(d.open.Pace).inFlight), acked: make(chan struct{}, 1), received: make(chan struct{}),
	}
	if d.most > 0 {
		s.pace.bytes = d.most
	}
	mark, err := s.begin(ctx, cancel)
	if err != nil {
		return err
	}
	if s.tail, err = spool.OpenTail(d.dir, d.id, mark+1, false); err != nil {
		return err
	}
	defer s.tail.Close()
	group.Go(func() error {
		defer close(s.received)
		s.reason = s.receive()
		return s.reason
	})
	group.Go(func() error {
		err := s.deliver(ctx)
		if err == nil {
			cancel() // a server that does not hang up
		}
		return err
	})
	return group.Wait()
}

// begin opens the run on the server and learns the writer's mark.
func (s *session) begin(ctx context.Context, cancel context.CancelFunc) (uint64, error) {
	key, err := s.key()
	if err != nil {
		return 0, err
	}
	timeout := time.AfterFunc(openLimit, cancel)
	defer timeout.Stop()
	var moved error
	if s.stream, moved, err = s.conns.stream(ctx, s.server(), key, s.pace.options...); err != nil {
		return 0, explained(err, moved)
	}
	open, err := wire.Open(&s.open.Open, s.protocol)
	if err != nil {
		return 0, err
	}
	open.Acked = s.counters().Mark
	// A broken stream says why in Recv.
	if err := s.stream.Send(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Open{Open: open}}); err != nil && !errors.Is(err, io.EOF) {
		return 0, err
	}
	answer, err := s.stream.Recv()
	if err != nil {
		return 0, explained(err, moved)
	}
	opened := answer.GetOpened()
	if opened == nil {
		return 0, s.unopened(answer)
	}
	// What cannot be read costs the writer's view, not its points.
	if result, err := wire.ReadOpened(opened); err == nil {
		s.answer(result)
	}
	s.setState(spool.StateConnected)
	return opened.Mark, s.catchUp(opened.Mark)
}

// explained is a failure to connect in the words of a redirect, if there was one.
func explained(err, moved error) error {
	if moved != nil && codeOf(err) == model.CodeUnavailable {
		return moved
	}
	return err
}

// write sends a message. gRPC says io.EOF when the stream is broken; the reason
// is what the receiving side got.
func (s *session) write(m *kymogramv1.StreamRequest) error {
	err := s.stream.Send(m)
	if errors.Is(err, io.EOF) {
		<-s.received
		return errors.Join(errHungUp, s.reason)
	}
	s.sent = time.Now()
	return err
}

// failure is the error that a message of the server stands for.
func failure(m *kymogramv1.StreamResponse) error {
	f := m.GetFailure()
	if f == nil {
		return errors.New("the server broke the protocol: it did not answer the open")
	}
	return &model.Error{Code: model.Code(f.Code), Message: f.Message, Hint: f.Hint}
}

// unopened is why a server did not open the run.
func (s *session) unopened(answer *kymogramv1.StreamResponse) error {
	f := answer.GetFailure()
	if f.GetCode() == string(model.CodeInvalid) && max(f.GetProtocol(), wire.JSON) < s.protocol {
		return errProtocol
	}
	return failure(answer)
}

// deliver reads records and sends batches until the end of the writer.
func (s *session) deliver(ctx context.Context) error {
	for woken := false; ; {
		progress, err := s.fill(ctx)
		if err != nil {
			return err
		}
		if s.ready(progress, woken) {
			if err := s.flush(ctx, progress); err != nil {
				return err
			}
		}
		if progress == spool.Got {
			continue // the batch was full, there is more
		}
		waiting := s.waiting()
		s.live.Store(progress != spool.End)
		s.idle.Store(s.batches.empty() && waiting == 0)
		if s.idle.Load() {
			s.calm()
			if progress == spool.End {
				return s.end()
			}
		}
		if woken, err = s.rest(ctx, progress); err != nil {
			return err
		}
	}
}

// fill reads records into the batch in making; Got means that it is full.
func (s *session) fill(ctx context.Context) (spool.Progress, error) {
	var r spool.Record
	for s.batches.size < s.pace.bytes && len(s.batches.updates) < batchUpdates {
		progress, err := s.tail.Next(&r)
		if err != nil {
			return progress, err
		}
		if progress == spool.Wait || progress == spool.End {
			return progress, nil
		}
		s.idle.Store(false)
		s.lastGot = time.Now()
		if s.batches.empty() {
			s.since = s.lastGot
		}
		if progress == spool.Skipped {
			s.log.Warn("records cannot be read and are skipped", "writer", s.id, "first", s.tail.Skip.First, "last", s.tail.Skip.Last, "reason", s.tail.Skip.Reason)
			s.batches.skip(s.tail.Skip)
			continue
		}
		if r.Seq == s.tooLarge {
			s.batches.skip(model.Skipped{First: r.Seq, Last: r.Seq, Reason: reasonLarge, Points: uint64(r.Points())})
			continue
		}
		if points := r.Points(); points > 0 && r.Seq <= s.counters().GivenUp {
			s.batches.skip(model.Skipped{First: r.Seq, Last: r.Seq, Reason: reasonDropped, Points: uint64(points)})
			continue
		}
		if err := s.defineAhead(ctx, &r); err != nil {
			return progress, err
		}
		s.batches.add(&r, s.tail.Series)
	}
	return spool.Got, nil
}

// defineAhead defines the new series of a record in batches of their own where they would
// make its batch too large: one call may log tens of thousands of environments. Such a batch
// names the record before, which the server has by then; so every server takes it.
func (s *session) defineAhead(ctx context.Context, r *spool.Record) error {
	ids, size := s.batches.undefined(r, s.tail.Series)
	if size <= s.pace.bytes || r.Seq == 1 {
		return nil
	}
	if !s.batches.empty() {
		if err := s.flush(ctx, spool.Got); err != nil {
			return err
		}
	}
	for len(ids) > 0 {
		ids = s.batches.defineOnly(r.Seq-1, ids, s.tail.Series, max(s.pace.bytes, leastBytes))
		if err := s.flush(ctx, spool.Got); err != nil {
			return err
		}
	}
	return nil
}

func (s *session) ready(progress spool.Progress, woken bool) bool {
	if s.batches.empty() {
		return false
	}
	return progress != spool.Wait || woken || s.batches.closes || time.Since(s.since) >= s.pace.linger
}

// flush sends the batch in making once there is a slot in flight.
func (s *session) flush(ctx context.Context, progress spool.Progress) error {
	batch, err := s.batches.message()
	if err != nil {
		return err
	}
	read := time.Now()
	stalled := time.NewTimer(stallLimit)
	defer stalled.Stop()
	select {
	case s.room <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	case <-s.stop:
		return errStopped
	case <-stalled.C:
		return errStalled
	}
	batch.SpooledPoints = s.behind(progress != spool.Got && time.Since(read) < linger, s.batches.tally.Total())
	s.qmu.Lock()
	s.queue = append(s.queue, sentBatch{batch.Last, s.batches.tally, s.batches.definitions})
	s.qmu.Unlock()
	s.batches.reset()
	s.count(func(p *spool.Page) { p.Batches++ })
	return s.write(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Batch{Batch: batch}})
}

func (s *session) waiting() int {
	s.qmu.Lock()
	defer s.qmu.Unlock()
	return len(s.queue)
}

// rest waits until it is worth looking again, and keeps the stream alive.
func (s *session) rest(ctx context.Context, progress spool.Progress) (woken bool, err error) {
	poll := idlePoll
	if !s.batches.empty() || time.Since(s.lastGot) < busyFor {
		poll = busyPoll
	}
	timer := time.NewTimer(s.ticks.next(poll))
	defer timer.Stop()
	var acked chan struct{}
	if progress == spool.End {
		acked = s.acked
	}
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-s.stop:
		return false, s.settleInFlight(ctx)
	case <-s.wake:
		return true, nil
	case <-acked:
	case <-timer.C:
	}
	if s.waiting() > 0 && time.Since(s.sent) > stallLimit {
		return false, errStalled
	}
	if time.Since(s.sent) < heartbeat {
		return false, nil
	}
	// The first one comes at once: the server then knows of an empty spool.
	left := s.batches.tally.Total()
	return false, s.write(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Heartbeat{Heartbeat: &kymogramv1.Heartbeat{SpooledPoints: &left}}})
}

// settleInFlight waits for the acks of what was sent, then stops.
func (s *session) settleInFlight(ctx context.Context) error {
	for s.waiting() > 0 {
		select {
		case <-s.acked:
		case <-s.received:
			return errStopped
		case <-ctx.Done():
			return errStopped
		}
	}
	return errStopped
}

// end tells the server that nothing more comes.
func (s *session) end() error {
	s.ending.Store(true)
	if !s.tail.Closed {
		gone := &kymogramv1.Gone{}
		gone.Signal, gone.TimeNs = spool.EndedBy(s.dir)
		if err := s.write(&kymogramv1.StreamRequest{Message: &kymogramv1.StreamRequest_Gone{Gone: gone}}); err != nil {
			return err
		}
	}
	if err := s.stream.CloseSend(); err != nil {
		return fmt.Errorf("end stream: %w", err)
	}
	limit := time.NewTimer(endLimit)
	defer limit.Stop()
	select {
	case <-s.received:
	case <-limit.C: // everything is acked; a server that forgets to hang up loses nothing
	}
	return nil
}

// receive takes the acks.
func (s *session) receive() error {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			return s.hangup(err)
		}
		switch {
		case m.GetAck() != nil:
			if err := s.take(m.GetAck()); err != nil {
				return err
			}
		case m.GetFailure() != nil:
			if code := model.Code(m.GetFailure().Code); code == model.CodeGap {
				return errGap
			}
			return failure(m)
		}
	}
}

func (s *session) hangup(err error) error {
	if s.ending.Load() && s.waiting() == 0 {
		if errors.Is(err, io.EOF) || s.stream.Context().Err() != nil {
			return nil
		}
	}
	if errors.Is(err, io.EOF) {
		return errHungUp
	}
	return err
}

// take handles an ack: everything up to its mark is decided.
func (s *session) take(ack *kymogramv1.Ack) error {
	refused, err := s.refused(ack)
	if err != nil {
		return err
	}
	sent, covered, behind := s.pop(ack.Mark)
	if behind {
		return errGap
	}
	s.share(ack)
	if err := s.settle(ack.Mark, sent.Without(refused), refused.Total()); err != nil {
		return err
	}
	for range covered {
		<-s.room
	}
	select {
	case s.acked <- struct{}{}:
	default:
	}
	return nil
}

// share passes on who else logs the writer's environments. A failure costs the
// warning, not the points.
func (s *session) share(ack *kymogramv1.Ack) {
	said, err := wire.ReadShared(ack)
	if err != nil {
		s.log.Warn("the server names shared environments in words that this version does not know", "writer", s.id, "error", err)
	}
	if err != nil || len(said) == 0 {
		return
	}
	for _, one := range said {
		s.log.Warn("another writer logs an environment at the same time", "writer", s.id, "env", one.Env, "other", one.Writer, "host", one.Host, "pid", one.PID)
	}
	n, err := spool.AddShared(s.dir, said)
	s.note(err)
	s.mu.Lock()
	s.page.Shared = max(s.page.Shared, uint64(n))
	s.mu.Unlock()
}

// pop takes the batches that a mark covers off the queue; behind means that the
// oldest one was not taken. Definitions have the mark of the batch before them, and
// an ack of their own.
func (s *session) pop(mark uint64) (sent spool.Tally, covered int, behind bool) {
	s.qmu.Lock()
	defer s.qmu.Unlock()
	for len(s.queue) > 0 && s.queue[0].last <= mark {
		if first := s.queue[0]; first.definitions && first.last == mark && covered > 0 {
			break
		}
		sent.Add(s.queue[0].tally)
		s.queue = s.queue[1:]
		covered++
	}
	return sent, covered, covered == 0 && len(s.queue) > 0
}

// refused keeps the records that the server refused for good, before the mark
// passes them.
func (s *session) refused(ack *kymogramv1.Ack) (refused spool.Tally, err error) {
	var kept []spool.Rejected
	for _, refusal := range ack.Refused {
		payload, err := spool.ReadRecord(s.dir, s.id, refusal.Seq)
		if err != nil {
			s.log.Warn("a refused record cannot be read again", "writer", s.id, "error", err)
		}
		var r spool.Record
		if err == nil && spool.Decode(payload, &r) == nil {
			refused.Add(r.Tally())
		}
		kept = append(kept, spool.Rejected{Seq: refusal.Seq, Code: model.Code(refusal.Code), Message: refusal.Message, Record: payload})
		s.log.Warn("the server refused a record for good", "writer", s.id, "sequence", refusal.Seq, "code", refusal.Code, "message", refusal.Message)
	}
	if len(kept) == 0 {
		return refused, nil
	}
	return refused, s.folder.Reject(s.id, kept)
}
