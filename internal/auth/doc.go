// Package auth decides who a caller is and what it may do: API keys with scopes
// per project, page sessions and one-time links. The catalog keeps the keys;
// package server asks here before any handler runs, ingest and query ask again
// once they know the project.
package auth
