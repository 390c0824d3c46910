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
	"github.com/kymogram/kymogram/server/internal/weight"
)

// growth is how many times the limit of a body a compressed one may unfold to:
// line protocol shrinks five to ten times.
const growth = 4

// A compressed body is unfolded piece by piece, of a part of the limit of bodies. The
// longest line is a part of a piece, so that a line that a piece cuts is known to be cut.
const (
	piecesOfBody = 4
	linesOfPiece = 4
)

// What is made of a body takes so many times its plain bytes, and not more than its series
// and columns take.
const (
	timesBytes = 200 // a series for every few bytes
	eachSeries = 400
	timesPlain = 4
	unfolded   = 1032 // times its bytes, at most, for gzip
	leastCost  = 64 << 10
)

// maxKept is the largest buffer that waits for another request.
const maxKept = 4 << 20

// bodies reads requests into buffers that are used again.
type bodies struct {
	most     int64
	buffers  sync.Pool // of *bytes.Buffer
	inflates sync.Pool // of *gzip.Reader
	windows  sync.Pool // of *[]byte
}

// body is a request as it was sent: it may be read more than once.
type body struct {
	*bodies
	sent   *bytes.Buffer
	packed bool
}

// read takes the body in; release gives its buffer back.
func (p *bodies) read(r *http.Request) (b *body, release func(), err error) {
	encoding := strings.ToLower(r.Header.Get("Content-Encoding"))
	switch encoding {
	case "", "identity", "gzip":
	default:
		return nil, nil, model.Errorf(model.CodeInvalid, "the content encoding %q is not known", model.Clip(encoding)).WithHint("Send gzip or identity.")
	}
	buffer, ok := p.buffers.Get().(*bytes.Buffer)
	if !ok {
		buffer = new(bytes.Buffer)
	}
	buffer.Reset()
	buffer.Grow(int(min(max(r.ContentLength, 0), p.most)) + bytes.MinRead)
	release = func() {
		if buffer.Cap() <= maxKept {
			p.buffers.Put(buffer)
		}
	}
	_, err = buffer.ReadFrom(io.LimitReader(r.Body, p.most+1))
	if err == nil && int64(buffer.Len()) > p.most {
		err = tooLarge(p.most)
	}
	if err != nil {
		release()
		return nil, nil, broken(err)
	}
	return &body{p, buffer, encoding == "gzip"}, release, nil
}

// cost is what a body takes while it is worked on.
func (b *body) cost() int64 {
	plain, window := int64(b.sent.Len()), int64(0)
	if b.packed {
		window = b.most / piecesOfBody
		plain = min(unfolded*plain, window)
	}
	made := min(timesBytes*plain, eachSeries*maxSeries+timesPlain*plain)
	return min(leastCost+window+made, weight.Times*b.most)
}

// pieces are the plain bytes of a body from front to back.
type pieces struct {
	of      *body
	unfold  *gzip.Reader // nil: the body is plain, and one piece
	window  []byte
	have    int   // bytes of the window
	sum     int64 // of the plain bytes
	maxLine int
}

// open begins to read a body; close gives back what that takes.
func (b *body) open() (s *pieces, closed func(), err error) {
	if !b.packed {
		return &pieces{of: b, window: b.sent.Bytes(), have: b.sent.Len()}, func() {}, nil
	}
	unfold, err := b.inflate(bytes.NewReader(b.sent.Bytes()))
	if err != nil {
		return nil, nil, broken(err)
	}
	window, ok := b.windows.Get().(*[]byte)
	if !ok {
		made := make([]byte, b.most/piecesOfBody)
		window = &made
	}
	closed = func() {
		b.inflates.Put(unfold)
		b.windows.Put(window)
	}
	return &pieces{of: b, unfold: unfold, window: *window, maxLine: len(*window) / linesOfPiece}, closed, nil
}

func (p *bodies) inflate(from io.Reader) (*gzip.Reader, error) {
	if z, ok := p.inflates.Get().(*gzip.Reader); ok {
		return z, z.Reset(from)
	}
	return gzip.NewReader(from)
}

// next is the piece after so many bytes of the one before. Lines that begin at the place
// last may be cut, except in the last piece, where that is its end.
func (s *pieces) next(used int) (piece []byte, last int, err error) {
	if s.unfold == nil {
		s.window = s.window[used:]
		return s.window, len(s.window), nil
	}
	s.have = copy(s.window, s.window[used:s.have])
	for s.have < len(s.window) {
		n, err := s.unfold.Read(s.window[s.have:])
		s.have += n
		if s.sum += int64(n); s.sum > growth*s.of.most {
			return nil, 0, tooLarge(growth * s.of.most)
		}
		if errors.Is(err, io.EOF) {
			return s.window[:s.have], s.have, nil
		}
		if err != nil {
			return nil, 0, broken(err)
		}
	}
	return s.window, s.have - s.maxLine, nil
}

func tooLarge(most int64) error {
	return model.Errorf(model.CodeTooLarge, "the request's body is larger than %d MiB", most>>20).WithHint("Send fewer points at once.")
}

// broken names a body that could not be read for the client.
func broken(err error) error {
	var known *model.Error
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &known):
		return err
	case errors.As(err, &large):
		return tooLarge(large.Limit)
	}
	return model.Errorf(model.CodeInvalid, "the request's body cannot be read: %v", err)
}
