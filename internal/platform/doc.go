// Package platform is what differs between operating systems, one file for each
// seam and system: disk and reserve (space and durability), map (memory), lock,
// delete, owner, detach and redirect (processes).
//
// Open files and paths go in; the same promise comes out everywhere, or a constant
// that says it does not hold here ([RenamesOpenFolders]). Every other package is
// the same on every system. No function keeps state.
//
// Linux is tested. macOS and Windows are built and vetted with their GOOS, and
// untested: see docs/platforms.md. Start at [Reserve], which the spool's promise
// about full disks rests on.
package platform
