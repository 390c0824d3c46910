// Package web holds the built page (dist), so that the binary needs no Node.
// The sources are in src; `make generate` builds dist, which is committed.
// web/README.md says where to start reading.
package web

import (
	"embed"
	"io/fs"
)

//go:embed all:dist
var dist embed.FS

// Dist is the page's files with index.html at its root.
func Dist() (fs.FS, error) { return fs.Sub(dist, "dist") }
