package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/doctor"
)

func doctorCommand(io stdio) *cobra.Command {
	var c connection
	var path string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Look for what is wrong: server, key, clock, spool",
		Example: "  kymogram doctor\n  kymogram doctor --server https://kymogram.example.org --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := uplink.ParseServer(cmp.Or(c.server, io.env("KYMOGRAM_SERVER"), defaultServer))
			if err != nil {
				return usageError{err}
			}
			return tell(io, c.json, doctor.Examine(cmd.Context(), doctor.Question{
				Version: version, Spool: path, Server: address, Key: c.key, Env: io.env, Recovered: catalog.Recovered,
			}), nil)
		},
	}
	c.addTo(cmd)
	cmd.Flags().StringVar(&path, "spool", "", "the spool folder (default: the one that programs use)")
	cmd.AddCommand(doctorInfluxCommand(io), doctorClusterCommand(io))
	return cmd
}

func doctorInfluxCommand(io stdio) *cobra.Command {
	var q doctor.InfluxQuestion
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "influx",
		Short: "Look for what keeps points from an InfluxDB",
		Long: `Walk the way of a point to an InfluxDB 1 or 2, or to Kymogram as InfluxDB's
clients see it: resolve, connect, tls, server, auth, write, read, clean. Each step
says ok, or what to fix; the first that fails is the last. The point goes to the
measurement kymogram_doctor and is deleted where the token may. No secret is printed.`,
		Example: `  INFLUXDB_TOKEN=… kymogram doctor influx --host influx.example.org --database tplr --org tplr
  INFLUXDB_TOKEN=user:password kymogram doctor influx --host http://127.0.0.1:8086
  kymogram doctor influx --host http://127.0.0.1:7070 --org team --database templar --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.Host, q.Port = cmp.Or(q.Host, io.env("INFLUXDB_HOST")), cmp.Or(q.Port, io.env("INFLUXDB_PORT"))
			q.Database, q.Org = cmp.Or(q.Database, io.env("INFLUXDB_DATABASE")), cmp.Or(q.Org, io.env("INFLUXDB_ORG"))
			q.Token = cmp.Or(q.Token, io.env("INFLUXDB_TOKEN"))
			if _, _, err := doctor.ParseInflux(q); err != nil {
				return usageError{err}
			}
			found, err := doctor.ExamineInflux(cmd.Context(), q)
			return tell(io, asJSON, found, err)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Host, "host", "", "the server: a name (https), http://HOST:PORT or https://HOST:PORT (default INFLUXDB_HOST)")
	flags.StringVar(&q.Port, "port", "", "its port, where --host has none (default INFLUXDB_PORT, else 8086)")
	flags.StringVar(&q.Database, "database", "", "the bucket or database (default INFLUXDB_DATABASE, else tplr)")
	flags.StringVar(&q.Org, "org", "", "the organisation of InfluxDB 2, the workspace of Kymogram (default INFLUXDB_ORG, else tplr)")
	flags.StringVar(&q.Token, "token", "", "the token, USER:PASSWORD for InfluxDB 1; the variable keeps it from lists of processes (default INFLUXDB_TOKEN)")
	flags.BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}

func doctorClusterCommand(io stdio) *cobra.Command {
	var q doctor.ClusterQuestion
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look at the ClickHouse, PostgreSQL and bucket that servers share",
		Long: `Look at what several servers share, by the addresses that they are started with.
Each server of ClickHouse tells its clock, its parts and its place as a replica.
PostgreSQL tells its clock, connections and standbys, the servers of Kymogram that
are alive, and what waits for them. Nothing is changed.`,
		Example: `  export CLICKHOUSE_PASSWORD=… PGPASSWORD=…
  kymogram doctor cluster --store 'clickhouse://kymogram@ch1:9000/kymogram?cluster=main' --catalog postgres://kymogram@db/kymogram
  kymogram doctor cluster --catalog postgres://kymogram@db/kymogram --json`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			q.Store, q.Catalog, q.Blob = cmp.Or(q.Store, io.env("KYMOGRAM_STORE")), cmp.Or(q.Catalog, io.env("KYMOGRAM_CATALOG")), cmp.Or(q.Blob, io.env("KYMOGRAM_BLOB"))
			q.Log, q.Password = cmp.Or(q.Log, io.env("KYMOGRAM_POINTS_LOG")), io.env("CLICKHOUSE_PASSWORD")
			if q.Store == "" && q.Catalog == "" && q.Blob == "" {
				return usageError{model.Errorf(model.CodeInvalid, "there is nothing to look at").WithHint("give --store, --catalog or --blob, as for kymogram serve")}
			}
			found, err := doctor.ExamineCluster(cmd.Context(), q)
			if err != nil {
				return usageError{err}
			}
			return tell(io, asJSON, found, nil)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&q.Store, "store", "", "the ClickHouse database of points, clickhouse://USER@HOST:9000/DATABASE (default KYMOGRAM_STORE)")
	flags.StringVar(&q.Catalog, "catalog", "", "the PostgreSQL database of runs, postgres://USER@HOST/DATABASE (default KYMOGRAM_CATALOG)")
	flags.StringVar(&q.Log, "log", "", "the NATS JetStream in front of ClickHouse, nats://HOST:4222 (default KYMOGRAM_POINTS_LOG)")
	flags.StringVar(&q.Blob, "blob", "", "the bucket of files, s3://BUCKET/PREFIX (default KYMOGRAM_BLOB)")
	flags.BoolVar(&asJSON, "json", false, "print the findings as JSON")
	return cmd
}
