package influx

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/kymogram/kymogram/internal/model"
)

// growth is how many times the limit of a body a compressed one may unfold to:
// line protocol shrinks five to ten times.
const growth = 4

// maxKept is the largest buffer that waits for another request.
const maxKept = 4 << 20

// bodies reads requests into buffers that are used again.
type bodies struct {
	most     int64
	buffers  sync.Pool // of *bytes.Buffer
	inflates sync.Pool // of *gzip.Reader
}

// read is the plain body; release gives its buffer back.
func (p *bodies) read(r *http.Request) (body []byte, release func(), err error) {
	source, most := io.Reader(r.Body), p.most
	switch encoding := strings.ToLower(r.Header.Get("Content-Encoding")); encoding {
	case "", "identity":
	case "gzip":
		unfold, err := p.inflate(r.Body)
		if err != nil {
			return nil, nil, broken(err)
		}
		defer p.inflates.Put(unfold)
		source, most = unfold, growth*p.most
	default:
		return nil, nil, model.Errorf(model.CodeInvalid, "the content encoding %q is not known", model.Clip(encoding)).WithHint("Send gzip or identity.")
	}
	buffer, ok := p.buffers.Get().(*bytes.Buffer)
	if !ok {
		buffer = new(bytes.Buffer)
	}
	buffer.Reset()
	buffer.Grow(int(min(max(r.ContentLength, 0), maxKept-bytes.MinRead)) + bytes.MinRead)
	_, err = buffer.ReadFrom(io.LimitReader(source, most+1))
	release = func() {
		if buffer.Cap() <= maxKept {
			p.buffers.Put(buffer)
		}
	}
	if err == nil && int64(buffer.Len()) > most {
		err = model.Errorf(model.CodeTooLarge, "the request's body is larger than %d MiB", most>>20).WithHint("Send fewer points at once.")
	}
	if err != nil {
		release()
		return nil, nil, broken(err)
	}
	return buffer.Bytes(), release, nil
}

func (p *bodies) inflate(from io.Reader) (*gzip.Reader, error) {
	if z, ok := p.inflates.Get().(*gzip.Reader); ok {
		return z, z.Reset(from)
	}
	return gzip.NewReader(from)
}

// broken names a body that could not be read for the client.
func broken(err error) error {
	var known *model.Error
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &tooLarge):
		return model.Errorf(model.CodeTooLarge, "the request's body is larger than %d MiB", tooLarge.Limit>>20).WithHint("Send fewer points at once.")
	}
	return model.Errorf(model.CodeInvalid, "the request's body cannot be read: %v", err)
}
