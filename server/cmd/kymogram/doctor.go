package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/uplink"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/doctor"
	"github.com/kymogram/kymogram/server/internal/table"
)

func doctorCommand(io stdio) *cobra.Command {
	var c connection
	var path string
	cmd := &cobra.Command{
		Use:     "doctor",
		Short:   "Look for what is wrong: server, key, clock, spool",
		Example: "  kymogram doctor\n  kymogram doctor --server https://kymogram.example.org --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			address, err := uplink.ParseServer(first(c.server, io.env("KYMOGRAM_SERVER"), defaultServer))
			if err != nil {
				return usageError{err}
			}
			return printDiagnosis(io, c.json, doctor.Examine(cmd.Context(), doctor.Question{
				Version: version, Spool: path, Server: address, Key: c.key, Env: io.env, Recovered: catalog.Recovered,
			}))
		},
	}
	c.addTo(cmd)
	cmd.Flags().StringVar(&path, "spool", "", "the spool folder (default: the one that programs use)")
	return cmd
}

var errUnwell = errors.New("something is wrong")

func printDiagnosis(io stdio, asJSON bool, d *doctor.Diagnosis) error {
	var err error
	if asJSON {
		err = printJSON(io.out, d)
	}
	for _, f := range d.Findings {
		if asJSON || err != nil {
			break
		}
		mark := "ok  "
		if !f.OK {
			mark = "FAIL"
		}
		_, err = fmt.Fprintf(io.out, "%s  %-8s %s\n", mark, f.Name, table.Printable(f.Detail))
		if err == nil && f.Hint != "" {
			_, err = fmt.Fprintf(io.out, "               %s\n", f.Hint)
		}
	}
	if err == nil && !d.OK {
		err = errUnwell
	}
	return err
}
