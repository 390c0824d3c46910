package main

import (
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/table"
)

// What several commands say of a flag.
const (
	cursorHelp    = "continue where a list with --limit ended"
	inheritedHelp = "also what a fork inherits from the runs that it goes on from"
)

func seriesCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "series",
		Short: "List the series of a run",
	}, seriesListCommand(io))
}

func seriesListCommand(io stdio) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use:     "list RUN",
		Short:   "List the series of a run with their ends",
		Example: "  kymogram series list default/default/brave-otter-7\n  kymogram series list 01ARZ3NDEKTSV4RRFFQ69G5FAV --metric '^eval/' --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			_, list, err := f.ofRun(cmd, io, args[0], "series")
			if err != nil {
				return err
			}
			return f.print(io, list, "series", table.Series)
		},
	}
	f.addTo(cmd)
	f.words["q"] = cmd.Flags().String("metric", "", "regular expression (RE2, unanchored) on the metric's name")
	f.words["cursor"] = cmd.Flags().String("cursor", "", cursorHelp)
	f.marks["include_inherited"] = cmd.Flags().Bool("include-inherited", false, inheritedHelp)
	return cmd
}
