package blob

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/share"
)

// The headers of resumable uploads (IETF draft-ietf-httpbis-resumable-upload).
const (
	headerOffset   = "Upload-Offset"
	headerComplete = "Upload-Complete"
	headerLimit    = "Upload-Limit"
	partialUpload  = "application/partial-upload"
)

// Upload serves a blob's upload resource, under a path with {sha256}: HEAD tells
// how much of the caller's has arrived, PATCH goes on from there. It is there for every
// blob and needs no creation.
func (h *Handler) Upload() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash, err := ParseHash(r.PathValue("sha256"))
		if err == nil && r.Method == http.MethodPatch {
			err = h.patch(w, r, hash)
		} else if err == nil {
			err = h.offset(w, r, hash)
		}
		if err != nil {
			h.fail(w, r, err)
		}
	})
}

// upload is the caller's own of a blob.
func upload(r *http.Request, hash Hash) Upload {
	return Upload{Hash: hash, Owner: share.Caller(r.Context())}
}

func (h *Handler) offset(w http.ResponseWriter, r *http.Request, hash Hash) error {
	offset, whole, err := h.store.Offset(r.Context(), upload(r, hash))
	if err != nil {
		return err
	}
	w.Header().Set(headerLimit, "max-size="+strconv.FormatInt(h.limit, 10))
	stand(w, offset, whole)
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// stand says how far an upload is.
func stand(w http.ResponseWriter, offset int64, whole bool) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set(headerOffset, strconv.FormatInt(offset, 10))
	w.Header().Set(headerComplete, map[bool]string{true: "?1", false: "?0"}[whole])
}

func (h *Handler) patch(w http.ResponseWriter, r *http.Request, hash Hash) error {
	offset, last, err := uploadHeaders(r)
	if err != nil {
		return err
	}
	if r.ContentLength > h.limit-offset {
		return h.tooLarge()
	}
	body := &uploadBody{from: http.MaxBytesReader(w, r.Body, max(h.limit-offset, 0))}
	next, err := h.store.Append(r.Context(), upload(r, hash), offset, last, body)
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		err = h.tooLarge()
	case err != nil && body.err != nil: // the client is gone, or its line
		err = broken(body.err, next)
	}
	stand(w, next, err == nil && last)
	if err != nil {
		return err
	}
	if body.err == nil { // a blob that was there: many clients read no answer before they have sent all
		_, _ = io.Copy(io.Discard, body)
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func uploadHeaders(r *http.Request) (offset int64, last bool, err error) {
	if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != partialUpload {
		return 0, false, model.Errorf(model.CodeInvalid, "the part of an upload has the type %s, not %q", partialUpload, r.Header.Get("Content-Type"))
	}
	offset, err = strconv.ParseInt(r.Header.Get(headerOffset), 10, 64)
	if err != nil || offset < 0 {
		return 0, false, model.Errorf(model.CodeInvalid, "%s is %q, it must be a number of bytes", headerOffset, r.Header.Get(headerOffset))
	}
	switch complete := r.Header.Get(headerComplete); complete {
	case "?1":
		return offset, true, nil
	case "?0":
		return offset, false, nil
	default:
		return 0, false, model.Errorf(model.CodeInvalid, "%s is %q, it must be ?1 for the last part or ?0", headerComplete, complete)
	}
}

// broken is why an upload ended before its end.
func broken(cause error, next int64) error {
	code := model.CodeTimeout
	if model.CodeOf(cause) == model.CodeSlow {
		code = model.CodeSlow
	}
	return model.Errorf(code, "the upload ended after %d bytes: %v", next, cause).WithHint("ask how far it is and go on from there")
}

// uploadBody reads a request's body, and keeps why it ended before its end.
type uploadBody struct {
	from io.Reader
	err  error
}

func (b *uploadBody) Read(p []byte) (int, error) {
	n, err := b.from.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		b.err = err
	}
	return n, err
}
