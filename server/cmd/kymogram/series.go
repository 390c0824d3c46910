package main

import (
	"context"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/table"
)

const inheritedHelp = "also what a fork inherits from the runs that it goes on from"

func seriesCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "series",
		Short: "List the series of a run",
	}, seriesListCommand(io))
}

func seriesListCommand(io stdio) *cobra.Command {
	var c connection
	var metric, cursor string
	var limit int
	var inherited bool
	cmd := &cobra.Command{
		Use:     "list RUN",
		Short:   "List the series of a run with their ends",
		Example: "  kymogram series list default/default/brave-otter-7\n  kymogram series list 01ARZ3NDEKTSV4RRFFQ69G5FAV --metric '^eval/' --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usagef("--limit is %d, it must not be negative", limit)
			}
			query := url.Values{}
			if metric != "" {
				query.Set("q", metric)
			}
			if cursor != "" {
				query.Set("cursor", cursor)
			}
			if inherited {
				query.Set("include_inherited", "1")
			}
			return listSeries(cmd.Context(), io, &c, args[0], query, limit)
		},
	}
	c.addTo(cmd)
	cmd.Flags().StringVar(&metric, "metric", "", "regular expression (RE2, unanchored) on the metric's name")
	cmd.Flags().StringVar(&cursor, "cursor", "", "go on where a list with --limit ended")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many (default all)")
	cmd.Flags().BoolVar(&inherited, "include-inherited", false, inheritedHelp)
	return cmd
}

func listSeries(ctx context.Context, io stdio, c *connection, ref string, query url.Values, limit int) error {
	server, err := c.dial(io)
	if err != nil {
		return err
	}
	id, err := runID(ctx, server, ref)
	if err != nil {
		return err
	}
	list, err := server.List(ctx, remote.RunPath(id, "series"), "series", query, limit)
	if err != nil {
		return err
	}
	return c.printList(io, list, "series", table.Series)
}
