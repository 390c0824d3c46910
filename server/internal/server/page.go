package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/klauspost/compress/gzhttp"

	"github.com/kymogram/kymogram/internal/model"
	"github.com/kymogram/kymogram/server/internal/httpapi"
)

const indexFile = "index.html"

// page serves the built page from memory.
type page struct {
	files map[string]pageFile
}

type pageFile struct {
	data  []byte
	kind  string // media type
	etag  string
	cache string
}

// newPage reads every file once; a page without an index is refused.
func newPage(from fs.FS) (http.Handler, error) {
	p := &page{files: map[string]pageFile{}}
	err := fs.WalkDir(from, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(from, name)
		if err == nil {
			p.files[name] = newPageFile(name, data)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the page's files: %w", err)
	}
	if _, ok := p.files[indexFile]; !ok {
		return nil, fmt.Errorf("read the page's files: %s is missing", indexFile)
	}
	return gzhttp.GzipHandler(p), nil
}

func newPageFile(name string, data []byte) pageFile {
	sum := sha256.Sum256(data)
	f := pageFile{data: data, etag: `"` + hex.EncodeToString(sum[:12]) + `"`, kind: mime.TypeByExtension(path.Ext(name)), cache: "no-cache"}
	if f.kind == "" {
		f.kind = "application/octet-stream"
	}
	// The bundler puts a hash of the content into the names below assets/.
	if strings.HasPrefix(name, "assets/") {
		f.cache = "public, max-age=31536000, immutable"
	}
	return f
}

func (p *page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name := strings.TrimPrefix(path.Clean(r.URL.Path), "/")
	f, ok := p.files[name]
	if !ok {
		// The page draws its own addresses; for anything but a visit, what is
		// missing is missing.
		if name != "" && (strings.HasPrefix(name, "api/") || !strings.Contains(r.Header.Get("Accept"), "text/html")) {
			httpapi.WriteError(w, model.Errorf(model.CodeNotFound, "there is nothing at %s", r.URL.Path))
			return
		}
		f = p.files[indexFile]
	}
	h := w.Header()
	h.Set("Content-Type", f.kind)
	h.Set("Cache-Control", f.cache)
	h.Set("ETag", f.etag)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(f.data))
}
