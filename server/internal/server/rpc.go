package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"runtime/debug"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
	"github.com/kymogram/kymogram/server/internal/share"
)

const (
	maxStreams    = 1024 // of one connection
	minClientPing = 5 * time.Second
	deadPeer      = 20 * time.Second
	idleCalls     = 5 * time.Minute // a connection without a stream

	// maxQuestion is the limit of a call that is not Large: questions are short.
	maxQuestion = 256 << 10

	// largestMessage bounds a message, largestAnswer an answer. The uplink sends 4 MiB.
	largestMessage = 8 << 20
	largestAnswer  = 16 << 20

	maxMetadata      = 16 << 10
	streamWindow     = 64 << 10
	connectionWindow = 1 << 20
	connectionBuffer = 8 << 10
)

// newRPC makes the gRPC server; it serves connections that a splitter hands over.
func (s *Server) newRPC() *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(handedOver{}),
		grpc.ForceServerCodecV2(native.Codec{}),
		grpc.MaxSendMsgSize(largestAnswer),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.MaxHeaderListSize(maxMetadata),
		// A window that grew would hold as much of each stream as of a message.
		grpc.StaticStreamWindowSize(streamWindow),
		grpc.StaticConnWindowSize(connectionWindow),
		grpc.ReadBufferSize(connectionBuffer),
		grpc.SharedWriteBuffer(true),
		grpc.ConnectionTimeout(helloTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleCalls, Time: deadPeer, Timeout: deadPeer}),
		grpc.WaitForHandlers(true),
		grpc.ChainStreamInterceptor(s.guardStream),
	)
}

// checkRPC fails unless every registered method has a policy.
func (s *Server) checkRPC() (err error) {
	for _, method := range s.Methods() {
		err = errors.Join(err, s.options.Policy.RPC[method].check("method "+method))
	}
	return err
}

func (s *Server) guardStream(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handler grpc.StreamHandler) (err error) {
	defer s.metrics.Call(info.FullMethod, time.Now(), &err)
	defer s.recoverRPC(info.FullMethod, &err)
	ctx, cancel := context.WithCancel(withOrigin(stream.Context(), origin{address: remoteOf(stream.Context())}))
	defer cancel() // shares that an answer holds end with it
	call := &guardedStream{ServerStream: stream, server: s, method: info.FullMethod, most: maxQuestion, memory: largest * maxQuestion}
	call.unsent.moved = make(chan struct{}, 1)
	call.ctx, err = s.admit(ctx, info.FullMethod)
	rule := s.options.Policy.RPC[info.FullMethod]
	if err == nil && !rule.Open {
		var release func()
		if release, err = s.gate.hold(comesOver(ctx), share.Caller(call.ctx)); err == nil {
			defer release()
		}
	}
	if rule.Large {
		call.most, call.memory = largestMessage, int(min(largest*largestAnswer, s.admission.pool.Part()))
	}
	defer call.leases.close()
	if err == nil {
		err = call.serve(srv, handler)
	}
	call.watch(err)
	return s.rpcError(info.FullMethod, err)
}

// serve handles a call that was let in.
func (g *guardedStream) serve(srv any, handler grpc.StreamHandler) error {
	leave, err := g.server.admission.streams.Try(g.ctx, 1)
	if err != nil {
		return err
	}
	defer leave()
	// Answers are counted as they are, so they are not compressed.
	if err := grpc.SetSendCompressor(g.ServerStream.Context(), encoding.Identity); err != nil {
		return fmt.Errorf("choose how to answer: %w", err)
	}
	var ok bool
	if g.transport, ok = grpc.ServerTransportStreamFromContext(g.ctx).(transport); !ok {
		return fmt.Errorf("this version of gRPC shows no transport")
	}
	if err := handler(srv, g); err != nil {
		return err
	}
	return g.settle(0)
}

// registrar makes every method a stream, also one of a single message: gRPC reads that
// message before it asks an interceptor of unary calls, and a stream's only when its
// handler wants it. The wire does not change.
type registrar struct{ *grpc.Server }

func (r registrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	streams := *desc
	streams.Methods, streams.Streams = nil, slices.Clone(desc.Streams)
	for _, m := range desc.Methods {
		streams.Streams = append(streams.Streams, grpc.StreamDesc{StreamName: m.MethodName, Handler: single(m.Handler)})
	}
	r.Server.RegisterService(&streams, service)
}

// single serves a call of one message and one answer.
func single(handle grpc.MethodHandler) grpc.StreamHandler {
	return func(service any, stream grpc.ServerStream) error {
		answer, err := handle(service, stream.Context(), stream.RecvMsg, nil)
		if err != nil {
			return err
		}
		return stream.SendMsg(answer)
	}
}

// admit applies the policy to a call.
func (s *Server) admit(ctx context.Context, method string) (context.Context, error) {
	rule, ok := s.options.Policy.RPC[method]
	if !ok {
		return ctx, model.Errorf(model.CodePermission, "no policy for %s", method)
	}
	if rule.Open {
		return withCaller(ctx, nil, remoteOf(ctx)), nil
	}
	secret := ""
	if md, ok := metadata.FromIncomingContext(ctx); ok && len(md.Get("authorization")) > 0 {
		var err error
		if secret, err = bearer(md.Get("authorization")[0]); err != nil {
			return ctx, err
		}
	}
	p, err := s.keyring.Authenticate(ctx, secret)
	if err != nil {
		return ctx, err
	}
	ctx = withCaller(auth.WithPrincipal(ctx, p), p, remoteOf(ctx))
	return ctx, rule.allow(ctx)
}

func remoteOf(ctx context.Context) string {
	if p, ok := peer.FromContext(ctx); ok {
		return p.Addr.String()
	}
	return ""
}

// guardedStream carries the caller and looks at its key again with every
// message, so that a revocation ends long streams too. It reads no message that would
// take more memory than its size allows.
type guardedStream struct {
	grpc.ServerStream
	ctx    context.Context
	server *Server
	method string
	most   int    // bytes of a message
	memory int    // that a message and what is made of it take
	run    string // that the last message names
	leases leases

	transport transport
	unsent    unsent
}

func (g *guardedStream) Context() context.Context { return g.ctx }

// watch writes what became of a call into the security log.
func (g *guardedStream) watch(err error) {
	event := g.server.options.Policy.RPC[g.method].Event
	switch cause := causeOf(model.CodeOf(err)); {
	case err != nil && cause != "":
		g.server.security.refused(g.ctx, cause, g.method, err)
	case err == nil && event != "":
		g.server.security.note(g.ctx, event, "", "run", g.run)
	}
}

func (s *Server) recoverRPC(method string, err *error) {
	if cause := recover(); cause != nil {
		s.log.Error("panic", "method", method, "cause", cause, "stack", string(debug.Stack()))
		s.metrics.Panics.Inc()
		*err = status.Error(codes.Internal, "internal: the server failed on this call; its log says why")
	}
}

// handedOver are the credentials of connections whose TLS a splitter has done.
type handedOver struct{}

func (handedOver) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return conn, plainInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}, conn}, nil
	}
	return conn, secureInfo{credentials.TLSInfo{
		State:          secure.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, conn}, nil
}

func (handedOver) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("these credentials are for servers")
}

func (handedOver) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}
func (handedOver) Clone() credentials.TransportCredentials { return handedOver{} }
func (handedOver) OverrideServerName(string) error         { return nil }

// plainInfo and secureInfo lead from a call to its connection.
type plainInfo struct {
	credentials.CommonAuthInfo
	conn net.Conn
}

func (plainInfo) AuthType() string       { return "insecure" }
func (i plainInfo) connection() net.Conn { return i.conn }

type secureInfo struct {
	credentials.TLSInfo
	conn net.Conn
}

func (i secureInfo) connection() net.Conn { return i.conn }
