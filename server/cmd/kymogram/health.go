package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// healthLimit is less than the 5 s that the image's health check waits.
const healthLimit = 4 * time.Second

// healthCommand is what a container asks, where no curl is.
func healthCommand(io stdio) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "health",
		Short: "Ask whether the server takes writes",
		Long: "Ask the server whether it takes writes. Print ready and exit 0, or say what is\n" +
			"wrong and exit 1. No key is needed. A health check of a container runs this.",
		Example: "  kymogram health\n  kymogram health --server https://kymogram.example.org",
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			server.Key, server.Time = "", healthLimit
			answer, err := server.Send(cmd.Context(), "GET", "/readyz", nil, nil)
			if err != nil {
				return err
			}
			defer answer.Body.Close()
			_, err = fmt.Fprintln(io.out, "ready")
			return err
		},
	}
	cmd.Flags().StringVar(&c.server, "server", "", "address of the server (default KYMOGRAM_SERVER, else "+defaultServer+")")
	return cmd
}
