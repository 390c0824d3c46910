package rig

import (
	"context"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"
)

// Weather is what a [Proxy] does to the connections through it.
type Weather int

// The kinds of weather.
const (
	Fair   Weather = iota
	Slow           // every piece is late
	Lossy          // connections break in mid-message
	Hole           // connections are taken, nothing passes
	Refuse         // no connection is taken, and those there are end
	weathers
)

func (w Weather) String() string {
	return [...]string{"fair", "slow", "lossy", "black hole", "refused"}[w]
}

// Proxy lies between clients and a server whose address may change.
type Proxy struct {
	Address string // http://HOST:PORT, for as long as the test runs

	listener net.Listener
	mu       sync.Mutex
	to       string
	weather  Weather
	late     time.Duration
	open     map[net.Conn]bool
}

// NewProxy listens on a free port for a server.
func NewProxy(t *testing.T, server *Server) *Proxy {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{Address: "http://" + listener.Addr().String(), listener: listener, open: map[net.Conn]bool{}}
	p.Lead(server)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() { p.serve(t.Context(), conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		p.cut()
		group.Wait()
	})
	return p
}

// Lead sends new connections to a server.
func (p *Proxy) Lead(server *Server) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.to = server.Address[len("http://"):]
}

// Change changes the weather; a hole and a refusal end what is open.
func (p *Proxy) Change(w Weather) {
	p.mu.Lock()
	p.weather = w
	p.mu.Unlock()
	if w == Refuse || w == Hole {
		p.cut()
	}
}

// Late holds every piece back for so long, in fair weather.
func (p *Proxy) Late(late time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.late = late
}

func (p *Proxy) lateness() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.late
}

func (p *Proxy) now() (to string, w Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.to, p.weather
}

func (p *Proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for conn := range p.open {
		conn.Close()
	}
}

func (p *Proxy) keep(conn net.Conn, on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if on {
		p.open[conn] = true
		return
	}
	delete(p.open, conn)
	conn.Close()
}

func (p *Proxy) serve(ctx context.Context, in net.Conn) {
	p.keep(in, true)
	defer p.keep(in, false)
	to, weather := p.now()
	if weather == Refuse {
		return
	}
	out, err := new(net.Dialer).DialContext(ctx, "tcp", to)
	if err != nil {
		return
	}
	p.keep(out, true)
	defer p.keep(out, false)
	var both sync.WaitGroup
	for _, pair := range [][2]net.Conn{{in, out}, {out, in}} {
		both.Go(func() {
			defer pair[1].Close()
			p.pass(pair[0], pair[1])
		})
	}
	both.Wait()
}

// pass copies one direction, piece by piece, through the weather of the moment.
func (p *Proxy) pass(from io.Reader, to io.Writer) {
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if n > 0 {
			switch _, weather := p.now(); weather {
			case Fair:
				time.Sleep(p.lateness())
			case Slow:
				time.Sleep(rand.N(200 * time.Millisecond))
			case Hole:
				continue
			case Lossy:
				if rand.N(8) == 0 {
					_, _ = to.Write(buf[:n/2]) // a half: the other end must not take it for a whole
					return
				}
			}
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
