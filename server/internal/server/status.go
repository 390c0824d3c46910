package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// Fail answers with an error; the text of one that is no model.Error goes to the
// log only.
func Fail(w http.ResponseWriter, r *http.Request, log *slog.Logger, err error) {
	code := model.CodeOf(err)
	if code == model.CodeInternal && r.Context().Err() == nil {
		log.ErrorContext(r.Context(), "request failed", "request", w.Header().Get(requestHeader), "method", r.Method, "path", r.URL.Path, "err", err)
	}
	if code == model.CodeUnauthenticated {
		w.Header().Set("WWW-Authenticate", `Bearer realm="kymogram"`)
	}
	httpapi.WriteError(w, err)
}

// WriteJSON answers with a document.
func WriteJSON(w http.ResponseWriter, code int, doc any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(doc) // the client is gone when this fails
}

// rpcError turns an error into a gRPC status, and counts it: a status that it made comes back
// unchanged. The text of an error that is
// neither a model.Error nor a status goes to the log only.
func (s *Server) rpcError(method string, err error) error {
	if err == nil {
		return nil
	}
	if e := model.Shown(err); e != nil {
		s.metrics.Refusal(selfmetrics.GRPC, e.Code)
		return again(status.New(rpcCode(e.Code), string(e.Code)+": "+e.Message), e.Code.RetryAfter())
	}
	if _, ok := status.FromError(err); ok {
		return err
	}
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return status.FromContextError(err).Err()
	}
	s.metrics.Refusal(selfmetrics.GRPC, model.CodeInternal)
	s.log.Error("call failed", "method", method, "err", err)
	return status.Error(codes.Internal, string(model.CodeInternal)+": the server failed on this call; its log says why")
}

// again tells a client when to try again, if that is of use. OpenTelemetry's give up a call
// that was refused for want of something and does not say so.
func again(s *status.Status, seconds int) error {
	if seconds > 0 {
		if with, err := s.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(time.Duration(seconds) * time.Second)}); err == nil {
			s = with
		}
	}
	return s.Err()
}

func rpcCode(code model.Code) codes.Code {
	switch code {
	case model.CodeUnauthenticated:
		return codes.Unauthenticated
	case model.CodePermission:
		return codes.PermissionDenied
	case model.CodeNotFound:
		return codes.NotFound
	case model.CodeConflict, model.CodeRunExists:
		return codes.AlreadyExists
	case model.CodeSuperseded, model.CodeGap:
		return codes.Aborted
	case model.CodeTooLarge, model.CodeLimit, model.CodeDiskFull:
		return codes.ResourceExhausted
	case model.CodeInvalid, model.CodeAmbiguous, model.CodeBadRecord, model.CodeKindMismatch:
		return codes.InvalidArgument
	case model.CodeRunDeleted:
		return codes.FailedPrecondition
	case model.CodeUnavailable, model.CodeBusy:
		return codes.Unavailable
	case model.CodeTimeout, model.CodeSlow:
		return codes.DeadlineExceeded
	case model.CodeDamaged:
		return codes.DataLoss
	}
	return codes.Internal
}
