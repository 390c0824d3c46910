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

// read is the plain body; release gives its buffer back. The size that the sender
// declares is looked at before anything is allocated for it.
func (p *bodies) read(r *http.Request) (body []byte, release func(), err error) {
	sent := buffer(&p.sent)
	defer keep(&p.sent, sent)
	sent.Grow(int(min(max(r.ContentLength, 0), p.most)) + bytes.MinRead)
	if _, err = sent.ReadFrom(io.LimitReader(r.Body, p.most+1)); err != nil {
		return nil, nil, broken(err)
	}
	if int64(sent.Len()) > p.most {
		return nil, nil, tooLarge(p.most)
	}
	size, err := snappy.DecodedLen(sent.Bytes())
	if err != nil {
		return nil, nil, broken(err)
	}
	if int64(size) > growth*p.most {
		return nil, nil, tooLarge(growth * p.most)
	}
	if size > maxRatio*sent.Len() {
		return nil, nil, broken(snappy.ErrCorrupt)
	}
	plain := buffer(&p.plain)
	plain.Grow(size)
	if body, err = snappy.Decode(plain.AvailableBuffer()[:size], sent.Bytes()); err != nil {
		keep(&p.plain, plain)
		return nil, nil, broken(err)
	}
	return body, func() { keep(&p.plain, plain) }, nil
}

// budget is what may be made of a plain body.
func (p *bodies) budget(plain []byte) int { return int(weight.Times*p.most) - len(plain) }

func tooLarge(most int64) error {
	return model.Errorf(model.CodeTooLarge, "the request's body is larger than %d MiB", most>>20).
		WithHint("Lower max_samples_per_send of the sender's queue_config.")
}

// broken names a body that could not be read for the sender.
func broken(err error) error {
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		return tooLarge(large.Limit)
	}
	return model.Errorf(model.CodeInvalid, "the request's body is not snappy's block format, or was cut: %v", err)
}
