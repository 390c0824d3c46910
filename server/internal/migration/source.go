package migration

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/loose"
)

// Place is a project of a W&B server, or of Kymogram.
type Place struct{ Entity, Project string }

func (p Place) String() string { return p.Entity + "/" + p.Project }

// Source reads from a W&B server.
type Source struct{ *Client }

// pageOfNames is how many runs a list has a page, pageOfRuns how many are asked for at once.
const (
	pageOfNames = 100
	pageOfRuns  = 25
)

// count is a number that some answers have as a text, or not at all.
type count int64

// UnmarshalJSON implements [json.Unmarshaler].
func (c *count) UnmarshalJSON(b []byte) error {
	text := strings.Trim(string(b), `"`)
	if text == "null" || text == "" {
		return nil
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(f) {
		return fmt.Errorf("%q is no number", text)
	}
	*c = count(min(max(f, -1<<53), 1<<53))
	return nil
}

// page ends a page of a list.
type pageInfo struct {
	EndCursor   string `json:"endCursor"`
	HasNextPage bool   `json:"hasNextPage"`
}

// next is the cursor of the page after one, "" after the last.
func (p pageInfo) next(before string) string {
	if !p.HasNextPage || p.EndCursor == before {
		return ""
	}
	return p.EndCursor
}

// Projects lists the projects of an entity.
func (s *Source) Projects(ctx context.Context, entity string) (names []string, err error) {
	const document = `query Projects($entity: String, $cursor: String, $perPage: Int = 50) {
		models(entityName: $entity, after: $cursor, first: $perPage) { edges { node { name } } pageInfo { endCursor hasNextPage } } }`
	for cursor := ""; ; {
		var doc struct {
			Models *struct {
				Edges []struct {
					Node struct{ Name string }
				}
				PageInfo pageInfo
			}
		}
		variables := map[string]any{"entity": entity, "perPage": pageOfNames}
		if cursor != "" {
			variables["cursor"] = cursor
		}
		if err := s.Query(ctx, document, variables, maxAnswer, &doc); err != nil {
			return nil, err
		}
		if doc.Models == nil {
			return nil, model.Errorf(model.CodeNotFound, "%s has no entity %s, or the key may not read it", s.Name, model.Clip(entity))
		}
		for _, e := range doc.Models.Edges {
			names = append(names, e.Node.Name)
		}
		if cursor = doc.Models.PageInfo.next(cursor); cursor == "" {
			return names, nil
		}
	}
}

// listed is a run of a list: its id, which W&B calls its name, and the rows of its history.
type listed struct {
	Name string `json:"name"`
	Rows count  `json:"historyLineCount"`
}

// list names the runs of a project that a filter takes, oldest first. A filter is W&B's, as
// of Api().runs(filters=…).
func (s *Source) list(ctx context.Context, at Place, filter string) (all []listed, err error) {
	const document = `query Runs($project: String!, $entity: String!, $cursor: String, $perPage: Int = 50, $order: String, $filters: JSONString) {
		project(name: $project, entityName: $entity) {
			runs(filters: $filters, after: $cursor, first: $perPage, order: $order) { edges { node { name historyLineCount } } pageInfo { endCursor hasNextPage } } } }`
	for cursor := ""; ; {
		var doc struct {
			Project *struct {
				Runs struct {
					Edges    []struct{ Node listed }
					PageInfo pageInfo
				}
			}
		}
		variables := map[string]any{"project": at.Project, "entity": at.Entity, "perPage": pageOfNames, "order": "+created_at", "filters": filter}
		if cursor != "" {
			variables["cursor"] = cursor
		}
		if err := s.Query(ctx, document, variables, maxAnswer, &doc); err != nil {
			return nil, err
		}
		if doc.Project == nil {
			return nil, s.noProject(at)
		}
		for _, e := range doc.Project.Runs.Edges {
			all = append(all, e.Node)
		}
		if cursor = doc.Project.Runs.PageInfo.next(cursor); cursor == "" {
			return all, nil
		}
	}
}

func (s *Source) noProject(at Place) error {
	return model.Errorf(model.CodeNotFound, "%s has no project %s, or the key may not read it", s.Name, model.Clip(at.String())).
		WithHint("A project is ENTITY/PROJECT, as in the address of its page.")
}

// foreignRun is a run as W&B has it.
type foreignRun struct {
	Name        string   `json:"name"`
	DisplayName string   `json:"displayName"`
	State       string   `json:"state"`
	Tags        []string `json:"tags"`
	Group       string   `json:"group"`
	JobType     string   `json:"jobType"`
	SweepName   string   `json:"sweepName"`
	Commit      string   `json:"commit"`
	CreatedAt   string   `json:"createdAt"`
	HeartbeatAt string   `json:"heartbeatAt"`
	Description string   `json:"description"`
	Notes       string   `json:"notes"`
	Config      string   `json:"config"`
	Summary     string   `json:"summaryMetrics"`
	Rows        count    `json:"historyLineCount"`
	User        *struct {
		Name     string `json:"name"`
		Username string `json:"username"`
	} `json:"user"`
}

const runFields = `name displayName state tags group jobType sweepName commit createdAt heartbeatAt description notes config summaryMetrics historyLineCount user { name username }`

// notes are those of a run. Older clients wrote them into its description.
func (r *foreignRun) notes() string {
	if r.Notes == "" {
		return r.Description
	}
	return r.Notes
}

func (r *foreignRun) username() string {
	if r.User == nil {
		return ""
	}
	if r.User.Username == "" {
		return r.User.Name
	}
	return r.User.Username
}

// digest names all that the source says of a run: one that has it still was not changed.
func (r *foreignRun) digest() string {
	text, _ := json.Marshal(r) // plain values
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:16])
}

// branch is the step that a run was rewound to, and goes on from.
func (r *foreignRun) branch() (step float64, ok bool) {
	point, found := loose.Get([]byte(r.Config), "_wandb", "value", "branch_point")
	if !found {
		return 0, false
	}
	name, _ := loose.Get(point, "run_id")
	at, _ := loose.Get(point, "step")
	id, _ := loose.Text(name)
	step, exact := loose.Float(at)
	return step, id == r.Name && exact
}

// runs reads runs by their names. One that is gone is nil.
func (s *Source) runs(ctx context.Context, at Place, names []string) (map[string]*foreignRun, error) {
	document, variables := aliased("Runs", runFields, at, names)
	var doc struct {
		Project map[string]*foreignRun `json:"project"`
	}
	err := s.Query(ctx, document, variables, maxAnswer, &doc)
	if model.CodeOf(err) == model.CodeTooLarge && len(names) > 1 {
		half := len(names) / 2
		first, err := s.runs(ctx, at, names[:half])
		if err != nil {
			return nil, err
		}
		second, err := s.runs(ctx, at, names[half:])
		for name, run := range second {
			first[name] = run
		}
		return first, err
	}
	if err != nil {
		return nil, err
	}
	if doc.Project == nil {
		return nil, s.noProject(at)
	}
	return byName(doc.Project, names), nil
}

// aliased asks for fields of several runs at once.
func aliased(operation, fields string, at Place, names []string) (document string, variables map[string]any) {
	var head, body strings.Builder
	variables = map[string]any{"project": at.Project, "entity": at.Entity}
	for i, name := range names {
		fmt.Fprintf(&head, ", $n%d: String!", i)
		fmt.Fprintf(&body, " r%d: run(name: $n%d) { ...Fields }", i, i)
		variables["n"+strconv.Itoa(i)] = name
	}
	return "query " + operation + "($project: String!, $entity: String!" + head.String() + ") { project(name: $project, entityName: $entity) {" +
		body.String() + " } } fragment Fields on Run { " + fields + " }", variables
}

func byName[T any](found map[string]*T, names []string) map[string]*T {
	out := make(map[string]*T, len(names))
	for i, name := range names {
		if run := found["r"+strconv.Itoa(i)]; run != nil {
			out[name] = run
		}
	}
	return out
}

// extent says how much a run has.
type extent struct {
	Rows   count           `json:"historyLineCount"`
	Events count           `json:"eventsLineCount"`
	Keys   json.RawMessage `json:"historyKeys"`
}

// last is the greatest step of the history, where the server says it.
func (e *extent) last() (step int64, ok bool) {
	var doc struct {
		LastStep *float64 `json:"lastStep"`
	}
	if json.Unmarshal(e.Keys, &doc) != nil || doc.LastStep == nil {
		return 0, false
	}
	return int64(min(max(*doc.LastStep, -1), 1<<62)), true
}

// oneRun wraps fields of one run.
func oneRun(head, fields string) string {
	return "query " + head + " { project(name: $project, entityName: $entity) { run(name: $run) { " + fields + " } } }"
}

// one is an answer about one run.
type one[T any] struct {
	Project *struct {
		Run *T `json:"run"`
	} `json:"project"`
}

func askRun[T any](ctx context.Context, c *Client, head, fields string, at Place, run string, more map[string]any, most int64) (*T, error) {
	variables := map[string]any{"project": at.Project, "entity": at.Entity, "run": run}
	for name, value := range more {
		variables[name] = value
	}
	var doc one[T]
	if err := c.Query(ctx, oneRun(head, fields), variables, most, &doc); err != nil {
		return nil, err
	}
	if doc.Project == nil || doc.Project.Run == nil {
		return nil, model.Errorf(model.CodeNotFound, "%s has no run %s/%s", c.Name, at, model.Clip(run))
	}
	return doc.Project.Run, nil
}

func extentOf(ctx context.Context, c *Client, at Place, run string) (*extent, error) {
	return askRun[extent](ctx, c, "RunExtent($project: String!, $entity: String!, $run: String!)", "historyLineCount eventsLineCount historyKeys", at, run, nil, maxAnswer)
}

// rows reads the rows of the steps from from to before to, at most samples of them.
func (s *Source) rows(ctx context.Context, at Place, run string, from, to, samples, most int64) ([]string, error) {
	page, err := askRun[struct {
		History []string `json:"history"`
	}](ctx, s.Client, "HistoryPage($project: String!, $entity: String!, $run: String!, $minStep: Int64!, $maxStep: Int64!, $pageSize: Int!)",
		"history(minStep: $minStep, maxStep: $maxStep, samples: $pageSize)", at, run, map[string]any{"minStep": from, "maxStep": to, "pageSize": samples}, most)
	if err != nil {
		return nil, err
	}
	return page.History, nil
}

// events gives the system events of a run one by one.
func (s *Source) events(ctx context.Context, at Place, run string, samples count, begin func(), each func(line string) error) error {
	document := oneRun("RunFullHistory($project: String!, $entity: String!, $run: String!, $samples: Int)", "events(samples: $samples)")
	variables := map[string]any{"project": at.Project, "entity": at.Entity, "run": run, "samples": samples}
	return s.Texts(ctx, document, variables, "events", begin, each)
}

// runFile is a file of a run.
type runFile struct {
	Name   string `json:"name"`
	URL    string `json:"url"`
	Direct string `json:"directUrl"`
	Size   count  `json:"sizeBytes"`
	MD5    string `json:"md5"`
}

// filesOf lists the files of a run.
func filesOf(ctx context.Context, c *Client, at Place, run string) (all []runFile, err error) {
	type answer struct {
		Files struct {
			Edges []struct {
				Node runFile `json:"node"`
			} `json:"edges"`
			PageInfo pageInfo `json:"pageInfo"`
		} `json:"files"`
	}
	for cursor := ""; ; {
		more := map[string]any{"limit": pageOfNames}
		if cursor != "" {
			more["cursor"] = cursor
		}
		page, err := askRun[answer](ctx, c, "RunFiles($project: String!, $entity: String!, $run: String!, $cursor: String, $limit: Int = 50)",
			"files(names: [], after: $cursor, first: $limit) { edges { node { name url directUrl sizeBytes md5 } } pageInfo { endCursor hasNextPage } }", at, run, more, maxAnswer)
		if err != nil {
			return nil, err
		}
		for _, e := range page.Files.Edges {
			all = append(all, e.Node)
		}
		if cursor = page.Files.PageInfo.next(cursor); cursor == "" {
			return all, nil
		}
	}
}
