package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/table"
	"github.com/kymogram/kymogram/server/internal/transfer"
)

func renderingsCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "renderings",
		Short: "List and download the videos of a run",
	}, renderingsListCommand(io), renderingsExportCommand(io))
}

// renderingChoice are the flags that select videos.
type renderingChoice struct {
	env, tag string
	episode  int64
	limit    int
}

func (r *renderingChoice) addTo(cmd *cobra.Command) {
	cmd.Flags().StringVar(&r.env, "env", "", "of this environment only")
	cmd.Flags().StringVar(&r.tag, "tag", "", "with this tag only")
	cmd.Flags().Int64Var(&r.episode, "episode", -1, "of this episode only")
	cmd.Flags().IntVar(&r.limit, "limit", 0, "at most so many (default all)")
}

func (r *renderingChoice) query() (url.Values, error) {
	query := url.Values{}
	for name, value := range map[string]string{"env_id": r.env, "tag": r.tag} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if r.episode >= 0 {
		query.Set("episode", strconv.FormatInt(r.episode, 10))
	}
	if r.limit < 0 {
		return nil, usagef("--limit is %d, it must not be negative", r.limit)
	}
	return query, nil
}

func renderingsListCommand(io stdio) *cobra.Command {
	var c connection
	var choice renderingChoice
	cmd := &cobra.Command{
		Use:     "list RUN",
		Short:   "List the videos of a run, by environment, episode and time",
		Example: "  kymogram renderings list default/rl/brave-otter-7\n  kymogram renderings list 01ARZ3NDEKTSV4RRFFQ69G5FAV --env env0 --tag crash --json",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, list, err := fetchRenderings(cmd.Context(), io, &c, args[0], &choice)
			if err != nil {
				return err
			}
			return c.printList(io, list, "renderings", table.Renderings)
		},
	}
	c.addTo(cmd)
	choice.addTo(cmd)
	return cmd
}

func fetchRenderings(ctx context.Context, io stdio, c *connection, ref string, choice *renderingChoice) (*remote.Client, *remote.List, error) {
	query, err := choice.query()
	if err != nil {
		return nil, nil, err
	}
	server, err := c.dial(io)
	if err != nil {
		return nil, nil, err
	}
	id, err := runID(ctx, server, ref)
	if err != nil {
		return nil, nil, err
	}
	list, err := server.List(ctx, remote.RunPath(id, "renderings"), "renderings", query, choice.limit)
	return server, list, err
}

func renderingsExportCommand(io stdio) *cobra.Command {
	var c connection
	var choice renderingChoice
	var out string
	cmd := &cobra.Command{
		Use:   "export RUN",
		Short: "Download the videos of a run into a folder",
		Long: `Writes ENVIRONMENT_EPISODE.mp4 for each video; several of one episode are
numbered. A file that is there with the same bytes is not fetched again; none is
overwritten. The bytes are checked by their SHA-256.`,
		Example: "  kymogram renderings export default/rl/brave-otter-7 --out videos\n  kymogram renderings export 01ARZ3NDEKTSV4RRFFQ69G5FAV --out videos --tag crash",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			server, list, err := fetchRenderings(cmd.Context(), io, &c, args[0], &choice)
			if err != nil {
				return err
			}
			report, err := transfer.Download(cmd.Context(), server, list.Items, out)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(io.out, report)
			}
			_, err = fmt.Fprintf(io.out, "%d videos in %s, %d were there, %d on their way, %d lost\n", report.Written, out, report.There, report.OnTheirWay, report.Lost)
			return err
		},
	}
	c.addTo(cmd)
	choice.addTo(cmd)
	cmd.Flags().StringVar(&out, "out", "renderings", "the folder")
	return cmd
}
