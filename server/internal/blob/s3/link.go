package s3

import (
	"context"
	"net/url"
	"time"

	"github.com/kymogram/kymogram/server/internal/blob"
)

var _ blob.Linker = (*Store)(nil)

// Link implements [blob.Linker]. S3 answers with a download, whatever the file is. It asks S3 for
// nothing, but for where the bucket is, once.
func (s *Store) Link(ctx context.Context, h blob.Hash, life time.Duration) (string, error) {
	if !s.direct {
		return "", nil
	}
	answer := url.Values{"response-content-type": {"application/octet-stream"}, "response-content-disposition": {"attachment"}}
	u, err := s.client.PresignedGetObject(ctx, s.bucket, s.key(h), life, answer)
	if err != nil {
		return "", wrap("sign an address", failure(err))
	}
	return u.String(), nil
}
