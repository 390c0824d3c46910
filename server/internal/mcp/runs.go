package mcp

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/read"
)

// How many entries answers have.
const (
	usualProjects, mostProjects = 100, 1_000
	usualRuns, mostRuns         = 20, 200
	mostColumns                 = 20
	mostConfig, mostSummary     = 200, 100
	mostAttempts, mostWriters   = 20, 50
	mostCompared, mostDiffering = 20, 100
)

type projectsIn struct {
	Workspace string `json:"workspace,omitempty" jsonschema:"only projects of this workspace"`
	Limit     int    `json:"limit,omitempty" jsonschema:"how many: default 100, at most 1000"`
}

type projectsOut struct {
	Projects []project `json:"projects"`
	More     bool      `json:"more" jsonschema:"whether there are more projects than the limit"`
}

type project struct {
	Project      string `json:"project" jsonschema:"workspace/project"`
	Runs         int64  `json:"runs"`
	LastActivity string `json:"last_activity,omitempty"`
}

func (s *Server) listProjects(ctx context.Context, in projectsIn) (out projectsOut, err error) {
	limit, err := limited(in.Limit, usualProjects, mostProjects)
	if err != nil {
		return out, err
	}
	out.Projects = []project{}
	for p, err := range s.client.Projects(ctx) {
		if err != nil {
			return out, err
		}
		if in.Workspace != "" && p.Workspace != in.Workspace {
			continue
		}
		if len(out.Projects) == limit {
			out.More = true
			break
		}
		out.Projects = append(out.Projects, project{p.Workspace + "/" + p.Project, p.Runs, second(p.LastNs)})
	}
	return out, nil
}

type runsIn struct {
	Project string   `json:"project" jsonschema:"workspace/project, or the project alone where one workspace has it"`
	Filter  string   `json:"filter,omitempty" jsonschema:"words match name and tags; comparisons as lr<0.1, status=failed, min(eval/loss)<0.3, tag=baseline; or, not and brackets join"`
	Status  string   `json:"status,omitempty" jsonschema:"running, finished, failed, interrupted, lost or silent"`
	Sort    string   `json:"sort,omitempty" jsonschema:"created, name, last, status, an attribute as config/lr, or last(METRIC), min(METRIC), max(METRIC); - in front for descending; default -created"`
	Columns []string `json:"columns,omitempty" jsonschema:"values to show of each run, at most 20: config/lr, last(loss), min(eval/loss), at(loss, 1000)"`
	Limit   int      `json:"limit,omitempty" jsonschema:"how many: default 20, at most 200"`
	Cursor  string   `json:"cursor,omitempty" jsonschema:"next of the page before"`
}

type runsOut struct {
	Runs []runLine `json:"runs"`
	Next string    `json:"next,omitempty" jsonschema:"cursor of the next page; absent on the last"`
}

type runLine struct {
	ID           string         `json:"id"`
	Run          string         `json:"run" jsonschema:"workspace/project/name"`
	DisplayName  string         `json:"display_name,omitempty"`
	Status       string         `json:"status"`
	Tags         []string       `json:"tags,omitempty"`
	Created      string         `json:"created"`
	LastActivity string         `json:"last_activity,omitempty"`
	Values       map[string]any `json:"values,omitempty" jsonschema:"of the columns, and what the runs are sorted by"`
}

func lineOf(run *read.Run) runLine {
	out := runLine{
		ID: run.ID, Run: run.Workspace + "/" + run.Project + "/" + run.Name, Status: string(run.Status), Tags: run.Tags,
		Created: second(run.CreatedNs), LastActivity: second(run.LastNs),
	}
	if run.DisplayName != run.Name {
		out.DisplayName = run.DisplayName
	}
	if tags, ok := shown(run.Tags).([]string); ok && len(run.Tags) > 0 {
		out.Tags = tags
	}
	for name, value := range run.Values {
		if out.Values == nil {
			out.Values = map[string]any{}
		}
		out.Values[name] = shown(value)
	}
	return out
}

func (s *Server) listRuns(ctx context.Context, in runsIn) (out runsOut, err error) {
	limit, err := limited(in.Limit, usualRuns, mostRuns)
	if err != nil {
		return out, err
	}
	if len(in.Columns) > mostColumns {
		return out, model.Errorf(model.CodeInvalid, "%d columns; at most %d", len(in.Columns), mostColumns)
	}
	workspace, name, err := s.client.Project(ctx, in.Project)
	if err != nil {
		return out, err
	}
	by := sortedBy(in.Sort)
	runs, next, err := s.client.RunPage(ctx, workspace, name, read.RunFilter{
		Query: in.Filter, Status: read.Status(in.Status), Sort: in.Sort, Columns: append(by, in.Columns...),
	}, limit, in.Cursor)
	if err != nil {
		return out, err
	}
	for _, value := range by {
		if len(runs) > 0 && in.Cursor == "" && !slices.ContainsFunc(runs, func(run *read.Run) bool { return run.Values[value] != nil }) {
			return out, model.Errorf(model.CodeInvalid, "none of the runs has %q to sort by", model.Clip(value)).
				WithHint("sort by created, name, last, status, an attribute as config/lr, or by last(METRIC), min(METRIC), max(METRIC)")
		}
	}
	out.Runs, out.Next = make([]runLine, len(runs)), next
	for i, run := range runs {
		out.Runs[i] = lineOf(run)
	}
	return out, nil
}

// sortedBy is the value that orders runs, which a run may lack; none for what every run has.
func sortedBy(sort string) []string {
	switch by := strings.TrimPrefix(sort, "-"); by {
	case "", "created", "name", "last", "status":
		return nil
	default:
		return []string{by}
	}
}

type runIn struct {
	Run   string `json:"run" jsonschema:"id, workspace/project/name, or a name or display name that one run has"`
	Match string `json:"match,omitempty" jsonschema:"only configuration and metrics whose name matches this regular expression (RE2, unanchored)"`
}

type runOut struct {
	runLine

	Page        string           `json:"page" jsonschema:"where a person sees the run"`
	Description string           `json:"description,omitempty"`
	ForkedFrom  string           `json:"forked_from,omitempty" jsonschema:"name of the run that it was forked from"`
	ForkStep    any              `json:"fork_step,omitempty" jsonschema:"the last step that it inherits"`
	Config      map[string]any   `json:"config"`
	Summary     map[string]value `json:"summary" jsonschema:"the last value of every metric without labels"`
	Attempts    []attempt        `json:"attempts" jsonschema:"one for each start of the run, the newest 20"`
	LeftOut     string           `json:"left_out,omitempty" jsonschema:"what the answer has no place for; use match"`
}

type value struct {
	Step  any    `json:"step,omitempty"`
	Time  string `json:"time"`
	Value any    `json:"value" jsonschema:"a number; NaN, Infinity, -Infinity and integers beyond 2^53 as text"`
}

type attempt struct {
	Number         int64    `json:"number"`
	Opened         string   `json:"opened"`
	ResumeFromStep any      `json:"resume_from_step,omitempty"`
	Processes      []writer `json:"processes" jsonschema:"at most 50, in the order in which they began"`
}

type writer struct {
	Host     string `json:"host"`
	PID      int64  `json:"pid"`
	Rank     *int64 `json:"rank,omitempty"`
	SDK      string `json:"sdk,omitempty"`
	State    string `json:"state" jsonschema:"open, finished, failed, interrupted, or gone: ended without a word"`
	Signal   string `json:"signal,omitempty"`
	LastSeen string `json:"last_seen,omitempty"`
}

func (s *Server) getRun(ctx context.Context, in runIn) (out runOut, err error) {
	match, err := matcher("match", in.Match)
	if err != nil {
		return out, err
	}
	run, err := s.client.Run(ctx, in.Run)
	if err != nil {
		return out, err
	}
	config, err := run.Config(ctx)
	if err != nil {
		return out, err
	}
	summary, err := run.Summary(ctx)
	if err != nil {
		return out, err
	}
	attempts, err := run.Attempts(ctx)
	if err != nil {
		return out, err
	}
	out = runOut{
		runLine: lineOf(run), Page: s.base + "/runs/" + run.ID, Description: short(run.Description, 4*longestText), ForkedFrom: run.ParentRun,
		Config: map[string]any{}, Summary: map[string]value{}, Attempts: attemptsOf(attempts),
	}
	if run.ForkStep != nil {
		out.ForkStep = integer(*run.ForkStep)
	}
	names, cutConfig := matching(config, match, mostConfig)
	for _, name := range names {
		out.Config[name] = shown(config[name])
	}
	names, cutSummary := matching(summary, match, mostSummary)
	for _, name := range names {
		out.Summary[name] = lastOf(summary[name])
	}
	out.LeftOut = leftOut(part{cutConfig, "values of the configuration"}, part{cutSummary, "metrics"}, part{len(attempts) - len(out.Attempts), "attempts"},
		part{processesLeft(attempts), "processes of the attempts shown"})
	return out, nil
}

// matching are the first names that match, in order, and how many more there are.
func matching[V any](of map[string]V, match *regexp.Regexp, most int) ([]string, int) {
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(of)), func(name string) bool { return !match.MatchString(name) })
	return names[:min(most, len(names))], max(0, len(names)-most)
}

// part is how many of a sort an answer lacks.
type part struct {
	n    int
	what string
}

func leftOut(parts ...part) string {
	var out []string
	for _, p := range parts {
		if p.n > 0 {
			out = append(out, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	return strings.Join(out, ", ")
}

func lastOf(last read.Last) value {
	out := value{Time: moment(last.TimeNs), Value: number(last.Float)}
	if last.Step != nil {
		out.Step = integer(*last.Step)
	}
	if last.Int != 0 && float64(last.Int) == last.Float {
		out.Value = integer(last.Int)
	}
	return out
}

// attemptsOf are the newest attempts, oldest first.
func attemptsOf(all []read.AttemptInfo) []attempt {
	out := []attempt{}
	for _, a := range all[max(0, len(all)-mostAttempts):] {
		one := attempt{Number: a.Number, Opened: second(a.OpenedNs), Processes: []writer{}}
		if a.ResumeFromStep != nil {
			one.ResumeFromStep = integer(*a.ResumeFromStep)
		}
		for _, w := range a.Writers[:min(len(a.Writers), mostWriters)] {
			one.Processes = append(one.Processes, writer{w.Host, w.PID, w.Rank, w.SDK, w.State, w.Signal, second(w.SeenNs)})
		}
		out = append(out, one)
	}
	return out
}

// processesLeft counts the processes that attemptsOf leaves out of the attempts it has.
func processesLeft(all []read.AttemptInfo) (n int) {
	for _, a := range all[max(0, len(all)-mostAttempts):] {
		n += max(0, len(a.Writers)-mostWriters)
	}
	return n
}

type compareIn struct {
	Runs  []string `json:"runs" jsonschema:"2 to 20 runs, each an id, workspace/project/name, or a name or display name that one run has"`
	Match string   `json:"match,omitempty" jsonschema:"only names that match this regular expression (RE2, unanchored)"`
}

type compareOut struct {
	Runs      []runLine    `json:"runs"`
	Different []difference `json:"different" jsonschema:"configuration values that differ, by name, at most 100"`
	Same      int          `json:"same" jsonschema:"how many values all runs share"`
	LeftOut   string       `json:"left_out,omitempty"`
}

type difference struct {
	Name   string `json:"name"`
	Values []any  `json:"values" jsonschema:"in the order of runs; null where a run has none"`
}

func (s *Server) compareRuns(ctx context.Context, in compareIn) (out compareOut, err error) {
	match, err := matcher("match", in.Match)
	if err != nil {
		return out, err
	}
	if len(in.Runs) < 2 || len(in.Runs) > mostCompared {
		return out, model.Errorf(model.CodeInvalid, "%d runs to compare", len(in.Runs)).WithHint("give 2 to %d", mostCompared)
	}
	configs := make([]map[string]any, len(in.Runs))
	every := map[string]bool{}
	for i, ref := range in.Runs {
		run, err := s.client.Run(ctx, ref)
		if err != nil {
			return out, err
		}
		if configs[i], err = run.Config(ctx); err != nil {
			return out, err
		}
		for name := range configs[i] {
			every[name] = true
		}
		out.Runs = append(out.Runs, lineOf(run))
	}
	out.Different = []difference{}
	cut := 0
	names, _ := matching(every, match, len(every))
	for _, name := range names {
		switch values, differ := across(configs, name); {
		case !differ:
			out.Same++
		case len(out.Different) == mostDiffering:
			cut++
		default:
			out.Different = append(out.Different, difference{name, values})
		}
	}
	out.LeftOut = leftOut(part{cut, "values that differ; use match"})
	return out, nil
}

// across is what each configuration has under a name, and whether they differ in it.
func across(configs []map[string]any, name string) (values []any, differ bool) {
	for i, config := range configs {
		differ = differ || i > 0 && !reflect.DeepEqual(config[name], configs[0][name])
		values = append(values, shown(config[name]))
	}
	return values, differ
}

// labelled is a series as a person names it.
func labelled(metric string, labels map[string]string) string {
	if len(labels) == 0 {
		return metric
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, name+"="+labels[name])
	}
	return cmp.Or(metric, "?") + "{" + strings.Join(parts, ",") + "}"
}
