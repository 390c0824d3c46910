package main

import (
	"context"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
)

// spread is a balancer: it passes connections on to servers in turn. A server that does not take
// one is passed over.
type spread struct {
	address string

	mu   sync.Mutex
	to   []string
	turn int
	open map[net.Conn]string // connections to servers
}

func newSpread(t *testing.T, to ...string) *spread {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &spread{address: l.Addr().String(), to: to, open: map[net.Conn]string{}}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go s.pass(t.Context(), client)
		}
	}()
	return s
}

// lead sends new connections to these servers, and ends those to all others.
func (s *spread) lead(to ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.to = to
	for c, address := range s.open {
		if !slices.Contains(to, address) {
			_ = c.Close()
		}
	}
}

func (s *spread) pass(ctx context.Context, client net.Conn) {
	defer client.Close()
	server := s.dial(ctx)
	if server == nil {
		return
	}
	defer s.end(server)
	go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
	_, _ = io.Copy(client, server)
}

func (s *spread) dial(ctx context.Context) net.Conn {
	s.mu.Lock()
	s.turn++
	to := slices.Clone(s.to)
	turn := s.turn
	s.mu.Unlock()
	for i := range to {
		at := to[(turn+i)%len(to)]
		if c, err := (&net.Dialer{}).DialContext(ctx, "tcp", at); err == nil {
			s.mu.Lock()
			s.open[c] = at
			s.mu.Unlock()
			return c
		}
	}
	return nil
}

func (s *spread) end(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.open, c)
	_ = c.Close()
}
