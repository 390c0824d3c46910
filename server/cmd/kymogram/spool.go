package main

import (
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/delivery"
)

func spoolCommand(io stdio) *cobra.Command {
	var path string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "spool",
		Short: "Show what waits to be delivered, how old it is, and why",
		Long: `Show what programs on this machine logged and no server has acknowledged yet:
how much, how old, what holds it up, and what to do. It changes nothing.`,
		Example: "  kymogram spool\n  kymogram spool --spool /data/spool --json",
		RunE: func(*cobra.Command, []string) error {
			folder, err := delivery.View(io.env, path)
			if err != nil {
				return err
			}
			report, err := delivery.Inspect(folder)
			return tell(io, asJSON, report, err)
		},
	}
	cmd.Flags().StringVar(&path, "spool", "", "the spool folder (default KYMOGRAM_SPOOL_DIR, else the one that kymogram doctor shows)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print a JSON object")
	return cmd
}
