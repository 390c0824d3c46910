// Package s3 keeps blobs as objects of a bucket, by hash, at any endpoint that speaks S3.
//
// In: bytes, which are written to a file of this machine first, since S3 wants their number and
// wrong ones must never be an object; out: objects, whole or not at all. Nothing but these
// files is kept here, so that any node goes on with an upload that another one began. Start
// reading at [Store.Put]; part.go has what comes in parts, reader.go what is read.
package s3

import (
	"context"
	"crypto/md5" //nolint:gosec // clients compare what they sent by it; names are SHA-256
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/timing"
)

// Store keeps blobs in a bucket.
type Store struct {
	client *minio.Client
	bucket string
	prefix string // of all names, "" or with a slash at its end
	folder string // for files of this machine
	direct bool   // see Link

	// sweeping keeps a blob that is being put again from being swept. Who puts one shares it:
	// each waits for S3.
	sweeping Guard

	busy     blob.Busy // uploads that this node adds to
	requests timing.Acts

	remembering sync.Mutex
	ends        map[string]int64 // of uploads that this node added to: they are not listed each time
}

// young is the age up to which a blob that is put again stays as it is: a sweep leaves it for
// much longer.
const young = time.Hour

// openLimit is how long a start waits for S3.
const openLimit = 30 * time.Second

// Open uses a bucket, and a folder of this machine for what is on its way, from which it clears
// what a crash left. Owner is who sweeps the place: CodeConflict where that is another one.
func Open(ctx context.Context, place Place, folder, owner string) (*Store, error) {
	s := &Store{bucket: place.Bucket, prefix: place.Prefix, folder: folder, direct: place.Direct, ends: map[string]int64{}, sweeping: &alone{}}
	var err error
	if s.client, err = place.connect(&s.requests); err != nil {
		return nil, err
	}
	if err := errors.Join(os.RemoveAll(folder), os.MkdirAll(folder, 0o700)); err != nil {
		return nil, fmt.Errorf("clear the folder of uploads: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, openLimit)
	defer cancel()
	if err := s.there(ctx); err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", s.bucket, err)
	}
	return s, s.claim(ctx, owner)
}

// there fails unless the bucket is there.
func (s *Store) there(ctx context.Context) error {
	there, err := s.client.BucketExists(ctx, s.bucket)
	if err == nil && !there {
		return model.Errorf(model.CodeUnavailable, "there is no bucket %s at %s", s.bucket, s.client.EndpointURL()).
			WithHint("make the bucket, or name another one with --blob")
	}
	return failure(err)
}

// claim writes whose the place is: a server that knows nothing of another's runs would sweep
// their files away.
func (s *Store) claim(ctx context.Context, owner string) error {
	key := s.prefix + "owner"
	once := binary()
	once.SetMatchETagExcept("*")
	_, err := s.client.PutObject(ctx, s.bucket, key, strings.NewReader(owner), int64(len(owner)), once)
	if minio.ToErrorResponse(err).Code != minio.PreconditionFailed {
		return wrap("claim the place in the bucket", failure(err))
	}
	object, err := s.client.GetObject(ctx, s.bucket, key, minio.GetObjectOptions{})
	if err != nil {
		return wrap("read whose the place in the bucket is", failure(err))
	}
	defer object.Close()
	found, err := io.ReadAll(io.LimitReader(object, 1<<10))
	if err != nil {
		return wrap("read whose the place in the bucket is", failure(err))
	}
	if string(found) != owner {
		return model.Errorf(model.CodeConflict, "s3://%s/%s is the place of another server's files", s.bucket, s.prefix).
			WithHint("give each server a prefix of its own; if the other server is gone for good, delete the object %s", key)
	}
	return nil
}

// Close ends nothing: the bucket is not held.
func (s *Store) Close() error { return nil }

// Damaged is 0: S3 compares its objects with their checksums.
func (s *Store) Damaged() uint64 { return 0 }

// key spreads blobs over 256 prefixes.
func (s *Store) key(h blob.Hash) string {
	name := h.String()
	return s.prefix + "blobs/" + name[:2] + "/" + name[2:]
}

// Put implements [blob.Store].
func (s *Store) Put(ctx context.Context, h blob.Hash, r io.Reader) error {
	if there, err := s.renew(ctx, h); there || err != nil {
		return wrap("put blob", err)
	}
	f, err := s.take(ctx, r, -1)
	if err != nil {
		return wrap("put blob", err)
	}
	defer f.close()
	if got := f.hash(); got != h {
		return wrap("put blob", blob.OtherHash(got, h))
	}
	return wrap("put blob", s.store(ctx, s.key(h), f))
}

// Keep implements [blob.Store].
func (s *Store) Keep(ctx context.Context, r io.Reader, limit int64) (h blob.Hash, size int64, sum [md5.Size]byte, err error) {
	f, err := s.take(ctx, r, max(limit, 0))
	if err != nil {
		return h, 0, sum, wrap("keep blob", err)
	}
	defer f.close()
	there, err := s.renew(ctx, f.hash())
	if err == nil && !there {
		err = s.store(ctx, s.key(f.hash()), f)
	}
	if err != nil {
		return h, 0, sum, wrap("keep blob", err)
	}
	f.md5.Sum(sum[:0])
	return f.hash(), f.size, sum, nil
}

// Delete implements [blob.Store].
func (s *Store) Delete(ctx context.Context, h blob.Hash) error {
	return wrap("delete blob", failure(s.client.RemoveObject(ctx, s.bucket, s.key(h), minio.RemoveObjectOptions{})))
}

// renew says whether a blob is there, and makes one that is not young as young as a new one, so
// that no sweep takes it from who is about to name it.
func (s *Store) renew(ctx context.Context, h blob.Hash) (there bool, err error) {
	info, err := s.client.StatObject(ctx, s.bucket, s.key(h), minio.StatObjectOptions{})
	if isMissing(err) {
		return false, nil
	}
	if err != nil || time.Since(info.LastModified) < young {
		return err == nil, failure(err)
	}
	end, err := s.sweeping.Share(ctx)
	if err != nil {
		return false, err
	}
	defer end()
	_, err = s.client.ComposeObject(ctx, minio.CopyDestOptions{
		Bucket: s.bucket, Object: s.key(h), ReplaceMetadata: true, UserMetadata: map[string]string{"renewed": time.Now().UTC().Format(time.RFC3339)},
	}, minio.CopySrcOptions{Bucket: s.bucket, Object: s.key(h)})
	if isMissing(err) { // deleted meanwhile
		return false, nil
	}
	return err == nil, failure(err)
}

// store makes an object of a file, whole or not at all.
func (s *Store) store(ctx context.Context, key string, f *taken) error {
	_, err := s.client.PutObject(ctx, s.bucket, key, f.file, f.size, binary())
	return failure(err)
}

// binary has each request checked by an MD5: chunks that are signed one by one are understood by
// few services but AWS.
func binary() minio.PutObjectOptions {
	return minio.PutObjectOptions{ContentType: "application/octet-stream", SendContentMd5: true, DisableContentSha256: true}
}

// taken is what came, in a file that goes when it is closed.
type taken struct {
	file        *os.File
	size        int64
	sha256, md5 hash.Hash
}

func (t *taken) hash() blob.Hash { return blob.Hash(t.sha256.Sum(nil)) }

func (t *taken) close() {
	_ = t.file.Close()
	_ = os.Remove(t.file.Name())
}

// take writes all that comes into a file: at most limit bytes, -1 for any number.
func (s *Store) take(ctx context.Context, r io.Reader, limit int64) (*taken, error) {
	t, err := s.takeSome(ctx, r, limit)
	if err != nil && t != nil {
		t.close()
	}
	return t, err
}

// takeSome is take that gives what came before r failed, too; the caller closes it.
func (s *Store) takeSome(ctx context.Context, r io.Reader, limit int64) (*taken, error) {
	f, err := os.CreateTemp(s.folder, "")
	if err != nil {
		return nil, blob.DiskError(err)
	}
	t := &taken{file: f, sha256: sha256.New(), md5: md5.New()} //nolint:gosec // as above
	from := blob.Until(ctx, r)
	if limit >= 0 {
		from = io.LimitReader(from, limit)
	}
	t.size, err = io.Copy(io.MultiWriter(f, t.sha256, t.md5), from)
	if err == nil && limit >= 0 {
		var more bool
		if more, err = blob.HasMore(blob.Until(ctx, r)); more {
			err = model.Errorf(model.CodeTooLarge, "the file has more than %d bytes", limit)
		}
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	return t, blob.DiskError(err)
}

func wrap(what string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}
