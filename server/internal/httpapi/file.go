package httpapi

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"

	"github.com/kymogram/kymogram/server/internal/catalog"
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
	filter := catalog.FileFilter{
		Prefix: p.text("prefix"), Like: p.text("pattern"), Limit: cmp.Or(p.size("limit", query.MaxRuns), query.DefaultRuns), Cursor: p.text("cursor"),
	}
	if p.err != nil {
		return p.err
	}
	id, err := runID(r)
	if err != nil {
		return err
	}
	share, err := a.memory.share(r.Context(), query.FilesBytes)
	if err != nil {
		return err
	}
	defer share.end()
	page, next, err := a.query.ListFiles(r.Context(), id, filter)
	if err != nil {
		return err
	}
	doc := filesDoc{Files: make([]fileDoc, 0, len(page)), Next: cursorOf(next)}
	for _, f := range page {
		doc.Files = append(doc.Files, fileDoc{f.Name, f.Size, f.ContentType, f.SHA256, f.MD5, f.TimeNs, "/api/v1/runs/" + id.String() + "/files/" + escapePath(f.Name)})
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
