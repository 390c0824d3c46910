// Package auth decides who a caller is and what it may do: API keys with scopes
// per project, page sessions and one-time links. The catalog keeps the keys;
// package server asks here before any handler runs, ingest and query ask again
// once they know the project.
//
// In: the secret of a request; out: a [Principal], or an error that says what is
// missing. A key is stored as a hash only, and a revoked one is refused within a
// second. Start reading in keyring.go; bootstrap.go makes the first key.
package auth

import "github.com/kymogram/kymogram/server/internal/catalog"

// Scope is a right of a key.
type Scope = catalog.Scope

// Key is a key as it is stored.
type Key = catalog.Key

// The scopes: admin implies the others.
const (
	Ingest = catalog.ScopeIngest
	Read   = catalog.ScopeRead
	Admin  = catalog.ScopeAdmin
)
