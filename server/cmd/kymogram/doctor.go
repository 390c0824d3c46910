package main

import (
	"cmp"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/doctor"
)

func doctorCommand(io stdio) *cobra.Command {
	var c connection
	var path string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Look for what is wrong: server, key, clock, spool",
		Example: "  kymogram doctor\n  kymogram doctor --server https://kymogram.example.org --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := uplink.ParseServer(cmp.Or(c.server, io.env("KYMOGRAM_SERVER"), defaultServer))
			if err != nil {
				return usageError{err}
			}
			return tell(io, c.json, doctor.Examine(cmd.Context(), doctor.Question{
				Version: version, Spool: path, Server: address, Key: c.key, Env: io.env, Recovered: catalog.Recovered,
			}), nil)
		},
	}
	c.addTo(cmd)
	cmd.Flags().StringVar(&path, "spool", "", "the spool folder (default: the one that programs use)")
	return cmd
}
