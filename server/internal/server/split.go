package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

// helloTimeout is how long a connection may stay silent before it has said
// which protocol it speaks.
const helloTimeout = 5 * time.Second

// preface is how every HTTP/2 connection without TLS begins (RFC 9113, 3.4);
// four bytes tell it from every HTTP/1.1 method.
const preface = "PRI "

// splitter accepts connections on one address and hands each to the protocol
// that its client speaks. Browsers do not speak HTTP/2 without TLS, and with it
// they also offer http/1.1, so HTTP/2 is always gRPC here.
type splitter struct {
	ln   net.Listener
	tls  *tls.Config // nil: plain text
	http *queue
	grpc *queue
	gate *gate
	log  *slog.Logger
}

func newSplitter(ln net.Listener, config *tls.Config, gate *gate, log *slog.Logger) *splitter {
	if config != nil {
		config = splitALPN(config)
	}
	return &splitter{ln: ln, tls: config, http: newQueue(ln.Addr()), grpc: newQueue(ln.Addr()), gate: gate, log: log}
}

// splitALPN answers h2 only to a client that offers nothing else.
func splitALPN(config *tls.Config) *tls.Config {
	pages, calls := config.Clone(), config.Clone()
	pages.NextProtos = []string{"http/1.1"}
	calls.NextProtos = []string{"h2"}
	out := config.Clone()
	out.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
		if slices.Contains(hello.SupportedProtos, "h2") && !slices.Contains(hello.SupportedProtos, "http/1.1") {
			return calls, nil
		}
		return pages, nil
	}
	return out
}

// Run accepts until ctx ends, then closes the address.
func (s *splitter) Run(ctx context.Context) error {
	var routing sync.WaitGroup
	defer routing.Wait()
	defer s.http.Close()
	defer s.grpc.Close()
	stop := context.AfterFunc(ctx, func() { _ = s.ln.Close() })
	defer stop()
	for {
		conn, err := s.ln.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = conn.Close()
			}
			return nil
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("accept: %w", err)
			}
			// Out of file descriptors, mostly: it passes, so wait and go on.
			s.log.Warn("accept failed", "err", err)
			pause(ctx, 50*time.Millisecond)
			continue
		}
		conn, in := s.gate.enter(conn)
		switch {
		case in:
			routing.Go(func() { s.route(ctx, conn) })
		case s.tls == nil:
			s.gate.refuse(conn, routing.Go)
		default:
			_ = conn.Close() // before its handshake nobody reads what it says
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

func (s *splitter) route(ctx context.Context, conn net.Conn) {
	stop := context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	_ = conn.SetDeadline(time.Now().Add(helloTimeout))
	out, to, err := s.recognise(ctx, conn)
	if err != nil || !stop() {
		if err != nil && !errors.Is(err, io.EOF) {
			s.log.Debug("connection dropped", "from", conn.RemoteAddr(), "err", err)
		}
		_ = conn.Close()
		return
	}
	_ = conn.SetDeadline(time.Time{})
	to.put(out)
}

func (s *splitter) recognise(ctx context.Context, conn net.Conn) (net.Conn, *queue, error) {
	if s.tls != nil {
		return s.handshake(ctx, conn)
	}
	head := make([]byte, 0, len(preface))
	for len(head) < len(preface) && bytes.HasPrefix([]byte(preface), head) {
		n, err := conn.Read(head[len(head):cap(head)])
		if err != nil {
			return nil, nil, err
		}
		head = head[:len(head)+n]
	}
	if string(head) == preface {
		return &peeked{conn, head}, s.grpc, nil
	}
	return &peeked{conn, head}, s.http, nil
}

func (s *splitter) handshake(ctx context.Context, conn net.Conn) (net.Conn, *queue, error) {
	secure := tls.Server(conn, s.tls)
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, nil, fmt.Errorf("TLS: %w", err)
	}
	if secure.ConnectionState().NegotiatedProtocol == "h2" {
		return secure, s.grpc, nil
	}
	return secure, s.http, nil
}

// peeked gives back the bytes that were read to recognise the protocol.
type peeked struct {
	net.Conn
	head []byte
}

func (c *peeked) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

// CloseWrite lets net/http say a refusal to a client that is still sending: it
// ends its half and lingers, so that the answer is read before a reset comes.
func (c *peeked) CloseWrite() error {
	half, ok := c.Conn.(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// queue is a net.Listener whose connections are put by a splitter.
type queue struct {
	addr   net.Addr
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newQueue(addr net.Addr) *queue {
	return &queue{addr: addr, conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (q *queue) put(conn net.Conn) {
	select {
	case q.conns <- conn:
	case <-q.closed:
		_ = conn.Close()
	}
}

// Accept waits for the next connection.
func (q *queue) Accept() (net.Conn, error) {
	select {
	case conn := <-q.conns:
		return conn, nil
	case <-q.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept; connections that come later are closed.
func (q *queue) Close() error {
	q.once.Do(func() { close(q.closed) })
	return nil
}

// Addr is the splitter's address.
func (q *queue) Addr() net.Addr { return q.addr }
