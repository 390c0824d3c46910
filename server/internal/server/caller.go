package server

import (
	"context"
	"net"

	"github.com/kymogram/kymogram/server/internal/auth"
	"github.com/kymogram/kymogram/server/internal/share"
)

// withCaller names who shares the server with others: a key, which a page's session
// is too, or an address where keys are not checked.
func withCaller(ctx context.Context, p *auth.Principal, remote string) context.Context {
	if p != nil && p.KeyID != "" {
		return share.WithCaller(ctx, "key "+p.KeyID)
	}
	return share.WithCaller(ctx, "address "+hostOf(remote))
}

func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return address
}
