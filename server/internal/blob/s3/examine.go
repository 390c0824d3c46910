package s3

import (
	"context"
	"time"

	"github.com/minio/minio-go/v7"

	"github.com/kymogram/kymogram/server/internal/timing"
)

// State is how a bucket stands.
type State struct {
	Took  time.Duration // to answer
	Owned bool          // a server has claimed the place
}

// Examine looks at a place, and changes nothing. It fails where there is no bucket, or where the
// key may not read it.
func Examine(ctx context.Context, place Place) (st State, err error) {
	client, err := place.connect(new(timing.Acts))
	if err != nil {
		return st, err
	}
	s := &Store{client: client, bucket: place.Bucket, prefix: place.Prefix}
	began := time.Now()
	if err := s.there(ctx); err != nil {
		return st, err
	}
	st.Took = time.Since(began)
	_, err = client.StatObject(ctx, s.bucket, s.prefix+"owner", minio.StatObjectOptions{})
	st.Owned = err == nil
	if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
		return st, nil
	}
	return st, failure(err)
}
