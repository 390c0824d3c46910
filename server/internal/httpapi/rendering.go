package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/query"
)

// Files are the stored bytes of renderings and of files, by the SHA-256 in hexadecimal.
type Files interface {
	// Has reports whether the bytes are there.
	Has(ctx context.Context, sha256 string) (bool, error)
	// ServeMedia answers a GET or HEAD with the bytes; Range is honoured.
	ServeMedia(w http.ResponseWriter, r *http.Request, sha256, contentType string) error
	// ServeFile is ServeMedia for data to save under a name.
	ServeFile(w http.ResponseWriter, r *http.Request, sha256, name string) error
}

func errNoFiles() error {
	return model.Errorf(model.CodeUnavailable, "this server keeps no files")
}

type renderingsDoc struct {
	Renderings []renderingDoc `json:"renderings"`
	Next       *string        `json:"next"`
}

// renderingDoc is a video and where it can be watched.
type renderingDoc struct {
	model.Rendering
	Tags  []string              `json:"tags"`
	Marks []model.RenderingMark `json:"marks"`
	// Stored: its bytes are here; false while they are on their way, and for a
	// lost one.
	Stored bool   `json:"stored"`
	URL    string `json:"url,omitempty"`
}

func (a *API) renderings(w http.ResponseWriter, r *http.Request) error {
	p := readParams(r, "env_id", "episode", "tag", "limit", "cursor")
	request := query.RenderingsRequest{Page: p.page(query.MaxRuns), Env: p.text("env_id"), Episode: p.number("episode"), Tag: p.text("tag")}
	if p.err != nil {
		return p.err
	}
	var err error
	if request.Run, err = runID(r); err != nil {
		return err
	}
	share, err := a.memory.share(r.Context(), query.VideosBytes)
	if err != nil {
		return err
	}
	defer share.end()
	page, err := a.query.Renderings(r.Context(), request)
	if err != nil {
		return err
	}
	doc := renderingsDoc{Renderings: []renderingDoc{}, Next: cursorOf(page.Next)}
	for i := range page.Renderings {
		one, err := a.renderingDoc(r.Context(), request.Run, &page.Renderings[i])
		if err != nil {
			return err
		}
		doc.Renderings = append(doc.Renderings, one)
	}
	return writeJSON(w, doc)
}

func (a *API) renderingDoc(ctx context.Context, run model.RunID, r *model.Rendering) (renderingDoc, error) {
	doc := renderingDoc{Rendering: *r, Tags: append([]string{}, r.Tags...), Marks: append([]model.RenderingMark{}, r.Marks...)}
	if r.SHA256 == "" || a.options.Files == nil {
		return doc, nil
	}
	var err error
	if doc.Stored, err = a.options.Files.Has(ctx, r.SHA256); doc.Stored {
		doc.URL = "/api/v1/runs/" + run.String() + "/renderings/" + url.PathEscape(r.ID) + "/video"
	}
	return doc, err
}

// addRendering records a video; its bytes are put as a blob of their own.
func (a *API) addRendering(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	var doc model.Rendering
	if err := readBody(w, r, &doc); err != nil {
		return err
	}
	id, err := runID(r)
	if err != nil {
		return err
	}
	if err := a.ingest.UpdateRun(r.Context(), id, []model.Update{{Op: model.OpRendering, Rendering: &doc}}); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (a *API) video(w http.ResponseWriter, r *http.Request) error {
	if p := readParams(r); p.err != nil {
		return p.err
	}
	id, err := runID(r)
	if err != nil {
		return err
	}
	found, err := a.query.Rendering(r.Context(), id, r.PathValue("rendering"))
	if err != nil {
		return err
	}
	switch {
	case found.SHA256 == "":
		return model.Errorf(model.CodeNotFound, "the video of environment %q, episode %d, is lost: its process ended before a frame was kept", found.Env, found.Episode)
	case a.options.Files == nil:
		return errNoFiles()
	}
	return a.options.Files.ServeMedia(w, r, found.SHA256, found.ContentType)
}
