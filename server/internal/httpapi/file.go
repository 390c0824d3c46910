package httpapi

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/kymogram/kymogram/server/internal/query"
)

type filesDoc struct {
	Files []fileDoc `json:"files"`
	Next  *string   `json:"next"`
}

// fileDoc is a file of a run and where its bytes are.
type fileDoc struct {
	Name        string `json:"name"`
	Size        int64  `json:"size"`
	ContentType string `json:"content_type"`
	SHA256      string `json:"sha256"`
	MD5         string `json:"md5"`
	ChangedNs   int64  `json:"changed_ns"`
	URL         string `json:"url"`
}

// files lists the files of a run.
func (a *API) files(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "prefix", "pattern", "limit", "cursor")
	request := query.FilesRequest{Page: p.page(query.MaxRuns), Prefix: p.text("prefix"), Pattern: p.text("pattern")}
	if p.err != nil {
		return p.err
	}
	var err error
	if request.Run, err = runID(r); err != nil {
		return err
	}
	share, err := a.memory.share(r.Context(), query.FilesBytes)
	if err != nil {
		return err
	}
	defer share.end()
	page, err := a.query.Files(r.Context(), request)
	if err != nil {
		return err
	}
	doc := filesDoc{Files: make([]fileDoc, 0, len(page.Files)), Next: cursorOf(page.Next)}
	for _, f := range page.Files {
		doc.Files = append(doc.Files, fileDoc{f.Name, f.Size, f.ContentType, f.SHA256, f.MD5, f.TimeNs, "/api/v1/runs/" + page.Run.String() + "/files/" + escapePath(f.Name)})
	}
	return writeJSON(w, doc)
}

// escapePath escapes the parts of a path.
func escapePath(path string) string {
	parts := strings.Split(path, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// file answers with the bytes of a file of a run, as data to save.
func (a *API) file(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	id, err := runID(r)
	if err != nil {
		return err
	}
	found, err := a.query.File(r.Context(), id, r.PathValue("name"))
	if err != nil {
		return err
	}
	if a.options.Files == nil {
		return errNoFiles()
	}
	return a.options.Files.ServeFile(w, r, found.SHA256, found.Name)
}
