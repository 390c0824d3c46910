package main

import (
	"context"
	"fmt"
	goio "io"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/wal"
	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/blob/dir"
	"github.com/kymogram/kymogram/server/internal/catalog/sqlite"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/statelog"
	"github.com/kymogram/kymogram/server/internal/store/local"
	"github.com/kymogram/kymogram/server/internal/table"
)

func dataBackupCommand(io stdio) *cobra.Command {
	var f dataFlags
	var to string
	cmd := &cobra.Command{
		Use:   "backup --to DIR",
		Short: "Copy everything into a new folder, while the server runs",
		Long: "Copy a data folder (points, marks of writers, catalog, files, keys) into a new\n" +
			"one, while the server runs. The copy is a data folder itself: for every run a\n" +
			"state of the moment when the backup began, or a little later. It holds keys, so\n" +
			"keep it as safe as the original.",
		Example: `  kymogram data backup --data /var/lib/kymogram --to /backup/$(date +%F)
  kymogram data verify --data /backup/2026-11-21`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("where to? name a new folder with --to DIR")
			}
			done, err := f.backup(cmd.Context(), io, to)
			if err != nil {
				return data.Explain(f.data, err)
			}
			return printCopied(io, f.json, "saved", done)
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&to, "to", "", "the folder to make")
	return cmd
}

func (f *dataFlags) backup(ctx context.Context, io stdio, to string) (*backup.Copied, error) {
	store, err := local.OpenFolder(ctx, wal.OS{}, f.folder().Store(), f.folder().Marks())
	if err != nil {
		return nil, err
	}
	defer store.Close()
	source := backup.Source{
		Folder: f.data, Store: data.StoreFolder, Catalog: data.CatalogFile, States: data.StateFile, Blobs: data.BlobFolder, Marks: data.MarksFolder,
		CopyCatalog: sqlite.Copy, CopyStates: statelog.Copy,
		CopyStore: func(ctx context.Context, highest uint64, put func(string, int64, goio.Reader) error) error {
			return store.CopyTo(ctx, highest, put)
		},
		ListBlobs: func(ctx context.Context, folder string, each func(string) error) error {
			return dir.List(ctx, folder, func(e dir.Entry) error { return each(e.Path) })
		},
	}
	return source.Backup(ctx, to, version, progress.Bytes(io.err, data.SizeOf(f.data), "backup"))
}

func printCopied(io stdio, asJSON bool, verb string, c *backup.Copied) error {
	if asJSON {
		return printJSON(io.out, c)
	}
	_, err := fmt.Fprintf(io.out, "%s %d files, %s, in %s (%.1f s)\n", verb, c.Files, table.Bytes(c.Bytes), c.Folder, c.Seconds)
	return err
}

func dataRestoreCommand(io stdio) *cobra.Command {
	var f dataFlags
	var from string
	cmd := &cobra.Command{
		Use:   "restore --from DIR",
		Short: "Make a data folder from a backup",
		Long: "Make a data folder from a backup; every file is compared with its checksum. The\n" +
			"folder must be new or empty: move the old one away first. Clients then go on by\n" +
			"themselves. What they had delivered since the backup and no longer keep is shown\n" +
			"in the ledger of its run as skipped (restored).",
		Example: "  mv /var/lib/kymogram /var/lib/kymogram.old\n  kymogram data restore --from /backup/2026-11-21 --data /var/lib/kymogram",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usagef("what from? name a backup with --from DIR")
			}
			done, err := backup.Restore(cmd.Context(), from, f.data, progress.Bytes(io.err, data.SizeOf(from), "restore"))
			if err != nil {
				return data.Explain(f.data, err)
			}
			return printCopied(io, f.json, "restored", done)
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&from, "from", "", "the folder that data backup made")
	return cmd
}
