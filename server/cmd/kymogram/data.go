package main

import (
	"cmp"
	goio "io"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/config"
	"github.com/kymogram/kymogram/server/internal/data"
)

// dataFlags are the flags of commands that work on a data folder.
type dataFlags struct {
	data string
	json bool
}

func (f *dataFlags) addTo(cmd *cobra.Command, io stdio) {
	cmd.Flags().StringVar(&f.data, "data", cmp.Or(io.env("KYMOGRAM_DATA"), config.Default(io.env).Data), "the server's data folder (KYMOGRAM_DATA)")
	cmd.Flags().BoolVar(&f.json, "json", false, "print a JSON object")
}

func (f *dataFlags) folder() data.Folder { return data.Folder(f.data) }

// tell prints what was found in the folder, or what keeps it from being read.
func (f *dataFlags) tell(io stdio, what found, err error) error {
	return tell(io, f.json, what, data.Explain(f.data, err))
}

func dataCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "data",
		Short: "Look after a server's data folder: stats, verify, repair, compact, backup, restore",
		Long: "Look after a server's data folder, on the server's machine and as its user.\n" +
			"All but repair, compact and restore work while the server runs.",
		Example: `  kymogram data stats --data /var/lib/kymogram
  kymogram data verify --data /var/lib/kymogram
  kymogram data backup --data /var/lib/kymogram --to /backup/monday
  kymogram data restore --from /backup/monday --data /var/lib/kymogram`,
	}, dataStatsCommand(io), dataVerifyCommand(io), dataRepairCommand(io), dataCompactCommand(io), dataBackupCommand(io), dataRestoreCommand(io))
}

func dataStatsCommand(io stdio) *cobra.Command {
	var f dataFlags
	cmd := &cobra.Command{
		Use:     "stats",
		Short:   "Say what the folder holds and what takes its space",
		Example: "  kymogram data stats --data /var/lib/kymogram\n  kymogram data stats --json | jq .store.points",
		RunE: func(cmd *cobra.Command, _ []string) error {
			survey, err := f.folder().Survey(cmd.Context(), false, goio.Discard)
			return f.tell(io, survey, err)
		},
	}
	f.addTo(cmd, io)
	return cmd
}

func dataVerifyCommand(io stdio) *cobra.Command {
	var f dataFlags
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Read every byte and say what is damaged",
		Long: "Read every byte of a data folder or of a backup and compare it with its checksum:\n" +
			"points and their summaries, the log, the catalog and its mirror, files. Compare the\n" +
			"catalog with its mirror, with the store and with the files. Nothing is changed.\n" +
			"Ends with 1 when something is damaged, missing or contradicts the rest.",
		Example: "  kymogram data verify --data /var/lib/kymogram\n  kymogram data verify --data /backup/monday --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			survey, err := f.folder().Survey(cmd.Context(), true, io.err)
			return f.tell(io, survey, err)
		},
	}
	f.addTo(cmd, io)
	return cmd
}

func dataRepairCommand(io stdio) *cobra.Command {
	var f dataFlags
	var yes bool
	cmd := &cobra.Command{
		Use:   "repair",
		Short: "Repair the catalog from its mirror, or the mirror from the catalog, and small files",
		Long: "Repair the catalog from its mirror, or the mirror from the catalog, whichever is\n" +
			"damaged or behind. Without --yes it only says what it would do. What is damaged is\n" +
			"kept next to the new one, under a name with the time. The server does the same at\n" +
			"each start; it must be stopped for this command. Small files that keep a server\n" +
			"from its start are named. VERSION is written anew where all files fit it. An\n" +
			"admin.key that is no key of the catalog is moved aside. No key is made or ended.",
		Example: "  kymogram data repair --data /var/lib/kymogram\n  kymogram data repair --data /var/lib/kymogram --yes --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			done, err := f.folder().Repair(cmd.Context(), yes, newLog(io, "warn"), io.err)
			return f.tell(io, done, err)
		},
	}
	f.addTo(cmd, io)
	cmd.Flags().BoolVar(&yes, "yes", false, "repair, not only look")
	return cmd
}

func dataCompactCommand(io stdio) *cobra.Command {
	var f dataFlags
	cmd := &cobra.Command{
		Use:   "compact",
		Short: "Merge all segments into one and free what was deleted",
		Long: "Merge all segments into one, in today's format, and free the bytes of deleted\n" +
			"runs. The server does this by itself when it pays; it must be stopped for this\n" +
			"command, and the disk needs space for a second copy of the points.",
		Example: "  kymogram data compact --data /var/lib/kymogram",
		RunE: func(cmd *cobra.Command, _ []string) error {
			done, err := f.folder().Compact(cmd.Context(), newLog(io, "warn"), io.err)
			return f.tell(io, done, err)
		},
	}
	f.addTo(cmd, io)
	return cmd
}
