package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	goio "io"
	"net/http"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/internal/remote"
	"github.com/kymogram/kymogram/server/internal/table"
)

func runsCommand(io stdio) *cobra.Command {
	return group(&cobra.Command{
		Use:   "runs",
		Short: "List, show, delete and restore runs",
	}, runsListCommand(io), runsShowCommand(io), runsDeleteCommand(io), runsRestoreCommand(io))
}

func runsListCommand(io stdio) *cobra.Command {
	var f listFlags
	var asCSV bool
	var columns []string
	cmd := &cobra.Command{
		Use:   "list [WORKSPACE/PROJECT]",
		Short: "List the newest runs of all projects, or the runs of one, newest first",
		Long: `List runs, newest first. Without an argument these are the newest 20 of all projects
that the key may read; --limit shows more. Where KYMOGRAM_PROJECT is set, the runs of that
project are listed. With an argument all runs of one project are listed: it is
WORKSPACE/PROJECT, or PROJECT where one workspace has it.
kymogram projects lists the projects.`,
		Example: `  kymogram runs list
  kymogram runs list --status running
  kymogram runs list digits
  kymogram runs list lab/digits --status failed
  kymogram runs list lab/digits --q 'lr>0.01' --sort -last --json
  kymogram runs list lab/digits --csv --column name --column 'min(eval/loss)'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			query, err := f.query()
			if err != nil {
				return err
			}
			if len(columns) > 0 && !asCSV {
				return usagef("--column is for --csv: add --csv, or leave it out")
			}
			if asCSV && (f.json || f.limit > 0 || query.Has("cursor")) {
				return usagef("--csv writes all runs: it takes no --json, --limit or --cursor")
			}
			server, err := f.dial(io)
			if err != nil {
				return err
			}
			if len(args) == 0 && io.env("KYMOGRAM_PROJECT") == "" {
				if asCSV || query.Has("sort") || query.Has("cursor") {
					return usagef("%s", noProjectHint)
				}
				return f.listNewest(cmd.Context(), io, server, query)
			}
			project, err := projectOf(cmd.Context(), io, server, args)
			if err != nil {
				return err
			}
			path := "/api/v1/projects/" + project + "/runs"
			if asCSV {
				query["format"], query["column"] = []string{"csv"}, columns
				return pointed(copyOf(cmd.Context(), io, server, path, query), query.Get("q"))
			}
			list, err := server.List(cmd.Context(), path, "runs", query, f.limit)
			if err != nil {
				return pointed(err, query.Get("q"))
			}
			return f.print(io, list, "runs", func(w goio.Writer, items []json.RawMessage) error { return table.Runs(w, items, io.colour()) })
		},
	}
	f.addTo(cmd)
	for name, usage := range map[string]string{
		"name": "exact name", "tag": "exact tag", "status": "running, finished, failed, interrupted, lost or silent",
		"q": "filter: words, path=value, loss<1, min(loss)<1; or, not, brackets (docs/guides/filter.md)", "sort": "created, name, last, status, an attribute or last(loss), min(loss), …; - in front for descending",
		"cursor": cursorHelp,
	} {
		f.words[name] = cmd.Flags().String(name, "", usage)
	}
	f.marks["deleted"] = cmd.Flags().Bool("deleted", false, "list the trash instead")
	cmd.Flags().BoolVar(&asCSV, "csv", false, "write all runs as CSV (docs/guides/table.md)")
	cmd.Flags().StringArrayVar(&columns, "column", nil, "a column of --csv: name, status, config/lr, last(loss), min(loss), … (repeatable)")
	return cmd
}

// copyOf writes an answer as it comes.
func copyOf(ctx context.Context, io stdio, server *remote.Client, path string, query url.Values) error {
	answer, err := server.Send(ctx, http.MethodGet, path, query, nil)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	if _, err := goio.Copy(io.out, answer.Body); err != nil {
		return fmt.Errorf("the file is not whole: %w", err)
	}
	return nil
}

// pointed shows the place in a filter that the server does not understand.
func pointed(err error, line string) error {
	var e *model.Error
	if !errors.As(err, &e) || e.Column < 1 || e.Column > utf8.RuneCountInString(line)+1 {
		return err
	}
	shown := strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, line)
	return fmt.Errorf("%w\n  %s\n  %s^", err, shown, strings.Repeat(" ", e.Column-1))
}

func runsShowCommand(io stdio) *cobra.Command {
	return runCommand(io, &cobra.Command{
		Use:     "show RUN",
		Short:   "Show everything of one run but its points",
		Example: "  kymogram runs show default/default/brave-otter-7\n  kymogram runs show 01ARZ3NDEKTSV4RRFFQ69G5FAV --json",
	}, func(ctx context.Context, c *remote.Client, id string) (json.RawMessage, error) {
		return c.Document(ctx, http.MethodGet, remote.RunPath(id), nil)
	}, table.Run)
}

func runsDeleteCommand(io stdio) *cobra.Command {
	var now bool
	var name string // a short name may mean another run than its reader thinks
	cmd := runCommand(io, &cobra.Command{
		Use:     "delete RUN",
		Short:   "Move a run to the trash for 7 days, or free it --now",
		Example: "  kymogram runs delete default/default/brave-otter-7\n  kymogram runs delete 01ARZ3NDEKTSV4RRFFQ69G5FAV --now",
	}, func(ctx context.Context, c *remote.Client, id string) (_ json.RawMessage, err error) {
		if name, err = c.RunName(ctx, id); err != nil {
			return nil, err
		}
		query := url.Values{}
		if now {
			query.Set("now", "1")
		}
		return c.Document(ctx, http.MethodDelete, remote.RunPath(id), query)
	}, func(w goio.Writer, doc json.RawMessage) error { return table.Deleted(w, name, doc) })
	cmd.Flags().BoolVar(&now, "now", false, "free its space at once; it cannot be restored")
	return cmd
}

func runsRestoreCommand(io stdio) *cobra.Command {
	return runCommand(io, &cobra.Command{
		Use:     "restore RUN",
		Short:   "Bring a run back from the trash",
		Example: "  kymogram runs restore 01ARZ3NDEKTSV4RRFFQ69G5FAV",
	}, func(ctx context.Context, c *remote.Client, id string) (json.RawMessage, error) {
		return c.Document(ctx, http.MethodPost, remote.RunPath(id, "restore"), nil)
	}, table.Restored)
}

// act does one thing with a run, show prints what the server answered.
type (
	act  func(ctx context.Context, c *remote.Client, id string) (json.RawMessage, error)
	show func(w goio.Writer, doc json.RawMessage) error
)

// runCommand fills in a command that does one thing with one run.
func runCommand(io stdio, cmd *cobra.Command, do act, tell show) *cobra.Command {
	var c connection
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		server, id, err := c.run(cmd.Context(), io, args[0])
		if err != nil {
			return err
		}
		doc, err := do(cmd.Context(), server, id)
		if err != nil {
			return err
		}
		if c.json {
			return printJSON(io.out, doc)
		}
		return tell(io.out, doc)
	}
	c.addTo(cmd)
	return cmd
}
