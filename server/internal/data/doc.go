// Package data knows a server's data folder as a whole: where its parts lie, what is in
// them, and what to do when they cannot be opened.
//
//	DATA/store        points, marks and ledgers; its lock and version are the folder's
//	DATA/catalog.db   runs, projects, keys
//	DATA/blobs        files by content hash
//	DATA/blob.key     the secret of their URLs
//
// In goes a folder, also one that a server uses; out come a survey or errors with a
// remedy. Only Compact changes anything, and it wants the server stopped. Start with
// Folder.Survey.
package data
