// Package blob is the contract of a store of files by content hash, with the
// signed URLs and the HTTP handler in front of it. A blob never changes and its
// name says what it holds, so putting it twice is the same as once. blobtest
// holds the suite that every back end passes; dir keeps blobs in a folder.
//
// In: bytes, at once or in parts that resume; out: the bytes, or a range of them.
// A blob is there as a whole or not at all. Start reading at [Store], then
// handler.go for the routes.
package blob

import (
	"context"
	"encoding/hex"
	"io"
	"time"

	"github.com/kymogram/kymogram/internal/model"
)

// Hash is the SHA-256 of a blob's bytes; its text form is 64 lower-case hex
// characters.
type Hash [32]byte

// ParseHash reads the text form, lower case only: a blob has one name.
func ParseHash(s string) (Hash, error) {
	var h Hash
	if len(s) == 2*len(h) {
		if _, err := hex.Decode(h[:], []byte(s)); err == nil && h.String() == s {
			return h, nil
		}
	}
	return Hash{}, model.Errorf(model.CodeInvalid, "a blob is named by the SHA-256 of its bytes: %d lower-case hexadecimal characters", 2*len(h))
}

// String is the text form.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// Store keeps blobs. Every method is safe for concurrent use.
type Store interface { //nolint:interfacebloat // one more than five, and each of them is about the same bytes
	// Put keeps what r yields. It is durable on return, and nothing is kept when
	// r fails or its bytes have another hash (CodeInvalid). CodeDiskFull when
	// there is no room. A blob that is there already need not be read again.
	Put(ctx context.Context, h Hash, r io.Reader) error
	// Keep keeps what r yields, and gives its name, its size and its MD5. Nothing is kept
	// when r fails or yields more than limit bytes (CodeTooLarge); else it is as for Put.
	Keep(ctx context.Context, r io.Reader, limit int64) (h Hash, size int64, md5 [16]byte, err error)
	// Offset says how much of an upload has arrived, and whether the blob is there.
	Offset(ctx context.Context, u Upload) (offset int64, whole bool, err error)
	// Append goes on with an upload where Offset stands; last says that r ends it.
	// What r yields before it fails is kept, next is the new offset. CodeConflict
	// when the upload stands elsewhere, or another append to it is under way;
	// CodeBusy when its owner, or all, have begun too many;
	// CodeInvalid when the whole has another hash: nothing of it is kept then.
	Append(ctx context.Context, u Upload, offset int64, last bool, r io.Reader) (next int64, err error)
	// Open reads a blob; CodeNotFound for an unknown one, CodeDamaged for one whose bytes
	// are no longer those of its name: it is served again once it is put again.
	Open(ctx context.Context, h Hash) (Reader, error)
	// Delete frees a blob; deleting an unknown one is no error. Open readers
	// keep reading.
	Delete(ctx context.Context, h Hash) error
}

// Upload is a blob that comes in parts. Nobody but its owner adds to it.
type Upload struct {
	Hash  Hash
	Owner string // a caller, see package share
}

// Reader reads one blob.
type Reader interface {
	io.ReadSeekCloser
	Size() int64
}

// Linker is a [Store] whose blobs readers may get past the server.
type Linker interface {
	// Link is an address at which a blob may be read without a key for a while, empty where
	// readers get it from the server.
	Link(ctx context.Context, h Hash, life time.Duration) (string, error)
}

// LinkOf is the address of a blob of a store, empty where there is none.
func LinkOf(ctx context.Context, s Store, h Hash, life time.Duration) (string, error) {
	if l, is := s.(Linker); is {
		return l.Link(ctx, h, life)
	}
	return "", nil
}

// NotFound is the error for an unknown blob.
func NotFound(h Hash) error {
	return model.Errorf(model.CodeNotFound, "there is no blob %s", h)
}
