// Package gauges names the numbers that a server tells of itself in /metrics: what
// goes in are the counts that each part keeps, what leaves is a name, a help text and
// a value for each. It counts nothing itself. One function for each part.
package gauges

import (
	"time"

	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/doctor"
	"github.com/kymogram/kymogram/server/internal/httpapi"
	"github.com/kymogram/kymogram/server/internal/ingest"
	"github.com/kymogram/kymogram/server/internal/receiver/otlp"
	"github.com/kymogram/kymogram/server/internal/receiver/promwrite"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/server"
	"github.com/kymogram/kymogram/server/internal/share"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store"
)

// Store is what the engine knows of itself; live are the bytes of runs that are not
// deleted.
func Store(e store.Stats, live int64) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		gauge("kymogram_store_runs", "Runs that the engine keeps.", e.Runs),
		gauge("kymogram_store_series", "Series that the engine keeps.", e.Series),
		gauge("kymogram_store_points", "Points that the engine keeps, superseded ones included.", e.Points),
		gauge("kymogram_store_disk_bytes", "Bytes of the engine's folder.", e.DiskBytes),
		gauge("kymogram_store_live_bytes", "Bytes of the points of runs that are not deleted: what retention.bytes limits.", live),
		counter("kymogram_store_written_bytes_total", "Bytes written to segments over the store's life, by flushes and merges.", e.WrittenBytes),
		gauge("kymogram_store_kept_bytes", "Bytes of segments, and of what was deleted from them. Merges keep kymogram_store_written_bytes_total below four times this.", e.KeptBytes),
		gauge("kymogram_store_memory_bytes", "Bytes of memory that the engine counts: points in no segment, and what is loaded of runs in use.", e.MemoryBytes),
		counter("kymogram_store_memory_refused_total", "Batches refused because memory is short; their clients send again.", e.MemoryRefused),
		gauge("kymogram_store_wal_bytes", "Bytes of the engine's log.", e.WALBytes),
		counter("kymogram_store_quarantined_total", "Damaged files or ranges set aside since the start.", e.Quarantined),
		counter("kymogram_store_lost_records_total", "Batches in damaged ranges of the log, met at the start; ledgers tell of those from clients with sequences.", e.LostRecords),
		gauge("kymogram_store_poisoned", "1 after a failed sync: restart.", truth(e.Poisoned)),
		gauge("kymogram_store_disk_full", "1 while writes are refused for want of space.", truth(e.DiskFull)),
	}
}

// Log is what waits in the log in front of ClickHouse.
func Log(blocks int64, oldest time.Duration) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		gauge("kymogram_store_log_blocks", "Blocks of points in the log that are not in ClickHouse yet, of all servers.", blocks),
		gauge("kymogram_store_log_oldest_seconds", "How long the first of them waits.", int64(oldest.Seconds())),
	}
}

// Catalog is how the catalog and its mirror are. Recovered are the runs without their
// names.
func Catalog(h sqlite.Health, damaged bool, mirrorBytes int64, recovered int) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		counter("kymogram_catalog_repairs_total", "Times that the start made the catalog or its mirror anew, since one of them was damaged.", truth(h.Rebuilt != "")+truth(h.Renewed != "")),
		counter("kymogram_catalog_caught_up_total", "Changes that the start took from the catalog's mirror, since a crash or damage had kept them from the catalog.", h.CaughtUp),
		counter("kymogram_catalog_closed_keys_total", "Keys that the start revoked, since what changed them may be lost.", h.Closed),
		gauge("kymogram_catalog_damaged", "1 after a damaged page of the catalog was met: restart, and it is repaired.", truth(damaged)),
		gauge("kymogram_catalog_older", "1 when the start found the catalog and its mirror older than they were: later changes are gone, and keys revoked since may be valid again.", truth(h.Older != "")),
		gauge("kymogram_catalog_mirror_bytes", "Bytes of the catalog's mirror.", mirrorBytes),
		gauge(doctor.RecoveredRuns, "Runs that the catalog had lost and that are still without their names.", recovered),
	}
}

// Ingest is what the write path did, retention with it.
func Ingest(w ingest.Stats) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		counter("kymogram_ingest_batches_total", "Batches taken.", w.Batches),
		counter("kymogram_ingest_points_total", "Points stored.", w.Points),
		counter("kymogram_ingest_refused_points_total", "Points refused for good.", w.Refused),
		counter("kymogram_ingest_dropped_points_total", "Points that clients said they dropped.", w.Dropped),
		counter("kymogram_ingest_shared_environments_total", "Pairs of writers found to log one RL environment at the same time.", w.Shared),
		counter("kymogram_ingest_writers_ahead_total", "Writers that opened with more records acknowledged than are here: the data folder is an older copy, or another server took them.", w.Ahead),
		counter("kymogram_ingest_failed_batches_total", "Batches not taken; their clients send again.", w.Failed),
		counter("kymogram_retention_age_runs_total", "Runs deleted for their age (retention.age).", w.RetiredAge),
		counter("kymogram_retention_size_runs_total", "Runs deleted for want of space (retention.bytes).", w.RetiredSize),
		counter("kymogram_retention_blobs_total", "Files deleted that no run named any more.", w.SweptBlobs),
		counter("kymogram_retention_blob_bytes_total", "Bytes of those files.", w.SweptBytes),
		gauge("kymogram_ingest_streams", "Writers' streams open now.", w.Streams),
	}
}

// States is what became of signed state records, and how their file is.
func States(r statelog.Stats, s statelog.Health, broken bool) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		counter("kymogram_state_records_total", "Signed state records taken.", r.Taken),
		counter("kymogram_state_refused_total", "State records refused for good: signature, place, time or size.", r.Refused),
		counter("kymogram_state_conflicts_total", "State records that did not follow the newest one; their signers sign again.", r.Conflicts),
		counter("kymogram_state_forks_total", "State records with a sequence that was taken before, kept as evidence.", r.Forks),
		counter("kymogram_state_repairs_total", "Times that the start made the state records or their mirror anew, since one of them was damaged.", truth(s.Rebuilt != "")+truth(s.Renewed != "")),
		counter("kymogram_state_trees_regrown_total", "Merkle logs that the start makes anew from their records, since nodes of them were missing.", len(s.Regrown)),
		counter("kymogram_state_caught_up_total", "Changes that the start took from the mirror of the state records, since a crash or damage had kept them from the file.", s.CaughtUp),
		gauge("kymogram_state_older", "1 when the start found fewer state records than were taken: their file and its mirror were gone, or older copies.", truth(s.Older != "")),
		gauge("kymogram_state_damaged", "1 while no state record can be read or taken: its file is damaged, and the log says what to do.", truth(broken)),
	}
}

// Files is what is known of the files.
func Files(damaged uint64) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		counter("kymogram_blobs_damaged_total", "Files found damaged when they were read; they are not served.", damaged),
	}
}

// Reserve is the room that is kept on the disk.
func Reserve(held int64, given uint64) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		gauge("kymogram_reserve_bytes", "Bytes of the disk that are kept for revoking keys and signing in.", held),
		counter("kymogram_reserve_given_total", "Times that some of them were given up on a full disk.", given),
	}
}

// Answers is what reads share.
func Answers(s httpapi.Stats) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		gauge("kymogram_answer_bytes", "Memory that is set aside for answers in the making.", s.Bytes),
		gauge("kymogram_answer_waiting_requests", "Reads that wait for their share of that memory.", s.Waiting),
		gauge("kymogram_event_streams", "Event streams and waiting requests open now.", s.Waits),
		counter("kymogram_event_streams_refused_total", "Event streams and waiting requests refused with busy: there were too many.", s.RefusedWaits),
		counter("kymogram_answer_refused_total", "Reads refused with busy: they got no memory in time.", s.Refused),
		counter("kymogram_answer_stalled_total", "Answers cut off because their client read nothing for 5 s.", s.Stalled),
	}
}

// Shared is what connections and requests share.
func Shared(s server.Shared) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		gauge("kymogram_connections", "Connections open now.", s.Connections),
		gauge("kymogram_connections_max", "Connections that there may be.", s.MostConnections),
		counter("kymogram_connections_refused_total", "Connections refused: too many in all or of their address.", s.RefusedConnections),
		counter("kymogram_connections_closed_total", "Connections closed for others: idle ones, refused ones, and those of the caller with the most.", s.ClosedConnections),
		gauge("kymogram_request_bytes", "Memory that is set aside for requests that are worked on.", s.Requests.Used),
		gauge("kymogram_request_waiting", "Requests and messages that wait for that memory.", s.Requests.Waiting),
		gauge("kymogram_request_waiting_bytes", "Memory that they wait for.", s.Requests.WaitingFor),
		counter("kymogram_request_refused_total", "Requests and messages refused with busy: they got no memory in time.", s.Requests.Refused),
		gauge("kymogram_message_bytes", "Memory that is set aside for gRPC messages which are being received.", s.Messages.Used),
		counter("kymogram_message_refused_total", "gRPC messages refused with busy: they got no memory in time.", s.Messages.Refused),
		gauge("kymogram_calls", "gRPC calls that go on now.", s.Calls.Used),
		counter("kymogram_calls_refused_total", "gRPC calls refused with busy: there were too many.", s.Calls.Refused),
		gauge("kymogram_files", "Files that are sent or fetched now.", s.Files.Used),
		counter("kymogram_files_refused_total", "Files refused with busy: too many were sent or fetched.", s.Files.Refused),
		gauge("kymogram_call_answer_bytes", "Memory of large gRPC answers that their clients have not read yet.", s.Answers.Used),
		counter("kymogram_call_answer_refused_total", "gRPC answers refused with busy: they got no memory in time.", s.Answers.Refused),
		counter("kymogram_calls_stalled_total", "gRPC calls cut off because their client read nothing of the answer for 5 s.", s.StalledCalls),
	}
}

// Points is the memory for what is made of the bodies of other systems' clients.
func Points(s share.Stats) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		gauge("kymogram_points_bytes", "Memory that is set aside for reading bodies of InfluxDB's and Prometheus' clients.", s.Used),
		gauge("kymogram_points_waiting", "Requests that wait for that memory.", s.Waiting),
		gauge("kymogram_points_waiting_bytes", "Memory that they wait for.", s.WaitingFor),
		counter("kymogram_points_refused_total", "Such requests refused with busy: they got no memory in time.", s.Refused),
	}
}

// Definitions is the memory for the series definitions of streams.
func Definitions(s share.Stats) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		gauge("kymogram_definition_bytes", "Memory of the series definitions of writers' streams.", s.Used),
		counter("kymogram_definition_refused_total", "Streams ended with busy: there was no memory for more series definitions. Their clients open new ones.", s.Refused),
	}
}

// Unplaced is what remote writes and OpenTelemetry's requests held besides points.
func Unplaced(w promwrite.Totals, o otlp.Stats) []selfmetrics.Gauge {
	one := func(receiver, kind string, n uint64) selfmetrics.Gauge {
		return counter("kymogram_"+receiver+"_unplaced_"+kind+"_total", "Of "+receiver+": "+kind+" that have no place here.", n)
	}
	return []selfmetrics.Gauge{
		one("promwrite", "exemplars", w.Exemplars), one("promwrite", "metadata", w.Metadata), one("promwrite", "histograms", w.Histograms),
		one("otlp", "exemplars", o.Exemplars), one("otlp", "histograms", o.Histograms), one("otlp", "empty_points", o.Empty),
	}
}

// number is what counts are kept in.
type number interface{ ~int | ~int64 | ~uint64 }

// gauge is a value that goes up and down.
func gauge[N number](name, help string, n N) selfmetrics.Gauge {
	return selfmetrics.NewGauge(name, help, float64(n))
}

// counter is a value that only grows.
func counter[N number](name, help string, n N) selfmetrics.Gauge {
	return selfmetrics.NewCounter(name, help, float64(n))
}

// truth is 1 for what holds.
func truth(holds bool) int {
	if holds {
		return 1
	}
	return 0
}
