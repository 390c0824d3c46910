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
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
)

const (
	maxStreams    = 1024 // of one connection
	minClientPing = 5 * time.Second
	deadPeer      = 20 * time.Second
	idleCalls     = 5 * time.Minute // a connection without a stream

	// maxQuestion is the limit of a call that is not Large: questions are short.
	maxQuestion = 256 << 10

	largestMessage = 8 << 20
)

// newRPC makes the gRPC server; it serves connections that a splitter hands over.
func (s *Server) newRPC() *grpc.Server {
	return grpc.NewServer(
		grpc.Creds(handedOver{}),
		grpc.ForceServerCodecV2(native.Codec{}),
		grpc.MaxRecvMsgSize(s.maxMessage()),
		grpc.MaxSendMsgSize(int(s.options.MaxBody)),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.ConnectionTimeout(helloTimeout),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minClientPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idleCalls, Time: deadPeer, Timeout: deadPeer}),
		grpc.WaitForHandlers(true),
		grpc.ChainStreamInterceptor(s.guardStream),
	)
}

// maxMessage is the limit of a gRPC message. gRPC holds it as a whole before anybody
// is asked, so many at once are bounded by their size alone. The uplink sends 4 MiB.
func (s *Server) maxMessage() int { return int(min(s.options.MaxBody, largestMessage)) }

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
	call := &guardedStream{ServerStream: stream, server: s, method: info.FullMethod, most: maxQuestion, memory: largest * maxQuestion}
	call.ctx, err = s.admit(withOrigin(stream.Context(), origin{address: remoteOf(stream.Context())}), info.FullMethod)
	if s.options.Policy.RPC[info.FullMethod].Large {
		call.most, call.memory = s.maxMessage(), int(largest*s.options.MaxBody)
	}
	defer call.leases.close()
	if err == nil {
		err = handler(srv, call)
	}
	call.watch(err)
	return s.rpcError(info.FullMethod, err)
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
		return ctx, nil
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
}

func (g *guardedStream) Context() context.Context { return g.ctx }

func (g *guardedStream) RecvMsg(m any) error {
	var raw native.Raw
	if err := g.ServerStream.RecvMsg(&raw); err != nil {
		return err
	}
	defer raw.Free()
	select {
	case <-g.server.draining:
		return status.Error(codes.Unavailable, "unavailable: the server is stopping")
	default:
	}
	if err := g.server.keyring.Recheck(g.ctx, auth.PrincipalOf(g.ctx)); err != nil {
		return g.server.rpcError(g.method, err)
	}
	cost, err := raw.Weigh(m, g.most, g.memory)
	if err != nil {
		return err
	}
	if err := g.server.admission.message(g.ctx, &g.leases, cost); err != nil {
		return g.server.rpcError(g.method, err)
	}
	err = raw.Decode(m)
	if named, ok := m.(interface{ GetId() string }); ok && err == nil {
		g.run = model.Clip(named.GetId())
	}
	return err
}

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

// SendMsg is the answer to a message, whose memory is free then. It notes a refusal
// that the stream tells in its own words.
func (g *guardedStream) SendMsg(m any) error {
	g.leases.answered()
	if answer, ok := m.(interface {
		GetFailure() *kymogramv1.Failure
	}); ok && answer.GetFailure() != nil {
		if cause := causeOf(model.Code(answer.GetFailure().GetCode())); cause != "" {
			g.server.security.note(g.ctx, eventRefused, cause, "route", g.method)
		}
	}
	return g.ServerStream.SendMsg(m)
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
		return conn, plainInfo{credentials.CommonAuthInfo{SecurityLevel: credentials.NoSecurity}}, nil
	}
	return conn, credentials.TLSInfo{
		State:          secure.ConnectionState(),
		CommonAuthInfo: credentials.CommonAuthInfo{SecurityLevel: credentials.PrivacyAndIntegrity},
	}, nil
}

func (handedOver) ClientHandshake(context.Context, string, net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return nil, nil, fmt.Errorf("these credentials are for servers")
}

func (handedOver) Info() credentials.ProtocolInfo {
	return credentials.ProtocolInfo{SecurityProtocol: "tls"}
}
func (handedOver) Clone() credentials.TransportCredentials { return handedOver{} }
func (handedOver) OverrideServerName(string) error         { return nil }

type plainInfo struct{ credentials.CommonAuthInfo }

func (plainInfo) AuthType() string { return "insecure" }
