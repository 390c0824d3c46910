package main

import (
	"cmp"
	"encoding/hex"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/psql"
)

// migrateFlags are the flags of kymogram migrate.
type migrateFlags struct {
	dataFlags
	catalog, store, blob string
	back                 bool
}

func migrateCommand(io stdio) *cobra.Command {
	var f migrateFlags
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move runs of a data folder into PostgreSQL, their points into ClickHouse, or back",
		Long: "Move the catalog of a data folder into a PostgreSQL database, and with --store the\n" +
			"points of its runs into ClickHouse, too. --back moves both into a data folder.\n" +
			"The catalog has names, attributes, tags, keys, views and artifacts of runs.\n\n" +
			"The server must be stopped, but for a first copy of points: with --store the command\n" +
			"may run while the server goes on. It then copies what there is. Stop the server, and\n" +
			"run it again: it copies what is new, moves the catalog, and notes the new place.\n\n" +
			"All is read from both sides and compared: each series by its count and a checksum,\n" +
			"each table of the catalog by its rows. Only then the folder says where its parts\n" +
			"are. A move that was cut goes on with the same command. The old files are kept\n" +
			"in the folders catalog.moved-TIME and store.moved-TIME.",
		Example: `  createdb kymogram
  kymogram migrate --data /var/lib/kymogram --catalog postgres://kymogram@db.example.org/kymogram
  kymogram serve --data /var/lib/kymogram --catalog postgres://kymogram@db.example.org/kymogram

  kymogram migrate --data /var/lib/kymogram --store clickhouse://kymogram@ch.example.org:9000/kymogram \
    --catalog postgres://kymogram@db.example.org/kymogram

  kymogram migrate --back --data /var/lib/kymogram --catalog postgres://kymogram@db.example.org/kymogram`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			f.catalog, f.store = cmp.Or(f.catalog, io.env("KYMOGRAM_CATALOG")), cmp.Or(f.store, io.env("KYMOGRAM_STORE"))
			if f.catalog == "" {
				return usagef("which database? name it with --catalog postgres://USER@HOST/DATABASE")
			}
			if err := psql.Check(f.catalog); err != nil {
				return usageError{err}
			}
			if f.store == "" {
				moved, err := f.folder().Migrate(cmd.Context(), f.migration(io))
				return f.tell(io, moved, err)
			}
			f.blob = cmp.Or(f.blob, io.env("KYMOGRAM_BLOB"))
			moved, err := f.folder().Move(cmd.Context(), f.move(io))
			return f.tell(io, moved, err)
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&f.catalog, "catalog", "", "the address of the database (KYMOGRAM_CATALOG), with the password in PGPASSWORD or ~/.pgpass")
	cmd.Flags().StringVar(&f.store, "store", "", "move points too: the address of ClickHouse (KYMOGRAM_STORE), with the password in CLICKHOUSE_PASSWORD")
	cmd.Flags().StringVar(&f.blob, "blob", "", "with --store, move files too: a bucket, s3://BUCKET/PREFIX (KYMOGRAM_BLOB); --back leaves them there")
	cmd.Flags().BoolVar(&f.back, "back", false, "move into the data folder")
	return cmd
}

func (f *migrateFlags) migration(io stdio) data.Migration {
	return data.Migration{
		Catalog: f.catalog, Back: f.back, Log: newLog(io, "warn"), Shown: io.err,
		Owner: func() (string, error) {
			secret, err := f.secret()
			return owner("a catalog", secret), err
		},
	}
}

func (f *migrateFlags) move(io stdio) data.Move {
	return data.Move{
		Migration: f.migration(io), Store: f.store, Password: io.env("CLICKHOUSE_PASSWORD"), Blob: f.blob, Secret: f.secret,
		Owners: func(secret []byte) (data.Owners, error) {
			points, err := hex.DecodeString(owner("points", secret))
			return data.Owners{Points: points, Catalog: owner("a catalog", secret), Bucket: owner("a bucket", secret)}, err
		},
	}
}

func (f *migrateFlags) secret() ([]byte, error) {
	return blob.Secret(filepath.Join(f.data, data.BlobKeyFile))
}
