package main

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
)

// seriesLine is a series as the API lists it.
type seriesLine struct {
	Metric     string            `json:"metric"`
	Scale      string            `json:"scale"`
	Labels     map[string]string `json:"labels"`
	Kind       string            `json:"kind"`
	Axes       []string          `json:"axes"`
	Count      uint64            `json:"count"`
	Superseded uint64            `json:"superseded"`
	Last       *struct {
		Step  *json.Number    `json:"step"`
		Value json.RawMessage `json:"value"`
	} `json:"last"`
}

const inheritedHelp = "also what a fork inherits from the runs that it goes on from"

func seriesCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "series",
		Short: "List the series of a run",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("which one? see kymogram series --help")
		},
	}
	cmd.AddCommand(seriesListCommand(io))
	return cmd
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
	id, err := server.runID(ctx, ref)
	if err != nil {
		return err
	}
	list, err := server.list(ctx, runPath(id, "series"), "series", query, limit)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(io.out, list)
	}
	return printSeries(io, list)
}

func printSeries(io stdio, list *listing) error {
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "METRIC\tSCALE\tLABELS\tKIND\tPOINTS\tLAST STEP\tLAST VALUE")
	for _, raw := range list.items {
		var s seriesLine
		if err := json.Unmarshal(raw, &s); err != nil {
			return fmt.Errorf("read series: %w", err)
		}
		step, value := "-", "-"
		if s.Last != nil {
			value = compact(s.Last.Value)
			if s.Last.Step != nil {
				step = s.Last.Step.String()
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", printable(s.Metric), printable(s.Scale), printable(labelText(s.Labels)), s.Kind, s.Count, step, printable(short(value)))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printMore(io, len(list.items), "series", list.next)
}

func labelText(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return strings.Join(parts, ",")
}

// short cuts a text value to what a table has room for.
func short(s string) string {
	const most = 40
	if runes := []rune(s); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return s
}
