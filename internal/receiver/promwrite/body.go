package promwrite

import (
	"errors"
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/snappy"

	"github.com/kymogram/kymogram/internal/model"
)

// growth is how many times the limit of a body the plain one may be: samples with
// their labels shrink ten times and more.
const growth = 4

// maxRatio is above what any byte of the block format unfolds to: a copy of 64
// bytes takes three.
const maxRatio = 22

// maxKept is the largest buffer that waits for another request.
const maxKept = 4 << 20

// bodies reads requests into buffers that are used again.
type bodies struct {
	most  int64
	sent  sync.Pool // of *[]byte
	plain sync.Pool // of *[]byte
}

func buffer(p *sync.Pool) *[]byte {
	if b, ok := p.Get().(*[]byte); ok {
		return b
	}
	return new([]byte)
}

func keep(p *sync.Pool, b *[]byte) {
	if cap(*b) <= maxKept {
		p.Put(b)
	}
}

// read is the plain body; release gives its buffer back. The size that the sender
// declares is looked at before anything is allocated for it.
func (p *bodies) read(r *http.Request) (body []byte, release func(), err error) {
	sent := buffer(&p.sent)
	defer keep(&p.sent, sent)
	if *sent, err = readAll((*sent)[:0], io.LimitReader(r.Body, p.most+1), r.ContentLength); err != nil {
		return nil, nil, broken(err)
	}
	if int64(len(*sent)) > p.most {
		return nil, nil, tooLarge(p.most)
	}
	size, err := snappy.DecodedLen(*sent)
	if err != nil {
		return nil, nil, broken(err)
	}
	if int64(size) > growth*p.most {
		return nil, nil, tooLarge(growth * p.most)
	}
	if size > maxRatio*len(*sent) {
		return nil, nil, broken(snappy.ErrCorrupt)
	}
	plain := buffer(&p.plain)
	if cap(*plain) < size {
		*plain = make([]byte, size)
	}
	if *plain, err = snappy.Decode((*plain)[:cap(*plain)], *sent); err != nil {
		return nil, nil, broken(err)
	}
	return *plain, func() { keep(&p.plain, plain) }, nil
}

// readAll appends what r has to b, with room for as much as the client said.
func readAll(b []byte, r io.Reader, said int64) ([]byte, error) {
	if said > 0 && said <= maxKept && int64(cap(b)) <= said {
		b = make([]byte, 0, said+1)
	}
	for {
		if len(b) == cap(b) {
			b = append(b, 0)[:len(b)]
		}
		n, err := r.Read(b[len(b):cap(b)])
		b = b[:len(b)+n]
		if errors.Is(err, io.EOF) {
			return b, nil
		}
		if err != nil {
			return b, err
		}
	}
}

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
