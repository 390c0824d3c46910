package otlp

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// growth is how many times the limit of a body a compressed one may unfold to. The rest of
// the memory that a request may take is for what the plain body holds.
const growth = 2

// maxKept is the largest buffer that waits for another request.
const maxKept = 4 << 20

// What a request may take while it is worked on: so many times the bytes of its plain body.
const (
	timesPlain = 100
	leastCost  = 64<<10 + 100*maxMessage // and one data point
)

// bodies reads requests into buffers that are used again.
type bodies struct {
	most    int64
	buffers sync.Pool // of *bytes.Buffer
}

func (p *bodies) buffer() *bytes.Buffer {
	b, ok := p.buffers.Get().(*bytes.Buffer)
	if !ok {
		b = new(bytes.Buffer)
	}
	b.Reset()
	return b
}

func (p *bodies) keep(b *bytes.Buffer) {
	if b.Cap() <= maxKept {
		p.buffers.Put(b)
	}
}

// cost is that of a plain body of a size.
func (p *bodies) cost(size int) int64 {
	return min(leastCost+timesPlain*int64(size), weight.Times*p.most)
}

// budget is what may be made of a plain body.
func (p *bodies) budget(size int) int { return int(weight.Times*p.most) - size }

// read takes the body in and unfolds it; release gives its buffer back. The server has set
// aside what a compressed one can unfold to.
func (p *bodies) read(q *http.Request) (body []byte, release func(), err error) {
	encoding := strings.ToLower(q.Header.Get("Content-Encoding"))
	from, most := io.Reader(q.Body), p.most
	switch encoding {
	case "", "identity":
	case "gzip":
		unfold, err := gzip.NewReader(io.LimitReader(q.Body, p.most+1))
		if err != nil {
			return nil, nil, broken(err)
		}
		from, most = unfold, growth*p.most
	default:
		return nil, nil, unsupported("the content encoding " + model.Clip(encoding) + " is not known; send gzip or none")
	}
	b := p.buffer()
	release = func() { p.keep(b) }
	_, err = b.ReadFrom(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		err = broken(err)
	case int64(b.Len()) > most:
		err = tooLarge(most)
	default:
		return b.Bytes(), release, nil
	}
	release()
	return nil, nil, err
}

func tooLarge(most int64) error {
	return model.Errorf(model.CodeTooLarge, "the request's body is larger than %d MiB", most>>20).WithHint(hintSmaller)
}

// hintSmaller is for whoever sends too much at once.
const hintSmaller = "Send less at once: lower send_batch_max_size of a collector, or record fewer attributes."

// broken names a body that could not be read for the sender.
func broken(err error) error {
	var known *model.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &large):
		return tooLarge(large.Limit)
	}
	return model.Errorf(model.CodeInvalid, "the request's body is not gzip, or was cut: %v", err)
}
