package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/duration"
	"github.com/kymogram/kymogram/server/internal/logs"
)

func logsCommand(io stdio) *cobra.Command {
	var c connection
	options := logs.Options{Out: io.out, Err: io.err}
	cmd := &cobra.Command{
		Use:   "logs RUN",
		Short: "Print the console of a run",
		Long: `Print the lines that a run wrote to its console, all streams in the order of time.

A Python program keeps them with kymogram.init(capture_console=True), a Go program
with kymogram.NewHandler. Lines of W&B's SDK are there too. A line that was replaced,
such as a progress bar, is printed as it was last.

With --follow new lines are printed until the run ends. A line that is replaced
meanwhile is printed once more when it rests.`,
		Example: `  kymogram logs default/default/brave-otter-7
  kymogram logs default/default/brave-otter-7 --follow --tail 20
  kymogram logs 01ARZ3NDEKTSV4RRFFQ69G5FAV --stream stderr --since 1h --times`,
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if options.Stream != "" && !slices.Contains(logs.Streams, options.Stream) {
				return usagef("--stream is %s, not %q", strings.Join(logs.Streams, ", "), options.Stream)
			}
			if cmd.Flags().Changed("tail") && options.Tail < 0 {
				return usagef("--tail is a number of lines, not %d", options.Tail)
			}
			if options.Server, options.Run, err = c.run(cmd.Context(), io, args[0]); err != nil {
				return err
			}
			options.JSON = c.json
			return logs.Print(cmd.Context(), &options)
		},
	}
	c.addTo(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&options.Follow, "follow", false, "go on with new lines until the run ends")
	flags.StringVar(&options.Stream, "stream", "", "only "+strings.Join(logs.Streams, ", ")+" (default all)")
	flags.IntVar(&options.Tail, "tail", -1, "only the last N lines (default all)")
	flags.Var(duration.Var(&options.Since), "since", "only lines of the last 15m, 1h, 30d or so; 0 all")
	flags.BoolVar(&options.Times, "times", false, "print the time before each line")
	_ = cmd.RegisterFlagCompletionFunc("stream", cobra.FixedCompletions(logs.Streams, cobra.ShellCompDirectiveNoFileComp))
	flags.Lookup("json").Usage = "print a JSON object a line"
	return cmd
}
