// Package wal is a framed, checksummed segment log with group commit.
//
// A record is on disk when [Log.Wait] (or [Log.Append]) returns: many callers
// share one fsync. A torn tail is cut at open, damage in the middle is set aside
// and reported while the rest is replayed, a failed fsync poisons the log, and a
// full disk leaves it as it was before the record (docs/format/wal.md).
//
// Its neighbours are the stores, which replay it; faultfs is the file system of
// their crash tests.
package wal
