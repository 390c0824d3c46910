package blob

import (
	"context"
	"errors"
	"io"
	"sync"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/platform"
)

// What follows is what back ends do alike with the bytes that come.

// OtherHash is the error for bytes that are not those of a name.
func OtherHash(got, want Hash) error {
	return model.Errorf(model.CodeInvalid, "the bytes have the hash %s, not %s", got, want).
		WithHint("the upload was cut or changed on its way: send it again")
}

// DiskError names a full disk; other errors stay as they are.
func DiskError(err error) error {
	if platform.IsDiskFull(err) {
		return model.Errorf(model.CodeDiskFull, "the server's disk is full").WithHint("free space there and send again")
	}
	return err
}

// UnderWay is the error for an upload that another append adds to.
func UnderWay() error {
	return model.Errorf(model.CodeConflict, "another upload of this blob is under way").WithHint("ask again how far it is")
}

// HasMore reports whether a reader yields another byte.
func HasMore(r io.Reader) (bool, error) {
	var one [1]byte
	_, err := io.ReadFull(r, one[:])
	if errors.Is(err, io.EOF) {
		return false, nil
	}
	return err == nil, err
}

// Until reads from r as long as ctx is not done.
func Until(ctx context.Context, r io.Reader) io.Reader { return contextReader{ctx, r} }

type contextReader struct {
	ctx context.Context //nolint:containedctx // of the request whose body it reads
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// Busy are the uploads that are added to now: one append at a time to each.
type Busy struct {
	mu    sync.Mutex
	names map[string]bool
}

// Reserve takes an upload, false when another append has it.
func (b *Busy) Reserve(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.names[name] {
		return false
	}
	if b.names == nil {
		b.names = map[string]bool{}
	}
	b.names[name] = true
	return true
}

// Has reports whether an append has an upload.
func (b *Busy) Has(name string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.names[name]
}

// Release gives an upload back.
func (b *Busy) Release(name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.names, name)
}
