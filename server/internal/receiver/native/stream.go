package native

import (
	"cmp"
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"

	kymogramv1 "github.com/kymogram/kymogram/gen/kymogram/v1"
	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/wire"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/share"
)

// inFlight is how many decoded messages of a stream wait while one is being
// stored: enough that decoding overlaps with the fsync. More would only cost
// memory (16 MiB each at worst); flow control then holds the client.
const inFlight = 1

type ingestService struct {
	kymogramv1.UnimplementedIngestServiceServer
	*Receiver
}

type ingestStream = grpc.BidiStreamingServer[kymogramv1.StreamRequest, kymogramv1.StreamResponse]

// work is one message of a stream, decoded; err ends the stream.
type work struct {
	batch     *model.Batch
	gone      *kymogramv1.Gone
	heartbeat bool
	spooled   *uint64 // of a batch or heartbeat
	err       error
}

// Stream serves one stream of one writer.
func (s *ingestService) Stream(stream ingestStream) error {
	open, request, err := receiveOpen(stream)
	if err != nil {
		return s.fail(stream, err, 0)
	}
	session, err := s.ingest.Join(stream.Context(), request)
	if err != nil {
		return s.fail(stream, err, 0)
	}
	defer session.Close()
	session.Compare(open.Acked)
	protocol := open.Protocol
	opened, err := wire.Opened(&session.Opened, protocol)
	if err != nil {
		return err
	}
	if err := stream.Send(&kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Opened{Opened: opened}}); err != nil {
		return err
	}
	return s.serve(stream, session, protocol)
}

// receiveOpen reads the first message; its protocol is that of all answers.
func receiveOpen(stream ingestStream) (open *kymogramv1.Open, request model.OpenRequest, err error) {
	first, err := stream.Recv()
	if err != nil {
		return nil, request, received(err)
	}
	if open = first.GetOpen(); open == nil {
		return nil, request, model.Errorf(model.CodeInvalid, "the first message of a stream must be an open")
	}
	if open.Protocol < wire.JSON || open.Protocol > wire.Typed {
		return nil, request, model.Errorf(model.CodeInvalid, "the client speaks version %d of the protocol, this server version %d", open.Protocol, wire.Typed).
			WithHint("Install the same version of kymogram on both sides.")
	}
	if request, err = wire.ReadOpen(open); err != nil {
		return nil, request, model.Errorf(model.CodeInvalid, "the open cannot be read: %v", err)
	}
	return open, request, nil
}

// serve stores one message after the other and acks in order, while a second
// goroutine receives and decodes the next.
func (s *ingestService) serve(stream ingestStream, session *ingest.Session, protocol uint32) error {
	ctx, cancel := context.WithCancel(stream.Context())
	defer cancel()
	next := make(chan work, inFlight)
	kept := s.options.Definitions.open(share.Caller(ctx))
	defer kept.close()
	// Not joined: gRPC ends a Recv under way only when the handler returns.
	go receive(ctx, stream, newDecoder(kept), next)
	for {
		select {
		case <-kept.gone:
			return s.fail(stream, errMadeWay(), 0)
		case <-session.Superseded():
			return s.fail(stream, model.Errorf(model.CodeSuperseded, "a newer stream of this writer took over"), 0)
		case <-ctx.Done():
			return ctx.Err()
		case w, open := <-next:
			if !open {
				return nil
			}
			if mark, err := s.take(ctx, stream, session, protocol, w); err != nil {
				return s.fail(stream, err, mark)
			}
		}
	}
}

// receive ends with the client's half of the stream, or behind the first error.
func receive(ctx context.Context, stream ingestStream, d *decoder, next chan<- work) {
	defer close(next)
	for {
		m, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return
		}
		w := work{err: received(err)}
		if err == nil {
			w = d.message(m)
		}
		select {
		case next <- w:
		case <-ctx.Done():
			return
		}
		if w.err != nil {
			return
		}
	}
}

func (d *decoder) message(m *kymogramv1.StreamRequest) (w work) {
	switch body := m.GetMessage().(type) {
	case *kymogramv1.StreamRequest_Batch:
		if body.Batch == nil {
			return work{err: malformed("it is empty")}
		}
		w.batch, w.err = d.decode(body.Batch)
		w.spooled = body.Batch.SpooledPoints
	case *kymogramv1.StreamRequest_Gone:
		w.gone = cmp.Or(body.Gone, &kymogramv1.Gone{})
	case *kymogramv1.StreamRequest_Heartbeat:
		w.heartbeat = true
		if body.Heartbeat != nil {
			w.spooled = body.Heartbeat.SpooledPoints
		}
	case *kymogramv1.StreamRequest_Open:
		w.err = model.Errorf(model.CodeInvalid, "a stream has one open, its first message")
	default:
		w.err = model.Errorf(model.CodeInvalid, "the message is empty or of a newer version").
			WithHint("Install the same version of kymogram on both sides.")
	}
	return w
}

// take does what a message asks for. The mark is for a failure that carries it.
func (s *ingestService) take(ctx context.Context, stream ingestStream, session *ingest.Session, protocol uint32, w work) (mark uint64, err error) {
	switch {
	case w.err != nil:
		return 0, w.err
	case w.heartbeat:
		session.Heartbeat()
		session.Spooled(w.spooled)
		return 0, nil
	case w.gone != nil:
		return 0, session.Gone(ctx, w.gone.Signal, w.gone.TimeNs)
	}
	ack, err := session.Append(ctx, w.batch)
	if err != nil {
		return ack.Mark, err
	}
	session.Spooled(w.spooled)
	answer, err := encodeAck(&ack, protocol)
	if err != nil {
		return 0, err
	}
	if err := stream.Send(&kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Ack{Ack: answer}}); err != nil {
		return 0, broken{err}
	}
	return 0, nil
}

// broken is a failure of the stream itself: there is nobody to tell.
type broken struct{ error }

func (b broken) Unwrap() error { return b.error }

// received is a failure to receive: of the stream, unless the server refused the message.
func received(err error) error {
	var refused *model.Error
	if err == nil || errors.As(err, &refused) {
		return err
	}
	return broken{err}
}

// fail tells the client why the stream ends. Only a gap carries a mark: after
// other failures the client asks anew.
func (s *ingestService) fail(stream ingestStream, err error, mark uint64) error {
	var b broken
	if errors.As(err, &b) {
		return b.error
	}
	if ctxErr := stream.Context().Err(); ctxErr != nil {
		return ctxErr
	}
	f := &kymogramv1.Failure{Code: string(model.CodeInternal), Message: "the server failed on this stream; its log says why", Protocol: wire.Typed}
	known := model.Shown(err)
	if known != nil {
		f.Code, f.Message, f.Hint = string(known.Code), known.Message, known.Hint
	} else {
		s.options.Log.Error("an ingest stream failed", "err", err)
	}
	if known != nil && known.Code == model.CodeGap {
		f.Mark = mark
	}
	return stream.Send(&kymogramv1.StreamResponse{Message: &kymogramv1.StreamResponse_Failure{Failure: f}})
}
