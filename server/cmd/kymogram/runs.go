package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/kymogram/kymogram/internal/model"
)

func runsCommand(io stdio) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "List, show, delete and restore runs",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			return usagef("which one? see kymogram runs --help")
		},
	}
	cmd.AddCommand(runsListCommand(io), runsShowCommand(io), runsDeleteCommand(io), runsRestoreCommand(io))
	return cmd
}

// runLine is what tables show of a run.
type runLine struct {
	ID          string                     `json:"id"`
	Workspace   string                     `json:"workspace"`
	Project     string                     `json:"project"`
	Name        string                     `json:"name"`
	DisplayName string                     `json:"display_name"`
	Description string                     `json:"description"`
	Status      string                     `json:"status"`
	Tags        []string                   `json:"tags"`
	CreatedNs   int64                      `json:"created_ns"`
	LastNs      int64                      `json:"last_ns"`
	DurationMs  int64                      `json:"duration_ms"`
	Config      map[string]json.RawMessage `json:"config"`
	Summary     map[string]struct {
		Step  *int64          `json:"step"`
		Value json.RawMessage `json:"value"`
	} `json:"summary"`
}

func runsListCommand(io stdio) *cobra.Command {
	var c connection
	var limit int
	query := map[string]*string{"name": nil, "tag": nil, "status": nil, "q": nil, "sort": nil, "cursor": nil}
	var deleted bool
	cmd := &cobra.Command{
		Use:   "list [WORKSPACE/PROJECT]",
		Short: "List the runs of a project, newest first",
		Example: `  kymogram runs list
  kymogram runs list lab/digits --status failed
  kymogram runs list lab/digits --q 'lr>0.01' --sort -last --json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			project, err := projectOf(io, args)
			if err != nil {
				return err
			}
			values := url.Values{}
			for name, value := range query {
				if *value != "" {
					values.Set(name, *value)
				}
			}
			if deleted {
				values.Set("deleted", "1")
			}
			return listRuns(cmd.Context(), io, &c, project, values, limit)
		},
	}
	c.addTo(cmd)
	help := map[string]string{
		"name": "exact name", "tag": "exact tag", "status": "running, finished, failed, lost or silent",
		"q": "filter: words, or path=value, path<value, path>value", "sort": "created, name, last, status or an attribute; - in front for descending",
		"cursor": "go on where a list with --limit ended",
	}
	for name := range query {
		query[name] = cmd.Flags().String(name, "", help[name])
	}
	cmd.Flags().BoolVar(&deleted, "deleted", false, "list the trash instead")
	cmd.Flags().IntVar(&limit, "limit", 0, "at most so many (default all)")
	return cmd
}

// projectOf reads WORKSPACE/PROJECT, from the environment when it is not given.
func projectOf(io stdio, args []string) (string, error) {
	workspace, project := cmp.Or(io.env("KYMOGRAM_WORKSPACE"), "default"), cmp.Or(io.env("KYMOGRAM_PROJECT"), "default")
	if len(args) > 0 {
		var ok bool
		if workspace, project, ok = strings.Cut(args[0], "/"); !ok || workspace == "" || project == "" || strings.Contains(project, "/") {
			return "", usagef("%q names no project: give WORKSPACE/PROJECT", args[0])
		}
	}
	return url.PathEscape(workspace) + "/" + url.PathEscape(project), nil
}

func listRuns(ctx context.Context, io stdio, c *connection, project string, query url.Values, limit int) error {
	if limit < 0 {
		return usagef("--limit is %d, it must not be negative", limit)
	}
	server, err := c.dial(io)
	if err != nil {
		return err
	}
	list, err := server.list(ctx, "/api/v1/projects/"+project+"/runs", "runs", query, limit)
	if err != nil {
		return err
	}
	if c.json {
		return printJSON(io.out, list)
	}
	return printRuns(io, list)
}

func printRuns(io stdio, list *listing) error {
	colour := newPalette(io)
	w := tabwriter.NewWriter(io.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s\tNAME\tCREATED\tDURATION\tTAGS\tID\n", colour.cell("STATUS", ""))
	for _, raw := range list.items {
		var r runLine
		if err := json.Unmarshal(raw, &r); err != nil {
			return fmt.Errorf("read run: %w", err)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", colour.cell(r.Status, r.Status), printable(cmp.Or(r.DisplayName, r.Name)),
			when(r.CreatedNs), duration(r.DurationMs), printable(strings.Join(r.Tags, ",")), r.ID)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return printMore(io, len(list.items), "runs", list.next)
}

// printMore says on stderr how many lines there were and how to see the rest.
func printMore(io stdio, n int, what, next string) error {
	switch {
	case next != "":
		fmt.Fprintf(io.err, "%d %s shown; there are more: --cursor %s\n", n, what, next)
	case n == 0:
		fmt.Fprintf(io.err, "no %s\n", what)
	}
	return nil
}

func duration(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	if d >= time.Minute {
		return d.Round(time.Second).String()
	}
	return d.Round(100 * time.Millisecond).String()
}

// palette colours the status on a terminal. Every cell gets escapes of one
// length, so that columns stay aligned.
type palette struct{ on bool }

func newPalette(io stdio) palette { return palette{isTerminal(io.out) && io.env("NO_COLOR") == ""} }

func (p palette) cell(text, status string) string {
	if !p.on {
		return text
	}
	code := map[string]string{"running": "36", "finished": "32", "failed": "31", "lost": "33", "silent": "90"}[status]
	return "\x1b[" + cmp.Or(code, "39") + "m" + text + "\x1b[0m"
}

func runsShowCommand(io stdio) *cobra.Command {
	return runCommand(io, &cobra.Command{
		Use:     "show RUN",
		Short:   "Show everything of one run but its points",
		Example: "  kymogram runs show default/default/brave-otter-7\n  kymogram runs show 01ARZ3NDEKTSV4RRFFQ69G5FAV --json",
	}, func(ctx context.Context, c *client, id string) (json.RawMessage, error) {
		return c.document(ctx, http.MethodGet, runPath(id), nil)
	}, printRun)
}

func runsDeleteCommand(io stdio) *cobra.Command {
	var now bool
	cmd := runCommand(io, &cobra.Command{
		Use:     "delete RUN",
		Short:   "Move a run to the trash for 7 days, or free it --now",
		Example: "  kymogram runs delete default/default/brave-otter-7\n  kymogram runs delete 01ARZ3NDEKTSV4RRFFQ69G5FAV --now",
	}, func(ctx context.Context, c *client, id string) (json.RawMessage, error) {
		query := url.Values{}
		if now {
			query.Set("now", "1")
		}
		return c.document(ctx, http.MethodDelete, runPath(id), query)
	}, printDeleted)
	cmd.Flags().BoolVar(&now, "now", false, "free its space at once; it cannot be restored")
	return cmd
}

func runsRestoreCommand(io stdio) *cobra.Command {
	return runCommand(io, &cobra.Command{
		Use:     "restore RUN",
		Short:   "Bring a run back from the trash",
		Example: "  kymogram runs restore 01ARZ3NDEKTSV4RRFFQ69G5FAV",
	}, func(ctx context.Context, c *client, id string) (json.RawMessage, error) {
		return c.document(ctx, http.MethodPost, runPath(id, "restore"), nil)
	}, printRestored)
}

// act does one thing with a run, show prints what the server answered.
type (
	act  func(ctx context.Context, c *client, id string) (json.RawMessage, error)
	show func(w io.Writer, doc json.RawMessage) error
)

// runCommand fills in a command that does one thing with one run.
func runCommand(io stdio, cmd *cobra.Command, do act, tell show) *cobra.Command {
	var c connection
	cmd.Args = cobra.ExactArgs(1)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		server, err := c.dial(io)
		if err != nil {
			return err
		}
		id, err := server.runID(cmd.Context(), args[0])
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

func printRestored(w io.Writer, doc json.RawMessage) error {
	var r runLine
	if err := json.Unmarshal(doc, &r); err != nil {
		return fmt.Errorf("read run: %w", err)
	}
	_, err := fmt.Fprintf(w, "restored %s/%s/%s (%s)\n", r.Workspace, r.Project, printable(r.Name), r.ID)
	return err
}

func printDeleted(w io.Writer, doc json.RawMessage) error {
	var d struct {
		ID    string `json:"id"`
		Freed bool   `json:"freed"`
	}
	if err := json.Unmarshal(doc, &d); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	if d.Freed {
		_, err := fmt.Fprintf(w, "deleted %s for good\n", d.ID)
		return err
	}
	_, err := fmt.Fprintf(w, "moved %s to the trash for 7 days; `kymogram runs restore %s` brings it back\n", d.ID, d.ID)
	return err
}

// runDetail is what `runs show` prints beside a runLine.
type runDetail struct {
	runLine
	Series   uint64 `json:"series"`
	Points   uint64 `json:"points"`
	Attempts []struct {
		Number uint32 `json:"number"`
	} `json:"attempts"`
	Writers []struct {
		ID      string `json:"id"`
		Attempt uint32 `json:"attempt"`
		State   string `json:"state"`
		Host    string `json:"host"`
		PID     int64  `json:"pid"`
		Rank    *int64 `json:"rank"`
	} `json:"writers"`
	Ledger struct {
		Logged     uint64  `json:"logged"`
		Stored     uint64  `json:"stored"`
		Superseded uint64  `json:"superseded"`
		Refused    uint64  `json:"refused"`
		Dropped    uint64  `json:"dropped"`
		Spooled    *uint64 `json:"spooled"`

		Skipped []model.Skipped `json:"skipped"`
		Damaged []model.Damage  `json:"damaged"`
	} `json:"ledger"`
	Shared  []model.SharedEnvironment `json:"shared_environments"`
	Lineage struct {
		Ancestors []struct {
			Name string `json:"name"`
			UpTo *int64 `json:"up_to"`
		} `json:"ancestors"`
		Broken *struct {
			Name string     `json:"name"`
			Code model.Code `json:"code"`
		} `json:"broken"`
		Forks []struct {
			Name string `json:"name"`
			Step *int64 `json:"fork_step"`
		} `json:"forks"`
	} `json:"lineage"`
}

// who names a writer by its host, process and rank.
func (r *runDetail) who(id model.WriterID) string {
	for _, w := range r.Writers {
		if w.ID == id.String() {
			return fmt.Sprintf("%s (%s pid %d%s)", w.ID[:8], w.Host, w.PID, rankText(w.Rank))
		}
	}
	return id.String()[:8]
}

func printRun(out io.Writer, doc json.RawMessage) error {
	var r runDetail
	if err := json.Unmarshal(doc, &r); err != nil {
		return fmt.Errorf("read run: %w", err)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	line := func(name, format string, args ...any) {
		fmt.Fprintf(w, "%s\t%s\n", name, printable(fmt.Sprintf(format, args...)))
	}
	line("run", "%s/%s/%s", r.Workspace, r.Project, r.Name)
	line("id", "%s", r.ID)
	line("status", "%s", r.Status)
	if r.DisplayName != "" && r.DisplayName != r.Name {
		line("display name", "%s", r.DisplayName)
	}
	if r.Description != "" {
		line("description", "%s", r.Description)
	}
	line("tags", "%s", cmp.Or(strings.Join(r.Tags, ", "), "-"))
	last := "ended"
	if r.Status == string(model.StatusRunning) {
		last = "last sign of life"
	}
	line("created", "%s, %s %s, %s", when(r.CreatedNs), last, when(r.LastNs), duration(r.DurationMs))
	for _, a := range r.Lineage.Ancestors {
		line("goes on from", "%s%s", a.Name, stepText(", up to step ", a.UpTo))
	}
	if b := r.Lineage.Broken; b != nil {
		line("goes on from", "%s, which cannot be read (%s)", b.Name, b.Code)
	}
	for _, f := range r.Lineage.Forks {
		line("fork", "%s%s", f.Name, stepText(" at step ", f.Step))
	}
	line("holds", "%d series, %d points, %d attempts", r.Series, r.Points, len(r.Attempts))
	l := r.Ledger
	spooled := "unknown" // a client that is not connected
	if l.Spooled != nil {
		spooled = strconv.FormatUint(*l.Spooled, 10)
	}
	line("ledger", "%d logged, %s spooled, %d stored, %d superseded, %d refused, %d dropped", l.Logged, spooled, l.Stored, l.Superseded, l.Refused, l.Dropped)
	for _, s := range l.Skipped {
		line("skipped", "records %d to %d (%s)", s.First, s.Last, s.Reason)
	}
	for _, d := range l.Damaged {
		line("damaged", "%d points from %s to %s in %s cannot be read", d.Points, when(d.MinTimeNs), when(d.MaxTimeNs), d.File)
	}
	for _, s := range r.Shared {
		line("shared", "environment %s is logged by %s and by %s at once: their steps mix", s.Env, r.who(s.Writers[0]), r.who(s.Writers[1]))
	}
	for _, wr := range r.Writers {
		line("writer", "%s %s, attempt %d, %s pid %d%s", wr.ID[:min(8, len(wr.ID))], wr.State, wr.Attempt, wr.Host, wr.PID, rankText(wr.Rank))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Config)) {
		line("config "+printable(name), "%s", compact(r.Config[name]))
	}
	for _, metric := range slices.Sorted(maps.Keys(r.Summary)) {
		line("last "+printable(metric), "%s", compact(r.Summary[metric].Value))
	}
	return w.Flush()
}

func stepText(before string, step *int64) string {
	if step == nil {
		return ""
	}
	return before + strconv.FormatInt(*step, 10)
}

func rankText(rank *int64) string {
	if rank == nil {
		return ""
	}
	return fmt.Sprintf(", rank %d", *rank)
}

// compact shows a JSON value on one line, strings without quotes.
func compact(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return string(raw)
	}
	return b.String()
}
