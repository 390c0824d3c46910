// Package api holds the contract of the HTTP API, so that a server shows it without a
// network.
package api

import "embed"

// Files are the routes in short, and the whole contract.
//
//go:embed http.md openapi.yaml
var Files embed.FS
