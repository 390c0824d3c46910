package promwrite

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/snappy"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/weight"
)

// growth is how many times the limit of a body the plain one may be. The rest of the memory
// that a request may take is for what the plain body holds.
const growth = 2

// maxRatio is above what any byte of the block format unfolds to: a copy of 64
// bytes takes three.
const maxRatio = 22

// maxKept is the largest buffer that waits for another request.
const maxKept = 4 << 20

// bodies reads requests into buffers that are used again.
type bodies struct {
	most  int64
	sent  sync.Pool // of *bytes.Buffer
	plain sync.Pool // the same
}

func buffer(p *sync.Pool) *bytes.Buffer {
	b, ok := p.Get().(*bytes.Buffer)
	if !ok {
		b = new(bytes.Buffer)
	}
	b.Reset()
	return b
}

func keep(p *sync.Pool, b *bytes.Buffer) {
	if b.Cap() <= maxKept {
		p.Put(b)
	}
}

// What a request may take while it is worked on: so many times the bytes of its plain body.
const (
	timesPlain = 100
	leastCost  = 64 << 10
)

// cost is that of a plain body of a size.
func (p *bodies) cost(size int) int64 {
	return min(leastCost+timesPlain*int64(size), weight.Times*p.most)
}

// read takes the body in as it was sent; release gives its buffer back.
func (p *bodies) read(r *http.Request) (sent []byte, release func(), err error) {
	b := buffer(&p.sent)
	release = func() { keep(&p.sent, b) }
	b.Grow(int(min(max(r.ContentLength, 0), p.most)) + bytes.MinRead)
	_, err = b.ReadFrom(io.LimitReader(r.Body, p.most+1))
	switch {
	case err != nil:
		err = broken(err)
	case int64(b.Len()) > p.most:
		err = tooLarge(p.most)
	default:
		return b.Bytes(), release, nil
	}
	release()
	return nil, nil, err
}

// size is that of the plain body, as its sender declares it: looked at before anything is
// allocated for it.
func (p *bodies) size(sent []byte) (int, error) {
	size, err := snappy.DecodedLen(sent)
	switch {
	case err != nil:
		return 0, broken(err)
	case int64(size) > growth*p.most:
		return 0, tooLarge(growth * p.most)
	case size > maxRatio*len(sent):
		return 0, broken(snappy.ErrCorrupt)
	}
	return size, nil
}

// unfold is the plain body; release gives its buffer back.
func (p *bodies) unfold(sent []byte, size int) (body []byte, release func(), err error) {
	plain := buffer(&p.plain)
	release = func() { keep(&p.plain, plain) }
	plain.Grow(size)
	if body, err = snappy.Decode(plain.AvailableBuffer()[:size], sent); err != nil {
		release()
		return nil, nil, broken(err)
	}
	return body, release, nil
}

// budget is what may be made of a plain body.
func (p *bodies) budget(plain []byte) int { return int(weight.Times*p.most) - len(plain) }

func tooLarge(most int64) error {
	return model.Errorf(model.CodeTooLarge, "the request's body is larger than %d MiB", most>>20).
		WithHint("Lower max_samples_per_send of the sender's queue_config.")
}

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
	return model.Errorf(model.CodeInvalid, "the request's body is not snappy's block format, or was cut: %v", err)
}
