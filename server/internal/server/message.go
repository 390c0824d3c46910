package server

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/receiver/native"
)

// transport is a call below gRPC's own reader. That one takes a whole message before
// anybody can say no; this one tells the length first. A gRPC without these methods
// fails every call, and thus every test.
type transport interface {
	ReadMessageHeader(header []byte) error
	Read(n int) (mem.BufferSlice, error)
	RecvCompress() string
}

// RecvMsg waits for the caller's share of what messages may take, before the body of a
// large one is received: first for its bytes, then for what is made of them.
func (g *guardedStream) RecvMsg(m any) error {
	packed, size, err := g.header()
	if err != nil {
		return err
	}
	leave, err := g.server.admission.arrive(g.ctx, size)
	if err != nil {
		return g.server.rpcError(g.method, err)
	}
	defer leave()
	data, err := g.body(size)
	if err != nil {
		return err
	}
	if packed {
		done, err := g.server.admission.unfolding.AcquireWithin(g.ctx, messageTime, int64(g.most))
		if err != nil {
			data.Free()
			return g.server.rpcError(g.method, err)
		}
		defer done()
		if data, err = g.unfold(data); err != nil {
			return err
		}
	}
	raw := native.NewRaw(data)
	defer raw.Free()
	return g.decode(&raw, m)
}

// header reads how a message comes and how long it is.
func (g *guardedStream) header() (packed bool, size int, err error) {
	var head [5]byte
	if err := g.transport.ReadMessageHeader(head[:]); err != nil {
		return false, 0, g.broken(err)
	}
	size = int(binary.BigEndian.Uint32(head[1:]))
	switch {
	case head[0] > 1:
		return false, 0, status.Errorf(codes.Internal, "a message of the unknown form %d", head[0])
	case size > g.most:
		return false, 0, tooLong(size, g.most)
	}
	return head[0] == 1, size, nil
}

func tooLong(size, most int) error {
	return model.Errorf(model.CodeTooLarge, "the message has %d bytes, at most %d here", size, most)
}

// broken is why a message could not be read.
func (g *guardedStream) broken(err error) error {
	switch {
	case errors.Is(err, io.EOF):
		return io.EOF
	case g.ctx.Err() != nil:
		return g.ctx.Err()
	case errors.Is(err, io.ErrUnexpectedEOF):
		return status.Error(codes.Internal, "the stream ended within a message")
	}
	return status.Errorf(codes.Unavailable, "unavailable: %v", err)
}

// body reads a message. One that holds a share and does not come ends the call.
func (g *guardedStream) body(size int) (mem.BufferSlice, error) {
	if size < leastCost {
		data, err := g.transport.Read(size)
		return data, g.incomplete(err)
	}
	type result struct {
		data mem.BufferSlice
		err  error
	}
	came, moved := make(chan result, 1), make(chan struct{}, 1)
	go func() { // gRPC ends a read only when the call ends
		data, err := readPieces(g.transport, size, moved)
		came <- result{data, err}
	}()
	stall := time.NewTimer(bodyStall)
	defer stall.Stop()
	for {
		select {
		case r := <-came:
			return r.data, g.incomplete(r.err)
		case <-moved:
			stall.Reset(bodyStall)
		case <-stall.C:
			return nil, model.Errorf(model.CodeTimeout, "the rest of a message of %d bytes did not come", size).
				WithHint("At least %d KiB of a message must arrive every %v.", arrivingPiece>>10, bodyStall)
		}
	}
}

// incomplete is the error for a message that ended early: never the end of a stream.
func (g *guardedStream) incomplete(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		return nil
	}
	return g.broken(err)
}

func readPieces(from transport, size int, moved chan<- struct{}) (data mem.BufferSlice, err error) {
	for left := size; left > 0; {
		piece, err := from.Read(min(left, arrivingPiece))
		if err != nil {
			data.Free()
			return nil, err
		}
		data = append(data, piece...)
		left -= piece.Len()
		select {
		case moved <- struct{}{}:
		default:
		}
	}
	return data, nil
}

// unfold decompresses a message.
func (g *guardedStream) unfold(packed mem.BufferSlice) (mem.BufferSlice, error) {
	defer packed.Free()
	name := g.transport.RecvCompress()
	form := encoding.GetCompressor(name)
	if form == nil {
		return nil, status.Errorf(codes.Unimplemented, "this server does not know the compression %q", model.Clip(name))
	}
	in, err := form.Decompress(packed.Reader())
	if err != nil {
		return nil, status.Errorf(codes.Internal, "a message cannot be decompressed: %v", err)
	}
	data, err := mem.ReadAll(io.LimitReader(in, int64(g.most)+1), mem.DefaultBufferPool())
	switch size := data.Len(); {
	case err != nil:
		data.Free()
		return nil, status.Errorf(codes.Internal, "a message cannot be decompressed: %v", err)
	case size > g.most:
		data.Free()
		return nil, tooLong(size, g.most)
	}
	return data, nil
}

// decode makes the message of its bytes, once there is memory for it.
func (g *guardedStream) decode(raw *native.Raw, m any) error {
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
	if err = raw.Decode(m); err != nil {
		return err
	}
	if named, ok := m.(interface{ GetId() string }); ok {
		g.run = model.Clip(named.GetId())
	}
	return nil
}

// arrive waits for the share of a message that is about to be received. A small one
// fits into the window that its stream has anyway.
func (a *admission) arrive(ctx context.Context, size int) (leave func(), err error) {
	if size < leastCost {
		return func() {}, nil
	}
	return a.arriving.AcquireWithin(ctx, messageTime, int64(size))
}
