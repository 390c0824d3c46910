package main

import (
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/backup"
	"github.com/kymogram/kymogram/server/internal/data"
	"github.com/kymogram/kymogram/server/internal/progress"
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
		RunE: func(cmd *cobra.Command, _ []string) error {
			if to == "" {
				return usagef("where to? name a new folder with --to DIR")
			}
			done, err := f.folder().Backup(cmd.Context(), to, version, io.err)
			return f.tell(io, done, err)
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&to, "to", "", "the folder to make")
	return cmd
}

func dataRestoreCommand(io stdio) *cobra.Command {
	var f dataFlags
	var from string
	var damaged bool
	cmd := &cobra.Command{
		Use:   "restore --from DIR",
		Short: "Make a data folder from a backup",
		Long: "Make a data folder from a backup; every file is compared with its checksum. The\n" +
			"folder must be new or empty: move the old one away first. Clients then go on by\n" +
			"themselves. What they had delivered since the backup and no longer keep is shown\n" +
			"in the ledger of its run as skipped (restored).\n\n" +
			"A damaged backup is refused. With --damaged its files come as they are, and those\n" +
			"that are damaged are named: for when there is no other backup. What is whole is\n" +
			"served, and the first start repairs the catalog from its mirror.",
		Example: "  mv /var/lib/kymogram /var/lib/kymogram.old\n  kymogram data restore --from /backup/2026-11-21 --data /var/lib/kymogram",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return usagef("what from? name a backup with --from DIR")
			}
			done, err := backup.Restore(cmd.Context(), from, f.data, damaged, progress.Bytes(io.err, data.SizeOf(from), "restore"))
			return f.tell(io, done, err)
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().StringVar(&from, "from", "", "the folder that data backup made")
	cmd.Flags().BoolVar(&damaged, "damaged", false, "take damaged files as they are, and name them")
	return cmd
}
