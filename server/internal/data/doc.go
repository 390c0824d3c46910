// Package data knows a server's data folder as a whole: where its parts lie, what is in
// them, and what to do when they cannot be opened.
//
//	DATA/store        points, marks and ledgers; its lock and version are the folder's
//	DATA/catalog.db   runs, projects, keys
//	DATA/catalog.db-mirror   the same rows once more, to repair it from
//	DATA/marks        how far store and catalog were: what tells that files of both are gone
//	DATA/blobs        files by content hash
//	DATA/blob.key     the secret of their URLs
//
// In goes a folder, also one that a server uses; out come a survey, a copy or errors with a
// remedy. Only Compact and Repair change anything, and they want the server stopped. Start with
// Folder.Survey.
package data
