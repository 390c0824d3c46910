// Package transfer moves runs in and out as files.
//
// Import: in go runs that another tracker left on disk, read by package importer; out
// comes a delivery to a server and a report. Points go through a spool of the import's
// own, so they arrive exactly once, as those of every program do:
//
//	importer.Found → Import.Run → spool in TMPDIR → Import.Deliver → server
//
// A run carries a digest of its source, written last. So an import can be repeated:
// what did not change is passed over, and half a run is replaced. A spool that an
// import left is delivered by the next import to that server.
//
// Export: in go a run's points from the server, as Arrow; out come JSON lines, CSV or
// Parquet. Integers and NaN stay exact. A file is there whole or not at all.
//
// Start with Import.All and Export.Save. The caller gives the server, the writers
// and the environment; nothing is printed but what was asked for.
package transfer
