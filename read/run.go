package read

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/url"
	"strconv"

	"github.com/kymogram/kymogram/internal/model"
)

// Status is what became of a run.
type Status = model.RunStatus

// The statuses of a run.
const (
	Running  = model.StatusRunning
	Finished = model.StatusFinished
	Failed   = model.StatusFailed
	// Interrupted by SIGINT or SIGTERM.
	Interrupted = model.StatusInterrupted
	Lost        = model.StatusLost   // its process is gone without a word
	Silent      = model.StatusSilent // nothing comes any more, by a protocol that has no end
)

// Value is an attribute's value: its Type says which field holds it.
type Value = model.Value

// Project is a workspace and project with runs.
type Project struct {
	Workspace string `json:"workspace"`
	Project   string `json:"project"`
	Runs      int64  `json:"runs"`
	LastNs    int64  `json:"last_ns"`
}

// Run is a run as the server knew it when it was read. [Run.Config] and [Run.Summary] have
// its configuration and its last values.
type Run struct {
	ID          string   `json:"id"`
	Workspace   string   `json:"workspace"`
	Project     string   `json:"project"`
	Name        string   `json:"name"`
	DisplayName string   `json:"display_name"`
	Status      Status   `json:"status"`
	Tags        []string `json:"tags"`
	Description string   `json:"description"`
	CreatedNs   int64    `json:"created_ns"`
	LastNs      int64    `json:"last_ns"`
	Attempt     int64    `json:"attempt"`

	// ParentRun is the name of the run that it was forked from, ForkStep the last
	// step that it inherits; empty and nil for a run that is no fork.
	ParentRun string `json:"parent_run"`
	ForkStep  *int64 `json:"fork_step"`

	// Values are those of [RunFilter.Columns], where the run has one: a bool, string, int64,
	// float64 or []string, as in [Run.Config].
	Values map[string]any `json:"-"`

	client *Client
	brief  brief
}

// Lineage is where a run comes from and what was forked from it.
type Lineage struct {
	Ancestors []Relative `json:"ancestors"` // nearest first, as far as they can be read
	// Broken is the ancestor that cannot be read, with the reason: not_found,
	// run_deleted or permission_denied.
	Broken *struct {
		Name string `json:"name"`
		Code string `json:"code"`
	} `json:"broken"`
	Forks []Relative `json:"forks"` // oldest first, at most 1,000
}

// Relative is a run of a lineage.
type Relative struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	DisplayName string `json:"display_name"`
	UpTo        *int64 `json:"up_to"`     // of an ancestor: the last step that is inherited, nil for all
	ForkStep    *int64 `json:"fork_step"` // of a fork
}

// Lineage reads the run's ancestors and forks.
func (r *Run) Lineage(ctx context.Context) (*Lineage, error) {
	var doc struct {
		Lineage Lineage `json:"lineage"`
	}
	if err := r.client.get(ctx, r.path(""), nil, &doc); err != nil {
		return nil, err
	}
	return &doc.Lineage, nil
}

// RunFilter selects runs of a project; the zero value is all, newest first.
type RunFilter struct {
	// Query is the page's one-line filter: words match name and tags, lr<0.1 and
	// status=failed compare; `or`, `not` and brackets join (docs/guides/filter.md).
	Query  string
	Name   string // exact
	Tag    string
	Status Status
	// Sort is created, name, last, status or the path of an attribute; - in front
	// for descending.
	Sort    string
	Deleted bool // the trash instead
	// Columns fill [Run.Values]: paths of attributes, and last(loss), min(loss), at(loss, 1000).
	Columns []string
}

func (f *RunFilter) query() url.Values {
	query := url.Values{}
	for name, value := range map[string]string{"q": f.Query, "name": f.Name, "tag": f.Tag, "status": string(f.Status), "sort": f.Sort} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.Deleted {
		query.Set("deleted", "1")
	}
	if len(f.Columns) > 0 {
		query["column"] = f.Columns
	}
	return query
}

func runsPath(workspace, project string) string {
	return "/api/v1/projects/" + url.PathEscape(workspace) + "/" + url.PathEscape(project) + "/runs"
}

// Projects lists what the key may read.
func (c *Client) Projects(ctx context.Context) iter.Seq2[Project, error] {
	return pages[Project](ctx, c, "/api/v1/projects", "projects", url.Values{})
}

// Runs lists the runs of a workspace's project.
func (c *Client) Runs(ctx context.Context, workspace, project string, filter RunFilter) iter.Seq2[*Run, error] {
	return func(yield func(*Run, error) bool) {
		for run, err := range pages[Run](ctx, c, runsPath(workspace, project), "runs", filter.query()) {
			if err != nil {
				yield(nil, err)
				return
			}
			run.client = c
			if !yield(&run, nil) {
				return
			}
		}
	}
}

// Run reads one run by its id, an alias, workspace/project/name, or less of it where that means
// one run only: project/name, the name or the display name. The error for a name of several
// lists them.
func (c *Client) Run(ctx context.Context, ref string) (*Run, error) {
	var found struct {
		ID string `json:"id"`
	}
	if err := c.get(ctx, "/api/v1/resolve", url.Values{"run": {ref}}, &found); err != nil {
		return nil, err
	}
	run := &Run{client: c}
	return run, c.get(ctx, "/api/v1/runs/"+url.PathEscape(found.ID), nil, run)
}

// Project finds the workspace and the project of a project's name, where one workspace has it.
func (c *Client) Project(ctx context.Context, name string) (workspace, project string, err error) {
	return c.server.Project(ctx, name)
}

// ByID is the run of an id without asking the server: of its fields only ID is set.
// What is read of it fails as an *Error when there is no such run.
func (c *Client) ByID(id string) *Run { return &Run{ID: id, client: c} }

func (r *Run) path(part string) string { return "/api/v1/runs/" + url.PathEscape(r.ID) + part }

// Attributes reads every attribute of the run by its path.
func (r *Run) Attributes(ctx context.Context) (map[string]Value, error) {
	var doc struct {
		Attributes []json.RawMessage `json:"attributes"`
	}
	if err := r.client.get(ctx, r.path(""), nil, &doc); err != nil {
		return nil, err
	}
	out := make(map[string]Value, len(doc.Attributes))
	for _, raw := range doc.Attributes {
		var name struct {
			Path string `json:"path"`
		}
		var value Value
		if err := json.Unmarshal(raw, &name); err != nil {
			return nil, fmt.Errorf("read an attribute: %w", err)
		}
		if err := json.Unmarshal(raw, &value); err != nil {
			return nil, fmt.Errorf("read the attribute %s: %w", name.Path, err)
		}
		out[name.Path] = value
	}
	return out, nil
}

// pages ranges over a list, fetching a page when the one before is used up. An
// error is the last thing that it yields.
func pages[T any](ctx context.Context, c *Client, path, field string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		query := cloneQuery(query)
		query.Set("limit", strconv.Itoa(listPage))
		for {
			items, next, err := page[T](ctx, c, path, field, query)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
			if next == "" {
				return
			}
			query.Set("cursor", next)
		}
	}
}

// page reads one page of a list, and where the next one begins.
func page[T any](ctx context.Context, c *Client, path, field string, query url.Values) (items []T, next string, err error) {
	var doc map[string]json.RawMessage
	if err := c.get(ctx, path, query, &doc); err != nil {
		return nil, "", err
	}
	if err := decode(doc[field], &items); err != nil {
		return nil, "", err
	}
	err = decode(doc["next"], &next)
	return items, next, err
}

// decode reads a field of an answer; an absent one leaves into as it is.
func decode(raw json.RawMessage, into any) error {
	if raw == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read the server's answer: %w", err)
	}
	return nil
}

func cloneQuery(query url.Values) url.Values {
	out := make(url.Values, len(query)+2)
	for name, values := range query {
		out[name] = values
	}
	return out
}
