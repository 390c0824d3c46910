package server

import (
	"context"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/auth"
)

// revokeCheck is how often the key behind an open stream is looked at again.
const revokeCheck = time.Second

// untilRevoked returns a context that ends with the key of p or with the drain; its
// cause says which.
// Its goroutine ends with the request.
func (m *mux) untilRevoked(parent context.Context, p *auth.Principal) (ctx context.Context, end func()) {
	ctx, cancel := context.WithCancelCause(parent)
	go func() {
		ticker := time.NewTicker(revokeCheck)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-m.draining:
				cancel(model.Errorf(model.CodeUnavailable, "the server is stopping"))
				return
			case <-ticker.C:
				if err := m.keyring.Recheck(ctx, p); err != nil {
					cancel(err)
					return
				}
			}
		}
	}()
	return ctx, func() { cancel(nil) }
}
