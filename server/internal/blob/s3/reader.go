package s3

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/minio/minio-go/v7"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/blob"
)

// Open implements [blob.Store]. S3 keeps checksums of its objects, so that they are not compared
// with their names once more. A reader whose blob is deleted fails where it seeks.
func (s *Store) Open(ctx context.Context, h blob.Hash) (blob.Reader, error) {
	info, err := s.client.StatObject(ctx, s.bucket, s.key(h), minio.StatObjectOptions{})
	if isMissing(err) {
		if err := s.there(ctx); err != nil { // an answer without a body is the same for a bucket
			return nil, wrap("open blob", err)
		}
		return nil, blob.NotFound(h)
	}
	if err != nil {
		return nil, wrap("open blob", failure(err))
	}
	return &reader{ctx: ctx, store: s, key: s.key(h), size: info.Size}, nil
}

// reader asks for the rest of an object where it is read after a seek, and for nothing before.
type reader struct {
	ctx   context.Context //nolint:containedctx // of the request that opened it
	store *Store
	key   string
	size  int64
	at    int64
	body  io.ReadCloser // nil: asked for at the next read
}

func (r *reader) Size() int64 { return r.size }

func (r *reader) Read(p []byte) (int, error) {
	if r.at >= r.size {
		return 0, io.EOF
	}
	if len(p) == 0 {
		return 0, nil
	}
	if r.body == nil {
		var o minio.GetObjectOptions
		if err := o.SetRange(r.at, r.size-1); err != nil {
			return 0, fmt.Errorf("read blob: %w", err)
		}
		core := minio.Core{Client: r.store.client} // whose reader is the body as it comes
		body, _, _, err := core.GetObject(r.ctx, r.store.bucket, r.key, o)
		if err != nil {
			return 0, wrap("read blob", failure(err))
		}
		r.body = body
	}
	n, err := r.body.Read(p)
	r.at += int64(n)
	if errors.Is(err, io.EOF) && r.at < r.size {
		err = model.Errorf(model.CodeUnavailable, "S3 sent %d of %d bytes", r.at, r.size)
	} else if err != nil && !errors.Is(err, io.EOF) {
		err = failure(err)
	}
	return n, err
}

func (r *reader) Seek(offset int64, whence int) (int64, error) {
	switch whence {
	case io.SeekCurrent:
		offset += r.at
	case io.SeekEnd:
		offset += r.size
	}
	if offset < 0 {
		return r.at, errors.New("seek before the start of a blob")
	}
	if offset != r.at {
		_ = r.Close()
		r.at = offset
	}
	return r.at, nil
}

func (r *reader) Close() error {
	if r.body == nil {
		return nil
	}
	err := r.body.Close()
	r.body = nil
	return err
}
