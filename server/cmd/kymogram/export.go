package main

import (
	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

type exportFlags struct {
	connection
	transfer.Export
	output string
}

func exportCommand(io stdio) *cobra.Command {
	e := &exportFlags{}
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Write the points of a run as JSON lines, CSV or Parquet",
		Long: `Write the points of a run, series by series in the order of metric, scale and
labels, and each by its step, else by time. Integers are exact; NaN, Infinity
and -Infinity are strings in JSON lines. In CSV a text that a spreadsheet would
take for a formula gets an apostrophe in front. With --include-inherited the
points of a fork's ancestors are among them, under the ids of their own runs.`,
		Example: `  kymogram export default/default/brave-otter-7 > points.jsonl
  kymogram export 01ARZ3NDEKTSV4RRFFQ69G5FAV --format parquet -o points.parquet
  kymogram export lab/digits/lr-3 --metric '^eval/' --format csv -o eval.csv`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := e.Check()
			if e.output == "-" {
				e.output = ""
			}
			switch {
			case err != nil:
				return usageError{err}
			case e.json && e.Format != transfer.JSONL:
				return usagef("--json is --format jsonl, not %s", e.Format)
			case e.Format == transfer.Parquet && e.output == "" && progress.IsTerminal(io.out):
				return usagef("Parquet is no text for a terminal: give -o FILE")
			}
			if e.Server, e.Run, err = e.run(cmd.Context(), io, args[0]); err != nil {
				return err
			}
			return e.Save(cmd.Context(), e.output, io.out, io.err)
		},
	}
	e.addTo(cmd)
	flags := cmd.Flags()
	flags.StringVar(&e.Format, "format", "jsonl", "jsonl (one object a point), csv or parquet")
	flags.StringVar(&e.Metric, "metric", "", "only metrics that match this regular expression (RE2, unanchored)")
	flags.StringVarP(&e.output, "output", "o", "", "write this file; - is the standard output, as without it")
	flags.StringVar(&e.Attempt, "attempt", "", "the number of an attempt, or all (default the curve)")
	flags.BoolVar(&e.Inherited, "include-inherited", false, inheritedHelp)
	flags.Lookup("json").Usage = "the same as --format jsonl"
	return cmd
}
