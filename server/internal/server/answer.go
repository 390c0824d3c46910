package server

import (
	"context"
	"net"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/peer"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

const (
	// freeAnswer is what a stream may have unsent without a share of the memory for answers.
	freeAnswer = 16 << 10
	// answerStall is how long a client may read nothing of what waits for it.
	answerStall = 5 * time.Second
	// eachAnswer is what gRPC keeps of a message besides its bytes.
	eachAnswer = 256
)

// unsent are the bytes that gRPC holds for a client which has not read them.
type unsent struct {
	bytes atomic.Int64
	moved chan struct{}
}

func (u *unsent) left(n int) {
	u.bytes.Add(int64(-n))
	select {
	case u.moved <- struct{}{}:
	default:
	}
}

// SendMsg is the answer to a message, whose memory is free then. A large answer waits
// for its share, and keeps it until the client has read: gRPC would hold any number of
// them for clients that read none.
func (g *guardedStream) SendMsg(m any) error {
	g.leases.answered()
	g.noteFailure(m)
	size := native.Size(m)
	if size > freeAnswer {
		leave, err := g.server.admission.answers.Acquire(g.ctx, int64(size))
		if err != nil {
			return g.server.rpcError(g.method, err)
		}
		defer leave()
	}
	g.unsent.bytes.Add(eachAnswer)
	err := g.ServerStream.SendMsg(&native.Answer{Message: m, Extra: eachAnswer, Held: &g.unsent.bytes, Left: g.unsent.left})
	if err != nil {
		return err
	}
	return g.settle(freeAnswer)
}

// noteFailure notes a refusal that the stream tells in its own words.
func (g *guardedStream) noteFailure(m any) {
	if answer, ok := m.(interface {
		GetFailure() *kymogramv1.Failure
	}); ok && answer.GetFailure() != nil {
		code := model.Code(answer.GetFailure().GetCode())
		g.server.metrics.Failure(g.method, string(code))
		g.server.metrics.Refusal(selfmetrics.GRPC, code)
		if cause := causeOf(code); cause != "" {
			g.server.security.note(g.ctx, eventRefused, cause, "route", g.method)
		}
	}
}

// settle waits until at most so many bytes are unsent. The connection of a client that
// reads nothing is closed: the end of its stream would wait behind what it does not read.
func (g *guardedStream) settle(most int64) error {
	if g.unsent.bytes.Load() <= most {
		return nil
	}
	stall, end := time.NewTimer(answerStall), time.NewTimer(answerTimeout)
	defer stall.Stop()
	defer end.Stop()
	for g.unsent.bytes.Load() > most {
		select {
		case <-g.unsent.moved:
			stall.Reset(answerStall)
		case <-g.ctx.Done():
			return g.ctx.Err()
		case <-stall.C:
			return g.hangUp()
		case <-end.C:
			return g.hangUp()
		}
	}
	return nil
}

func (g *guardedStream) hangUp() error {
	g.server.stalled.Add(1)
	g.server.log.InfoContext(g.ctx, "answer not read", "method", g.method, "bytes", g.unsent.bytes.Load())
	closeConnection(g.ctx)
	return model.Errorf(model.CodeTimeout, "the answer was not read for %v", answerStall)
}

// closeConnection closes what a call came over.
func closeConnection(ctx context.Context) {
	if c := comesOver(ctx); c != nil {
		_ = c.Close()
	}
}

// comesOver is the connection of a call.
func comesOver(ctx context.Context) *entered {
	if p, ok := peer.FromContext(ctx); ok {
		if over, ok := p.AuthInfo.(interface{ connection() net.Conn }); ok {
			return enteredOf(over.connection())
		}
	}
	return nil
}
