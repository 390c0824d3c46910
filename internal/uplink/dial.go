package uplink

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
)

// The wait between two tries, as the real Metrana client has it.
const (
	firstBackoff = 50 * time.Millisecond
	lastBackoff  = 15 * time.Second
)

// connections shares one gRPC connection a server.
type connections struct {
	mu   sync.Mutex
	byID map[string]*grpc.ClientConn
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.byID {
		conn.Close()
	}
	c.byID = nil
}

// stream opens an ingest stream to a server. The address is discovered anew when
// there is no connection yet. With the stream comes what may explain its failure:
// a proxy that redirects HTTP rarely says why it does not take gRPC.
func (c *connections) stream(ctx context.Context, address, key string, options ...grpc.CallOption) (stream streamClient, moved, err error) {
	server, err := NewServer(address, key)
	if err != nil {
		return nil, nil, err
	}
	target, err := server.discover(ctx)
	if errors.As(err, new(*model.Error)) && errors.Is(err, ErrUnreachable) {
		moved = err
	}
	conn, err := c.conn(server, target)
	if err != nil {
		return nil, moved, err
	}
	if conn.GetState() == connectivity.TransientFailure {
		conn.ResetConnectBackoff() // beside a first connection it races within gRPC
	}
	if key != "" {
		ctx = metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+key)
	}
	stream, err = kymogramv1.NewIngestServiceClient(conn).Stream(ctx, options...)
	return stream, moved, err
}

func (c *connections) conn(server *Server, target string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id := server.url.Scheme + " " + target
	if conn, ok := c.byID[id]; ok {
		return conn, nil
	}
	creds := insecure.NewCredentials()
	if server.url.Scheme == "https" {
		creds = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12, ServerName: server.url.Hostname()})
	}
	options, err := proxyOptions(server.url)
	if err != nil {
		return nil, err
	}
	conn, err := grpc.NewClient(target, append(options,
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(codec{})),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: firstBackoff, Multiplier: 1.6, Jitter: 0.2, MaxDelay: lastBackoff},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithUserAgent("kymogram-uplink"),
	)...)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", target, err)
	}
	if c.byID == nil {
		c.byID = map[string]*grpc.ClientConn{}
	}
	c.byID[id] = conn
	return conn, nil
}

// proxyOptions keep gRPC, which knows HTTPS_PROXY alone, from a proxy that the
// server's HTTP side does not take.
func proxyOptions(server *url.URL) ([]grpc.DialOption, error) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: server})
	if err != nil {
		return nil, fmt.Errorf("read the proxy's address: %w", err)
	}
	if proxy == nil {
		return []grpc.DialOption{grpc.WithNoProxy()}, nil
	}
	return nil, nil
}

// codec marshals with the generated code instead of by reflection.
type codec struct{}

type vtMessage interface {
	MarshalVT() ([]byte, error)
	UnmarshalVT(data []byte) error
}

var errCodec = errors.New("not a generated message")

func (codec) Name() string { return "proto" }

func (codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(vtMessage)
	if !ok {
		return nil, errCodec
	}
	return m.MarshalVT()
}

func (codec) Unmarshal(data []byte, v any) error {
	m, ok := v.(vtMessage)
	if !ok {
		return errCodec
	}
	return m.UnmarshalVT(data)
}

// plainError takes gRPC's wrapping off a message for people.
func plainError(err error) string {
	text := err.Error()
	if i := strings.LastIndex(text, "desc = "); i >= 0 {
		text = strings.Trim(text[i+len("desc = "):], `"`)
	}
	return strings.TrimPrefix(text, "transport: ")
}
