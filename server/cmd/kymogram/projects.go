package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/table"
)

func projectsCommand(io stdio) *cobra.Command {
	var c connection
	cmd := &cobra.Command{
		Use:   "projects",
		Short: "List the projects with their runs, the latest activity first",
		Long: `List the projects that the key may read, with the number of their runs and their
last activity, the latest first. kymogram runs list PROJECT lists the runs of one.`,
		Example: "  kymogram projects\n  kymogram projects --json",
		RunE: func(cmd *cobra.Command, _ []string) error {
			server, err := c.dial(io)
			if err != nil {
				return err
			}
			list, err := server.List(cmd.Context(), "/api/v1/projects", "projects", url.Values{}, 0)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(io.out, list)
			}
			if err := table.Projects(io.out, list.Items); err != nil {
				return err
			}
			printMore(io, len(list.Items), "projects", "")
			return nil
		},
	}
	c.addTo(cmd)
	return cmd
}

// projectOf finds the project that somebody calls WORKSPACE/PROJECT, or PROJECT where one
// workspace has it. Without an argument it is that of the environment.
func projectOf(ctx context.Context, io stdio, server *remote.Client, args []string) (path string, err error) {
	workspace, project := cmp.Or(io.env("KYMOGRAM_WORKSPACE"), "default"), cmp.Or(io.env("KYMOGRAM_PROJECT"), "default")
	if len(args) > 0 {
		if workspace, project, err = splitProject(ctx, server, args[0]); err != nil {
			return "", err
		}
	}
	return url.PathEscape(workspace) + "/" + url.PathEscape(project), nil
}

// splitProject reads WORKSPACE/PROJECT, and asks the server for the workspace of a project alone.
func splitProject(ctx context.Context, server *remote.Client, ref string) (workspace, project string, err error) {
	workspace, project, ok := strings.Cut(ref, "/")
	if ok && workspace != "" && project != "" && !strings.Contains(project, "/") {
		return workspace, project, nil
	}
	if ok || ref == "" {
		return "", "", usagef("%q names no project: give WORKSPACE/PROJECT, or PROJECT where one workspace has it", ref)
	}
	return server.Project(ctx, ref)
}

const (
	newestRuns    = 20  // of all projects
	mostListed    = 200 // projects of which a list of all shows runs
	noProjectHint = "--sort, --cursor, --csv and --column are for the runs of one project: name it (kymogram projects lists them)"
)

// place is a line of the list of projects.
type place struct {
	Workspace string `json:"workspace"`
	Project   string `json:"project"`
	LastNs    int64  `json:"last_ns"`
}

// listNewest lists the newest runs of all projects that a filter leaves.
func (f *listFlags) listNewest(ctx context.Context, io stdio, server *remote.Client, query url.Values) error {
	all, err := server.List(ctx, "/api/v1/projects", "projects", url.Values{}, 0)
	if err != nil {
		return err
	}
	hint := "" // of the newest project: others may have what it has not
	server.Hint = func(text string) { hint = cmp.Or(hint, text) }
	limit := cmp.Or(f.limit, newestRuns)
	newest, left, err := newestOf(ctx, server, all.Items, io.env("KYMOGRAM_WORKSPACE"), query, limit)
	if err != nil {
		return pointed(err, query.Get("q"))
	}
	list := &remote.List{Items: newest[:min(len(newest), limit)]}
	if f.json {
		return printJSON(io.out, map[string]any{"runs": list.Items, "next": nil})
	}
	if err := table.RunsOfAll(io.out, list.Items, io.colour()); err != nil {
		return err
	}
	switch {
	case left > 0:
		fmt.Fprintf(io.err, "%d projects without activity for longer are left out: name one to see its runs\n", left)
	case len(newest) > limit:
		fmt.Fprintf(io.err, "%d shown, the newest of all projects; --limit shows more, kymogram projects lists the projects\n", limit)
	}
	if len(list.Items) == 0 && hint != "" {
		fmt.Fprintln(io.err, hint)
	}
	printMore(io, len(list.Items), "runs", "")
	return nil
}

// newestOf are the newest runs of projects, one more than the limit where there are more. It asks
// those with the latest activity first: none has a run that is newer than its last activity. left
// is how many projects were not asked for being too many.
func newestOf(ctx context.Context, server *remote.Client, projects []json.RawMessage, workspace string, query url.Values, limit int) (runs []json.RawMessage, left int, err error) {
	places := []place{}
	for _, raw := range projects {
		var p place
		if err := json.Unmarshal(raw, &p); err != nil {
			return nil, 0, fmt.Errorf("read the list of projects: %w", err)
		}
		if workspace == "" || p.Workspace == workspace {
			places = append(places, p)
		}
	}
	slices.SortStableFunc(places, func(a, b place) int { return cmp.Compare(b.LastNs, a.LastNs) })
	runs = []json.RawMessage{}
	var times []int64
	for i, p := range places {
		if len(runs) > limit && p.LastNs < times[limit] && !query.Has("deleted") {
			break
		}
		if i == mostListed {
			return runs, len(places) - i, nil
		}
		list, err := server.List(ctx, "/api/v1/projects/"+url.PathEscape(p.Workspace)+"/"+url.PathEscape(p.Project)+"/runs", "runs", query, limit+1)
		if err != nil {
			return nil, 0, err
		}
		query.Del("cursor")
		if runs, times, err = mergeNewest(runs, times, list.Items, limit+1); err != nil {
			return nil, 0, err
		}
	}
	return runs, 0, nil
}

// mergeNewest adds runs to a list that is sorted by their creation, the newest first.
func mergeNewest(runs []json.RawMessage, times []int64, more []json.RawMessage, limit int) ([]json.RawMessage, []int64, error) {
	for _, raw := range more {
		var r struct {
			CreatedNs int64 `json:"created_ns"`
		}
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, nil, fmt.Errorf("read run: %w", err)
		}
		at, _ := slices.BinarySearchFunc(times, r.CreatedNs, func(have, t int64) int { return cmp.Or(cmp.Compare(t, have), -1) })
		runs, times = slices.Insert(runs, at, raw), slices.Insert(times, at, r.CreatedNs)
	}
	return runs[:min(len(runs), limit)], times[:min(len(times), limit)], nil
}
