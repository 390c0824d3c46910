package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
)

// A blob that comes in parts lies as objects uploads/OWNER-HASH/OFFSET, one for each append,
// until it is whole. An offset is written once: of two nodes that append at the same place, one
// is told to ask again.
const (
	ownUploads  = 64
	mostUploads = 1024
	offsetWidth = 19 // digits of 2^63
	mostPart    = 1 << 30
)

// upload is the beginning of the names of what came.
func (s *Store) upload(u blob.Upload) string {
	return s.uploads() + ownerOf(u) + "-" + u.Hash.String() + "/"
}

func (s *Store) uploads() string { return s.prefix + "uploads/" }

func ownerOf(u blob.Upload) string {
	owner := sha256.Sum256([]byte(u.Owner))
	return hex.EncodeToString(owner[:8])
}

// Offset implements [blob.Store].
func (s *Store) Offset(ctx context.Context, u blob.Upload) (offset int64, whole bool, err error) {
	info, err := s.client.StatObject(ctx, s.bucket, s.key(u.Hash), minio.StatObjectOptions{})
	if err == nil {
		return info.Size, true, nil
	}
	if !isMissing(err) {
		return 0, false, wrap("look for blob", failure(err))
	}
	parts, err := s.parts(ctx, u)
	return end(parts), false, err
}

// part is an object of an upload.
type part struct {
	key          string
	offset, size int64
}

func end(parts []part) int64 {
	if len(parts) == 0 {
		return 0
	}
	last := parts[len(parts)-1]
	return last.offset + last.size
}

// parts are those that follow on one another from the start.
func (s *Store) parts(ctx context.Context, u blob.Upload) (out []part, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel() // the list may be left
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.upload(u), Recursive: true}) {
		if object.Err != nil {
			return nil, wrap("list the parts of a blob", failure(object.Err))
		}
		offset, err := strconv.ParseInt(strings.TrimPrefix(object.Key, s.upload(u)), 10, 64)
		if err != nil || offset > end(out) {
			break
		}
		if offset == end(out) { // else what was dropped in part lies below
			out = append(out, part{object.Key, offset, object.Size})
		}
	}
	return out, nil
}

// Append implements [blob.Store].
func (s *Store) Append(ctx context.Context, u blob.Upload, offset int64, last bool, r io.Reader) (next int64, err error) {
	name := s.upload(u)
	if !s.busy.Reserve(name) {
		return offset, blob.UnderWay()
	}
	defer s.busy.Release(name)
	if there, err := s.renew(ctx, u.Hash); err != nil {
		return offset, wrap("append to blob", err)
	} else if there {
		s.drop(ctx, u) // another owner's came first
		next, _, err := s.Offset(ctx, u)
		return next, err
	}
	at, err := s.stands(ctx, u, offset)
	if err != nil {
		return offset, err
	}
	if at != offset {
		return at, model.Errorf(model.CodeConflict, "the upload stands at %d, not at %d", at, offset).WithHint("go on there")
	}
	if offset == 0 {
		if err := s.begin(ctx, u); err != nil {
			return 0, wrap("append to blob", err)
		}
	}
	next, err = s.extend(ctx, name, offset, r)
	s.remember(name, next)
	if err == nil && last {
		err = s.complete(ctx, u)
		if model.CodeOf(err) == model.CodeInvalid {
			next = 0
		}
		if err == nil || next == 0 {
			s.drop(ctx, u)
		}
	}
	return next, wrap("append to blob", err)
}

// stands is where an upload stands. Where this node added to it last, and the caller goes on
// there, S3 is not asked: it refuses to write an offset twice.
func (s *Store) stands(ctx context.Context, u blob.Upload, offset int64) (int64, error) {
	s.remembering.Lock()
	at, known := s.ends[s.upload(u)]
	s.remembering.Unlock()
	if known && at == offset && offset > 0 {
		return at, nil
	}
	parts, err := s.parts(ctx, u)
	return end(parts), err
}

func (s *Store) remember(name string, end int64) {
	s.remembering.Lock()
	defer s.remembering.Unlock()
	if len(s.ends) >= mostUploads {
		clear(s.ends)
	}
	s.ends[name] = end
}

// extend writes what comes as the next parts, also what came before r failed.
func (s *Store) extend(ctx context.Context, name string, offset int64, r io.Reader) (int64, error) {
	for {
		next, err := s.extendOnce(ctx, name, offset, io.LimitReader(r, mostPart))
		if err != nil || next-offset < mostPart {
			return next, err
		}
		offset = next
	}
}

func (s *Store) extendOnce(ctx context.Context, name string, offset int64, r io.Reader) (int64, error) {
	f, failed := s.takeSome(ctx, r, -1)
	if f == nil {
		return offset, failed
	}
	defer f.close()
	if f.size == 0 || model.CodeOf(failed) == model.CodeDiskFull {
		return offset, failed
	}
	if _, err := f.file.Seek(0, io.SeekStart); err != nil {
		return offset, fmt.Errorf("read what came: %w", err)
	}
	// The client may have gone: what it sent is kept for when it comes back.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	defer cancel()
	once := binary()
	once.SetMatchETagExcept("*")
	once.DisableMultipart = true // whose end is not conditional
	_, err := s.client.PutObject(ctx, s.bucket, fmt.Sprintf("%s%0*d", name, offsetWidth, offset), f.file, f.size, once)
	if minio.ToErrorResponse(err).Code == minio.PreconditionFailed {
		return offset, blob.UnderWay()
	}
	if err != nil {
		return offset, errors.Join(failed, failure(err))
	}
	return offset + f.size, failed
}

// keepLimit is how long a part is written to S3 after its client has gone.
const keepLimit = 10 * time.Minute

// complete reads the parts of a blob and puts it.
func (s *Store) complete(ctx context.Context, u blob.Upload) error {
	parts, err := s.parts(ctx, u)
	if err != nil {
		return err
	}
	return s.Put(ctx, u.Hash, &partsReader{ctx: ctx, store: s, parts: parts})
}

// partsReader reads parts one after the other.
type partsReader struct {
	ctx   context.Context //nolint:containedctx // of the request that reads them
	store *Store
	parts []part
	now   *reader
}

func (r *partsReader) Read(p []byte) (int, error) {
	for {
		if r.now == nil {
			if len(r.parts) == 0 {
				return 0, io.EOF
			}
			r.now = &reader{ctx: r.ctx, store: r.store, key: r.parts[0].key, size: r.parts[0].size}
			r.parts = r.parts[1:]
		}
		n, err := r.now.Read(p)
		if errors.Is(err, io.EOF) {
			_ = r.now.Close()
			r.now, err = nil, nil
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// begin refuses an upload where its owner, or all, have begun too many.
func (s *Store) begin(ctx context.Context, u blob.Upload) error {
	all, own := 0, 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.uploads()}) {
		if object.Err != nil {
			return failure(object.Err)
		}
		if all++; strings.HasPrefix(object.Key, s.uploads()+ownerOf(u)+"-") {
			own++
		}
	}
	if own >= ownUploads || all >= mostUploads {
		return model.Errorf(model.CodeBusy, "%d uploads in parts are begun, %d of them by this caller: no more for now", all, own).
			WithHint("end the others first; what rests for a day is dropped")
	}
	return nil
}

// drop removes the parts of an upload; those that cannot be removed go with the next sweep.
func (s *Store) drop(ctx context.Context, u blob.Upload) {
	s.remember(s.upload(u), 0)
	for object := range s.client.ListObjects(ctx, s.bucket, minio.ListObjectsOptions{Prefix: s.upload(u), Recursive: true}) {
		if object.Err == nil {
			_ = s.client.RemoveObject(ctx, s.bucket, object.Key, minio.RemoveObjectOptions{})
		}
	}
}
