package gauges

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/kymogram/kymogram/server/internal/catalog/postgres"
	"github.com/kymogram/kymogram/server/internal/psql"
	"github.com/kymogram/kymogram/server/internal/selfmetrics"
	"github.com/kymogram/kymogram/server/internal/store/clickhouse"
	"github.com/kymogram/kymogram/server/internal/timing"
)

// Cluster is what this server did for points that several servers share. No number has a name of
// a run: there are as many as with one run.
func Cluster(w clickhouse.Work) []selfmetrics.Gauge {
	points, ledger := w.Points, w.Ledger
	return append([]selfmetrics.Gauge{
		gauge("kymogram_clickhouse_servers", "Servers of ClickHouse that this server asks.", points.Servers),
		gauge("kymogram_clickhouse_servers_unreachable", "Of these, the ones whose last answer to this server was a failure.", points.Unreachable),
		timed("kymogram_clickhouse_insert_duration_seconds", "Inserts into ClickHouse, with the wait for a second copy.", points.Inserts),
		counter("kymogram_clickhouse_insert_failures_total", "Inserts that failed or whose outcome is not known; their points are sent again.", points.Inserts.Failed),
		counter("kymogram_clickhouse_inserted_rows_total", "Rows that ClickHouse took from this server, those that do not count included.", points.Rows),
		counter("kymogram_clickhouse_single_copy_inserts_total", "Inserts that were acknowledged with one copy: no second replica had them within 2 s.", points.OneCopy),
		counter("kymogram_clickhouse_replica_checks_total", "Questions to replicas whether they have all points of a run.", points.Checks),
		counter("kymogram_clickhouse_reads_refused_total", "Reads refused: no replica that answers had all points of the run within 5 s.", points.Refused),
		counter("kymogram_write_groups_total", "Groups of writes that shared an insert and a commit.", w.Groups),
		counter("kymogram_grouped_writes_total", "Writes in these groups, each try.", w.Writes),
		timed("kymogram_commit_duration_seconds", "Commits of groups in PostgreSQL.", ledger.Commits),
		counter("kymogram_commit_failures_total", "Commits that failed or whose outcome is not known; they are tried again.", ledger.Commits.Failed),
		gauge("kymogram_leases", "Runs that this server remembers for their writers, with or without their lease.", w.Runs),
		counter("kymogram_leases_taken_total", "Leases of runs that this server took.", ledger.Taken),
		counter("kymogram_leases_lost_total", "Commits of a run that found its lease with another server; they are tried again.", ledger.Lost),
		gauge("kymogram_servers", "Servers of the store that work, as PostgreSQL knew up to 10 s ago.", ledger.Servers),
		gauge("kymogram_updates_left", "Batches with updates of runs that servers which are gone left, at this server's last look, at most 1,000.", w.Left),
		selfmetrics.NewGauge("kymogram_postgres_clock_skew_seconds", "How far PostgreSQL's clock is ahead of this server's.", ledger.Skew.Seconds()),
	}, connections("ledger", ledger.Pool)...)
}

// Database is what this server did with a catalog in PostgreSQL.
func Database(s postgres.Stats) []selfmetrics.Gauge {
	all := []selfmetrics.Gauge{
		counter("kymogram_notices_heard_total", "Notices of other servers that this server heard.", s.Heard),
		counter("kymogram_notices_told_total", "Notices of news that this server sent to the others.", s.Told),
		counter("kymogram_notice_connections_broken_total", "Times that the connection which hears other servers failed; then it is made again.", s.Broken),
	}
	all = append(all, connections("catalog reads", s.Reads)...)
	return append(all, connections("catalog writes", s.Commits)...)
}

// Bucket is what this server asked of S3.
func Bucket(requests timing.Stats) []selfmetrics.Gauge {
	return []selfmetrics.Gauge{
		timed("kymogram_s3_request_duration_seconds", "Requests to S3, each try, to the head of the answer.", requests),
		counter("kymogram_s3_request_failures_total", "Requests that got no answer, or a status of an error. That an object is not there is none.", requests.Failed),
	}
}

// connections are those of a pool to PostgreSQL.
func connections(pool string, p psql.Pool) []selfmetrics.Gauge {
	all := []selfmetrics.Gauge{
		gauge("kymogram_postgres_connections", "Connections to PostgreSQL that are in use now.", p.InUse),
		gauge("kymogram_postgres_connections_max", "Connections to PostgreSQL that there may be.", p.Most),
		counter("kymogram_postgres_connection_waits_total", "Times that no connection to PostgreSQL was free.", p.Waits),
		selfmetrics.NewCounter("kymogram_postgres_connection_wait_seconds_total", "Seconds that were waited for one, all waits together.", p.Waited.Seconds()),
	}
	for i := range all {
		all[i].Label = prometheus.Labels{"pool": pool}
	}
	return all
}

// timed is acts and how long they took.
func timed(name, help string, s timing.Stats) selfmetrics.Gauge {
	return selfmetrics.NewHistogram(name, help, s.Took.Seconds(), s.Count, s.Within)
}
