package blob

import (
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// URLLife is how long a signed URL is good for.
const URLLife = 15 * time.Minute

// Handler serves blobs under a path with {sha256}. A request with a signature is
// checked here; one without was let in by its key before.
type Handler struct {
	store  Store
	signer *Signer
	limit  int64
	may    Access
	fail   func(http.ResponseWriter, *http.Request, error)
}

// Access reports whether the caller of a request may read a blob (SHA-256 in
// hexadecimal).
type Access func(ctx context.Context, sha256 string) (bool, error)

// NewHandler takes blobs of at most limit bytes; may decides who reads one by its
// hash, fail writes an error's answer.
func NewHandler(store Store, signer *Signer, limit int64, may Access, fail func(http.ResponseWriter, *http.Request, error)) *Handler {
	return &Handler{store: store, signer: signer, limit: limit, may: may, fail: fail}
}

// ServeHTTP answers GET, HEAD and PUT.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	hash, err := ParseHash(r.PathValue("sha256"))
	signed := r.URL.Query().Has("signature")
	if err == nil && signed {
		method := r.Method
		if method == http.MethodHead {
			method = http.MethodGet
		}
		err = h.signer.Check(method, hash, r.URL.Query())
	}
	if err == nil && r.Method == http.MethodPut {
		err = h.put(w, r, hash)
	} else if err == nil {
		if !signed {
			err = h.readable(r, hash)
		}
		if err == nil {
			err = h.get(w, r, hash)
		}
	}
	if err != nil {
		h.fail(w, r, err)
	}
}

// readable fails unless the caller may read the blob, as if there were none: that
// another project has these bytes is not the caller's to know.
func (h *Handler) readable(r *http.Request, hash Hash) error {
	ok, err := h.may(r.Context(), hash.String())
	if err == nil && !ok {
		err = NotFound(hash)
	}
	return err
}

func (h *Handler) put(w http.ResponseWriter, r *http.Request, hash Hash) error {
	if r.ContentLength > h.limit {
		return h.tooLarge()
	}
	body := http.MaxBytesReader(w, r.Body, h.limit)
	err := h.store.Put(r.Context(), hash, body)
	if err == nil { // a blob that was there: many clients read no answer before they have sent all
		_, err = io.Copy(io.Discard, body)
	}
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return h.tooLarge()
	}
	if err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (h *Handler) tooLarge() error {
	return model.Errorf(model.CodeTooLarge, "a blob has at most %d bytes here", h.limit).
		WithHint("raise limits.blob_mib in the server's configuration")
}

// get never lets a browser run what was stored: it is data to save, whatever
// it claims to be.
func (h *Handler) get(w http.ResponseWriter, r *http.Request, hash Hash) error {
	blob, err := h.store.Open(r.Context(), hash)
	if err != nil {
		return err
	}
	defer blob.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", "attachment")
	serve(w, r, hash, blob, forever)
	return nil
}

// forever is how long a client may keep bytes that their address names.
const forever = "private, max-age=31536000, immutable"

func serve(w http.ResponseWriter, r *http.Request, hash Hash, blob Reader, cache string) {
	header := w.Header()
	header.Set("Content-Security-Policy", "sandbox; default-src 'none'")
	header.Set("ETag", `"`+hash.String()+`"`)
	header.Set("Cache-Control", cache)
	http.ServeContent(w, r, "", time.Time{}, blob)
}

// Has reports whether a blob is stored, and not known to be damaged.
func (h *Handler) Has(ctx context.Context, sha256 string) (bool, error) {
	hash, err := ParseHash(sha256)
	if err != nil {
		return false, err
	}
	_, whole, err := h.store.Offset(ctx, Upload{Hash: hash})
	return whole, err
}

// ServeFile answers with a blob as data to save under the last part of a name. Who may
// read it was decided before.
func (h *Handler) ServeFile(w http.ResponseWriter, r *http.Request, sha256, name string) error {
	hash, err := ParseHash(sha256)
	if err != nil {
		return err
	}
	blob, err := h.store.Open(r.Context(), hash)
	if err != nil {
		return err
	}
	defer blob.Close()
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set("Content-Disposition", cmp.Or(mime.FormatMediaType("attachment", map[string]string{"filename": path.Base(name)}), "attachment"))
	serve(w, r, hash, blob, "private, no-cache") // the name may mean other bytes later
	return nil
}

// ServeMedia answers with a blob that a page may play: a video as what it is,
// anything else as data to save. Who may see it was decided before.
func (h *Handler) ServeMedia(w http.ResponseWriter, r *http.Request, sha256, contentType string) error {
	hash, err := ParseHash(sha256)
	if err != nil {
		return err
	}
	switch contentType {
	case "video/mp4", "video/webm":
	default:
		return h.get(w, r, hash)
	}
	blob, err := h.store.Open(r.Context(), hash)
	if err != nil {
		return err
	}
	defer blob.Close()
	w.Header().Set("Content-Type", contentType)
	serve(w, r, hash, blob, forever)
	return nil
}

// URL answers {"url", "expires_ns"}: GET signs a download, POST an upload.
func (h *Handler) URL(path func(Hash) string, answer func(http.ResponseWriter, int, any)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		hash, err := ParseHash(r.PathValue("sha256"))
		if err != nil {
			h.fail(w, r, err)
			return
		}
		method := http.MethodGet
		if r.Method == http.MethodPost {
			method = http.MethodPut
		} else if err := h.readable(r, hash); err != nil {
			h.fail(w, r, err)
			return
		}
		query, expires := h.signer.Query(method, hash, URLLife)
		url := path(hash) + "?" + query
		if method == http.MethodGet {
			link, err := LinkOf(r.Context(), h.store, hash, URLLife)
			if err != nil {
				h.fail(w, r, err)
				return
			}
			url = cmp.Or(link, url)
		}
		answer(w, http.StatusOK, map[string]any{"url": url, "method": method, "expires_ns": expires.UnixNano()})
	})
}
