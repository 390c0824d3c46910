package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
)

// Status is the HTTP status of a code.
func Status(code model.Code) int {
	switch code {
	case "":
		return http.StatusOK
	case model.CodeInvalid, model.CodeAmbiguous, model.CodeStateRefused:
		return http.StatusBadRequest
	case model.CodeUnauthenticated:
		return http.StatusUnauthorized
	case model.CodePermission:
		return http.StatusForbidden
	case model.CodeNotFound, model.CodeLogOff:
		return http.StatusNotFound
	case model.CodeConflict, model.CodeRunExists, model.CodeGap, model.CodeSuperseded, model.CodeStateConflict:
		return http.StatusConflict
	case model.CodeRunDeleted:
		return http.StatusGone
	case model.CodeSlow:
		return http.StatusRequestTimeout
	case model.CodeTooLarge:
		return http.StatusRequestEntityTooLarge
	case model.CodeKindMismatch, model.CodeLimit, model.CodeBadRecord:
		return http.StatusUnprocessableEntity
	case model.CodeBusy:
		return http.StatusTooManyRequests
	case model.CodeDiskFull:
		return http.StatusInsufficientStorage
	case model.CodeUnavailable:
		return http.StatusServiceUnavailable
	case model.CodeTimeout:
		return http.StatusGatewayTimeout
	}
	return http.StatusInternalServerError
}

type errorDoc struct {
	Error *model.Error `json:"error"`
}

// WriteError answers with an error's code, message and hint. The text of an
// error that is no model.Error stays in the server's log.
func WriteError(w http.ResponseWriter, err error) {
	e := shown(err)
	body, _ := json.Marshal(errorDoc{e}) // three strings
	h := w.Header()
	h.Set("Content-Type", "application/json")
	h.Set("Cache-Control", "no-store")
	h.Del("Content-Disposition")
	Retry(h, e.Code)
	selfmetrics.Refused(w, e.Code)
	w.WriteHeader(Status(e.Code))
	_, _ = w.Write(append(body, '\n'))
}

// Retry tells a client in a header when to send again, if that is of use.
func Retry(h http.Header, code model.Code) {
	if seconds := code.RetryAfter(); seconds > 0 && h.Get("Retry-After") == "" {
		h.Set("Retry-After", strconv.Itoa(seconds))
	}
}

// shown is the part of an error that a caller may see.
func shown(err error) *model.Error {
	if e := model.Shown(err); e != nil {
		return e
	}
	return model.Errorf(model.CodeInternal, "the server failed on this request").WithHint("its log says why")
}

func (a *API) fail(w http.ResponseWriter, r *http.Request, err error) {
	if cause := model.Shown(context.Cause(r.Context())); cause != nil {
		err = cause // such as a key that was revoked while the request waited
	} else if r.Context().Err() != nil {
		a.log.DebugContext(r.Context(), "request ended early", slog.String("path", r.URL.Path), slog.Any("err", err))
	} else if model.CodeOf(err) == model.CodeInternal {
		a.log.ErrorContext(r.Context(), "request failed", slog.String("method", r.Method), slog.String("path", r.URL.Path), slog.Any("err", err))
	}
	WriteError(w, err)
}
