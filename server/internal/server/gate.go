package server

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"github.com/kymogram/kymogram/internal/platform"
)

// mostConnections is how many connections there may be, where neither the operator
// nor the process's file descriptors say less.
const mostConnections = 10_000

// Descriptors that connections leave to the store and the catalog: a quarter, and
// at least so many.
const keptDescriptors = 64

// refuseTime is how long a refused client may take to be told.
const refuseTime = 100 * time.Millisecond

const refusal = "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 5\r\nConnection: close\r\n\r\n" +
	`{"error":{"code":"unavailable","message":"the server has no connection left for this address","hint":"Send it again in a few seconds."}}` + "\n"

// gate bounds connections, in all and of one address. Behind a proxy on this machine
// all clients have its address, so loopback is bounded in all only.
type gate struct {
	most, each int

	mu      sync.Mutex
	open    int
	by      map[netip.Addr]int
	refused uint64
}

// newGate takes limits; 0 is the default.
func newGate(most, each int) *gate {
	if most <= 0 {
		most = mostConnections
	}
	if files := platform.Descriptors(); files > 0 {
		most = max(1, min(most, files-max(keptDescriptors, files/4)))
	}
	if each <= 0 {
		each = max(1, most/4)
	}
	return &gate{most: most, each: each, by: map[netip.Addr]int{}}
}

// enter lets a connection in, or refuses and closes it.
func (g *gate) enter(conn net.Conn, plain bool) (net.Conn, bool) {
	from := addressOf(conn)
	g.mu.Lock()
	in := g.open < g.most && (from.IsLoopback() || g.by[from] < g.each)
	if in {
		g.open++
		g.by[from]++
	} else {
		g.refused++
	}
	g.mu.Unlock()
	if in {
		return &entered{Conn: conn, leave: sync.OnceFunc(func() { g.leave(from) })}, true
	}
	if plain && conn.SetWriteDeadline(time.Now().Add(refuseTime)) == nil {
		_, _ = conn.Write([]byte(refusal)) // a client that does not read it sees the end
	}
	_ = conn.Close()
	return nil, false
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
