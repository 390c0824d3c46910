package auth

import (
	"context"
	"errors"

	"github.com/kymogram/kymogram/internal/model"
)

// Principal is an authenticated caller.
type Principal struct {
	KeyID     string
	Name      string
	Scopes    []Scope
	Workspace string // empty: every workspace
	Project   string // empty: every project of the workspace
	hash      [32]byte
	open      bool // --no-auth: nothing is checked
}

// Has reports whether the caller holds the scope in some project.
func (p *Principal) Has(scope Scope) bool {
	if p.open {
		return true
	}
	for _, s := range p.Scopes {
		if s == scope || s == Admin {
			return true
		}
	}
	return false
}

// May reports whether the caller holds the scope in this project. An empty
// workspace or project stands for all of them.
func (p *Principal) May(scope Scope, workspace, project string) bool {
	if p.open {
		return true
	}
	return p.Has(scope) &&
		(p.Workspace == "" || p.Workspace == workspace) &&
		(p.Project == "" || p.Project == project)
}

// Everywhere reports whether the caller holds the scope in all projects.
func (p *Principal) Everywhere(scope Scope) bool { return p.May(scope, "", "") }

type principalKey struct{}

// WithPrincipal returns a context that carries the caller.
func WithPrincipal(ctx context.Context, p *Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// PrincipalOf is the caller of a context, nil when nobody was authenticated.
func PrincipalOf(ctx context.Context) *Principal {
	p, _ := ctx.Value(principalKey{}).(*Principal)
	return p
}

// Require fails unless the context's caller holds the scope in some project.
func Require(ctx context.Context, scope Scope) error {
	p := PrincipalOf(ctx)
	if p == nil {
		return unauthenticated("no API key was given")
	}
	if !p.Has(scope) {
		return denied(p, "the key %q does not have the scope %s", p.Name, scope)
	}
	return nil
}

// refusedKey is the refusal of a key that is known: a revoked or an expired one.
type refusedKey struct {
	error
	id string
}

func (r refusedKey) Unwrap() error { return r.error }

// KeyIDOf is the key that an error refuses, "" when it is not known.
func KeyIDOf(err error) string {
	var r refusedKey
	if errors.As(err, &r) {
		return r.id
	}
	return ""
}

func unauthenticated(message string) *model.Error {
	return model.Errorf(model.CodeUnauthenticated, "%s", message).
		WithHint("sign in with `kymogram login ADDRESS`, or set KYMOGRAM_API_KEY (the header is Authorization: Bearer KEY); the first admin key is in the server's data folder, file admin.key")
}

func denied(p *Principal, format string, args ...any) *model.Error {
	return model.Errorf(model.CodePermission, format, args...).
		WithHint("this key is for %s; an admin makes others with kymogram key create --scope SCOPE --project WORKSPACE/PROJECT", p.place())
}

func (p *Principal) place() string {
	switch {
	case p.Workspace == "":
		return "every project"
	case p.Project == "":
		return "workspace " + p.Workspace
	}
	return p.Workspace + "/" + p.Project
}
