package reserve

import (
	"context"
	"time"

	"github.com/kymogram/kymogram/server/internal/auth"
)

// Keys is a catalog's keys. Revocations and the sessions of people who sign in may
// take the reserve; new keys may not.
type Keys struct {
	auth.Keys
	File *File
}

// PutKey implements [auth.Keys].
func (k Keys) PutKey(ctx context.Context, key auth.Key) error {
	put := func() error { return k.Keys.PutKey(ctx, key) }
	if key.Name != auth.SessionName {
		return put()
	}
	return k.File.Do(put)
}

// RevokeKey implements [auth.Keys].
func (k Keys) RevokeKey(ctx context.Context, id string, now time.Time) error {
	return k.File.Do(func() error { return k.Keys.RevokeKey(ctx, id, now) })
}
