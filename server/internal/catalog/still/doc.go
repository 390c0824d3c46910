// Package still reads a database of SQLite without changing a byte of its folder.
//
// SQLite takes the log (-wal) of a crash into the file when the last reader closes it,
// and makes files to read at all. Here a file that nobody has open is read as SQLite
// would: the committed frames of the log laid over it. A folder of a crash stays as it
// is, and one that may only be read can be read. While another process has the database
// open, SQLite reads it: then it only takes locks.
//
// Start reading in look.go; file.go lays the log over the file, log.go reads the log.
package still
