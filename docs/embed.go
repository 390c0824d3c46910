// Package docs holds the pages for users, so that a server shows them without a network
// (server/internal/manual makes a site of them).
package docs

import "embed"

// Files are the Markdown pages, and the pictures in them.
//
//go:embed *.md guides design format images
var Files embed.FS
