package httpapi

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

func (a *API) open(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	var request model.OpenRequest
	if err := readBody(w, r, &request); err != nil {
		return err
	}
	result, err := a.ingest.Open(r.Context(), request)
	if err != nil {
		return err
	}
	return writeJSON(w, result)
}

func (a *API) projects(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "limit", "cursor")
	page := p.page(query.MaxRuns)
	if p.err != nil {
		return p.err
	}
	list, err := a.query.Projects(r.Context(), page)
	if err != nil {
		return err
	}
	return writeJSON(w, newProjectsDoc(list))
}

// runsParams choose runs of a project, in lists and in groups.
var runsParams = []string{"name", "tag", "status", "q", "deleted", "group", "column*"}

func (p *params) runs(r *http.Request) query.RunsRequest {
	return query.RunsRequest{
		Workspace: r.PathValue("workspace"), Project: r.PathValue("project"),
		Name: p.text("name"), Tag: p.text("tag"), Status: model.RunStatus(p.text("status")),
		Query: p.text("q"), Deleted: p.flag("deleted"), Group: p.text("group"), Columns: p.values["column"],
	}
}

func (a *API) runs(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, append([]string{"sort", "limit", "cursor", "format"}, runsParams...)...)
	request := p.runs(r)
	request.Sort = p.text("sort")
	csv := p.oneOf("format", "json", "csv") == "csv"
	if csv && (p.text("limit") != "" || p.text("cursor") != "") {
		p.fail(model.Errorf(model.CodeInvalid, "a CSV file has all runs, without limit and cursor"))
	}
	request.Page = p.page(query.MaxRuns)
	if p.err != nil {
		return p.err
	}
	if csv {
		return a.runsCSV(w, r, request)
	}
	share, err := a.memory.share(r.Context(), request.Bytes())
	if err != nil {
		return err
	}
	defer share.end()
	request.Texts = share.texts
	page, err := a.query.Runs(r.Context(), request)
	if err != nil {
		return err
	}
	a.setRights(w, r, request.Workspace, request.Project)
	setHint(w, page.Hint)
	return a.cut(r, writeRuns(a.newJSONWriter(w, false), page, request.Columns))
}

// rightsHeader has what the caller may do with the project: a page offers nothing else.
const rightsHeader = "Kymogram-Rights"

// hintHeader says what the caller may have meant with a filter, an order or a column.
const hintHeader = "Kymogram-Hint"

// setHint writes a hint as ASCII, with other characters as \u and their number.
func setHint(w http.ResponseWriter, hint string) {
	if text := strconv.QuoteToASCII(hint); hint != "" {
		w.Header().Set(hintHeader, strings.ReplaceAll(text[1:len(text)-1], `\"`, `"`))
	}
}

func (a *API) setRights(w http.ResponseWriter, r *http.Request, workspace, project string) {
	for _, scope := range a.query.Rights(r.Context(), workspace, project) {
		w.Header().Add(rightsHeader, string(scope))
	}
}

func (a *API) resolve(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "run", "project")
	if p.err != nil {
		return p.err
	}
	if p.values.Has("run") == p.values.Has("project") {
		return model.Errorf(model.CodeInvalid, "give run= or project=, one of them")
	}
	if p.values.Has("project") {
		place, err := a.query.FindProject(r.Context(), p.text("project"))
		if err != nil {
			return err
		}
		return writeJSON(w, map[string]string{"workspace": place.Workspace, "project": place.Project})
	}
	run, err := a.query.FindRun(r.Context(), p.text("run"))
	if err != nil {
		return err
	}
	return writeJSON(w, map[string]string{"id": run.ID.String(), "workspace": run.Workspace, "project": run.Project, "name": run.Name})
}

func (a *API) run(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	return a.showRun(w, r)
}

func (a *API) showRun(w http.ResponseWriter, r *http.Request) error {
	id, err := runID(r)
	if err != nil {
		return err
	}
	share, err := a.memory.share(r.Context(), query.RunBytes)
	if err != nil {
		return err
	}
	defer share.end()
	detail, err := a.query.Run(r.Context(), id, share.texts)
	if err != nil {
		return err
	}
	a.setRights(w, r, detail.Workspace, detail.Project)
	return a.cut(r, writeDetail(a.newJSONWriter(w, false), detail))
}

// locate reads the {id} of the path and follows an alias to the run.
func (a *API) locate(r *http.Request) (model.RunID, error) {
	id, err := runID(r)
	if err != nil {
		return id, err
	}
	run, err := a.query.Locate(r.Context(), id)
	if err != nil {
		return id, err
	}
	return run.ID, nil
}

type patchDoc struct {
	DisplayName *string   `json:"display_name"`
	Description *string   `json:"description"`
	Tags        *[]string `json:"tags"`
}

func (p *patchDoc) updates() []model.Update {
	var out []model.Update
	if p.DisplayName != nil {
		out = append(out, model.Update{Op: model.OpSetDisplayName, Text: *p.DisplayName})
	}
	if p.Description != nil {
		out = append(out, model.Update{Op: model.OpSetDescription, Text: *p.Description})
	}
	if p.Tags != nil {
		out = append(out, model.Update{Op: model.OpSetTags, Tags: *p.Tags})
	}
	return out
}

func (a *API) patchRun(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	var patch patchDoc
	if err := readBody(w, r, &patch); err != nil {
		return err
	}
	updates := patch.updates()
	if len(updates) == 0 {
		return model.Errorf(model.CodeInvalid, "nothing to change").WithHint("give display_name, description or tags")
	}
	id, err := runID(r) // ingest finds aliases and asks for its own right
	if err != nil {
		return err
	}
	if err := a.ingest.UpdateRun(r.Context(), id, updates); err != nil {
		return err
	}
	err = a.showRun(w, r)
	if model.CodeOf(err) == model.CodePermission { // a key that may write only
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	return err
}

type deletedDoc struct {
	ID    string `json:"id"`
	Freed bool   `json:"freed"` // gone for good, not in the trash
}

func (a *API) deleteRun(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "now")
	now := p.flag("now")
	if p.err != nil {
		return p.err
	}
	id, err := a.locate(r)
	if err != nil {
		return err
	}
	if err := a.ingest.DeleteRun(r.Context(), id, now); err != nil {
		return err
	}
	return writeJSON(w, deletedDoc{id.String(), now})
}

func (a *API) restoreRun(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	id, err := a.locate(r)
	if err != nil {
		return err
	}
	if err := a.ingest.RestoreRun(r.Context(), id); err != nil {
		return err
	}
	return a.showRun(w, r)
}

// configName is an attribute's path below config/.
func configName(path string) string { return strings.TrimPrefix(path, "config/") }
