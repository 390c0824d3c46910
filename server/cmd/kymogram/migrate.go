package main

import (
	"cmp"
	"path/filepath"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/blob"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/psql"
)

func migrateCommand(io stdio) *cobra.Command {
	var f dataFlags
	var place string
	var back bool
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Move what a server knows of runs into PostgreSQL, or back",
		Long: "Move the catalog of a data folder into a PostgreSQL database, or back with --back.\n" +
			"The catalog has names, attributes, tags, keys, views and artifacts of runs; their\n" +
			"points stay where they are. The server must be stopped. The database must be empty.\n\n" +
			"Every table is copied in one transaction, then read from both sides and compared.\n" +
			"Only then the folder says where its catalog is. A move that was cut has changed\n" +
			"nothing, or is finished by the same command. The old file is kept in the folder\n" +
			"catalog.moved-TIME; back from a database, the database keeps a copy.",
		Example: `  createdb kymogram
  kymogram migrate --data /var/lib/kymogram --catalog postgres://kymogram@db.example.org/kymogram
  kymogram serve --data /var/lib/kymogram --catalog postgres://kymogram@db.example.org/kymogram

  kymogram migrate --back --data /var/lib/kymogram --catalog postgres://kymogram@db.example.org/kymogram`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			place = cmp.Or(place, io.env("KYMOGRAM_CATALOG"))
			if place == "" {
				return usagef("which database? name it with --catalog postgres://USER@HOST/DATABASE")
			}
			if err := psql.Check(place); err != nil {
				return usageError{err}
			}
			moved, err := f.migrate(cmd, io, place, back)
			return f.tell(io, moved, err)
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&place, "catalog", "", "the address of the database (KYMOGRAM_CATALOG), with the password in PGPASSWORD or ~/.pgpass")
	cmd.Flags().BoolVar(&back, "back", false, "move from the database into the data folder")
	return cmd
}

func (f *dataFlags) migrate(cmd *cobra.Command, io stdio, place string, back bool) (*data.Migrated, error) {
	return f.folder().Migrate(cmd.Context(), data.Migration{
		Catalog: place, Back: back, Log: newLog(io, "warn"), Shown: io.err,
		Owner: func() (string, error) {
			secret, err := blob.Secret(filepath.Join(f.data, data.BlobKeyFile))
			return owner("a catalog", secret), err
		},
	})
}
