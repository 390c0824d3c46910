package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/server/internal/progress"
	"github.com/kymogram/kymogram/server/internal/top"
)

func topCommand(io stdio) *cobra.Command {
	var c connection
	var options top.Options
	var once bool
	cmd := &cobra.Command{
		Use:   "top RUN",
		Short: "Watch the metrics of a run in the terminal",
		Long: `Watch the metrics of a run in the terminal: the last value and the curve of each,
live. Keys: q quits, / filters, s sorts, x changes the axis, w shows the end of the
curves, arrows and PgUp, PgDn scroll, ? lists all keys.

With --once, or when the output is not a terminal, one table is printed. ▲ and ▼
mark values far outside the rest of a curve, × marks points without a finite value.`,
		Example: `  kymogram top default/default/brave-otter-7
  kymogram top lab/digits/lr-3 --metric '^eval/' --sort newest
  kymogram top 01ARZ3NDEKTSV4RRFFQ69G5FAV --once --axis time_ns
  kymogram top lab/digits/lr-3 --json | jq '.metrics[] | select(.nan > 0)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := options.Check()
			if err != nil {
				return usageError{err}
			}
			if options.Server, options.Run, err = c.run(cmd.Context(), io, args[0]); err != nil {
				return err
			}
			in, isFile := io.in.(*os.File)
			if !once && !c.json && isFile && progress.IsTerminal(in) && progress.IsTerminal(io.out) {
				options.Colour = io.colour()
				return top.Show(cmd.Context(), in, io.out.(*os.File), options)
			}
			shot, err := top.Once(cmd.Context(), options)
			if err == nil && c.json {
				return printJSON(io.out, shot.Document())
			}
			return tell(io, false, shot, err)
		},
	}
	c.addTo(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&once, "once", false, "print one table and end")
	flags.StringVar(&options.Metric, "metric", "", "only metrics that match this regular expression (RE2, unanchored)")
	flags.StringVar(&options.Sort, "sort", "name", "name, newest, value or points")
	flags.StringVar(&options.Axis, "axis", "", "axis of the curves: step, time_ns, … (default the usual one of each metric)")
	// Registered first, it stands: elsewhere --sort orders runs.
	_ = cmd.RegisterFlagCompletionFunc("sort", cobra.FixedCompletions(top.Sorts, cobra.ShellCompDirectiveNoFileComp))
	flags.Lookup("json").Usage = "print one JSON document and end"
	return cmd
}
