package httpapi

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/catalog"
	"github.com/kymogram/kymogram/server/internal/query"
	"github.com/kymogram/kymogram/server/internal/view"
)

// Views is the write path of view documents.
type Views interface {
	PutView(ctx context.Context, workspace, project, name string, text []byte, c catalog.Condition) (*catalog.View, error)
	DeleteView(ctx context.Context, workspace, project, name string, c catalog.Condition) error
}

// viewDoc is a view as it is listed.
type viewDoc struct {
	Name      string `json:"name"`
	Title     string `json:"title"`
	Panels    int    `json:"panels"`
	ETag      string `json:"etag"`
	ChangedNs int64  `json:"changed_ns"`
}

func newViewDoc(v *catalog.View) viewDoc {
	return viewDoc{v.Name, v.Title, v.Panels, v.Tag, v.ChangedNs}
}

func (a *API) views(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	share, err := a.memory.share(r.Context(), query.ViewsBytes)
	if err != nil {
		return err
	}
	defer share.end()
	list, err := a.query.Views(r.Context(), r.PathValue("workspace"), r.PathValue("project"))
	if err != nil {
		return err
	}
	docs := make([]viewDoc, len(list))
	for i := range list {
		docs[i] = newViewDoc(&list[i])
	}
	return writeJSON(w, map[string]any{"views": docs})
}

// view answers with the document itself; its etag is in the header.
func (a *API) view(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	share, err := a.memory.share(r.Context(), query.ViewBytes)
	if err != nil {
		return err
	}
	defer share.end()
	v, err := a.query.View(r.Context(), r.PathValue("workspace"), r.PathValue("project"), r.PathValue("name"))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("ETag", quoted(v.Tag))
	_, err = io.WriteString(w, v.Document)
	return a.cut(r, err)
}

// parsedView is what storing a view takes: its text as it came, decoded, and as it is stored.
const parsedView = 2 << 20

func (a *API) putView(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	condition, err := conditionOf(r)
	if err != nil {
		return err
	}
	// One more byte than allowed: the parser says what is too large.
	text, err := io.ReadAll(io.LimitReader(r.Body, view.MaxBytes+1))
	if err != nil {
		return unreadable(err)
	}
	share, err := a.memory.share(r.Context(), parsedView)
	if err != nil {
		return err
	}
	defer share.end()
	v, err := a.ingest.PutView(r.Context(), r.PathValue("workspace"), r.PathValue("project"), r.PathValue("name"), text, condition)
	if err != nil {
		return err
	}
	w.Header().Set("ETag", quoted(v.Tag))
	return writeJSON(w, newViewDoc(v))
}

func (a *API) deleteView(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	condition, err := conditionOf(r)
	if err != nil {
		return err
	}
	err = a.ingest.DeleteView(r.Context(), r.PathValue("workspace"), r.PathValue("project"), r.PathValue("name"), condition)
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// conditionOf reads If-Match: "ETAG" and If-None-Match: *.
func conditionOf(r *http.Request) (c catalog.Condition, err error) {
	match, none := r.Header.Get("If-Match"), r.Header.Get("If-None-Match")
	switch {
	case match == "" && none == "":
		return c, nil
	case none == "*" && match == "":
		return catalog.Condition{Absent: true}, nil
	case none == "" && len(match) > 2 && match == quoted(strings.Trim(match, `"`)):
		return catalog.Condition{Tag: strings.Trim(match, `"`)}, nil
	}
	return c, model.Errorf(model.CodeInvalid, "If-Match and If-None-Match say nothing that this route knows").
		WithHint(`send If-Match: "ETAG" to change what you read, If-None-Match: * to make a view, or neither`)
}

func quoted(tag string) string { return `"` + tag + `"` }
