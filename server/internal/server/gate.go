package server

import (
	"errors"
	"io"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
)

// mostConnections is how many connections there may be, where neither the operator
// nor the process's file descriptors say less.
const mostConnections = 10_000

// relieveEvery bounds how often idle connections make way for new ones.
const relieveEvery = 100 * time.Millisecond

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

// gate bounds connections, in all and of one address. Behind a proxy on this machine
// all clients have its address, so loopback is bounded in all only.
type gate struct {
	most, each int
	telling    chan struct{} // holds one for each client that is being told
	relieve    func()        // closes idle connections; nil: there are none

	mu       sync.Mutex
	relieved time.Time
	open     int
	by       map[netip.Addr]int
	refused  uint64
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
	return &gate{most: most, each: each, by: map[netip.Addr]int{}, telling: make(chan struct{}, toldAtOnce)}
}

// enter lets a connection in; one that is not is the caller's to refuse.
func (g *gate) enter(conn net.Conn) (net.Conn, bool) {
	from := addressOf(conn)
	in := g.count(from)
	if !in && g.mayRelieve() {
		g.relieve()
		in = g.count(from)
	}
	if !in {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.refused++
		return conn, false
	}
	return &entered{Conn: conn, leave: sync.OnceFunc(func() { g.leave(from) })}, true
}

// count counts a connection, if there is room for it.
func (g *gate) count(from netip.Addr) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.open >= g.most || !from.IsLoopback() && g.by[from] >= g.each {
		return false
	}
	g.open++
	g.by[from]++
	return true
}

// mayRelieve says whether idle connections may be closed now.
func (g *gate) mayRelieve() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.relieve == nil || time.Since(g.relieved) < relieveEvery {
		return false
	}
	g.relieved = time.Now()
	return true
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

func (g *gate) leave(from netip.Addr) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.open--
	if g.by[from]--; g.by[from] == 0 {
		delete(g.by, from)
	}
}

// figures are those of now, and the refusals since the start.
func (g *gate) figures() (open, most int, refused uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.open, g.most, g.refused
}

// entered is a connection that is counted until it closes.
type entered struct {
	net.Conn
	leave func()
}

func (c *entered) Close() error {
	defer c.leave()
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
