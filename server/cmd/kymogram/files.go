package main

import (
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/read"
	"github.com/kymogram/kymogram/server/internal/table"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

func filesCommand(io stdio) *cobra.Command {
	var f listFlags
	var folder string
	cmd := &cobra.Command{
		Use:   "files RUN",
		Short: "List or download the files of a run",
		Long: `Lists the files of a run by name, or writes them into a folder. A file that is
there with the same bytes is not fetched again; none is overwritten. The bytes
are checked by their SHA-256.`,
		Example: "  kymogram files default/vision/brave-otter-7\n  kymogram files default/vision/brave-otter-7 --prefix media/ --download out",
		RunE: func(cmd *cobra.Command, args []string) error {
			if !cmd.Flags().Changed("download") {
				_, list, err := f.ofRun(cmd, io, args[0], "files")
				if err != nil {
					return err
				}
				return f.print(io, list, "files", table.Files)
			}
			if folder == "" {
				return usagef("--download names a folder")
			}
			server, id, err := f.run(cmd.Context(), io, args[0])
			if err != nil {
				return err
			}
			run := read.Over(server).ByID(id)
			report, err := transfer.Files(cmd.Context(), run, transfer.FilesOptions{Prefix: *f.words["prefix"], Limit: f.limit, Folder: folder})
			return tell(io, f.json, report, err)
		},
	}
	f.addTo(cmd)
	f.words["prefix"] = cmd.Flags().String("prefix", "", "with names that begin so only")
	cmd.Flags().StringVar(&folder, "download", "", "write them into this folder")
	return cmd
}
