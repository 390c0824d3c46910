package httpapi

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"time"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
)

type projectsDoc struct {
	Projects []projectDoc `json:"projects"`
	Next     *string      `json:"next"`
}

type projectDoc struct {
	Workspace string `json:"workspace"`
	Project   string `json:"project"`
	Runs      int    `json:"runs"`
	LastNs    int64  `json:"last_ns"`
}

func newProjectsDoc(page *query.ProjectsPage) projectsDoc {
	doc := projectsDoc{Projects: []projectDoc{}, Next: cursorOf(page.Next)}
	for _, p := range page.Projects {
		doc.Projects = append(doc.Projects, projectDoc{p.Workspace, p.Name, p.Runs, p.LastNs})
	}
	return doc
}

// cursorOf is null at the end.
func cursorOf(next string) *string {
	if next == "" {
		return nil
	}
	return &next
}

func writeRuns(j *jsonWriter, page *query.RunsPage, columns []string) error {
	j.raw(`{"runs":[`)
	for i := range page.Runs {
		if i > 0 {
			j.raw(",")
		}
		j.value(listedDoc(&page.Runs[i], columns))
		j.spill()
	}
	j.raw(`],"next":`)
	j.cursor(page.Next)
	j.raw("}\n")
	return j.flush()
}

// runDoc is RUN of api/http.md.
type runDoc struct {
	ID              model.RunID           `json:"id"`
	Workspace       string                `json:"workspace"`
	Project         string                `json:"project"`
	Name            string                `json:"name"`
	DisplayName     string                `json:"display_name"`
	Status          model.RunStatus       `json:"status"`
	Tags            []string              `json:"tags"`
	Description     string                `json:"description"`
	CreatedNs       int64                 `json:"created_ns"`
	LastNs          int64                 `json:"last_ns"`
	DurationMs      int64                 `json:"duration_ms"`
	Attempt         uint32                `json:"attempt"`
	OrchestrationID string                `json:"orchestration_id"`
	Writers         int                   `json:"writers"`
	Config          map[string]any        `json:"config"`
	ConfigCut       bool                  `json:"config_cut,omitempty"`
	Summary         map[string]summaryDoc `json:"summary"`
	SummaryCut      bool                  `json:"summary_cut,omitempty"`
	Values          map[string]any        `json:"values,omitempty"` // of the columns that a list asks for
	ParentRun       string                `json:"parent_run,omitempty"`
	ForkStep        *int64                `json:"fork_step,omitempty"`
	LinkedFrom      string                `json:"linked_from,omitempty"`
	DeletedNs       int64                 `json:"deleted_ns,omitempty"`
}

func durationMs(r *catalog.Run) int64 {
	return max(0, time.Duration(r.LastNs-r.CreatedNs).Milliseconds())
}

func listedDoc(r *query.RunLine, columns []string) runDoc {
	doc := newRunDoc(r)
	for i, v := range r.Values {
		if v.Type == "" {
			continue
		}
		if doc.Values == nil {
			doc.Values = map[string]any{}
		}
		doc.Values[columns[i]] = plain(v)
	}
	return doc
}

type summaryDoc struct {
	Step   *int64 `json:"step"`
	TimeNs int64  `json:"time_ns"`
	Value  any    `json:"value"`
	Min    any    `json:"min,omitempty"` // of the finite values
	Max    any    `json:"max,omitempty"`
}

func newRunDoc(r *query.RunLine) runDoc {
	doc := runDoc{
		ID: r.ID, Workspace: r.Workspace, Project: r.Project, Name: r.Name, DisplayName: r.DisplayName,
		Status: r.Status, Tags: append([]string{}, r.Tags...), Description: r.Description,
		CreatedNs: r.CreatedNs, LastNs: r.LastNs,
		DurationMs: durationMs(&r.Run),
		Attempt:    r.Attempt, OrchestrationID: r.OrchestrationID, Writers: r.Writers,
		Config: map[string]any{}, ConfigCut: len(r.Config) >= catalog.MaxConfig, Summary: map[string]summaryDoc{}, SummaryCut: r.SummaryCut,
		ParentRun: r.ParentRun, ForkStep: r.ForkStep, LinkedFrom: r.LinkedFrom, DeletedNs: r.DeletedNs,
	}
	for _, a := range r.Config {
		doc.Config[configName(a.Path)] = plain(a.Value)
	}
	for _, s := range r.Summary {
		doc.Summary[s.Metric] = summaryDoc{s.Last.Step, s.Last.TimeNs, number(s.Kind, s.Last.Value), end(s.Min), end(s.Max)}
	}
	return doc
}

// end is a least or greatest value; there may be none.
func end(v any) any {
	switch n := v.(type) {
	case int64:
		return safeInt(n)
	case float64:
		return model.JSONFloat(n)
	}
	return nil
}

func number(kind model.Kind, n query.Number) any {
	if kind == model.KindInt {
		return safeInt(n.Int)
	}
	return model.JSONFloat(n.Float)
}

// plain is an attribute's value without its type.
func plain(v model.Value) any {
	switch v.Type {
	case model.TypeBool:
		return v.Bool
	case model.TypeInt, model.TypeTime:
		return safeInt(v.Int)
	case model.TypeFloat:
		return model.JSONFloat(v.Float)
	case model.TypeStringSet:
		return append([]string{}, v.Set...)
	}
	return v.Str
}

// safeInt is a number where JavaScript can hold it, else a string.
func safeInt(n int64) any {
	const safe = 1 << 53
	if n > safe || n < -safe {
		return strconv.FormatInt(n, 10)
	}
	return n
}

// detailDoc is the answer of GET /api/v1/runs/{id} before its long lists.
type detailDoc struct {
	runDoc
	NoNumber *int       `json:"writers,omitempty"` // their list comes in its place
	Ledger   ledgerDoc  `json:"ledger"`
	Lineage  lineageDoc `json:"lineage"`
	// Shared are RL environments that two writers logged at the same time.
	Shared []model.SharedEnvironment `json:"shared_environments"`
	Series uint64                    `json:"series"`
	Points uint64                    `json:"points"`
}

type attributeDoc struct {
	Path  string          `json:"path"`
	Type  model.ValueType `json:"type"`
	Value any             `json:"value"`
}

type envAttributeDoc struct {
	Env     string `json:"env"`
	Episode *int64 `json:"episode"`
	attributeDoc
}

type attemptDoc struct {
	Number     uint32 `json:"number"`
	Precedence int    `json:"precedence"` // place in attempt_order, from 1
	OpenedNs   int64  `json:"opened_ns"`
	ResumeFrom *int64 `json:"resume_from_step"`
}

type writerDoc struct {
	ID       model.WriterID    `json:"id"`
	Attempt  uint32            `json:"attempt"`
	State    model.WriterState `json:"state"`
	Signal   string            `json:"signal,omitempty"`
	Host     string            `json:"host"`
	PID      int64             `json:"pid"`
	Rank     *int64            `json:"rank"`
	Hotkey   string            `json:"hotkey,omitempty"`
	SDK      string            `json:"sdk"`
	LoggerID *uint64           `json:"logger_id,omitempty,string"`
	OpenedNs int64             `json:"opened_ns"`
	SeenNs   int64             `json:"seen_ns"`
	Silent   bool              `json:"-"`
}

type eventDoc struct {
	TimeNs int64             `json:"time_ns"`
	Name   string            `json:"name"`
	Text   string            `json:"text"`
	Tags   map[string]string `json:"tags"`
}

type ledgerDoc struct {
	Logged     uint64          `json:"logged"`
	Stored     uint64          `json:"stored"`
	Superseded uint64          `json:"superseded"`
	Refused    uint64          `json:"refused"`
	Dropped    uint64          `json:"dropped"`
	Spooled    *uint64         `json:"spooled"`
	Skipped    []model.Skipped `json:"skipped"`
	Damaged    []model.Damage  `json:"damaged"`
}

func newDetailDoc(d *query.RunDetail) detailDoc {
	l := d.Ledger
	return detailDoc{
		runDoc:  newRunDoc(&d.RunLine),
		Ledger:  ledgerDoc{l.Logged, l.Stored, l.Superseded, l.Refused, l.Dropped, l.Spooled, append([]model.Skipped{}, l.Skipped...), append([]model.Damage{}, l.Damaged...)},
		Shared:  append([]model.SharedEnvironment{}, d.Detail.Shared...),
		Lineage: newLineageDoc(d.Lineage),
		Series:  d.Series, Points: d.Points,
	}
}

// writeDetail answers with the document of a run.
func writeDetail(j *jsonWriter, d *query.RunDetail) error {
	j.detail(d)
	j.raw("\n")
	return j.flush()
}

// detail writes the document of a run; its long lists are written entry by entry, and
// most are read meanwhile.
func (j *jsonWriter) detail(d *query.RunDetail) {
	j.open(newDetailDoc(d))
	writeList(j, "attempts", attemptDocs(d), func(a attemptDoc) any { return a })
	writeList(j, "attempt_order", entries(d.Order), func(n uint32) any { return n })
	writeList(j, "aliases", entries(d.Detail.Aliases), func(id model.RunID) any { return id })
	writeList(j, "attributes", d.Attributes, func(a catalog.Attribute) any { return newAttributeDoc(a) })
	writeList(j, "env_attributes", d.EnvAttributes, func(a catalog.EnvAttribute) any {
		return envAttributeDoc{a.Env, a.Episode, newAttributeDoc(a.Attribute)}
	})
	writeList(j, "writers", d.Writers, func(w catalog.WriterInfo) any { return writerDoc(w) })
	writeList(j, "events", d.Events, func(e catalog.Event) any { return eventDoc(e) })
	j.raw("}")
}

// writeList adds a list to an object that was opened. An error stays with the writer.
func writeList[T any](j *jsonWriter, name string, entries iter.Seq2[T, error], doc func(T) any) {
	j.raw(`,"` + name + `":[`)
	first := true
	for entry, err := range entries {
		if err != nil {
			j.err = cmp.Or(j.err, err)
		}
		if j.err != nil {
			return
		}
		if !first {
			j.raw(",")
		}
		first = false
		j.value(doc(entry))
		j.spill()
	}
	j.raw("]")
}

func newAttributeDoc(a catalog.Attribute) attributeDoc {
	return attributeDoc{a.Path, a.Value.Type, plain(a.Value)}
}

// attemptDocs gives the attempts, by number, with their places in the order.
func attemptDocs(d *query.RunDetail) iter.Seq2[attemptDoc, error] {
	attempts := d.Detail.Attempts
	places := make([]int, len(attempts))
	for i, number := range d.Order {
		if at, ok := slices.BinarySearchFunc(attempts, number, func(a model.Attempt, n uint32) int { return cmp.Compare(a.Number, n) }); ok {
			places[at] = i + 1
		}
	}
	return func(yield func(attemptDoc, error) bool) {
		for i, a := range attempts {
			if !yield(attemptDoc{a.Number, places[i], a.OpenedNs, a.ResumeFrom}, nil) {
				return
			}
		}
	}
}

// entries are those of a list that is in memory.
func entries[T any](list []T) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for _, v := range list {
			if !yield(v, nil) {
				return
			}
		}
	}
}
