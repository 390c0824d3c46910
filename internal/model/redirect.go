package model

import (
	"net/url"
	"strings"
)

// Redirected is what a client says of a redirect, which none of ours follows: the
// key goes to no host that nobody named, and what a proxy shows instead of the
// server is no answer of it.
func Redirected(from, to *url.URL) *Error {
	where := *to
	where.User, where.RawQuery, where.Fragment = nil, "", ""
	e := Errorf(CodeUnavailable, "%s://%s redirects to %s", from.Scheme, from.Host, Clip(where.String()))
	path := from.EscapedPath()
	path = path[max(strings.Index(path, "/api/v1/"), 0):]
	if server, ok := strings.CutSuffix(where.String(), path); ok && server != "" {
		return e.WithHint("Name %s as the server (KYMOGRAM_SERVER).", server)
	}
	return e.WithHint("It looks like a proxy that asks for a sign-in, or another program. Name an address where Kymogram itself answers (KYMOGRAM_SERVER).")
}
