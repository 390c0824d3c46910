// Package spool is the client's log on disk (docs/format/spool.md): a folder of
// writers, each a chain of segments of checksummed records.
//
// Log calls go in at [Writer]; [Tail] gives whole records out, in order. Between
// the two lie only files, no socket and no lock that both wait for:
//
//	loop: Writer                      SPOOL/writers/ID/        deliverer: Tail, Status
//	  lock (flock, for life) ───────▶ lock ──────────────────▶ free: what lies there is final
//	  1 length: CAS 0 → n ┐
//	  2 payload           ├─────────▶ 00000007.seg ──────────▶ valid CRC: take it
//	  3 CRC, released     ┘           [head][rec][rec][0…]     else wait, or torn if lock is free
//	  seal, then the next ──────────▶ 00000008.seg             sealed: go on there
//	  reads the mark ◀─────────────── status (one page) ◀────── counts first, the mark last
//	                                  renderings/N.*           acked: delete segments, then the folder
//
// A log call reserves its record by a compare-and-swap of the length word in the
// file itself, so that goroutines append without a lock. The space of a segment
// is reserved before it is mapped: a full disk shows when a segment is made, never
// as a SIGBUS. A call that finds no segment keeps its record in
// memory, in order, up to a limit; past it points are dropped and counted.
//
// SIGKILL may strike anywhere, because each step leaves what a reader can tell:
//   - before 1, nothing is there; after 3, the record is kept by the page cache;
//   - between 1 and 3 the record is torn: its length says where the next one
//     begins, and its number is skipped and told;
//   - a segment gets its name when it has its header, a writer's folder when it
//     is complete, every document by rename;
//   - a definition is whole before a record that needs it is reserved, and every
//     segment states its own: a lost segment takes only its own points along;
//   - a deliverer's acked records may be sent again; the server's mark drops them.
//
// A power loss may also take pages in the middle, or undo a renaming. The reader goes
// on at the next segment, whose header tells which numbers are missing.
//
// Nobody deletes what is not theirs. A writer removes only the segments that it
// made ahead and did not name. The holder of agent.lock removes segments that lie
// wholly at or below the mark, but never a writer's last, and the folder once the
// lock is free and everything is acked. Damaged segments are marked when they are met,
// and move to rejected/ when the others are deleted.
//
// Start at [Writer.Point] and segment.reserve for the way in, at [Tail.Next] for
// the way out, at [Prune] and [Folder.Remove] for what is freed. internal/uplink
// is the deliverer; the Python package writes the same bytes.
package spool
