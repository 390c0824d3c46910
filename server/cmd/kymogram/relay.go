package main

import (
	"log/slog"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/console"
)

// relayCommand is for programs, not for people: docs/console.md.
func relayCommand(io stdio) *cobra.Command {
	var control int
	cmd := &cobra.Command{
		Use:    "relay",
		Short:  "Pass a program's output on to its terminal and keep its lines",
		Hidden: true,
		RunE: func(*cobra.Command, []string) error {
			folder, err := console.Run(control, version, slog.New(slog.NewTextHandler(io.err, nil)))
			if err != nil {
				return err
			}
			// The program may be over, and its agent too.
			return startAgent(folder)
		},
	}
	cmd.Flags().IntVar(&control, "control", 3, "the descriptor of the socket to the program")
	return cmd
}
