// Package backup copies a server's data folder into a new one, and back. In go a folder
// with the functions of its back ends, which cmd picks; out comes a folder that a
// server can use as it is, with a manifest of every file's size and SHA-256.
//
// A copy is written under another name, synced and then renamed: a folder with a
// manifest is complete. The server may run meanwhile. Nothing that is there is
// overwritten. Start with Source.Backup.
package backup
