// Package platform is what differs between operating systems: one file for each
// system and seam (reserve, map, lock, delete, detach). Every other package is
// the same everywhere.
//
// Linux is tested. macOS and Windows are built and vetted with their GOOS, and
// untested: see docs/platforms.md.
package platform
