// Package spool is the client's on-disk log (docs/format/spool.md): a folder of
// writers, each a chain of checksummed segments. A [Writer] appends without
// locks or system calls, a [Tail] reads what is whole, the status page carries
// the deliverer's answers back. internal/uplink sends what lies here.
package spool
