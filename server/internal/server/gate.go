package server

import (
	"container/list"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// mostConnections is how many connections there may be, where neither the operator
// nor the process's file descriptors say less.
const mostConnections = 10_000

// mostWaits bounds event streams and waiting requests in memory: 50 KiB each.
const mostWaits = 4096

// Descriptors that connections leave to the store and the catalog: a quarter, and
// at least so many.
const keptDescriptors = 64

// A refused client is told why. It reads that only when it has sent its request, so some
// of that is taken in: of so many clients at once, for so long, and so much of each.
const (
	toldAtOnce = 16
	toldTime   = 500 * time.Millisecond
	toldBytes  = 1 << 20
	refuseTime = 100 * time.Millisecond // of the others
)

const refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nConnection: close\r\n\r\n" +
	`{"error":{"code":"unavailable","message":"the server has no connection left for this address","hint":"Send it again in a few seconds."}}` + "\n"

// Connections that are kept for callers who have few: an eighth. One caller has a
// quarter while others want some.
const (
	sparePart  = 8
	callerPart = 4
)

// gate bounds connections, in all and of one address. Behind a proxy on this machine
// all clients have its address, so loopback is bounded in all only.
//
// A connection rests until a caller with a key uses it, and again afterwards: while it is
// silent, and when it was refused. Where there is no place for another one, the one that
// has rested longest makes way. A caller that holds more than its part makes way for
// those who hold less.
type gate struct {
	most, each  int
	spare, part int
	telling     chan struct{} // holds one for each client that is being told

	mu      sync.Mutex
	open    int
	held    int // of these, by callers
	by      map[netip.Addr]*address
	callers map[string]*list.List // of *entered: who holds what, oldest first
	resting list.List             // of *entered, oldest first
	refused uint64
	closed  uint64 // for others
}

// address is what one has.
type address struct {
	open    int
	resting list.List // of *entered, oldest first
}

// connections is how many there may be, where so many are wanted; 0 is the default.
func connections(most int) int {
	if most <= 0 {
		most = mostConnections
	}
	if files := platform.Descriptors(); files > 0 {
		most = max(1, min(most, files-max(keptDescriptors, files/4)))
	}
	return most
}

// Waits is how many event streams and waiting requests there may be, where so many
// connections are wanted: half of them, so that the others take writes.
func Waits(most int) int64 { return min(mostWaits, max(1, int64(connections(most)/2))) }

// newGate takes limits; 0 is the default.
func newGate(most, each int) *gate {
	most = connections(most)
	if each <= 0 {
		each = max(1, most/4)
	}
	return &gate{
		most: most, each: each, spare: max(1, most/sparePart), part: max(1, most/callerPart),
		by: map[netip.Addr]*address{}, callers: map[string]*list.List{}, telling: make(chan struct{}, toldAtOnce),
	}
}

// enter lets a connection in; one that is not is the caller's to refuse.
func (g *gate) enter(conn net.Conn) (net.Conn, bool) {
	c := &entered{Conn: conn, gate: g, from: addressOf(conn)}
	g.mu.Lock()
	at := g.by[c.from]
	if at == nil {
		at = &address{}
	}
	old := g.inTheWay(c.from, at)
	g.drop(old)
	g.by[c.from] = at // the one that made way may have been its last
	in := g.open < g.most && !g.crowded(c.from, at)
	if in {
		g.open++
		at.open++
		g.rest(c, at)
	} else {
		g.refused++
		g.forget(c.from, at)
	}
	g.mu.Unlock()
	old.hangUp()
	if !in {
		return conn, false
	}
	return c, true
}

func (g *gate) crowded(from netip.Addr, at *address) bool {
	return !from.IsLoopback() && at.open >= g.each
}

// inTheWay is the connection that makes way for one of an address: nil where there is a
// place, and where none rests.
func (g *gate) inTheWay(from netip.Addr, at *address) *entered {
	switch {
	case g.crowded(from, at):
		return oldest(&at.resting)
	case g.open >= g.most:
		return oldest(&g.resting)
	}
	return nil
}

func oldest(l *list.List) *entered {
	if e := l.Front(); e != nil {
		return e.Value.(*entered) //nolint:forcetypeassert // nothing else is in these lists
	}
	return nil
}

// rest puts a connection behind those that rest longer.
func (g *gate) rest(c *entered, at *address) {
	c.inAll, c.inOwn = g.resting.PushBack(c), at.resting.PushBack(c)
}

// touch notes that a request begins to come.
func (g *gate) touch(c *entered) {
	if c == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.inAll != nil {
		g.resting.MoveToBack(c.inAll)
		g.by[c.from].resting.MoveToBack(c.inOwn)
	}
}

// hold gives a connection to a caller that uses it, until release. Where few are left, a
// caller that has its part is refused, and who has more than that gives one up.
func (g *gate) hold(c *entered, caller string) (release func(), err error) {
	if c == nil {
		return func() {}, nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if c.calls == 0 && !c.gone {
		own := g.callers[caller]
		if own == nil {
			own = list.New()
		}
		if g.held >= g.most-g.spare {
			if own.Len() >= g.part {
				g.refused++
				return nil, model.Errorf(model.CodeBusy, "the server has few connections left, and this caller has %d of %d", own.Len(), g.most).
					WithHint("Send it again in a few seconds, or use fewer connections at once: a quarter is for one key.")
			}
			most := g.greediest()
			g.drop(most)
			defer most.hangUp()
		}
		g.wake(c)
		g.callers[caller] = own
		c.caller, c.inHeld = caller, own.PushBack(c)
		g.held++
	}
	c.calls++
	released := false // guarded by mu
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		if !released {
			released = true
			g.release(c)
		}
	}, nil
}

// greediest is the youngest connection of the caller that has most, nil where nobody has
// more than its part.
func (g *gate) greediest() *entered {
	var most *list.List
	for _, own := range g.callers {
		if own.Len() > g.part && (most == nil || own.Len() > most.Len()) {
			most = own
		}
	}
	if most == nil {
		return nil
	}
	return most.Back().Value.(*entered) //nolint:forcetypeassert // nothing else is in these lists
}

// release ends a call of a connection.
func (g *gate) release(c *entered) {
	if c.calls--; c.calls == 0 && !c.gone {
		g.unhold(c)
		g.rest(c, g.by[c.from])
	}
}

// wake takes a connection out of those that rest.
func (g *gate) wake(c *entered) {
	if c.inAll != nil {
		g.resting.Remove(c.inAll)
		g.by[c.from].resting.Remove(c.inOwn)
		c.inAll, c.inOwn = nil, nil
	}
}

// unhold takes a connection away from its caller.
func (g *gate) unhold(c *entered) {
	if c.inHeld == nil {
		return
	}
	own := g.callers[c.caller]
	own.Remove(c.inHeld)
	if c.inHeld = nil; own.Len() == 0 {
		delete(g.callers, c.caller)
	}
	g.held--
}

// drop counts a connection out that makes way for another.
func (g *gate) drop(c *entered) {
	if c != nil {
		g.closed++
		g.leave(c)
	}
}

// leave counts a connection out, once.
func (g *gate) leave(c *entered) {
	if c.gone {
		return
	}
	c.gone = true
	g.wake(c)
	g.unhold(c)
	g.open--
	at := g.by[c.from]
	at.open--
	g.forget(c.from, at)
}

func (g *gate) forget(from netip.Addr, at *address) {
	if at.open == 0 {
		delete(g.by, from)
	}
}

// isShort says whether refused clients should go.
func (g *gate) isShort() bool {
	if g == nil {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open >= g.most-g.spare
}

// refuse tells a client that there is no connection for it, and closes the one that it
// has. Where many are told already it does not wait.
func (g *gate) refuse(conn net.Conn, run func(func())) {
	select {
	case g.telling <- struct{}{}:
		run(func() {
			defer func() { <-g.telling }()
			tell(conn, toldTime)
			_, _ = io.CopyN(io.Discard, conn, toldBytes)
			_ = conn.Close()
		})
	default:
		tell(conn, refuseTime)
		_ = conn.Close()
	}
}

// tell writes the refusal and ends this half of the connection.
func tell(conn net.Conn, within time.Duration) {
	if conn.SetDeadline(time.Now().Add(within)) != nil {
		return
	}
	if _, err := conn.Write([]byte(refusal)); err != nil {
		return // it sees the end
	}
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite()
	}
}

func addressOf(conn net.Conn) netip.Addr {
	at, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
	return at.Addr().Unmap().WithZone("")
}

// figures are those of now, and since the start the connections that were refused, and
// closed for others.
func (g *gate) figures() (open, most int, refused, closed uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.most, g.refused, g.closed
}

// entered is a connection that is counted until it closes. The gate keeps its fields.
type entered struct {
	net.Conn
	gate *gate
	from netip.Addr

	gone   bool
	caller string
	calls  int // that go on; a connection of HTTP/1 has one at most
	// Where it is in the gate's lists.
	inAll, inOwn, inHeld *list.Element
}

// enteredOf is the counted connection below others, nil where there is none.
func enteredOf(conn net.Conn) *entered {
	for {
		switch c := conn.(type) {
		case *entered:
			return c
		case *peeked:
			conn = c.Conn
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

type connectionKey struct{}

// withConnection carries what a request came over.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, connectionKey{}, enteredOf(conn))
}

func connectionOf(ctx context.Context) *entered {
	c, _ := ctx.Value(connectionKey{}).(*entered)
	return c
}

// hangUp closes what the gate has counted out.
func (c *entered) hangUp() {
	if c != nil {
		_ = c.Conn.Close()
	}
}

func (c *entered) Close() error {
	c.gate.mu.Lock()
	c.gate.leave(c)
	c.gate.mu.Unlock()
	return c.Conn.Close()
}

// CloseWrite is for refusals that are read before a reset comes.
func (c *entered) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}
